//! A client: its task, and all batches that it has in flight.

use crate::alarms::Alarms;
use crate::fault::Fault;
use crate::footprint::Process;
use crate::world::World;

/// One client.
pub(crate) struct Lane {
    pub(crate) name: String,
    /// Whether the task has ended or is as good as dropped.
    pub(crate) done: bool,
    /// Whether the seed's faults may hit it.
    pub(crate) mortal: bool,
    pub(crate) killed: bool,
    /// Whether the task stands still, and since which timer.
    pub(crate) paused: bool,
    pub(crate) paused_by: u64,
    /// Whether its batches stand still, too.
    pub(crate) frozen: bool,
    /// Steps that it took.
    pub(crate) steps: u64,
    /// Batches that it posted.
    pub(crate) launches: u32,
    /// Faults to come, at so many steps of its own.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// The lowest of those numbers.
    pub(crate) fault_at: u64,
    /// Nodes, a bit each, to which its requests are lost, and from which the responses.
    pub(crate) requests_cut: u64,
    pub(crate) responses_cut: u64,
    /// Whether the task was woken since it was last polled.
    pub(crate) woken: bool,
    /// For what times its task waits.
    pub(crate) alarms: Alarms,
    /// Its batches that are not held back.
    pub(crate) flights: Vec<u32>,
    /// Its batches that are.
    pub(crate) held: u32,
    /// Where it is in the list of runnable lanes.
    pub(crate) runnable_at: Option<u32>,
}

impl Lane {
    pub(crate) fn new(name: &str, mortal: bool) -> Self {
        Self {
            name: name.to_owned(),
            done: false,
            mortal,
            killed: false,
            paused: false,
            paused_by: 0,
            frozen: false,
            steps: 0,
            launches: 0,
            faults: Vec::new(),
            fault_at: u64::MAX,
            requests_cut: 0,
            responses_cut: 0,
            woken: false,
            alarms: Alarms::default(),
            flights: Vec::new(),
            held: 0,
            runnable_at: None,
        }
    }

    /// Counts a step; whether a fault is due then.
    #[inline]
    pub(crate) fn counts_step(&mut self) -> bool {
        self.steps += 1;
        self.steps >= self.fault_at
    }

    /// Brings the step of the next fault up to date.
    pub(crate) fn settle_faults(&mut self) {
        self.fault_at = self.faults.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
    }
}

impl World {
    /// The task of a lane is to be polled.
    pub(crate) fn wake(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if !state.done {
            let enabled = !std::mem::replace(&mut state.woken, true);
            if self.timed.is_some() {
                if enabled {
                    self.wake_timed(lane);
                }
                return;
            }
            self.settle(lane);
            if enabled {
                self.enables(Process::Task(lane));
            }
        }
    }

    /// Brings the list of runnable lanes up to date.
    #[inline]
    pub(crate) fn settle(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let can_run = state.woken && !state.paused || !state.flights.is_empty() && !state.frozen;
        match state.runnable_at {
            None if can_run => {
                state.runnable_at = Some(self.runnable.len() as u32);
                self.runnable.push(lane);
                self.scheduler.can_run(lane, self.steps);
            }
            Some(at) if !can_run => {
                state.runnable_at = None;
                self.runnable.swap_remove(at as usize);
                if let Some(moved) = self.runnable.get(at as usize) {
                    self.lanes[*moved as usize].runnable_at = Some(at);
                }
            }
            _ => {}
        }
    }
}
