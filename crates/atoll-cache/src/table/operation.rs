//! One operation of a client of the table.

use super::held::Held;
use super::slot::{KeyHash, Slot};
use crate::extent::OpenChunk;
use crate::index::BUCKET_SLOTS;
use crate::operation;

/// The table's own part of an operation.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Chunks that the operation may still empty by moving their blocks.
    pub(super) gathers_left: u32,
    /// A block that the operation has drawn from the stock.
    pub(super) block: Option<Held>,
    /// Fresh chunks that the operation has drawn.
    pub(super) chunks: Vec<OpenChunk>,
}

impl operation::Notes for Notes {}

/// An operation.
pub(crate) type Operation = operation::Operation<Slot, Notes>;

impl Operation {
    /// The word of a place of the bucket that was READ, and the number of its slot.
    #[inline]
    pub(super) fn seen(&self, hash: KeyHash, place: usize) -> (Slot, u64) {
        (Slot(self.bucket.words()[place]), u64::from(hash.bucket) * BUCKET_SLOTS as u64 + place as u64)
    }
}
