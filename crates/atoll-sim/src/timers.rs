//! What happens at a time.

use crate::fault::Fault;
use std::cmp::Ordering;

/// Ordered by time, and at the same time as they were made.
pub(crate) struct Timer {
    pub(crate) at_ns: u64,
    /// From 1 on; no two are the same.
    pub(crate) number: u64,
    pub(crate) due: Due,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

/// What a timer brings.
pub(crate) enum Due {
    /// A message arrives.
    Mail(u32),
    /// A batch that was held back goes on.
    Flight(u32),
    /// A ring comes for the alarms of a lane.
    Task(u32),
    /// A paused lane goes on.
    Resume(u32),
    /// A fault hits a lane.
    Fault(u32, Fault),
    /// A lane's link to a node is whole again.
    Heal(u32, u8),
    /// A node is no longer slow.
    Fast(u8),
}
