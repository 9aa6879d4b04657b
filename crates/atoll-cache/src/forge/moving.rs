//! How a client moves the objects that stay when their group leaves its queue, many at a time.
//!
//! | step | verbs | if the client stops here |
//! |---|---|---|
//! | read | one batch of READs, one for each stretch of adjacent records | nothing has changed |
//! | pack | none: the copies lie one behind the other, as the open group places them | the same |
//! | move | WRITE the copies in one piece, CAS each slot from record to copy | each object is in its old place or its new one |
//!
//! The last step is one batch if records and slots are on one node. Otherwise the client awaits the
//! WRITE first (see `nodes`). It writes a piece whole before any slot points into it. So a repairer
//! that reads the open group finds records without a gap. A record that no slot points to is dead.
//! A piece lies in one chunk: the client moves the packed copies before it closes their group.
//!
//! If a slot has changed meanwhile, the client leaves it alone and withdraws the place of the copy.

use super::addresses::Known;
use super::layout::Queue;
use super::leaving::{Leaver, LeavingGroup};
use super::nodes::Earlier;
use super::open_groups::{Fate, Place};
use super::slot::{KeyHash, RecordLength, Slot, UNIT_BYTES};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::index::copies::Sharing;
use crate::index::split::SplitWord;
use crate::index::{Index, SlotWord};
use crate::record::{self, Header, Record};
use arrayvec::ArrayVec;
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;
use atoll_pool::chunks::FreeCount;

/// Most bytes between two records of one stretch. A READ costs a NIC as much time as so many bytes
/// cost its link.
const GAP_BYTES_MAX: usize = 128;
/// Most bytes of a stretch, unless one record is longer. The limit bounds the client's own memory
/// for a batch of stretches.
const STRETCH_BYTES_MAX: usize = 16 << 10;
/// Most copies of a piece: its WRITE and their swaps are one batch.
const PIECE_OBJECTS_MAX: usize = BATCH_VERBS_MAX - 1;

/// Records that are READ by one verb.
struct Stretch {
    /// Bytes from the chunk's start.
    begin: usize,
    end: usize,
    /// The indices of the group's objects in it.
    objects: Vec<usize>,
}

/// A copy whose slot still points to the record.
struct Copy {
    object: usize,
    slot: u64,
    from: Slot,
    to: Slot,
    header: Header,
    place: Place,
}

/// Copies that will lie one behind the other in an open group. They are not written yet.
#[derive(Default)]
struct Piece {
    /// The place of the first copy.
    at: Option<Address>,
    bytes: Buffer,
    copies: ArrayVec<Copy, PIECE_OBJECTS_MAX>,
    /// Objects whose slots a split has changed, so that they are to be moved once more.
    again: Vec<Leaver>,
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Copies the objects that stay to the open group of `to` and points their slots there. An
    /// object that has expired, or for which there is no room, does not stay. Returns the objects
    /// that are to be moved once more.
    pub(super) async fn move_objects(
        &self,
        group: &LeavingGroup,
        leavers: &mut [Leaver],
        to: Queue,
    ) -> Result<Vec<Leaver>, CacheError> {
        let mut piece = Piece { bytes: self.spares.take(0), ..Piece::default() };
        for part in self.stretches(leavers).chunks(BATCH_VERBS_MAX) {
            let mut buffers = self.read_stretches(group, part).await?;
            for (stretch, buffer) in part.iter().zip(&mut buffers) {
                for &object in &stretch.objects {
                    let record = (stretch, &mut *buffer, object);
                    self.move_object(group, record, leavers, to, &mut piece).await?;
                }
            }
            buffers.into_iter().for_each(|buffer| self.spares.keep(buffer));
        }
        self.move_piece(group, &mut piece, leavers).await?;
        self.spares.keep(piece.bytes);
        Ok(piece.again)
    }

    /// The stretches in which the records of the objects that stay lie.
    fn stretches(&self, leavers: &[Leaver]) -> Vec<Stretch> {
        let bytes_max =
            STRETCH_BYTES_MAX.min(usize::try_from(self.client.endpoint.limits().verb_bytes_max).unwrap_or(usize::MAX));
        let mut stretches: Vec<Stretch> = Vec::new();
        for (object, leaver) in leavers.iter().enumerate().filter(|(_, leaver)| leaver.stays) {
            let Some((_, bytes, _)) = leaver.word.and_then(|word| self.record_span(word)) else { continue };
            let begin = leaver.entry.offset_units as usize * UNIT_BYTES as usize;
            let end = begin + bytes;
            match stretches.last_mut() {
                // The records of a damaged map may be in any order.
                Some(last)
                    if begin >= last.begin && begin <= last.end + GAP_BYTES_MAX && end - last.begin <= bytes_max =>
                {
                    last.end = last.end.max(end);
                    last.objects.push(object);
                }
                _ => stretches.push(Stretch { begin, end, objects: vec![object] }),
            }
        }
        stretches
    }

    /// The bytes of the stretches. There are at most as many stretches as a batch has verbs.
    async fn read_stretches(&self, group: &LeavingGroup, stretches: &[Stretch]) -> Result<Vec<Buffer>, CacheError> {
        let chunk = self.client.pool.layout.chunk(group.chunk);
        let mut batch = Batch::new();
        let mut buffers = Vec::with_capacity(stretches.len());
        for Stretch { begin, end, .. } in stretches {
            let mut buffer = self.spares.take(end - begin);
            match group.bytes.is_empty() {
                true => _ = batch.read(chunk.add(*begin as u64), buffer),
                false => {
                    buffer.bytes_mut().copy_from_slice(&group.bytes.bytes()[*begin..*end]);
                    buffers.push(buffer);
                }
            }
        }
        if group.bytes.is_empty() {
            self.client.endpoint.post(&mut batch).await?;
            buffers.extend((0..stretches.len()).map(|nth| batch.take_nth(nth)));
        }
        Ok(buffers)
    }

    /// Packs the copy of one object. If the open group has no more room, the packed copies are
    /// moved first.
    async fn move_object(
        &self,
        group: &LeavingGroup,
        (stretch, buffer, object): (&Stretch, &mut Buffer, usize),
        leavers: &mut [Leaver],
        to: Queue,
        piece: &mut Piece,
    ) -> Result<(), CacheError> {
        let leaver = leavers[object];
        let Some((word, (_, bytes, _))) = leaver.word.and_then(|word| Some((word, self.record_span(word)?))) else {
            return Ok(());
        };
        let begin = leaver.entry.offset_units as usize * UNIT_BYTES as usize;
        buffer.narrow(begin - stretch.begin, bytes);
        let sealed = self.sealed_tag(self.shared.format.tag_of(word));
        let Some(header) = Record::decode(buffer, &self.shared.hasher, sealed).map(|record| record.header) else {
            if self.is_open(Hole::EarlyReuse) {
                // Another client has written here since. With this hole open, the client does not
                // check that.
                return Ok(());
            }
            // The record is damaged: this client owns the chunk, so no other client can have reused
            // it.
            leavers[object].stays = false;
            return self.drop_damaged(self.slot_of_home(leaver.entry.slot), word).await;
        };
        let now_ns = self.client.endpoint.now_ns();
        if self.has_expired(&header, now_ns).await? {
            leavers[object].stays = false;
            return Ok(());
        }
        let record_bytes = header.record_bytes();
        let verb_bytes_max = self.client.endpoint.limits().verb_bytes_max;
        let is_long = piece.bytes.len() as u64 + record_bytes > verb_bytes_max && !piece.copies.is_empty();
        if piece.copies.is_full() || is_long || !self.has_room(to, record_bytes) {
            self.move_piece(group, piece, leavers).await?;
        }
        let hash = KeyHash::of_parts(word.fingerprint(), leaver.entry.more);
        let place = loop {
            if let Some(place) = self.take_place(to, (leaver.entry.slot, hash), leaver.carry, &header) {
                break place;
            }
            // The packed copies are moved before their group is closed.
            self.move_piece(group, piece, leavers).await?;
            let Some(chunk) = self.chunk_to_move_to().await? else {
                leavers[object].stays = false;
                return Ok(());
            };
            self.open_group(to, chunk).await?;
        };
        let layout = &self.client.pool.layout;
        let at = layout.chunk(place.chunk).add(place.offset_bytes);
        if piece.at.is_some_and(|begin| begin.add(piece.bytes.len() as u64) != at) {
            // Another operation of this client has the place behind the piece.
            self.move_piece(group, piece, leavers).await?;
        }
        piece.at.get_or_insert(at);
        let generation = self.sealed_tag(place.tag);
        let header = Header { number: place.number, generation, main: to == Queue::Main, ..header };
        record::append_copy(&mut piece.bytes, buffer, &self.shared.hasher, &header);
        let length = if header.large { RecordLength::LARGE } else { RecordLength::of(record_bytes) };
        let heap_offset = u64::from(place.chunk.0) * layout.chunk_bytes + place.offset_bytes;
        let copy = self.shared.format.live(word.fingerprint(), length, heap_offset, place.tag);
        // Copies of the object stay right.
        let to = copy.in_place_of(word).shared_as(word.sharing());
        piece.copies.push(Copy { object, slot: self.slot_of_home(leaver.entry.slot), from: word, to, header, place });
        Ok(())
    }

    /// A chunk for the objects that stay of a group, if there is one.
    async fn chunk_to_move_to(&self) -> Result<Option<(ChunkId, u32)>, CacheError> {
        let at_hand = self.stock.pop_aside();
        if at_hand.is_some() {
            return Ok(at_hand);
        }
        let count = if self.client.are_counts_estimated() { FreeCount::Distrusted } else { FreeCount::Trusted };
        self.allocate(count, 0).await
    }

    /// Writes the packed copies and points the slots there. Leaves the piece empty.
    async fn move_piece(
        &self,
        group: &LeavingGroup,
        piece: &mut Piece,
        leavers: &mut [Leaver],
    ) -> Result<(), CacheError> {
        let Some(at) = piece.at.take() else { return Ok(()) };
        let slots: ArrayVec<Address, PIECE_OBJECTS_MAX> =
            piece.copies.iter().map(|copy| self.slot_at(copy.slot)).collect();
        let is_in_order = slots.iter().all(|slot| self.is_in_order(at, *slot));
        let bytes = std::mem::take(&mut piece.bytes);
        let bytes = if is_in_order { bytes } else { Box::pin(self.write_first(at, bytes)).await? };
        let mut batch = Batch::new();
        let written = Earlier::add(&mut batch, at, bytes, is_in_order);
        let swaps: ArrayVec<_, PIECE_OBJECTS_MAX> = piece
            .copies
            .iter()
            .zip(&slots)
            .map(|(copy, slot)| batch.compare_and_swap(*slot, copy.from.0, copy.to.0))
            .collect();
        let begun_ns = self.client.endpoint.now_ns();
        self.client.endpoint.post(&mut batch).await?;
        let mut bytes = written.take(&mut batch);
        let first = piece.copies.first().map_or(0, |copy| copy.place.offset_bytes);
        let mut failed = ArrayVec::<_, PIECE_OBJECTS_MAX>::new();
        for (copy, swap) in piece.copies.drain(..).zip(swaps).rev() {
            if batch.swapped(swap) {
                self.stats.regroups.add(1);
                let extent_bytes = if copy.header.large { copy.header.body_bytes() as u64 } else { 0 };
                self.settle_place(&copy.place, &copy.header, Fate::Published { extent_bytes });
                // The key of a large object is not in its record.
                if !copy.header.large {
                    let record = &bytes.bytes()[(copy.place.offset_bytes - first) as usize..];
                    let key = &record[copy.header.key_at()..copy.header.value_at()];
                    self.follow(key, copy.from, Known::of(copy.slot, copy.to, &copy.header), begun_ns);
                }
                continue;
            }
            failed.push((copy.object, copy.from, Slot(batch.word(swap))));
            self.settle_place(&copy.place, &copy.header, Fate::Withdrawn);
        }
        bytes.resize(0);
        piece.bytes = bytes;
        for (object, from, seen) in failed {
            let leaver = &mut leavers[object];
            leaver.word = self.word_here(seen, group, &leaver.entry);
            if leaver.word.is_some() {
                leaver.word = self.warm_word((group.chunk, group.state.generation), &leaver.entry, seen).await?;
            }
            // If another client has replaced or removed the object, this client neither moves nor
            // evicts it.
            // The bucket was split, or the state of the object's copies has changed.
            let bare = |word: Slot| word.moved_to(0).shared_as(Sharing::None);
            let is_split = leaver.word.is_some_and(|word| bare(word) == bare(from));
            if is_split {
                piece.again.push(*leaver);
            }
            leaver.stays = leaver.word.is_none() || is_split;
        }
        Ok(())
    }
}
