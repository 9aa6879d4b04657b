//! How live objects are gathered, so that no object is evicted while much of the memory is dead.
//!
//! A chunk that is mostly dead is emptied as in `drain`, with one difference. Its objects are not
//! evicted but moved into other blocks of their class. A move is one compare-and-swap of the slot,
//! from the word that names the old block to the word that names the new one.
//!
//! | step | verbs |
//! |---|---|
//! | find a chunk of which much is dead | READ the shelves; READ descriptors |
//! | own it, and look at it | see `drain` |
//! | its dead blocks | CAS the slots -> empty, as there |
//! | its objects, some at a time: find blocks | in stock; on a shelf; in a free chunk; dead blocks that other slots name |
//! | copy them there | WRITE the records, WRITE the cells of blocks that were taken, CAS the slots |
//! | the rest | see `drain` |
//!
//! A copy has its object's token and the new block's tag. A client that read the old word and swaps
//! it afterwards fails, and looks again. A reader of the old block sees a whole record until the
//! chunk is reused. A client that dies between WRITE and swap leaves the new block without a name,
//! as a writer does, and still owns the chunk. A repairer continues with both.
//!
//! **Which objects stay.** A writer evicts for memory only while less than a tenth of the heap is
//! dead. While more is dead, the last few free chunks are left to moves. So objects stay while
//! their blocks take at most [`HELD_PERCENT`] of the heap. The rest is for:
//!
//! - blocks that clients hold, and chunks that they cut;
//! - one chunk of each class that is not full;
//! - counts that lag behind.
//!
//! **Share of the capacity.** The heap is the capacity without the metadata. Each slot of the index
//! takes 48 bytes, and the index of ditto and kvs has two slots for each expected object. With
//! objects of `m` bytes expected the index takes `96 / m` of the capacity. A block exceeds its
//! record by at most a quarter, or by less than 64 bytes. The excess counts as in use.
//!
//! | expected bytes | index | share of the capacity for which the promise holds |
//! |---|---|---|
//! | 320 (default) | 30 % | 56 % |
//! | 1024 | 9 % | 72 % |
//!
//! **Other reasons to evict.** A bucket of the index may be full. About one insertion in a million
//! meets that with the default, and one in twenty thousand where far larger objects are expected. A
//! client that stands still keeps at most 32 blocks, and the chunks that they lie in. In a pool
//! that became smaller, the share is of the remaining chunks. A client counts them so once it has
//! seen enough of them, a second later.
//!
//! | module | concept |
//! |---|---|
//! | `moves` | how objects move |
//! | `room` | where they move to |

mod moves;
mod room;

use super::class::{CLASSES, Class};
use super::drain::{DRAINS_MAX, DrainLook, Keeps};
use super::operation::Operation;
use super::{Core, TablePool};
use crate::CacheError;
use atoll_fabric::Endpoint;
use atoll_pool::chunks::Walk;
use atoll_pool::{ChunkId, ChunkState};
use std::collections::HashMap;

/// Objects stay while their blocks are at most this share of the heap, in percent: see the module
/// `gather`.
pub const HELD_PERCENT: u64 = 80;
/// Chunks that a client tries while other clients are faster.
const CLAIMS_MAX: u32 = 8;
/// One chunk in so many is left to moves, up to a maximum.
const RESERVE_SHARE: u32 = 32;
const RESERVE_MAX: u32 = 8;
/// Chunks that are emptied at most for one wanted block or chunk. Other clients may take the freed
/// memory each time.
pub(super) const GATHERS_MAX: u32 = 64;

/// A chunk that is worth emptying.
#[derive(Clone, Copy, Debug)]
struct Sparse {
    chunk: ChunkId,
    class: Class,
    dead_bytes: u64,
}

/// What a client has found about the chunks of a class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassRoom {
    /// Bytes of dead blocks in the inspected chunks, and of blocks in stock.
    room: u64,
    /// Bytes of blocks in stock and on shelves.
    ready: u64,
    /// The chunk with the largest dead share among those worth emptying.
    best: Option<Sparse>,
}

impl TablePool {
    /// Bytes of the heap that an object takes. For a small object that includes its part of the
    /// rest at its chunk's end; for a large one, its record and its chunks. In a pool that was full
    /// of other sizes before, its block may be up to a quarter longer.
    pub fn held_bytes(&self, key_bytes: usize, value_bytes: usize) -> u64 {
        let chunk_bytes = self.pool.layout.chunk_bytes;
        let of_class = |class: Class| chunk_bytes / class.blocks(chunk_bytes).max(1);
        let bytes = crate::record::small_record_bytes(key_bytes, value_bytes) + self.settings.extension_bytes;
        match Class::of(bytes).filter(|_| bytes <= chunk_bytes / 2) {
            Some(class) => of_class(class),
            None => {
                let (bodies, lists) = crate::extent::chunks_needed(key_bytes + value_bytes, chunk_bytes);
                (bodies + lists) as u64 * chunk_bytes + of_class(self.settings.large_class)
            }
        }
    }
}

impl<E: Endpoint> Core<E> {
    /// Chunks that are left to moves while much is dead.
    fn reserve(&self) -> u64 {
        let layout = &self.client.pool.layout;
        (layout.chunks() / RESERVE_SHARE).clamp(1, RESERVE_MAX).into()
    }

    /// Gathers live objects if few chunks are free and much is dead; returns whether it began to.
    pub(super) async fn gather_if_scarce(&self, op: &mut Operation) -> Result<bool, CacheError> {
        let (is_sparse, free) = self.look_at_memory().await?;
        if !is_sparse || free > self.reserve() {
            return Ok(false);
        }
        self.gather(op).await
    }

    /// Begins to empty a chunk of which much is dead, if there is one; returns whether it did. The
    /// chunk may be free at once.
    pub(super) async fn gather(&self, op: &mut Operation) -> Result<bool, CacheError> {
        for _ in 0..CLAIMS_MAX {
            if self.chunks_on_their_way() >= 2 * DRAINS_MAX || op.notes.gathers_left == 0 || !self.is_sparse() {
                break;
            }
            op.notes.gathers_left -= 1;
            let Some(sparse) = self.find_sparse(op).await? else { break };
            let blocks = sparse.class.blocks(self.client.pool.layout.chunk_bytes);
            let live = blocks.saturating_sub(sparse.dead_bytes / sparse.class.bytes());
            if live > self.room_at_hand(sparse.class) && self.fresh.chunks.is_empty() {
                // Without a free chunk, objects move into dead blocks of other chunks.
                self.allocate_chunks(1).await?;
            }
            if self.claim_chunk(sparse.chunk, Keeps::Objects).await? {
                // It becomes free, so that any client can use it for its next moves.
                self.recheck_waiting(DrainLook::InRound).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Blocks of a class that this client has.
    fn room_at_hand(&self, class: Class) -> u64 {
        self.stock.borrow().count(class) as u64 + self.slab_rest(class)
    }

    /// A chunk whose objects are worth moving. As large a part of it is dead as of the whole heap.
    /// The class has enough room elsewhere that moving wins a chunk in the end.
    ///
    /// The chunk's blocks on a shelf are room for moves. They are no reason to empty the chunk,
    /// unless other shelves have room for all its live objects. So each move leaves fewer dead
    /// blocks between objects, or fewer chunks on shelves, and gathering ends.
    async fn find_sparse(&self, op: &mut Operation) -> Result<Option<Sparse>, CacheError> {
        // So that the sum of the counts that are found includes this client's.
        self.publish_dead();
        let layout = self.client.pool.layout.clone();
        let before = self.dead_seen();
        let usable = u128::from(self.usable_heap_bytes());
        let mean = u128::from(self.dead_bytes()) * u128::from(layout.chunk_bytes) / usable;
        let mut classes = [ClassRoom::default(); CLASSES];
        for class in Class::all() {
            let at_hand = self.room_at_hand(class) * class.bytes();
            classes[class.index()] = ClassRoom { room: at_hand, ready: at_hand, best: None };
        }
        let mut shelved = HashMap::new();
        for (class, chunk, bytes) in self.all_shelved().await? {
            classes[class.index()].ready += bytes;
            shelved.insert(chunk, bytes);
        }
        let mut walk = Walk::from_anywhere(&self.client.endpoint, &layout);
        let mut found = 0;
        while let Some(some) = walk.next(&self.client.endpoint, &layout).await? {
            for (chunk, descriptor) in some {
                let class = u8::try_from(descriptor.contents).ok().and_then(Class::from_code);
                let dead_bytes = (descriptor.dead_bytes as i64).max(0) as u64;
                found += dead_bytes;
                let is_in_use = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
                let Some(class) = class.filter(|_| is_in_use) else { continue };
                let of_class = &mut classes[class.index()];
                of_class.room += dead_bytes;
                let live_bytes = (class.blocks(layout.chunk_bytes) * class.bytes()).saturating_sub(dead_bytes);
                let is_winning = shelved.get(&chunk).is_none_or(|rest| live_bytes + rest <= of_class.ready);
                let is_best = of_class.best.is_none_or(|best| best.dead_bytes < dead_bytes);
                if is_best && is_winning && dead_bytes > 0 && u128::from(dead_bytes) >= mean {
                    of_class.best = Some(Sparse { chunk, class, dead_bytes });
                }
            }
            let wins = |of_class: &ClassRoom| {
                let is_enough =
                    |best: &Sparse| of_class.room >= best.class.blocks(layout.chunk_bytes) * best.class.bytes();
                of_class.best.filter(is_enough)
            };
            if let Some(best) = classes.iter().filter_map(wins).max_by_key(|best| best.dead_bytes) {
                return Ok(Some(best));
            }
        }
        self.note_phantom(before, found);
        // Another look would find the same.
        op.notes.gathers_left = 0;
        Ok(None)
    }
}
