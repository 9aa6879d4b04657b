//! A client: its task, and all batches that it has in flight.

use crate::alarms::Alarms;
use crate::fault::Fault;

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
    /// The links that are cut.
    pub(crate) cut: LinkCuts,
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

/// Nodes, a bit each, to which the links of a lane are cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkCuts {
    /// Nodes to which its requests are lost.
    pub(crate) requests: u64,
    /// Nodes from which the responses are lost.
    pub(crate) responses: u64,
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
            cut: LinkCuts::default(),
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
