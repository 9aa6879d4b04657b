//! Everything that changes during a run.
//!
//! A **lane** is a client: a task with all batches that it has in flight. In a step of a lane its
//! task is polled, or one of its batches has one effect, or a completion arrives. The strategy
//! chooses the lane, and chance chooses the step. A lane can run if its task was woken, or if one
//! of its batches is not held back.

use crate::distance::Distances;
use crate::fault::{Faults, Fencing};
use crate::flight::Flight;
use crate::guided::Guided;
use crate::lane::Lane;
use crate::memory::Memory;
use crate::network::timed::Timed;
use crate::options::SimOptions;
use crate::port::{self, Host, Port};
use crate::post_office::PostOffice;
use crate::relaxations::Frequencies;
use crate::schedule::Scheduler;
use crate::timers::Timer;
use crate::trace::Trace;
use crate::watch::Watch;
use crate::{Random, Relaxations};
use atoll_fabric::Limits;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::task::Waker;

pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) relaxations: Relaxations,
    pub(crate) limits: Limits,
    pub(crate) scheduler: Scheduler,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) ports: Vec<Port>,
    pub(crate) post: PostOffice,
    /// The lane whose task is being polled.
    pub(crate) polled: Option<u32>,
    /// Whether that task was killed during the poll, so that nothing of it may take effect any
    /// more.
    pub(crate) ghost: bool,
    /// Virtual nanoseconds since the run began.
    pub(crate) now_ns: u64,
    pub(crate) steps: u64,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    pub(crate) flights: Vec<Flight>,
    pub(crate) flights_free: Vec<u32>,
    pub(crate) frequencies: Frequencies,
    pub(crate) random: Random,
    /// The lanes that can run, in no order.
    pub(crate) runnable: Vec<u32>,
    pub(crate) timers: BinaryHeap<Reverse<Timer>>,
    pub(crate) timers_made: u64,
    pub(crate) agenda: Agenda,
    /// The lanes that were killed.
    pub(crate) deaths: Deaths,
    pub(crate) fencing: Fencing,
    /// Words that a scenario watches.
    pub(crate) watch: Watch,
    /// Told of the lane of an endpoint of which nothing takes effect any more.
    pub(crate) on_shut_out: Option<Box<dyn Fn(u32)>>,
    distances: Distances,
    /// What the seed may still draw.
    pub(crate) faults: Faults,
    /// A stream of its own, so that faults do not change what chance decides elsewhere.
    pub(crate) fault_random: Random,
    /// The step at which the seed strikes next.
    pub(crate) fault_at: u64,
    /// Nodes that lost their bytes; endpoints below the number knew them before.
    pub(crate) losses: Vec<(u8, u32)>,
    /// Memory nodes that do not answer, a bit each.
    pub(crate) silent: u64,
    /// Memory nodes that are away: a bit each.
    pub(crate) away: u64,
    /// Slow nodes, by how much.
    pub(crate) slow: Vec<(u8, u64)>,
    /// Whether a link is cut or a node slow.
    pub(crate) impaired: bool,
    pub(crate) deadline_ns: u64,
    /// In an explored run, its state.
    pub(crate) guided: Option<Box<Guided>>,
    /// How far the agent's clock is ahead of virtual time.
    pub(crate) agent_ahead_ms: i64,
    /// Whether memory that is discarded is given back to the host.
    pub(crate) gives_back: bool,
    /// In a timed run, its network.
    pub(crate) timed: Option<Box<Timed>>,
}

/// What is to be done before the next step.
#[derive(Default)]
pub(crate) struct Agenda {
    /// Whether a waker was called, which the world does not see the effect of.
    pub(crate) woke: bool,
    /// Whether anything is to be done: a waker was called, a fault is due, or a task is to be
    /// dropped.
    pub(crate) attention: bool,
    /// Lanes of which a fault is due.
    pub(crate) due: Vec<u32>,
}

impl Agenda {
    /// A waker is called.
    pub(crate) fn wake(&mut self) {
        (self.woke, self.attention) = (true, true);
    }
}

/// What the effects of a run amount to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) verbs: u64,
    pub(crate) digest: u64,
}

/// The lanes that were killed.
#[derive(Default)]
pub(crate) struct Deaths {
    /// Killed lanes whose tasks are still there.
    pub(crate) doomed: VecDeque<u32>,
    /// Killed lanes whose tasks are gone, in order.
    pub(crate) killed: Vec<u32>,
    /// Of how many of those [`Control`](crate::Control) has told.
    pub(crate) killed_told: usize,
    /// Tasks that wait for deaths.
    pub(crate) watchers: Vec<Waker>,
    /// Whether a task is being dropped whose client is dead.
    pub(crate) dropping: bool,
}

/// What the executor does next.
pub(crate) enum Next {
    /// Polls the task of a lane.
    Poll(u32),
    /// Drops the task of a killed lane.
    Bury(u32),
    /// Nothing can run and nothing will.
    Idle,
    /// Looks which tasks were woken through their wakers.
    Wakes,
    /// The step bound is reached.
    Bound,
}

impl World {
    pub(crate) fn new(options: &SimOptions) -> Self {
        let mut random = Random::stream(options.seed, 0);
        let scheduler = Scheduler::new(options.strategy, &mut random);
        let mut fault_random = Random::stream(options.seed, u64::MAX);
        Self {
            memory: Memory::new(&options.nodes),
            relaxations: options.relaxations,
            limits: options.limits,
            scheduler,
            lanes: Vec::new(),
            ports: Vec::new(),
            post: PostOffice::new(options.relaxations, options.seed),
            polled: None,
            ghost: false,
            now_ns: 0,
            steps: 0,
            tally: Tally::default(),
            trace: Trace::new(options.trace_events),
            frequencies: Frequencies::drawn(options.relaxations, &mut random),
            random,
            flights: Vec::new(),
            flights_free: Vec::new(),
            runnable: Vec::new(),
            timers: BinaryHeap::new(),
            timers_made: 0,
            agenda: Agenda::default(),
            deaths: Deaths::default(),
            fencing: options.fencing,
            watch: Watch::default(),
            on_shut_out: None,
            distances: Distances::new(options.distance, options.seed),
            fault_at: if options.faults.any() {
                fault_random.below(2 * options.faults.steps_between.max(1))
            } else {
                u64::MAX
            },
            faults: options.faults,
            fault_random,
            losses: Vec::new(),
            silent: 0,
            away: 0,
            slow: Vec::new(),
            impaired: false,
            deadline_ns: options.deadline_ns,
            guided: None,
            agent_ahead_ms: port::AGENT_ORIGIN_MS,
            gives_back: options.gives_back,
            timed: options.network.as_ref().map(|network| Box::new(Timed::new(options, network))),
        }
    }

    pub(crate) fn add_lane(&mut self, name: &str, mortal: bool) -> u32 {
        let lane = self.lanes.len() as u32;
        self.lanes.push(Lane::new(name, mortal));
        if let Some(timed) = &mut self.timed {
            timed.add_lane();
        }
        self.scheduler.add_lane(self.steps, &mut self.random);
        self.wake(lane);
        lane
    }

    pub(crate) fn add_port(&mut self, name: &str, seed: u64, compute_node: u16) -> u32 {
        if let Some(timed) = &mut self.timed {
            timed.add_port(compute_node);
        }
        let drift_max = self.faults.clock_drift_per_mille_max.min(999);
        let drift_per_mille = self.fault_random.below(2 * u64::from(drift_max) + 1) as i64 - i64::from(drift_max);
        let number = self.ports.len() as u64;
        let random = Random::stream(seed, 1 + number);
        let has_agent_clock = !self.relaxations.absent_agent_clocks || port::has_agent_clock(seed, number);
        let is_near = self.distances.next_is_near();
        self.ports.push(Port::new(name, Host::new(random, drift_per_mille, has_agent_clock, is_near)));
        self.ports.len() as u32 - 1
    }

    /// Takes steps until a task is to be polled.
    pub(crate) fn advance(&mut self, steps_end: u64) -> Next {
        if self.guided.is_some() {
            return self.advance_guided(steps_end);
        }
        if self.timed.is_some() {
            return self.advance_timed(steps_end);
        }
        loop {
            if self.agenda.attention
                && let Some(next) = self.attend()
            {
                return next;
            }
            if self.timers.peek().is_some_and(|Reverse(timer)| timer.at_ns <= self.now_ns) {
                self.fire();
            }
            if self.runnable.is_empty() {
                // Nothing happens until the next timer: the time passes at once.
                match self.timers.peek() {
                    None => return Next::Idle,
                    Some(Reverse(timer)) => self.now_ns = self.now_ns.max(timer.at_ns),
                }
                continue;
            }
            if self.steps >= steps_end {
                return Next::Bound;
            }
            self.steps += 1;
            // A step takes no time of its own, only so much that clocks move: what verbs cost is
            // for timed runs.
            self.now_ns += 1 + (self.random.word() >> 58);
            let lane = self.scheduler.pick(&self.runnable, self.steps, &mut self.random);
            if self.steps >= self.fault_at {
                self.strike_drawn(lane);
                if self.lanes[lane as usize].runnable_at.is_none() {
                    continue;
                }
            }
            if let Some(poll) = self.step(lane) {
                return poll;
            }
        }
    }

    /// Does what is to be done before the next step.
    #[cold]
    pub(crate) fn attend(&mut self) -> Option<Next> {
        while let Some(lane) = self.agenda.due.pop() {
            self.strike_due(lane);
        }
        if let Some(lane) = self.deaths.doomed.pop_front() {
            return Some(Next::Bury(lane));
        }
        self.agenda.attention = false;
        std::mem::take(&mut self.agenda.woke).then_some(Next::Wakes)
    }

    #[inline]
    fn step(&mut self, lane: u32) -> Option<Next> {
        let state = &mut self.lanes[lane as usize];
        if state.counts_step() {
            self.agenda.due.push(lane);
            self.agenda.attention = true;
        }
        let batches = if state.is_frozen() { 0 } else { state.flights.len() };
        let choice = match batches + usize::from(state.is_ready()) {
            1 => 0,
            choices => self.random.below(choices as u64) as usize,
        };
        if choice == batches {
            state.woken = false;
            self.settle(lane);
            self.record(lane, u32::MAX, None);
            return Some(Next::Poll(lane));
        }
        let id = state.flights[choice];
        let flight = &self.flights[id as usize];
        if flight.is_done() {
            self.land(id);
        } else if !flight.adrift || self.drifts_on(id) {
            self.fly(lane, id);
        }
        None
    }
}
