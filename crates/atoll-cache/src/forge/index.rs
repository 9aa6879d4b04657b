//! FORGE's index among the engines' indexes: see [`crate::index`].
//!
//! A look at a record is under protection: the client WRITEs the protection of the chunk and READs
//! slot and record behind that. If the slot is unchanged, the record cannot be reused until the
//! look ends.

use super::operation::{Notes, Operation};
use super::slot::Slot;
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::index::{Index, Look, index_parts};
use crate::record::Record;
use atoll_fabric::{Address, Buffer, Endpoint};
use atoll_pool::ChunkId;

impl<E: Endpoint, T: Technique<E>> Index for Forge<E, T> {
    index_parts!(E, Slot, Notes);

    #[inline(always)]
    fn record_span(&self, word: Slot) -> Option<(Address, usize, ChunkId)> {
        Self::record_span(self, word)
    }

    fn ignores_new_nodes(&self) -> bool {
        self.is_open(Hole::UnknownNode)
    }

    fn judged<'r>(&self, word: Slot, record: &'r mut Buffer) -> Option<Record<'r>> {
        self.judge(word, record)
    }

    async fn look(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<Look, CacheError> {
        Ok(match self.read_protected(op, slot, word).await? {
            Some((now, _)) if now != word => Look::Changed,
            Some(_) => match self.judge(word, &op.record) {
                Some(record) => Look::Sound(record.header, record.large()),
                None => Look::Damaged,
            },
            None => Look::Damaged,
        })
    }

    fn end_look(&self, op: &mut Operation) {
        self.unprotect(op);
    }

    /// Loses nothing but a damaged live object. The record of a pending slot may be unsound without
    /// damage. An insertion that withdrew gives its place back. When it begins again, it may WRITE
    /// to the same place while this client READs, and make the slot pending with the same word.
    ///
    /// The swap expects a pending word, so it hits an undecided insertion. No client has seen its
    /// object. Its inserter's own swap from that word fails now, and the inserter begins again.
    async fn drop_damaged(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        if self.is_open(Hole::Protection) || self.is_open(Hole::EarlyReuse) {
            return Ok(());
        }
        if self.swap_slot(slot, word, Slot::EMPTY).await? && word.is_live() {
            self.stats.damaged.add(1);
            self.count_removed(1).await?;
        }
        Ok(())
    }
}
