//! What an endpoint has sent to other hosts: by it a user sees what an operation costs.

use std::cell::Cell;

/// Counts of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Batches and calls whose answers were awaited. A batch for several memory nodes counts once:
    /// it waits for all of them at the same time.
    pub round_trips: u64,
    /// Verbs of all batches, also of batches that are posted without waiting.
    pub verbs: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counting(Cell<Traffic>);

impl Counting {
    /// Counts a batch of so many verbs, or a call, which has none.
    #[inline]
    pub(crate) fn count(&self, verbs: usize, is_awaited: bool) {
        let Traffic { round_trips, verbs: before } = self.0.get();
        self.0.set(Traffic { round_trips: round_trips + u64::from(is_awaited), verbs: before + verbs as u64 });
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.0.get()
    }
}
