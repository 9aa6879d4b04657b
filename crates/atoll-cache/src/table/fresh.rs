//! The chunks that a client owns in state Open and does not cut.
//!
//! | chunk | what happens to it |
//! |---|---|
//! | fresh: nothing was ever cut from it | an operation draws it, a slab is cut from it, or it is freed |
//! | orphan: some of its blocks were published, and its owner will not cut the rest | it is reclaimed (see `reclaim`) |

use crate::open_chunks::OpenChunks;
use atoll_pool::{Chunk, ChunkId};
use std::cell::{Cell, RefCell};

/// Searches for a free chunk that are skipped after a search that found none.
const SEARCHES_LEFT_OUT: u32 = 15;

/// The chunks that a client owns in state Open and does not cut.
#[derive(Debug, Default)]
pub(super) struct FreshChunks {
    /// Fresh chunks.
    pub(super) chunks: OpenChunks,
    /// With their states.
    orphans: RefCell<Vec<(ChunkId, Chunk)>>,
    /// Searches for a free chunk that are still skipped, since the last one found none.
    searches_left_out: Cell<u32>,
}

impl FreshChunks {
    /// Adds an orphan.
    pub(super) fn push_orphan(&self, chunk: ChunkId, open: Chunk) {
        self.orphans.borrow_mut().push((chunk, open));
    }

    /// Whether there is an orphan.
    pub(super) fn has_orphans(&self) -> bool {
        !self.orphans.borrow().is_empty()
    }

    /// Takes all orphans out.
    pub(super) fn take_orphans(&self) -> Vec<(ChunkId, Chunk)> {
        self.orphans.take()
    }

    /// Whether the next search for a free chunk is not skipped.
    pub(super) fn is_search_due(&self) -> bool {
        self.searches_left_out.get() == 0
    }

    /// Skips a search, if it is to be skipped; returns whether it is.
    pub(super) fn leave_search_out(&self) -> bool {
        let left = self.searches_left_out.get();
        self.searches_left_out.set(left.saturating_sub(1));
        left > 0
    }

    /// Notes whether there may be a free chunk.
    pub(super) fn note_search(&self, may_be_free: bool) {
        self.searches_left_out.set(if may_be_free { 0 } else { SEARCHES_LEFT_OUT });
    }
}
