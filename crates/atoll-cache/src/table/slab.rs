//! Chunks that a client cuts into blocks.
//!
//! A chunk is Open while some of its blocks have never been published, then Queued. Here Queued
//! only means in use. Word 1 of the chunk's descriptor has the class of its blocks. Word 3 has the
//! highest tag of a block in the chunk's last life; the tags of the next life continue from it.
//!
//! A client cuts few chunks at a time: the more clients the pool may have, the fewer. So clients do
//! not own all chunks of a small pool. A client puts the rest of a chunk that it stops cutting on a
//! shelf (see `shelf`). In a small pool with many clients it shelves all blocks of a chunk at once.

use super::class::{CLASSES, Class};
use super::held::Held;
use super::operation::Operation;
use super::shelf::Shelf;
use super::slot::{Block, UNIT_BYTES};
use super::{Core, Hole};
use crate::CacheError;
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::chunks::FreeCount;
use atoll_pool::registry::Grace;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};

/// A chunk that this client cuts.
#[derive(Clone, Copy, Debug)]
struct Slab {
    chunk: ChunkId,
    generation: u32,
    /// The next block to cut.
    next: u64,
    /// Blocks that were cut and have not been published yet: in stock, or in use.
    unpublished: u64,
    /// How many of them operations under way use.
    in_use: u64,
    /// The tag that its blocks begin with.
    tag: u16,
}

/// The chunks that a client cuts.
#[derive(Debug)]
pub(super) struct Slabs {
    chunk_bytes: u64,
    /// The slab that is cut for each class.
    cut: [Option<Slab>; CLASSES],
    /// Slabs that are cut to the end, while operations use blocks of them.
    ending: Vec<(Class, Slab)>,
}

impl Slabs {
    pub(super) fn new(chunk_bytes: u64) -> Self {
        Self { chunk_bytes, cut: [const { None }; CLASSES], ending: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ending.is_empty() && self.cut.iter().all(Option::is_none)
    }

    /// Blocks of a class that were not cut.
    fn rest(&self, class: Class) -> u64 {
        self.cut[class.index()].map_or(0, |slab| class.blocks(self.chunk_bytes).saturating_sub(slab.next))
    }

    /// Cuts a block off.
    fn cut_off(&mut self, class: Class) -> Option<Held> {
        let blocks = class.blocks(self.chunk_bytes);
        let slab = self.cut[class.index()].as_mut().filter(|slab| slab.next < blocks)?;
        let block = Block::at(u64::from(slab.chunk.0) * self.chunk_bytes + slab.next * class.bytes());
        slab.next += 1;
        slab.unpublished += 1;
        slab.in_use += 1;
        Some(Held { block, class, tag: slab.tag, cell: None })
    }

    /// The slab of a block; `None` for a block that was taken.
    fn of(&mut self, held: Held) -> Option<&mut Slab> {
        if held.cell.is_some() {
            return None;
        }
        let chunk = ChunkId((held.block.heap_offset() / self.chunk_bytes) as u32);
        let cut = self.cut[held.class.index()].as_mut().filter(|slab| slab.chunk == chunk);
        cut.or_else(|| self.ending.iter_mut().map(|(_, slab)| slab).find(|slab| slab.chunk == chunk))
    }

    /// Notes that an operation has a block of the stock in use.
    fn note_used(&mut self, held: Held) {
        if let Some(slab) = self.of(held) {
            slab.in_use += 1;
        }
    }

    /// Notes that the block is in stock again.
    fn note_kept(&mut self, held: Held) {
        if let Some(slab) = self.of(held) {
            slab.in_use -= 1;
        }
    }

    /// Notes that a slot names the block. Returns its slab if that is not cut any more, and all of
    /// it is published.
    fn note_published(&mut self, held: Held) -> Option<Slab> {
        let slab = self.of(held)?;
        slab.in_use -= 1;
        slab.unpublished -= 1;
        let slab = *slab;
        if slab.unpublished > 0 || slab.next < held.class.blocks(self.chunk_bytes) {
            return None;
        }
        let is_cut = |cut: &mut Slab| cut.chunk == slab.chunk;
        if self.cut[held.class.index()].take_if(is_cut).is_none() {
            self.ending.retain(|(_, ending)| ending.chunk != slab.chunk);
        }
        Some(slab)
    }

    /// Removes the slabs of which no operation uses a block.
    fn take_idle(&mut self) -> Vec<(Class, Slab)> {
        let mut idle: Vec<_> = self.ending.extract_if(.., |(_, slab)| slab.in_use == 0).collect();
        for class in Class::all() {
            let slab = self.cut[class.index()].take_if(|slab| slab.in_use == 0);
            idle.extend(slab.map(|slab| (class, slab)));
        }
        idle
    }
}

/// After a client has died, one search in so many looks for free chunks although the pool counts
/// none.
const LOOKS_ANYWAY: u64 = 64;

/// Whether a block of a class takes records of another class. The word of a large object does not
/// show its block's class: that is always the same.
fn block_fits(block: Class, wanted: Class, large_class: Class) -> bool {
    block == wanted || wanted != large_class && block.fits(wanted)
}

impl<E: Endpoint> Core<E> {
    /// Whether the stock has a block that fits a record of this class.
    pub(super) fn has_block(&self, class: Class) -> bool {
        self.slabs.borrow().rest(class) > 0
            || self.stock.borrow().all().iter().any(|held| self.block_fits(held.class, class))
    }

    /// Whether a block of a class takes records of another class.
    pub(super) fn block_fits(&self, block: Class, wanted: Class) -> bool {
        block_fits(block, wanted, self.shared.settings.large_class)
    }

    /// Uncut blocks in the chunk that this client cuts for a class.
    pub(super) fn slab_rest(&self, class: Class) -> u64 {
        self.slabs.borrow().rest(class)
    }

    /// A block from the stock that fits a record of this class: a block of that class, if there is
    /// one.
    pub(super) fn pop_block(&self, class: Class) -> Option<Held> {
        let (mut stock, mut slabs) = (self.stock.borrow_mut(), self.slabs.borrow_mut());
        let large_class = self.shared.settings.large_class;
        let held = match stock.pop(|held| held == class) {
            Some(same) => same,
            None => match slabs.cut_off(class) {
                Some(fresh) => return Some(fresh),
                None => stock.pop(|held| block_fits(held, class, large_class))?,
            },
        };
        slabs.note_used(held);
        Some(held)
    }

    /// Puts a block back into the stock whose record, with tag `written`, was not published.
    pub(super) fn keep(&self, held: Held, written: u16) {
        self.slabs.borrow_mut().note_kept(held);
        self.stock.borrow_mut().put(Held { tag: written, ..held });
    }

    /// The tag of the next record in this block. If the block's tags start over, it rests until all
    /// operations under way have ended: `None`.
    pub(super) async fn tag_for(&self, held: Held) -> Result<Option<u16>, CacheError> {
        let tag = self.shared.settings.next_tag(held.tag);
        if tag != 0 || self.is_open(Hole::WrappedTag) {
            return Ok(Some(tag));
        }
        let grace = Grace::begin(&self.client.observer()).await?;
        self.slabs.borrow_mut().note_kept(held);
        self.stock.borrow_mut().rest(held, grace);
        Ok(None)
    }

    /// Notes that a slot names the block now.
    pub(super) async fn published(&self, held: Held) -> Result<(), CacheError> {
        if held.cell.is_some() {
            self.let_go(held);
            return Ok(());
        }
        let complete = self.slabs.borrow_mut().note_published(held);
        let Some(slab) = complete else { return Ok(()) };
        let open = Chunk::owned(ChunkState::Open, self.client.me(), slab.generation);
        let used = Chunk { state: ChunkState::Queued, ..open };
        if !chunks::transition(&self.client.endpoint, &self.client.pool.layout, slab.chunk, open.word(), used).await? {
            return Err(CacheError::Damaged { what: "another client changed the state of an open chunk" });
        }
        Ok(())
    }

    /// Chunks that a client may cut at a time. With none, all chunks are shared.
    pub(super) fn slabs_max(&self) -> usize {
        (self.client.pool.layout.chunks() / (4 * self.client.pool.settings.clients_max)) as usize
    }

    /// Begins to cut a fresh chunk, if there is one and no other chunk of the class is being cut;
    /// returns whether it did.
    pub(super) async fn open_slab(&self, class: Class) -> Result<bool, CacheError> {
        if self.slabs.borrow().rest(class) > 0 {
            return Ok(false);
        }
        // Taken before any await: other operations of this client draw fresh chunks.
        let Some(fresh) = self.fresh.chunks.pop() else { return Ok(false) };
        let slabs_max = self.slabs_max();
        if self.slabs.borrow().cut.iter().flatten().count() >= slabs_max
            && let Err(error) = self.end_slabs().await
        {
            self.fresh.chunks.push(fresh);
            return Err(error);
        }
        let (chunk, generation) = fresh;
        let layout = &self.client.pool.layout;
        let mut batch = Batch::new();
        batch.write_word(layout.contents(chunk), class.code().into());
        let tag = batch.read_word(layout.note(chunk));
        self.client.endpoint.post(&mut batch).await?;
        let tag = batch.word(tag) as u16 & self.shared.settings.tag_mask;
        {
            let mut slabs = self.slabs.borrow_mut();
            let slab = Slab { chunk, generation, next: 0, unpublished: 0, in_use: 0, tag };
            if let Some(ending) = slabs.cut[class.index()].replace(slab) {
                slabs.ending.push((class, ending));
            }
        }
        if slabs_max == 0 {
            // Shared at once.
            self.end_slabs().await?;
        }
        Ok(true)
    }

    /// Puts the chunks in use that this client cuts, and shares the rest of them. A chunk stays if
    /// an operation has a block of it between the stock and a slot.
    pub(super) async fn end_slabs(&self) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let me = self.client.me();
        let idle = self.slabs.borrow_mut().take_idle();
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        // Blocks of a slab belong to its chunk.
        self.stock
            .borrow_mut()
            .forget(|block| idle.iter().any(|(_, slab)| u64::from(slab.chunk.0) == block.heap_offset() / chunk_bytes));
        for (class, slab) in idle {
            let open = Chunk::owned(ChunkState::Open, me, slab.generation);
            let has_rest = slab.next < class.blocks(self.client.pool.layout.chunk_bytes);
            if has_rest && slab.unpublished == 0 && self.shelve_slab(op, class, slab, open).await? {
                continue;
            }
            self.fresh.push_orphan(slab.chunk, open);
        }
        self.recheck_orphans().await
    }

    /// Puts a chunk in use, and its uncut blocks on a shelf; `false` if no shelf has room.
    async fn shelve_slab(&self, op: &mut Operation, class: Class, slab: Slab, open: Chunk) -> Result<bool, CacheError> {
        let layout = self.client.pool.layout.clone();
        let Ok(next) = u16::try_from(slab.next) else { return Ok(false) };
        if !self.shelve(op, class, Shelf { chunk: slab.chunk, next, tag: slab.tag }).await? {
            return Ok(false);
        }
        let used = Chunk { state: ChunkState::Queued, ..open };
        if !chunks::transition(&self.client.endpoint, &layout, slab.chunk, open.word(), used).await? {
            return Err(CacheError::Damaged { what: "another client changed the state of an open chunk" });
        }
        Ok(true)
    }

    /// Makes sure that there are more than `kept` fresh chunks, if the pool has free ones.
    pub(super) async fn obtain_free_chunk_beyond(&self, kept: usize) -> Result<bool, CacheError> {
        if self.fresh.chunks.len() > kept {
            return Ok(true);
        }
        if self.fresh.leave_search_out() {
            return Ok(false);
        }
        self.allocate_chunks(kept + 1).await
    }

    /// Allocates free chunks, as many as one search finds, unless there are `wanted` fresh ones;
    /// returns whether there is one more now, or there are so many.
    pub(super) async fn allocate_chunks(&self, wanted: usize) -> Result<bool, CacheError> {
        let missing = wanted.saturating_sub(self.fresh.chunks.len());
        if missing == 0 {
            return Ok(true);
        }
        let count = match self.client.are_counts_estimated() {
            false => FreeCount::Trusted,
            true if self.client.endpoint.random().is_multiple_of(LOOKS_ANYWAY) => FreeCount::Ignored,
            true => FreeCount::Distrusted,
        };
        loop {
            let found = self.client.allocate_several(missing, count, 0).await?;
            let has_found = !found.is_empty();
            self.fresh.chunks.extend(found);
            // There are none that this client knows of: perhaps a memory node was added.
            if has_found || !self.client.learn_nodes().await? {
                self.fresh.note_search(has_found);
                return Ok(has_found);
            }
        }
    }

    /// Frees the fresh chunks.
    pub(super) async fn free_fresh_chunks(&self) -> Result<(), CacheError> {
        Ok(self.client.free_open(&self.fresh.chunks.take()).await?)
    }
}

/// Blocks lie at multiples of a unit, and a chunk is a multiple of a unit.
const _: () = assert!((super::settings::CHUNK_BYTES_MIN as u64).is_multiple_of(UNIT_BYTES));
