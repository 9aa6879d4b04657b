//! What a client counts.

use std::cell::Cell;

/// What a client has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads that a copy on this compute node answered.
    pub hits: u64,
    /// Reads of an object that may be cached, without a valid copy.
    pub misses: u64,
    /// Reads of an object that may not be cached, or whose mode was unknown.
    pub bypasses: u64,
    /// Writes of objects of which no copy can exist.
    pub writes_bypassing: u64,
    /// Writes that invalidated copies.
    pub writes_invalidating: u64,
    /// Fetch-and-adds to stripes of other compute nodes.
    pub invalidations_sent: u64,
    /// Copies that were made.
    pub copies: u64,
    /// Segments of copies that were evicted to make room.
    pub segments_evicted: u64,
    /// Stripes whose caching this client has switched on.
    pub switches_on: u64,
    /// Stripes whose caching this client has switched off.
    pub switches_off: u64,
    /// Dead compute nodes that this client has buried.
    pub burials: u64,
}

/// Counts of a client whose operations share them.
#[derive(Debug, Default)]
pub(crate) struct Counting(Cell<Counts>);

impl Counting {
    #[inline]
    pub(crate) fn add(&self, add: impl FnOnce(&mut Counts)) {
        let mut counts = self.0.get();
        add(&mut counts);
        self.0.set(counts);
    }

    pub(crate) fn get(&self) -> Counts {
        self.0.get()
    }
}
