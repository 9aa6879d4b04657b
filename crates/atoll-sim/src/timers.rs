//! Timers: what happens at which time.

use crate::fault::Fault;

/// Ordered by time, and at the same time as they were made: the fields are in that order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    pub(crate) at_ns: u64,
    /// From 1 on; no two are the same.
    pub(crate) number: u64,
    pub(crate) due: Due,
}

/// What a timer brings.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A message arrives.
    Mail(u32),
    /// A batch that was held back continues.
    Flight(u32),
    /// A ring comes for the alarms of a lane.
    Task(u32),
    /// A paused lane continues.
    Resume(u32),
    /// A fault hits a lane.
    Fault(u32, Fault),
    /// A lane's link to a node is whole again.
    Heal(u32, u8),
    /// A node is no longer slow.
    Fast(u8),
}
