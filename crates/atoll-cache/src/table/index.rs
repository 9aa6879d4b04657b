//! The table's index among the engines' indexes: see [`crate::index`].
//!
//! A look at a block needs no protection. A record has its block's tag. A tag comes back only after
//! every operation that could remember it has ended (see `stock`). So a record that passes the
//! checks is the slot's own.

use super::operation::{Notes, Operation};
use super::slot::Slot;
use super::{Core, Hole};
use crate::CacheError;
use crate::index::{Index, Look, copies, fixed_buckets, index_parts};
use crate::record::Record;
use atoll_fabric::{Address, Buffer, Endpoint};
use atoll_pool::ChunkId;

impl<E: Endpoint> Index for Core<E> {
    index_parts!(E, Slot, Notes);
    fixed_buckets!();

    #[inline]
    fn record_span(&self, word: Slot) -> Option<(Address, usize, ChunkId)> {
        let class = word.checked_class(self.shared.settings.large_class)?;
        let (at, chunk) = self.block_span(word.block())?;
        let (_, within) = self.client.pool.layout.divide(word.block().heap_offset());
        let room = self.client.pool.layout.chunk_bytes - within;
        let bytes = if self.is_open(Hole::TrustedBytes) { class.bytes() } else { class.bytes().min(room) };
        Some((at, bytes as usize, chunk))
    }

    fn ignores_new_nodes(&self) -> bool {
        self.is_open(Hole::UnknownNode)
    }

    fn judged<'r>(&self, word: Slot, block: &'r mut Buffer) -> Option<Record<'r>> {
        self.judge(word, block)
    }

    async fn look(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<Look, CacheError> {
        Ok(match self.read_record(op, word).await? {
            Some((header, large)) => Look::Sound(header, large.map(Box::new)),
            None if self.slot_word(slot).await? != word => Look::Changed,
            None => Look::Damaged,
        })
    }

    fn end_look(&self, _op: &mut Operation) {}

    /// The slot names the same block afterwards, dead. A word that names no block of the heap
    /// cannot stay as a dead block. The block of a pending slot belongs to its inserter.
    async fn drop_damaged(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        if self.slot_word(slot).await? != word {
            return Ok(());
        }
        let Some(word) = copies::closed(self, slot, word).await? else { return Ok(()) };
        let is_block = self.record_span(word).is_some();
        let then = if is_block && word.is_live() { word.buried(self.shared.settings.large_class) } else { Slot::EMPTY };
        if self.swap_slot(slot, word, then).await? {
            if then.is_dead() {
                self.note_dead(word.block(), word.class(self.shared.settings.large_class), 1);
            }
            self.stats.damaged.add(1);
            if word.is_live() {
                self.count_removed(1).await?;
            }
        }
        Ok(())
    }
}
