//! How live objects are gathered, so that nothing is evicted while much of the memory is dead.
//!
//! A chunk that is mostly dead is emptied as `drain` says, but for one step: its objects are not
//! evicted but moved into other blocks of their class. A move is one compare-and-swap of the slot,
//! from the word that names the old block to the word that names the new one.
//!
//! | step | verbs |
//! |---|---|
//! | find a chunk of which much is dead | READ the shelves; READ descriptors |
//! | own it, and look at it | see `drain` |
//! | its dead blocks | CAS the slots -> empty, as there |
//! | its objects, some at a time: find blocks | at hand; of a shelf; of a free chunk; dead ones that other slots name |
//! | copy them there | WRITE the records, WRITE the cells of blocks that were taken, CAS the slots |
//! | the rest | see `drain` |
//!
//! A copy has its object's token and the new block's tag. A client that read the old word and swaps
//! it afterwards fails, and looks again. A reader of the old block gets a whole record until the
//! chunk is used anew. A client that dies between WRITE and swap leaves the new block without a
//! name, as a writer does, and the chunk as its own. A repairer goes on with both.
//!
//! **What stays.** A writer evicts for memory only while less than a tenth of the heap is dead.
//! While more is dead, the last few free chunks are left to moves. So objects stay while their
//! blocks take at most [`HELD_PERCENT`] of the heap. The rest is for blocks that clients have in
//! hand, chunks that they cut, one chunk of each class that is not full, and counts that lag
//! behind.
//!
//! **Share of the capacity.** The heap is the capacity without the metadata. Each slot of the index
//! takes 48 bytes, and the index has two slots for each expected object, of ditto and kvs. With
//! objects of `m` bytes expected the index takes `96 / m` of the capacity: 30 % with the default of
//! 320, 9 % with 1024. So the promise holds for 56 % of the capacity with the default, and for 72 %
//! with 1024. A block exceeds its record by at most a quarter, or by less than 64 bytes. That
//! counts as in use.
//!
//! **What else lets an object go.** A bucket of the index may be full. About one insertion in a
//! million meets that with the default, and one in twenty thousand where far larger objects are
//! expected. A client that stands still keeps the blocks that it has in hand, and the chunks that
//! they lie in: at most 32. In a pool that became smaller the share is of the chunks that are left,
//! once a client has seen enough of them, a second later.

use super::class::{CLASSES, Class};
use super::drain::{Blocks, DRAINS_MAX, DrainLook, Keeps, Naming};
use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::stock::Held;
use super::{Core, TablePool};
use crate::CacheError;
use crate::index::examine::drop_if_damaged;
use crate::record::{HEADER_BYTES, Record};
use arrayvec::ArrayVec;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Ticket};
use atoll_pool::chunks::Walk;
use atoll_pool::{ChunkId, ChunkState};
use std::collections::HashMap;

/// Objects stay while their blocks are at most so much of the heap, in percent: see the module
/// `gather`.
pub const HELD_PERCENT: u64 = 80;
/// Chunks that are tried, where other clients are faster.
const CLAIMS_MAX: u32 = 8;
/// Looks for a block to move an object into.
const LOOKS_FOR_ROOM: u32 = 8;
/// Chunks with dead blocks of a class that are looked at for one of them.
const CHUNKS_FOR_ROOM: u32 = 4;
/// Objects moved in one batch: each takes up to three verbs.
const MOVES_AT_ONCE: usize = 8;
/// Random buckets in which a dead block is looked for at once.
const BUCKETS_AT_ONCE: usize = 8;
/// One chunk in so many is left to moves, and at most so many.
const RESERVE_SHARE: u32 = 32;
const RESERVE_MAX: u32 = 8;
/// Chunks that are emptied at most for one block or chunk that is wanted, in case that what they
/// give is taken by others each time.
pub(super) const GATHERS_MAX: u32 = 64;

/// A chunk that is worth emptying.
#[derive(Clone, Copy, Debug)]
struct Sparse {
    chunk: ChunkId,
    class: Class,
    dead_bytes: u64,
}

/// What is known of the chunks of a class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassRoom {
    /// Bytes of dead blocks in chunks that were looked at, and of blocks at hand.
    room: u64,
    /// Bytes of blocks at hand and on shelves.
    ready: u64,
    /// The chunk of which most is dead, of those worth emptying.
    best: Option<Sparse>,
}

/// An object on its way into another block.
struct Move {
    naming: Naming,
    held: Held,
    tag: u16,
    at: Address,
    record: Buffer,
    word: Slot,
}

/// What became of the objects of a chunk.
#[derive(Default)]
pub(super) struct Moved {
    /// Whether none of them changed meanwhile.
    pub(super) are_same: bool,
    /// Numbers of the blocks whose objects have moved.
    pub(super) numbers: Vec<usize>,
    /// Those for which there was no room.
    pub(super) left: Vec<Naming>,
}

impl TablePool {
    /// Bytes of the heap that a small object takes, its part of what is left over at its chunk's
    /// end included; of a large one those of its record and its chunks. Where a pool was full of
    /// other sizes before, an object may lie in a block that is up to a quarter longer.
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

    /// Gathers what lives if few chunks are free and much is dead; whether it began to.
    pub(super) async fn gather_if_scarce(&self, op: &mut Operation) -> Result<bool, CacheError> {
        let (is_sparse, free) = self.look_at_memory().await?;
        if !is_sparse || free > self.reserve() {
            return Ok(false);
        }
        self.gather(op).await
    }

    /// Begins to empty a chunk of which much is dead, if there is one; whether it did. The chunk
    /// may be free at once.
    pub(super) async fn gather(&self, op: &mut Operation) -> Result<bool, CacheError> {
        for _ in 0..CLAIMS_MAX {
            if self.chunks_on_their_way() >= 2 * DRAINS_MAX || op.notes.gathers_left == 0 || !self.is_sparse() {
                break;
            }
            op.notes.gathers_left -= 1;
            let Some(sparse) = self.find_sparse(op).await? else { break };
            let blocks = sparse.class.blocks(self.client.pool.layout.chunk_bytes);
            let live = blocks.saturating_sub(sparse.dead_bytes / sparse.class.bytes());
            if live > self.room_at_hand(sparse.class) && self.chunks.borrow().is_empty() {
                // Without one, what moves finds room among other chunks' dead blocks.
                self.allocate_chunk(1).await?;
            }
            if self.claim_chunk(sparse.chunk, Keeps::Objects).await? {
                // Free, so that there is one for the next moves, whoever makes them.
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

    /// A chunk whose objects are worth moving: as large a part of it is dead as of the whole heap,
    /// and the class has so much room elsewhere that a chunk is won in the end.
    ///
    /// What a shelf names of a chunk is room for moves, and counts as no reason to empty the chunk,
    /// unless other shelves have room for all that lives there. So each move makes fewer blocks lie
    /// dead between objects, or fewer chunks be on shelves, and gathering ends.
    async fn find_sparse(&self, op: &mut Operation) -> Result<Option<Sparse>, CacheError> {
        // So that the sum of what is found is that of all.
        self.tell_dead();
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

    /// Moves the objects that slots name in a chunk, which this client empties, into other blocks.
    /// `contents` is the chunk as it was READ.
    pub(super) async fn move_objects(
        &self,
        op: &mut Operation,
        chunk: ChunkId,
        blocks: &Blocks,
        contents: &mut Buffer,
        named: Vec<Naming>,
    ) -> Result<Moved, CacheError> {
        let mut moved = Moved { are_same: true, ..Moved::default() };
        let Some(class) = blocks.class else { return Ok(Moved { left: named, ..moved }) };
        let (mut moves, mut has_room) = (Vec::with_capacity(MOVES_AT_ONCE), true);
        for naming in named {
            if blocks.lying[naming.number].tag() != Some(naming.word.tag()) {
                // The slot was changed between the looks at the chunk and at the slot, or the
                // object is damaged.
                drop_if_damaged(self, op, naming.slot, naming.word).await?;
                moved.are_same = false;
                continue;
            }
            let mut room = self.block_at_hand(class).await?;
            if room.is_none() && has_room {
                self.publish_moves(&mut moves, &mut moved).await?;
                has_room = self.find_room(class, chunk).await?;
                room = self.block_at_hand(class).await?;
            }
            let Some((held, tag)) = room else {
                moved.left.push(naming);
                continue;
            };
            match self.copy_of(op, naming, class, contents, (held, tag)) {
                Some(copy) => moves.push(copy),
                None => {
                    self.keep(held, held.tag);
                    moved.are_same = false;
                }
            }
            if moves.len() == MOVES_AT_ONCE {
                self.publish_moves(&mut moves, &mut moved).await?;
            }
        }
        self.publish_moves(&mut moves, &mut moved).await?;
        Ok(moved)
    }

    /// A block at hand with the tag of its next record.
    async fn block_at_hand(&self, class: Class) -> Result<Option<(Held, u16)>, CacheError> {
        while let Some(held) = self.pop_block(class) {
            if let Some(tag) = self.tag_for(held).await? {
                return Ok(Some((held, tag)));
            }
        }
        Ok(None)
    }

    /// Makes sure that a block of a class is at hand, if there is one that is not in `chunk`. Not
    /// while a block is between the stock and a slot.
    async fn find_room(&self, class: Class, chunk: ChunkId) -> Result<bool, CacheError> {
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
            // A client that leaves would have to put the rest of another chunk back.
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

    /// Begins to cut a free chunk, if one may be had; whether it did.
    async fn open_another(&self, class: Class) -> Result<bool, CacheError> {
        let has_chunk = !self.chunks.borrow().is_empty();
        Ok((has_chunk || self.allocate_chunk(1).await?) && self.open_slab(class).await?)
    }

    /// Takes a dead block of a class that lies in a chunk other than this one; whether it did.
    /// Where few objects are of the class, a look at random buckets seldom finds one: a chunk's
    /// records tell the buckets.
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

    /// Takes a dead block that slots name in a chunk; whether it did.
    async fn take_dead_of(&self, chunk: ChunkId) -> Result<bool, CacheError> {
        let blocks = self.blocks(chunk).await?;
        let all: Vec<usize> = (0..blocks.lying.len()).collect();
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

    /// Takes a dead block of a class that a slot of some random buckets names, and that is not in a
    /// chunk; whether it did.
    pub(super) async fn take_dead(&self, class: Class, not_in: Option<ChunkId>) -> Result<bool, CacheError> {
        let mut batch = Batch::new();
        let mut buckets = ArrayVec::<u32, BUCKETS_AT_ONCE>::new();
        for _ in 0..BUCKETS_AT_ONCE.min(self.client.endpoint.limits().batch_verbs_max) {
            let bucket = (self.client.endpoint.random() % u64::from(self.shared.settings.buckets)) as u32;
            let mut slots = self.spares.take(0);
            slots.resize(super::layout::SLOTS_BYTES as usize);
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
                    found = Some((u64::from(*bucket) * super::layout::BUCKET_SLOTS as u64 + place as u64, word));
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

    /// The copy of an object's record for another block. `None` if what lies there is not the
    /// slot's own.
    fn copy_of(
        &self,
        op: &mut Operation,
        naming: Naming,
        class: Class,
        contents: &mut Buffer,
        to: (Held, u16),
    ) -> Option<Move> {
        let (held, tag) = to;
        let (start, extension) = (naming.number * class.bytes() as usize, self.extension_bytes());
        contents.narrow(start, extension);
        let words: ArrayVec<u64, { super::settings::EXTENSION_WORDS_MAX as usize }> =
            contents.words().iter().copied().collect();
        contents.narrow(start + extension, class.bytes() as usize - extension);
        let record = Record::decode(contents, &self.shared.hasher)?;
        let (header, large) = (record.header, record.large());
        if header.large != naming.word.is_large() || header.generation != naming.word.tag() {
            return None;
        }
        let hash = large.map_or_else(|| self.shared.hasher.hash(record.key), |body| body.key_hash);
        let hash = KeyHash::new(hash, self.shared.settings.buckets);
        let value = match header.large {
            true => &[],
            false => &contents.bytes()[HEADER_BYTES + header.key_bytes..HEADER_BYTES + header.body_bytes()],
        };
        let word =
            self.encode(op, hash, record.key, value, &header, large.as_ref(), &words, (held.block, held.class, tag));
        let (at, record) = self.outgoing_record(op, held.block)?;
        Some(Move { naming, held, tag, at, record, word })
    }

    /// WRITEs copies and swaps the slots.
    async fn publish_moves(&self, moves: &mut Vec<Move>, moved: &mut Moved) -> Result<(), CacheError> {
        if moves.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        let mut are_in_order = true;
        for copy in &mut *moves {
            self.tell_won(&mut batch, copy.held, copy.at).await?;
            batch.write(copy.at, std::mem::take(&mut copy.record));
            are_in_order &= self.is_in_order(copy.at, self.shared.layout.slot(copy.naming.slot));
        }
        if !are_in_order || !moves.iter().all(|copy| copy.at.node() == moves[0].at.node()) {
            self.client.endpoint.post(&mut batch).await?;
            batch.clear();
        }
        let swap = |copy: &Move| {
            batch.compare_and_swap(self.shared.layout.slot(copy.naming.slot), copy.naming.word.0, copy.word.0)
        };
        let swaps: Vec<Ticket> = moves.iter().map(swap).collect();
        self.client.endpoint.post(&mut batch).await?;
        for (copy, swap) in moves.drain(..).zip(swaps) {
            if batch.swapped(swap) {
                self.published(copy.held).await?;
                moved.numbers.push(copy.naming.number);
                self.stats.regroups.add(1);
            } else {
                self.keep(copy.held, copy.tag);
                moved.are_same = false;
            }
        }
        Ok(())
    }
}
