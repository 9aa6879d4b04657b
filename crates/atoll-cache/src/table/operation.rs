//! One operation of a client of the table.

use super::held::Held;
use super::slot::{KeyHash, Slot};
use crate::extent::OpenChunk;
use crate::index::BUCKET_SLOTS;
use crate::operation;

/// What an operation notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Chunks that it may still empty by moving.
    pub(super) gathers_left: u32,
    /// A block that it has drawn from what is at hand.
    pub(super) block: Option<Held>,
    /// Fresh chunks that it has drawn.
    pub(super) chunks: Vec<OpenChunk>,
}

/// An operation.
pub(crate) type Operation = operation::Operation<Slot, Notes>;

impl Operation {
    /// The word of a place of the bucket that was read, and the number of its slot.
    #[inline]
    pub(super) fn seen(&self, hash: KeyHash, place: usize) -> (Slot, u64) {
        (Slot(self.bucket.words()[place]), u64::from(hash.bucket) * BUCKET_SLOTS as u64 + place as u64)
    }
}
