//! Counts what an endpoint sends.

use crate::Traffic;
use std::cell::Cell;

/// The [`Traffic`] of an endpoint while it is counted.
#[derive(Debug, Default)]
pub(super) struct Counting(Cell<Traffic>);

impl Counting {
    /// Counts a batch of so many verbs, or a call, which has none.
    #[inline]
    pub(super) fn count(&self, verbs: usize, is_awaited: bool) {
        let Traffic { round_trips, verbs: before } = self.0.get();
        self.0.set(Traffic { round_trips: round_trips + u64::from(is_awaited), verbs: before + verbs as u64 });
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.0.get()
    }
}
