//! Chunks that a client cuts into blocks: Open while some of them have never been published, then
//! Queued, which here means no more than in use.
//!
//! A chunk's descriptor has the class of its blocks as contents, and as the engine's other word the
//! highest tag that a block of it has had, from which the tags of its next life go on.
//!
//! A client cuts few chunks at a time, so that in a small pool not all of them are some client's:
//! the more clients there may be, the fewer. The rest of one that it ends before goes on a shelf
//! (see `shelf`); in a small pool with many clients all of it does.

use super::Core;
use super::class::Class;
use super::operation::Operation;
use super::shelf::Shelf;
use super::slot::{Block, UNIT_BYTES};
use super::stock::Held;
use crate::CacheError;
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::chunks::FreeCount;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};

/// A chunk that this client owns as Open and has not begun to cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreshChunk {
    pub(super) chunk: ChunkId,
    pub(super) generation: u32,
}

/// A chunk that this client cuts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slab {
    pub(super) chunk: ChunkId,
    pub(super) generation: u32,
    /// The next block to hand out.
    next: u64,
    /// Blocks that were handed out and have not been published yet.
    unpublished: u64,
    /// The tag that its blocks begin with.
    tag: u16,
}

/// Searches for a free chunk left out after one that found none.
const SEARCHES_LEFT_OUT: u32 = 15;
/// Since somebody has died, one search in so many looks for free chunks although the pool counts
/// none.
const LOOKS_ANYWAY: u64 = 64;

/// Whether a block of a class takes records of another one. The word of a large object does not
/// tell its block's class: that is always the same.
fn block_fits(block: Class, wanted: Class, large_class: Class) -> bool {
    block == wanted || wanted != large_class && block.fits(wanted)
}

impl<E: Endpoint> Core<E> {
    /// Whether there is a block at hand that fits a record of this class.
    pub(super) fn has_block(&self, class: Class) -> bool {
        self.slab_rest(class) > 0 || self.stock.borrow().all().iter().any(|held| self.block_fits(held.class, class))
    }

    /// Whether a block of a class takes records of another one.
    pub(super) fn block_fits(&self, block: Class, wanted: Class) -> bool {
        block_fits(block, wanted, self.shared.settings.large_class)
    }

    /// Blocks of a class that this client has not handed out of the chunk that it cuts.
    pub(super) fn slab_rest(&self, class: Class) -> u64 {
        let blocks = class.blocks(self.client.pool.layout.chunk_bytes);
        self.slabs.borrow()[class.index()].map_or(0, |slab| blocks.saturating_sub(slab.next))
    }

    /// A block at hand that fits a record of this class: one that is no larger, if there is one.
    pub(super) fn pop_block(&self, class: Class) -> Option<Held> {
        let same = self.stock.borrow_mut().pop(|held| held == class);
        if same.is_some() {
            return same;
        }
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        let mut slabs = self.slabs.borrow_mut();
        let slab = slabs[class.index()].as_mut().filter(|slab| slab.next < class.blocks(chunk_bytes));
        let Some(slab) = slab else {
            let large_class = self.shared.settings.large_class;
            return self.stock.borrow_mut().pop(|held| block_fits(held, class, large_class));
        };
        let block = Block::at(u64::from(slab.chunk.0) * chunk_bytes + slab.next * class.bytes());
        slab.next += 1;
        slab.unpublished += 1;
        Some(Held { block, class, tag: slab.tag, cell: None })
    }

    /// Notes that a slot names the block now.
    pub(super) async fn published(&self, held: Held) -> Result<(), CacheError> {
        if held.cell.is_some() {
            self.let_go(held);
            return Ok(());
        }
        let blocks = held.class.blocks(self.client.pool.layout.chunk_bytes);
        let Some(slab) = self.publish_of_slab(held.class, blocks) else { return Ok(()) };
        let open = Chunk::owned(ChunkState::Open, self.client.me(), slab.generation);
        let used = Chunk { state: ChunkState::Queued, ..open };
        if !chunks::transition(&self.client.endpoint, &self.client.pool.layout, slab.chunk, open.word(), used).await? {
            return Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" });
        }
        Ok(())
    }

    /// Counts a published block of the chunk that is cut into blocks of a class; the chunk, which
    /// is not cut any more, if that was the last one.
    fn publish_of_slab(&self, class: Class, blocks: u64) -> Option<Slab> {
        let mut slabs = self.slabs.borrow_mut();
        let slab = slabs[class.index()].as_mut()?;
        slab.unpublished -= 1;
        let is_last = slab.next >= blocks && slab.unpublished == 0;
        if is_last { slabs[class.index()].take() } else { None }
    }

    /// Chunks that a client may cut at a time. With none, all of them are everybody's.
    pub(super) fn slabs_max(&self) -> usize {
        (self.client.pool.layout.chunks() / (4 * self.client.pool.settings.clients_max)) as usize
    }

    /// Begins to cut a fresh chunk, if there is one and no other is being cut; whether it did.
    pub(super) async fn open_slab(&self, class: Class) -> Result<bool, CacheError> {
        if self.slabs.borrow()[class.index()].is_some() {
            return Ok(false);
        }
        let slabs_max = self.slabs_max();
        if self.slabs.borrow().iter().flatten().count() >= slabs_max {
            self.end_slabs().await?;
        }
        let Some(FreshChunk { chunk, generation }) = self.chunks.borrow_mut().pop() else { return Ok(false) };
        let descriptor = self.client.pool.layout.descriptor(chunk);
        let mut batch = Batch::new();
        batch.write_word(descriptor.add(8), class.code().into());
        let tag = batch.read_word(descriptor.add(24));
        self.client.endpoint.post(&mut batch).await?;
        let tag = batch.word(tag) as u16 & self.shared.settings.tag_mask;
        self.slabs.borrow_mut()[class.index()] = Some(Slab { chunk, generation, next: 0, unpublished: 0, tag });
        if slabs_max == 0 {
            // Everybody's at once.
            self.end_slabs().await?;
        }
        Ok(true)
    }

    /// Puts the chunks in use that this client cuts: what is left of them is everybody's. Not while
    /// a block of one is between the stock and a slot.
    pub(super) async fn end_slabs(&self) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let me = self.client.me();
        // Blocks of a slab are its chunk's.
        self.stock.borrow_mut().forget_slabs();
        for class in Class::all() {
            let Some(slab) = self.slabs.borrow_mut()[class.index()].take() else { continue };
            let open = Chunk::owned(ChunkState::Open, me, slab.generation);
            let has_rest = slab.next < class.blocks(self.client.pool.layout.chunk_bytes);
            if has_rest && slab.unpublished == 0 && self.shelve_slab(op, class, slab, open).await? {
                continue;
            }
            self.orphans.borrow_mut().push((slab.chunk, open));
        }
        self.recheck_orphans().await
    }

    /// Puts a chunk in use whose further blocks are on a shelf from now on; `false` if no shelf has
    /// room.
    async fn shelve_slab(&self, op: &mut Operation, class: Class, slab: Slab, open: Chunk) -> Result<bool, CacheError> {
        let layout = self.client.pool.layout.clone();
        let Ok(next) = u16::try_from(slab.next) else { return Ok(false) };
        if !self.shelve(op, class, Shelf { chunk: slab.chunk, next, tag: slab.tag }).await? {
            return Ok(false);
        }
        let used = Chunk { state: ChunkState::Queued, ..open };
        if !chunks::transition(&self.client.endpoint, &layout, slab.chunk, open.word(), used).await? {
            return Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" });
        }
        Ok(true)
    }

    /// Makes sure that there are more fresh chunks than so many, if the pool has free ones.
    pub(super) async fn obtain_free_chunk_beyond(&self, kept: usize) -> Result<bool, CacheError> {
        if self.chunks.borrow().len() > kept {
            return Ok(true);
        }
        if self.searches_left_out.get() > 0 {
            self.searches_left_out.set(self.searches_left_out.get() - 1);
            return Ok(false);
        }
        self.allocate_chunk(kept + 1).await
    }

    /// Takes a further free chunk; whether there was one.
    pub(super) async fn allocate_another_chunk(&self) -> Result<bool, CacheError> {
        let had = self.chunks.borrow().len();
        self.allocate_chunk(had + 1).await
    }

    /// Takes a free chunk, looking for so many that there are `wanted`; whether there is one more
    /// now.
    pub(super) async fn allocate_chunk(&self, wanted: usize) -> Result<bool, CacheError> {
        if self.chunks.borrow().len() >= wanted {
            return Ok(true);
        }
        let count = match self.client.are_counts_estimated() {
            false => FreeCount::Trusted,
            true if self.client.endpoint.random().is_multiple_of(LOOKS_ANYWAY) => FreeCount::Ignored,
            true => FreeCount::Distrusted,
        };
        loop {
            let layout = &self.client.pool.layout;
            let found =
                chunks::allocate(&self.client.endpoint, layout, self.client.me(), ChunkState::Open, count, 0).await?;
            match found {
                Some((chunk, generation)) => {
                    self.chunks.borrow_mut().push(FreshChunk { chunk, generation });
                    self.searches_left_out.set(0);
                    return Ok(true);
                }
                // None that this client knows of: perhaps a memory node was added.
                None if self.client.learn_nodes().await? => {}
                None => {
                    self.searches_left_out.set(SEARCHES_LEFT_OUT);
                    return Ok(false);
                }
            }
        }
    }

    /// Gives fresh chunks back.
    pub(super) async fn free_fresh_chunks(&self) -> Result<(), CacheError> {
        for fresh in self.chunks.take() {
            let open = Chunk::owned(ChunkState::Open, self.client.me(), fresh.generation);
            self.client.free_own(fresh.chunk, open).await?;
        }
        Ok(())
    }
}

/// Blocks lie at multiples of a unit, and a chunk is a multiple of one.
const _: () = assert!((super::settings::CHUNK_BYTES_MIN as u64).is_multiple_of(UNIT_BYTES));
