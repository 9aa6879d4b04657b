//! How live objects move into other blocks of their class.
//!
//! A move is one compare-and-swap of the slot, from the word that names the old block to the word
//! that names the new one. A copy has its object's token and the new block's tag.

use crate::CacheError;
use crate::index::SlotWord;
use crate::index::examine::drop_if_damaged;
use crate::record::Record;
use crate::table::Core;
use crate::table::class::Class;
use crate::table::drain::{Blocks, Naming};
use crate::table::held::Held;
use crate::table::operation::Operation;
use crate::table::slot::{KeyHash, Slot};
use arrayvec::ArrayVec;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Ticket};
use atoll_pool::ChunkId;

/// Objects moved in one batch: each takes up to three verbs.
const MOVES_AT_ONCE: usize = 8;

/// An object on its way into another block.
struct Move {
    naming: Naming,
    held: Held,
    tag: u16,
    at: Address,
    record: Buffer,
    word: Slot,
}

/// The outcome of moving the objects of a chunk.
#[derive(Default)]
pub(in crate::table) struct Moved {
    /// Whether no object changed meanwhile.
    pub(in crate::table) are_same: bool,
    /// Numbers of the blocks whose objects have moved.
    pub(in crate::table) numbers: Vec<usize>,
    /// Objects for which there was no room.
    pub(in crate::table) left: Vec<Naming>,
}

impl<E: Endpoint> Core<E> {
    /// Moves the objects that slots name in a chunk, which this client empties, into other blocks.
    /// `contents` is the chunk as it was READ.
    pub(in crate::table) async fn move_objects(
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
            if blocks.images[naming.number].tag() != Some(naming.word.tag()) {
                // The slot changed between the looks at the chunk and at the slot, or the object is
                // damaged.
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

    /// The copy of an object's record for another block. `None` if the bytes there are not the
    /// slot's own record.
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
        let words: ArrayVec<u64, { crate::table::settings::EXTENSION_WORDS_MAX as usize }> =
            contents.words().iter().copied().collect();
        contents.narrow(start + extension, class.bytes() as usize - extension);
        let record = Record::decode(contents, &self.shared.hasher, 0)?;
        let (header, large) = (record.header, record.large());
        if header.large != naming.word.is_large() || header.generation != naming.word.tag() {
            return None;
        }
        let hash = large.map_or_else(|| self.shared.hasher.hash(record.key), |body| body.key_hash);
        let hash = KeyHash::new(hash, self.shared.settings.buckets);
        let value = match header.large {
            true => &[],
            false => &contents.bytes()[record.value_at..record.value_at + header.value_bytes],
        };
        let word =
            self.encode(op, hash, record.key, value, &header, large.as_ref(), &words, (held.block, held.class, tag));
        // Copies of the object stay right.
        let word = word.shared_as(naming.word.sharing());
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
            self.publish_won(&mut batch, copy.held, copy.at).await?;
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
