//! Groups: a client fills one chunk at a time for each queue, and closes it when it is full.
//!
//! ```text
//! a group's chunk    0                                                               chunk_bytes
//!                    +----------+----------+----------+- - - -+---------+---------+---------+
//!                    | record 0 | record 1 | record 2 |       | entry 2 | entry 1 | entry 0 |
//!                    +----------+----------+----------+- - - -+---------+---------+---------+
//!
//! an entry of the two-way index map    63        30 29      18 17   16 15   15 14        7 6        0
//!                                      +------------+----------+-------+-------+-----------+----------+
//!                                      | slot number| offset,  | carry | large |  finger-  | more of  |
//!                                      |     34     | units 12 |   2   |   1   |  print 8  | the hash |
//!                                      +------------+----------+-------+-------+-----------+----------+
//!
//! descriptor word 1    objects 16 | queue 1 | units of all records 13 (from bit 0 up)
//! descriptor word 3    when a quarter of the bytes has expired 32 | when the next object expires 32
//!                      both the low bits of ms, no more than 24 days ahead; 0: never. Atomics only once the group is queued
//! ```
//!
//! Records are written as they come, without a gap; the map is kept at home and written when the
//! group closes, one WRITE for all: an eviction is the only reader, and if the client dies before,
//! a repair makes the map anew from the records. `carry` is the frequency that an object brings
//! from an earlier group. Where a record ends the next one begins, so that an entry and its
//! neighbour tell every bit of the slot's word while that points to the record: an evictor can swap
//! a slot that it has not READ.
//!
//! Invariants: only its owner writes to an open chunk; a record that a live slot ever pointed to is
//! never overwritten before the chunk's generation has gone up; a record that never became live may
//! be overwritten by its owner.

use super::Forge;
use super::layout::Queue;
use super::nodes::Earlier;
use super::open_groups::{ClosedGroup, Fate, OpenGroup, Place};
use super::ring::Node;
use super::slot::{GHOST_MORE_MAX, KeyHash, UNIT_BYTES};
use super::technique::Technique;
use crate::CacheError;
use crate::record::Header;
use atoll_fabric::purpose::Scope;
use atoll_fabric::{Batch, Endpoint, Intent, Purpose};
use atoll_pool::{Chunk, ChunkId, ChunkState};

/// Of records that are no more than one part in so many of a chunk, every second that dies is
/// counted, for two: an atomic costs a NIC about four READs, and a group worth cleaning has at
/// least eight such records dead.
const DEAD_SAMPLED_ONE_IN: u64 = 32;
/// A client's step from one dead record to the next: the golden ratio's fraction, whose multiples
/// follow no period that a load may have.
const DEAD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// An entry of the two-way index map: from an object in a group back to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// The slot's number: bucket * 16 + place.
    pub slot: u64,
    /// The record's offset in the chunk, in units.
    pub offset_units: u16,
    /// Frequency brought along, at most 3.
    pub carry: u8,
    /// Whether the object has extents.
    pub large: bool,
    /// The key's fingerprint.
    pub fingerprint: u8,
    /// The hash bits that a ghost has besides.
    pub more: u16,
}

impl MapEntry {
    /// The entry as a word.
    pub fn word(self) -> u64 {
        self.slot << 30
            | u64::from(self.offset_units & 0xfff) << 18
            | u64::from(self.carry.min(3)) << 16
            | u64::from(self.large) << 15
            | u64::from(self.fingerprint) << 7
            | u64::from(self.more & GHOST_MORE_MAX)
    }

    /// That of a record that was never written.
    pub(super) fn of_nothing(offset_units: u16) -> Self {
        Self { slot: 0, offset_units, carry: 0, large: false, fingerprint: 0, more: 0 }
    }

    /// The entry of a word; every word is one, and its fields are to be checked against the pool.
    pub fn from_word(word: u64) -> Self {
        Self {
            slot: word >> 30,
            offset_units: (word >> 18) as u16 & 0xfff,
            carry: (word >> 16) as u8 & 3,
            large: word & 1 << 15 != 0,
            fingerprint: (word >> 7) as u8,
            more: word as u16 & GHOST_MORE_MAX,
        }
    }
}

const USED_UNITS_MAX: u16 = 0x1fff;

/// What descriptor word 1 says of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Objects written to it.
    pub objects: u16,
    /// The queue that it was made for.
    pub queue: Queue,
    /// Where the last record ends, in units.
    pub used_units: u16,
}

impl Contents {
    pub(super) fn word(self) -> u64 {
        u64::from(self.objects) | (self.queue as u64) << 16 | u64::from(self.used_units & USED_UNITS_MAX) << 17
    }

    /// Bytes of all records, dead ones included; all of the chunk if the word says nothing that can
    /// be.
    pub(super) fn used_bytes(self, chunk_bytes: u64) -> u64 {
        let bytes = u64::from(self.used_units) * UNIT_BYTES;
        if bytes == 0 || bytes > chunk_bytes { chunk_bytes } else { bytes }
    }

    /// What a word says.
    pub fn from_word(word: u64) -> Self {
        let queue = if word & 1 << 16 == 0 { Queue::Small } else { Queue::Main };
        Self { objects: word as u16, queue, used_units: (word >> 17) as u16 & USED_UNITS_MAX }
    }
}

/// What descriptor word 3 says of a group: the low bits of times in ms, 0 for never. A time is
/// noted as at most half of what 32 bits can tell apart ahead; when that has come, a later one is
/// noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expiry {
    /// When a quarter of the bytes, extents included, has expired: what makes a group worth
    /// cleaning.
    pub(super) quarter: u32,
    /// When the next object expires that has not been swept.
    pub(super) next: u32,
}

impl Expiry {
    const AHEAD_MS_MAX: u64 = i32::MAX as u64;

    pub(super) fn word(self) -> u64 {
        u64::from(self.quarter) << 32 | u64::from(self.next)
    }

    pub(super) fn from_word(word: u64) -> Self {
        Self { quarter: (word >> 32) as u32, next: word as u32 }
    }

    /// How a time is noted at `now_ms`.
    pub(super) fn time(ms: Option<u64>, now_ms: u64) -> u32 {
        ms.map_or(0, |ms| (ms.min(now_ms.saturating_add(Self::AHEAD_MS_MAX)) as u32).max(1))
    }

    /// Whether a noted time has come.
    pub(super) fn is_over(time: u32, now_ms: u64) -> bool {
        time != 0 && (now_ms as u32).wrapping_sub(time) <= Self::AHEAD_MS_MAX as u32
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Whether the group that is filled for `queue` takes a further record.
    pub(super) fn has_room(&self, queue: Queue, record_bytes: u64) -> bool {
        self.groups.borrow().has_room(queue, record_bytes, &self.client.pool.settings)
    }

    /// Takes the next place of the group that is filled for `queue`, if it has room.
    pub(super) fn take_place(
        &self,
        queue: Queue,
        (slot, hash): (u64, KeyHash),
        carry: u8,
        header: &Header,
    ) -> Option<Place> {
        let settings = &self.client.pool.settings;
        let place = self.groups.borrow_mut().take_place(queue, (slot, hash), carry, header, settings)?;
        // The next record will most likely be as long, and its memory was not used for long.
        let record_bytes = header.record_bytes();
        let next = self.client.pool.layout.chunk(place.chunk).add(place.offset_bytes + record_bytes);
        self.client.endpoint.expect(next, record_bytes, Intent::Write);
        Some(place)
    }

    /// Settles a place.
    #[inline]
    pub(super) fn settle_place(&self, place: &Place, header: &Header, fate: Fate) {
        let dead_bytes = self.groups.borrow_mut().settle(place, header, fate);
        if dead_bytes > 0 {
            self.count_buried(dead_bytes);
        }
    }

    /// Begins to fill a chunk for `queue`, and closes the group that was filled, which has no room.
    /// Another operation may have begun to fill one meanwhile: then the chunk is put into the stock.
    pub(super) async fn open_group(&self, queue: Queue, chunk: (ChunkId, u32)) -> Result<(), CacheError> {
        self.close_group(queue, 0).await?;
        let left = self.groups.borrow_mut().open(queue, chunk);
        if let Some(left) = left {
            self.stock.push(left);
        }
        Ok(())
    }

    /// Closes the group that is filled for `queue`. It comes into the queue when all its places are
    /// settled; one without objects is put back into the stock.
    pub(super) async fn close_group(&self, queue: Queue, segment: u8) -> Result<(), CacheError> {
        self.groups.borrow_mut().close(queue, segment);
        self.queue_settled_groups().await
    }

    /// Puts closed groups into their queues of which all places are settled.
    pub(super) async fn queue_settled_groups(&self) -> Result<(), CacheError> {
        loop {
            let Some(closed) = self.groups.borrow_mut().take_settled() else { return Ok(()) };
            // A group is queued so that it can be evicted.
            let before = self.client.endpoint.purpose(Purpose::Eviction);
            let queued = self.queue_closed(closed).await;
            self.client.endpoint.purpose(before);
            queued?;
        }
    }

    async fn queue_closed(&self, ClosedGroup { queue, segment, mut group }: ClosedGroup) -> Result<(), CacheError> {
        if group.map.is_empty() {
            self.stock.push((group.chunk, group.generation));
        } else {
            let open = Chunk::owned(ChunkState::Open, self.client.me(), group.generation);
            self.queue_group(queue, segment, &mut group, open).await?;
        }
        self.groups.borrow_mut().keep_memory(group);
        Ok(())
    }

    /// Writes the map of a group whose chunk this client owns in state `from`, and puts it into the
    /// queue.
    pub(super) async fn queue_group(
        &self,
        queue: Queue,
        segment: u8,
        group: &mut OpenGroup,
        from: Chunk,
    ) -> Result<(), CacheError> {
        let record = self.group_record(group);
        let now_ms = match group.expiries.is_empty() {
            true => 0,
            false => {
                let now_ns = self.client.endpoint.now_ns();
                self.client.pool_ms(now_ns).await?
            }
        };
        let layout = &self.client.pool.layout;
        let mut map = self.spares.take(8 * group.map.len());
        for (word, entry) in map.words_mut().iter_mut().rev().zip(&group.map) {
            *word = entry.word();
        }
        let descriptor = layout.descriptor(group.chunk);
        let used_units = (group.used_bytes / UNIT_BYTES) as u16;
        let contents = Contents { objects: group.map.len() as u16, queue, used_units };
        let at = layout.chunk(group.chunk).add(layout.chunk_bytes - 8 * group.map.len() as u64);
        let is_in_order = self.is_in_order(at, descriptor);
        let map = if is_in_order { map } else { Box::pin(self.write_first(at, map)).await? };
        let mut batch = Batch::new();
        let written = Earlier::add(&mut batch, at, map, is_in_order);
        batch.write_word(descriptor.add(8), contents.word());
        batch.write_word(descriptor.add(24), group.expiry(now_ms).word());
        if let Some((at, words)) = record {
            batch.write(at, words);
        }
        // A repairer may have seen the group where it was before, and be about to steal it.
        let queued = match from.state {
            ChunkState::Leaving => from.back(ChunkState::Queued),
            _ => Chunk { state: ChunkState::Queued, ..from },
        };
        // After a WRITE everything is in order: an evictor that finds the group queued finds its map.
        let swap = batch.compare_and_swap(descriptor, from.word(), queued.word());
        self.client.endpoint.post(&mut batch).await?;
        self.spares.keep(written.take(&mut batch));
        if !batch.swapped(swap) {
            return Err(CacheError::Damaged { what: "somebody else changed the state of a group" });
        }
        if group.dead_bytes > 0 {
            self.mark_dead(group.chunk, group.dead_bytes);
        }
        self.count_buried(self.unused_bytes(contents));
        let node = Node { chunk: group.chunk, generation: group.generation as u16, segment };
        self.enqueue(queue, node).await
    }

    /// Closes groups that cannot take another object, so that they take their place in the queue now
    /// and not with the next write; whether there are closed ones.
    pub(super) fn close_full_groups(&self) -> bool {
        let settings = &self.client.pool.settings;
        // Extents cannot be evicted while their record's group is open: a sixteenth of the pool, over
        // all clients, is the most that may be held.
        let held_max = self.client.pool.layout.heap_bytes() / 16 / u64::from(settings.clients_max);
        let mut groups = self.groups.borrow_mut();
        for queue in Queue::ALL {
            let is_full = groups.filled(queue).is_some_and(|group| {
                group.map.len() >= settings.group_objects_max as usize || group.extent_bytes > held_max
            });
            if is_full {
                groups.close(queue, 0);
            }
        }
        groups.is_closing()
    }

    /// Counts bytes of a group that nothing points to any more. A hint for cleaning: the group may
    /// be gone when it lands.
    pub(super) fn count_dead(&self, chunk: ChunkId, bytes: u64) {
        self.count_buried(bytes);
        if let Some(group) = self.groups.borrow_mut().of_chunk(chunk) {
            group.dead_bytes += bytes;
            return;
        }
        self.mark_dead(chunk, bytes);
    }

    /// Adds dead bytes to a group's descriptor.
    fn mark_dead(&self, chunk: ChunkId, bytes: u64) {
        let layout = &self.client.pool.layout;
        let is_sampled = bytes * DEAD_SAMPLED_ONE_IN <= layout.chunk_bytes;
        let seen = self.dead_seen.get().wrapping_add(DEAD_STEP);
        self.dead_seen.set(seen);
        if is_sampled && seen >> 63 == 0 {
            return;
        }
        let mut batch = Batch::new();
        batch.fetch_and_add(layout.descriptor(chunk).add(16), if is_sampled { 2 * bytes } else { bytes });
        let _scope = Scope::new(&self.client.endpoint, Purpose::Collection);
        self.client.endpoint.post_unawaited(&mut batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_time_is_over_from_then_on_and_one_far_ahead_is_noted_again() {
        let day_ms = 86_400_000;
        for now_ms in [1_700_000_000_000, (1 << 32) - 10, 1 << 32, (5 << 32) + 7] {
            for ahead_ms in [1, 1000, 20 * day_ms] {
                let time = Expiry::time(Some(now_ms + ahead_ms), now_ms);
                // The low bits of one moment in 49 days stand for never: there the next is noted.
                assert!(!Expiry::is_over(time, now_ms + ahead_ms - 1) && Expiry::is_over(time, now_ms + ahead_ms + 1));
            }
            let far = Expiry::time(Some(now_ms + 365 * day_ms), now_ms);
            assert!(!Expiry::is_over(far, now_ms + 24 * day_ms) && Expiry::is_over(far, now_ms + 25 * day_ms));
            assert!(Expiry::is_over(Expiry::time(Some(now_ms), now_ms), now_ms + 1));
        }
        assert!(!Expiry::is_over(Expiry::time(None, 5), u64::MAX));
    }

    #[test]
    fn a_map_entry_survives_packing_at_its_edges() {
        let (slot, offset_units, fingerprint) = ((1 << 34) - 1, 4095, 0xff);
        let entry = MapEntry { slot, offset_units, carry: 3, large: true, fingerprint, more: 0x7f };
        assert_eq!(MapEntry::from_word(entry.word()), entry);
        let entry = MapEntry { slot: 0, offset_units: 0, carry: 0, large: false, fingerprint: 0, more: 0 };
        assert_eq!(MapEntry::from_word(entry.word()), entry);
    }
}
