//! A client: its task, and all batches that it has in flight.

use crate::alarms::Alarms;
use crate::fault::Fault;

/// One client.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// Whether the seed's faults may hit it.
    pub(crate) mortal: bool,
    /// Whether the task stands still.
    pub(crate) pause: Option<Pause>,
    pub(crate) killed: bool,
    /// Whether the task has ended or is as good as dropped.
    pub(crate) done: bool,
    /// Whether the task was woken since it was last polled.
    pub(crate) woken: bool,
    /// For what times its task waits.
    pub(crate) alarms: Alarms,
    /// Its batches that are not held back.
    pub(crate) flights: Vec<u32>,
    /// Its batches that are.
    pub(crate) held: u32,
    /// Batches that it posted.
    pub(crate) launches: u32,
    /// Steps that it took.
    pub(crate) steps: u64,
    /// Faults to come, at so many steps of its own.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// The lowest of those numbers.
    fault_at: Option<u64>,
    /// The links that are cut.
    pub(crate) cut: LinkCuts,
    /// Where it is in the list of runnable lanes.
    pub(crate) runnable_at: Option<u32>,
}

/// A lane stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// The timer that ends it; 0 for none.
    pub(crate) timer: u64,
    /// Whether its batches stand still, too.
    pub(crate) frozen: bool,
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
        Self { name: name.to_owned(), mortal, ..Self::default() }
    }

    /// Whether its batches stand still.
    #[inline]
    pub(crate) fn is_frozen(&self) -> bool {
        self.pause.is_some_and(|pause| pause.frozen)
    }

    /// Whether its task can be polled.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.woken && self.pause.is_none()
    }

    /// Counts a step; whether a fault is due then.
    #[inline]
    pub(crate) fn counts_step(&mut self) -> bool {
        self.steps += 1;
        self.fault_at.is_some_and(|at| self.steps >= at)
    }

    /// Brings the step of the next fault up to date.
    pub(crate) fn settle_faults(&mut self) {
        self.fault_at = self.faults.iter().map(|(at, _)| *at).min();
    }
}
