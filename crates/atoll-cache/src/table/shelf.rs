//! Shelves: chunks with blocks that nothing has named yet, for all clients.
//!
//! A client that stops cutting a chunk puts the rest on a shelf of its class. A client that needs a
//! block of a class that it does not cut itself takes the next block from there. So a rare class
//! costs one chunk, and not one chunk a client.
//!
//! ```text
//! 63           48 47          32 31                    0
//! +--------------+--------------+------------------------+
//! | tag 16       | next 16      | chunk + 1, 0 for none  |
//! +--------------+--------------+------------------------+
//! ```
//!
//! A shelf names all blocks of its chunk from `next` on. Each has a dead record with the tag, like
//! a dead block that a slot names. So `cell` and `settle` treat it as a dead block: a client WRITEs
//! a cell first and takes the block by one compare-and-swap.
//!
//! | step | verbs |
//! |---|---|
//! | make the rest of an Open chunk dead blocks | WRITE |
//! | put it on a shelf | READ the class's shelves; CAS 0 -> word |
//! | the chunk is in use | CAS Open -> Queued |
//! | take a block | WRITE cell; CAS word -> the next, or 0 |
//! | the drainer of the chunk, before it looks which clients have blocks | CAS word -> 0 |

use super::Core;
use super::class::{CLASSES, Class};
use super::held::Held;
use super::operation::Operation;
use super::slot::Block;
use crate::CacheError;
use arrayvec::ArrayVec;
use atoll_fabric::{Batch, Buffer, Endpoint, Ticket};
use atoll_pool::ChunkId;
use std::collections::HashMap;

/// Shelves of a class.
pub const SHELVES: usize = 4;

/// The content of a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// The chunk.
    pub chunk: ChunkId,
    /// The first of its blocks that the shelf names, counted from 0.
    pub next: u16,
    /// The tag of these blocks.
    pub tag: u16,
}

impl Shelf {
    /// The shelf as a word.
    pub fn word(self) -> u64 {
        u64::from(self.tag) << 48 | u64::from(self.next) << 32 | (u64::from(self.chunk.0) + 1)
    }

    /// Decodes a word; `None` for an empty shelf.
    pub fn from_word(word: u64) -> Option<Self> {
        let chunk = ChunkId((word as u32).checked_sub(1)?);
        Some(Self { chunk, next: (word >> 32) as u16, tag: (word >> 48) as u16 })
    }

    /// The word once the shelf's next block is taken, if a chunk has `blocks` blocks.
    fn without_next(self, blocks: u64) -> u64 {
        let rest = Self { next: self.next + 1, ..self };
        if u64::from(rest.next) < blocks { rest.word() } else { 0 }
    }
}

/// The words of a class's shelves, as they were READ.
pub(super) type Shelves = [u64; SHELVES];

impl<E: Endpoint> Core<E> {
    fn blocks_of(&self, class: Class) -> u64 {
        class.blocks(self.client.pool.layout.chunk_bytes)
    }

    /// READs a class's shelves.
    pub(super) async fn shelves(&self, class: Class) -> Result<Shelves, CacheError> {
        let mut batch = Batch::new();
        let read = self.read_shelves(&mut batch, class);
        self.client.endpoint.post(&mut batch).await?;
        Ok(Self::shelves_read(&batch.take(read)))
    }

    /// Adds a READ of a class's shelves to a batch.
    pub(super) fn read_shelves(&self, batch: &mut Batch, class: Class) -> Ticket {
        let mut buffer = Buffer::new();
        buffer.resize(8 * SHELVES);
        batch.read(self.shared.layout.shelves(class), buffer)
    }

    /// Decodes the words that such a READ returned.
    pub(super) fn shelves_read(buffer: &Buffer) -> Shelves {
        let mut shelves = [0; SHELVES];
        shelves.copy_from_slice(&buffer.words()[..SHELVES]);
        shelves
    }

    /// Puts the rest of a chunk, which this client owns as Open, on a shelf of its class; `false`
    /// if all shelves are in use. No client has a block of it from `next` on.
    pub(super) async fn shelve(&self, op: &mut Operation, class: Class, shelf: Shelf) -> Result<bool, CacheError> {
        let layout = self.client.pool.layout.clone();
        self.encode_dead(op, 0, shelf.tag);
        let (bytes, blocks) = (class.bytes() as usize, self.blocks_of(class) as usize);
        let count = blocks - usize::from(shelf.next);
        let record = std::mem::take(&mut op.outgoing);
        let mut rest = self.spares.take(count * bytes);
        rest.words_mut().fill(0);
        for block in rest.words_mut().chunks_mut(bytes / 8) {
            block[..record.words().len()].copy_from_slice(record.words());
        }
        op.outgoing = record;
        let mut batch = Batch::new();
        let written = batch.write(layout.chunk(shelf.chunk).add(u64::from(shelf.next) * class.bytes()), rest);
        // Awaited: a client that takes a block trusts its record.
        self.client.endpoint.post(&mut batch).await?;
        self.spares.keep(batch.take(written));
        let shelves = self.shelves(class).await?;
        for (index, _) in shelves.iter().enumerate().filter(|(_, word)| **word == 0) {
            let mut batch = Batch::new();
            let at = self.shared.layout.shelf(class, index as u64);
            let swap = batch.compare_and_swap(at, 0, shelf.word());
            self.client.endpoint.post(&mut batch).await?;
            if batch.swapped(swap) {
                self.note_dead(self.block_of(shelf.chunk, class, shelf.next.into()), class, count as i64);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a block from one of a class's shelves into the stock. `shelves` is how they were seen.
    /// `None` if there is no block, `false` if another client was faster.
    pub(super) async fn take_shelved(&self, class: Class, seen: &Shelves) -> Result<Option<bool>, CacheError> {
        let full: ArrayVec<usize, SHELVES> = (0..SHELVES).filter(|index| seen[*index] != 0).collect();
        if full.is_empty() {
            return Ok(None);
        }
        let index = full[self.client.endpoint.random() as usize % full.len()];
        let at = self.shared.layout.shelf(class, index as u64);
        let (word, mut batch) = (seen[index], Batch::new());
        if let Some(shelf) = Shelf::from_word(word)
            && shelf.chunk.0 >= self.client.pool.layout.chunks()
        {
            self.client.learn_nodes().await?;
        }
        let Some((held, then)) = self.next_of(class, word) else {
            // No client wrote it. No client can use what it names, and no repair finds it.
            batch.compare_and_swap(at, word, 0);
            self.client.endpoint.post(&mut batch).await?;
            return Ok(Some(false));
        };
        let Some(taking) = self.begin_taking_at(&mut batch, at, held).await? else { return Ok(None) };
        let swap = batch.compare_and_swap(at, word, then);
        self.post_taking(&mut batch, taking).await?;
        let taken = self.end_taking(taking, batch.swapped(swap));
        if let Some(held) = taken {
            self.note_dead(held.block, class, -1);
            self.stock.borrow_mut().put(held);
        }
        Ok(Some(taken.is_some()))
    }

    /// The next block that a shelf names, and the shelf's word after it is taken; `None` if the
    /// word is damaged.
    fn next_of(&self, class: Class, word: u64) -> Option<(Held, u64)> {
        let shelf = self.sound_shelf(class, word)?;
        let block = self.block_of(shelf.chunk, class, shelf.next.into());
        Some((Held { block, class, tag: shelf.tag, cell: None }, shelf.without_next(self.blocks_of(class))))
    }

    /// Decodes a shelf of a class, if a client may have written the word.
    pub(super) fn sound_shelf(&self, class: Class, word: u64) -> Option<Shelf> {
        let is_sound = |shelf: &Shelf| {
            shelf.chunk.0 < self.client.pool.layout.chunks()
                && u64::from(shelf.next) < self.blocks_of(class)
                && shelf.tag & !self.shared.settings.tag_mask == 0
        };
        Shelf::from_word(word).filter(is_sound)
    }

    /// Takes a chunk, which this client empties, from its shelf.
    pub(super) async fn unshelve(&self, chunk: ChunkId, class: Class) -> Result<(), CacheError> {
        let names = |word: &u64| Shelf::from_word(*word).is_some_and(|shelf| shelf.chunk == chunk);
        loop {
            let shelves = self.shelves(class).await?;
            let Some(index) = shelves.iter().position(names) else { return Ok(()) };
            let mut batch = Batch::new();
            // A swap that fails is retried: another client has taken a block, and their number is
            // limited.
            let at = self.shared.layout.shelf(class, index as u64);
            let swap = batch.compare_and_swap(at, shelves[index], 0);
            self.client.endpoint.post(&mut batch).await?;
            if batch.swapped(swap)
                && let Some(shelf) = self.sound_shelf(class, shelves[index])
            {
                let rest = self.blocks_of(class) - u64::from(shelf.next);
                self.note_dead(self.block_of(chunk, class, shelf.next.into()), class, -(rest as i64));
            }
        }
    }

    /// Blocks that shelves name: the class, the chunk, and the bytes of its blocks there.
    pub(super) async fn all_shelved(&self) -> Result<Vec<(Class, ChunkId, u64)>, CacheError> {
        let (mut shelved, mut words) = (Vec::new(), Buffer::new());
        words.resize(8 * SHELVES * CLASSES);
        let first = Class::all().next().expect("there are classes");
        let words = self.client.endpoint.read(self.shared.layout.shelves(first), words).await?;
        for (class, words) in Class::all().zip(words.words().chunks(SHELVES)) {
            for shelf in words.iter().filter_map(|word| self.sound_shelf(class, *word)) {
                let rest = self.blocks_of(class) - u64::from(shelf.next);
                shelved.push((class, shelf.chunk, rest * class.bytes()));
            }
        }
        Ok(shelved)
    }

    /// Dead bytes of every chunk whose blocks a shelf names.
    pub(super) async fn dead_on_shelves(&self) -> Result<HashMap<ChunkId, u64>, CacheError> {
        let mut dead = HashMap::new();
        for (_, chunk, bytes) in self.all_shelved().await? {
            *dead.entry(chunk).or_default() += bytes;
        }
        Ok(dead)
    }

    /// The blocks of a chunk that a shelf names.
    pub(super) async fn shelved_blocks(&self, chunk: ChunkId, class: Class) -> Result<Vec<Block>, CacheError> {
        let shelves = self.shelves(class).await?;
        let of_chunk = shelves.iter().filter_map(|word| Shelf::from_word(*word)).filter(|shelf| shelf.chunk == chunk);
        let blocks = self.blocks_of(class) as usize;
        let named = of_chunk.flat_map(|shelf| usize::from(shelf.next)..blocks);
        Ok(named.map(|number| self.block_of(chunk, class, number)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_says_what_was_put_on_it_until_the_last_block_is_taken() {
        let shelf = Shelf { chunk: ChunkId(u32::MAX - 1), next: 1022, tag: 0xfffe };
        assert_eq!(Shelf::from_word(shelf.word()), Some(shelf));
        assert_eq!(Shelf::from_word(shelf.without_next(1024)), Some(Shelf { next: 1023, ..shelf }));
        assert_eq!(Shelf { next: 1023, ..shelf }.without_next(1024), 0);
        assert_eq!((Shelf::from_word(0), Shelf::from_word(7 << 32)), (None, None));
    }
}
