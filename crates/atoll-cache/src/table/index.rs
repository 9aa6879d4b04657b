//! The table's index among the engines' indexes: see [`crate::index`].
//!
//! A look at a block needs no protection: a record has its block's tag, and a tag comes back only
//! after every operation has ended that could remember it (see `stock`). So a record that passes is
//! the slot's own.

use super::operation::{Notes, Operation};
use super::slot::Slot;
use super::{Core, Hole};
use crate::CacheError;
use crate::extent::LatelyBound;
use crate::index::{Index, Look};
use crate::limit::Limit;
use crate::operation::Idle;
use crate::record::{Hasher, Record};
use crate::stats::Counters;
use atoll_fabric::{Address, Buffer, Endpoint, VerbError};
use atoll_pool::{ChunkId, Client};
use std::cell::RefCell;

impl<E: Endpoint> Index for Core<E> {
    type Endpoint = E;
    type Word = Slot;
    type Notes = Notes;

    #[inline(always)]
    fn member(&self) -> &Client<E> {
        &self.client
    }

    #[inline(always)]
    fn hasher(&self) -> &Hasher {
        &self.shared.hasher
    }

    fn idle(&self) -> &Idle<Slot, Notes> {
        &self.operations
    }

    fn counters(&self) -> &Counters {
        &self.stats
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn lately_bound(&self) -> &RefCell<LatelyBound> {
        &self.lately_bound
    }

    fn buckets(&self) -> u32 {
        self.shared.layout.buckets().count()
    }

    #[inline(always)]
    fn slot_at(&self, slot: u64) -> Address {
        self.shared.layout.slot(slot)
    }

    async fn read_slots(&self, first: u32, most: u32) -> Result<Vec<u64>, VerbError> {
        self.shared.layout.buckets().read_slots(&self.client.endpoint, &self.spares, first, most).await
    }

    /// A block ends where its chunk does, whatever class a damaged word names.
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
            Some((header, large)) => Look::Sound(header, large),
            None if self.slot_word(slot).await? != word => Look::Changed,
            None => Look::Damaged,
        })
    }

    fn end_look(&self, _op: &mut Operation) {}

    /// The slot names the same block afterwards, dead. A word that names no block of the heap cannot
    /// stay as a dead block; the block of a pending one is in its inserter's hands.
    async fn drop_damaged(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        if self.slot_word(slot).await? != word {
            return Ok(());
        }
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
