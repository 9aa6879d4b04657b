//! How a chunk is reclaimed that its owner had not cut to its end: the owner leaves, or is dead.
//!
//! Blocks that a slot or a shelf names, or that a client holds, stay as they are. The other blocks
//! become dead blocks, each named by a slot of some bucket. Then the chunk is in use like any
//! other. Whether a client has a block is found out as in `drain`.

use super::Core;
use super::cell::{Cell, CellState};
use super::class::Class;
use super::drain::{Emptied, Keeps, Naming};
use super::operation::Operation;
use super::slot::{Block, Slot};
use crate::CacheError;
use crate::index::Index;
use atoll_fabric::Endpoint;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};
use std::collections::HashSet;

/// Random buckets that a client tries for each block.
const BUCKETS_TRIED: u32 = 64;
/// Attempts before a chunk is emptied because not all its blocks could be named.
const RECLAIMS_TRIED: u64 = 8;

impl<E: Endpoint> Core<E> {
    /// Puts a chunk in use that this client owns as `open`; `false` if not all of its blocks could
    /// be named.
    pub(super) async fn reclaim(&self, op: &mut Operation, chunk: ChunkId, open: Chunk) -> Result<bool, CacheError> {
        if self.client.is_chunk_absent(chunk) {
            self.client.free_own(chunk, open).await?;
            return Ok(true);
        }
        assert_eq!(open.state, ChunkState::Open, "a repairer can settle the cells that name its blocks");
        let layout = self.client.pool.layout.clone();
        let before = self.blocks(chunk).await?;
        let Some(class) = before.class else {
            // Its owner has not begun to cut it.
            self.client.free_own(chunk, open).await?;
            return Ok(true);
        };
        let all: Vec<usize> = (0..before.images.len()).collect();
        let (mut had, mut is_settled) = (HashSet::new(), true);
        for look in 0..2 {
            if look > 0 && before.has_torn() && self.blocks(chunk).await? != before {
                return Ok(false);
            }
            let named = self.named(chunk, &before, &all).await?;
            let cells = self.all_cells().await?;
            let index_of =
                |block: Block| all.iter().copied().find(|index| self.block_of(chunk, class, *index) == block);
            // A client whose cell says trying has the block only if the record still has the tag. A
            // slow client may have named a block of an earlier life of the chunk.
            let has = |cell: &Cell| match index_of(cell.block) {
                Some(index) => cell.state == CellState::Won || before.images[index].tag() == Some(cell.tag),
                None => false,
            };
            let in_hands: HashSet<Block> =
                cells.iter().filter_map(|word| Cell::from_word(*word)).filter(has).map(|cell| cell.block).collect();
            for Naming { slot, word, .. } in named {
                // It is an insertion of the chunk's dead owner: any other inserter has named the
                // block in a cell.
                if word.is_pending() && !in_hands.contains(&word.block()) {
                    self.swap_slot(slot, word, Slot::EMPTY).await?;
                    is_settled = false;
                }
                had.insert(word.block());
            }
            had.extend(in_hands);
            had.extend(self.shelved_blocks(chunk, class).await?);
        }
        let after = self.blocks(chunk).await?;
        for (index, image) in before.images.iter().enumerate() {
            let block = self.block_of(chunk, class, index);
            if had.contains(&block) {
                continue;
            }
            // The highest tag of all: no operation may remember a higher tag of this place. If the
            // block's record was replaced meanwhile, a client holds the block, or held it.
            is_settled &=
                after.images[index] == *image && self.place_dead_anywhere(op, class, block, before.tag).await?;
        }
        if !is_settled {
            return Ok(false);
        }
        let used = Chunk { state: ChunkState::Queued, ..open };
        if !chunks::transition(&self.client.endpoint, &layout, chunk, open.word(), used).await? {
            return Err(CacheError::Damaged { what: "another client changed the state of an open chunk" });
        }
        Ok(true)
    }

    /// Puts chunks in use that this client will not cut. If not all blocks of a chunk find room, it
    /// is emptied.
    pub(super) async fn recheck_orphans(&self) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        for (chunk, orphan) in self.fresh.take_orphans() {
            let open = self.open_again(chunk, orphan).await?;
            let mut is_reclaimed = false;
            for tried in 0..RECLAIMS_TRIED {
                is_reclaimed = self.reclaim(op, chunk, open).await?;
                if is_reclaimed {
                    break;
                }
                // Other clients are just taking or naming blocks of it.
                self.client.endpoint.pause(1_000 * tried).await;
            }
            if !is_reclaimed {
                self.drains.push(Emptied::begun(chunk, open, Keeps::Objects));
            }
        }
        Ok(())
    }

    /// A chunk that leaves, because slots that named its blocks are gone, is open first. A repairer
    /// that settles a dead client's cell leaves a block of a leaving chunk to the client that
    /// empties it. So what cells name is looked at after that.
    async fn open_again(&self, chunk: ChunkId, orphan: Chunk) -> Result<Chunk, CacheError> {
        if orphan.state != ChunkState::Leaving || self.client.is_chunk_absent(chunk) {
            return Ok(orphan);
        }
        let open = orphan.back(ChunkState::Open);
        if !chunks::transition(&self.client.endpoint, &self.client.pool.layout, chunk, orphan.word(), open).await? {
            return Err(CacheError::Damaged { what: "another client changed the state of a leaving chunk" });
        }
        Ok(open)
    }

    /// A chunk's block by its number.
    pub(super) fn block_of(&self, chunk: ChunkId, class: Class, index: usize) -> Block {
        Block::at(u64::from(chunk.0) * self.client.pool.layout.chunk_bytes + index as u64 * class.bytes())
    }

    /// Names a block as dead in some bucket, if nothing names it; returns whether a bucket had
    /// room.
    pub(super) async fn place_dead_anywhere(
        &self,
        op: &mut Operation,
        class: Class,
        block: Block,
        tag: u16,
    ) -> Result<bool, CacheError> {
        for _ in 0..BUCKETS_TRIED {
            let bucket = (self.client.endpoint.random() % u64::from(self.shared.settings.buckets)) as u32;
            if self.place_dead(op, bucket, class, block, tag).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
