//! Room for objects that move: blocks in stock, on shelves, in free chunks, and dead blocks that
//! slots name.

use crate::CacheError;
use crate::table::Core;
use crate::table::class::Class;
use crate::table::held::Held;
use crate::table::layout::{BUCKET_SLOTS, SLOTS_BYTES};
use crate::table::slot::Slot;
use arrayvec::ArrayVec;
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::chunks::Walk;
use atoll_pool::{ChunkId, ChunkState};

/// Looks for a block to move an object into.
const LOOKS_FOR_ROOM: u32 = 8;
/// Chunks with dead blocks of a class in which a client looks for one of them.
const CHUNKS_FOR_ROOM: u32 = 4;
/// Random buckets in which a client looks for a dead block at once.
const BUCKETS_AT_ONCE: usize = 8;

impl<E: Endpoint> Core<E> {
    /// A block from the stock with the tag of its next record.
    pub(super) async fn block_at_hand(&self, class: Class) -> Result<Option<(Held, u16)>, CacheError> {
        while let Some(held) = self.pop_block(class) {
            if let Some(tag) = self.tag_for(held).await? {
                return Ok(Some((held, tag)));
            }
        }
        Ok(None)
    }

    /// Makes sure that the stock has a block of a class, if there is one outside of `chunk`. It
    /// must not run while a block is between the stock and a slot.
    pub(super) async fn find_room(&self, class: Class, chunk: ChunkId) -> Result<bool, CacheError> {
        for _ in 0..LOOKS_FOR_ROOM {
            if self.has_block(class) {
                return Ok(true);
            }
            let shelves = self.shelves(class).await?;
            match self.take_shelved(class, &shelves).await? {
                Some(true) => return Ok(true),
                Some(false) => continue,
                None => {}
            }
            // A client that leaves would have to release the rest of another chunk.
            if !self.is_leaving_pool.get() && self.open_another(class).await? {
                continue;
            }
            if self.take_dead(class, Some(chunk)).await? || self.take_dead_of_some_chunk(class, chunk).await? {
                return Ok(true);
            }
        }
        if self.is_leaving_pool.get() {
            self.open_another(class).await?;
        }
        Ok(self.has_block(class))
    }

    /// Begins to cut a free chunk, if there is one; returns whether it did.
    async fn open_another(&self, class: Class) -> Result<bool, CacheError> {
        let has_chunk = !self.fresh.chunks.is_empty();
        Ok((has_chunk || self.allocate_chunks(1).await?) && self.open_slab(class).await?)
    }

    /// Takes a dead block of a class in another chunk; returns whether it did. If few objects are
    /// of the class, random buckets seldom have one. So it follows a chunk's records to their
    /// buckets.
    async fn take_dead_of_some_chunk(&self, class: Class, not_in: ChunkId) -> Result<bool, CacheError> {
        let layout = self.client.pool.layout.clone();
        let mut walk = Walk::from_anywhere(&self.client.endpoint, &layout);
        let mut tried = 0;
        while let Some(some) = walk.next(&self.client.endpoint, &layout).await? {
            for (chunk, descriptor) in some {
                let is_in_use = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
                let is_of_class = descriptor.contents == u64::from(class.code());
                if chunk == not_in || !is_in_use || !is_of_class || descriptor.dead_bytes as i64 <= 0 {
                    continue;
                }
                if self.take_dead_of(chunk).await? {
                    return Ok(true);
                }
                tried += 1;
                if tried == CHUNKS_FOR_ROOM {
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Takes a dead block that slots name in a chunk; returns whether it did.
    async fn take_dead_of(&self, chunk: ChunkId) -> Result<bool, CacheError> {
        let blocks = self.blocks(chunk).await?;
        let all: Vec<usize> = (0..blocks.images.len()).collect();
        for naming in self.named(chunk, &blocks, &all).await? {
            let is_of_use = naming.word.is_dead() && !naming.word.is_pending();
            if is_of_use && let Some(held) = self.take_block(naming.slot, naming.word, Slot::EMPTY).await? {
                self.note_dead(held.block, held.class, -1);
                self.stock.borrow_mut().put(held);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a dead block of a class, outside a chunk, that a slot of some random buckets names;
    /// returns whether it did.
    pub(in crate::table) async fn take_dead(&self, class: Class, not_in: Option<ChunkId>) -> Result<bool, CacheError> {
        let mut batch = Batch::new();
        let mut buckets = ArrayVec::<u32, BUCKETS_AT_ONCE>::new();
        for _ in 0..BUCKETS_AT_ONCE.min(self.client.endpoint.limits().batch_verbs_max) {
            let bucket = (self.client.endpoint.random() % u64::from(self.shared.settings.buckets)) as u32;
            let mut slots = self.spares.take(0);
            slots.resize(SLOTS_BYTES as usize);
            batch.read(self.shared.layout.bucket(bucket), slots);
            buckets.push(bucket);
        }
        self.client.endpoint.post(&mut batch).await?;
        let mut found = None;
        for (index, bucket) in buckets.iter().enumerate() {
            let slots = batch.take_nth(index);
            for (place, word) in slots.words().iter().enumerate() {
                let word = Slot(*word);
                let is_of_use = word.is_dead() && !word.is_pending() && self.fits(word, class);
                if is_of_use && self.block_span(word.block()).is_some_and(|(_, chunk)| Some(chunk) != not_in) {
                    found = Some((u64::from(*bucket) * BUCKET_SLOTS as u64 + place as u64, word));
                }
            }
            self.spares.keep(slots);
        }
        let Some((slot, word)) = found else { return Ok(false) };
        let Some(held) = self.take_block(slot, word, Slot::EMPTY).await? else { return Ok(false) };
        self.note_dead(held.block, held.class, -1);
        self.stock.borrow_mut().put(held);
        Ok(true)
    }
}
