//! The groups that a client fills: one for each queue, and closed groups in which operations have
//! yet to publish a record.
//!
//! ```text
//!             open                    close                    the last place is settled
//!   a chunk -------> is being filled -------> is being closed --------------------------> queued
//!                    (gives places)
//! ```
//!
//! An operation allocates a place, WRITEs its record there and publishes it. Then it **settles**
//! the place: the record was published, or it never will be. Meanwhile other operations allocate
//! places behind it. A client queues a group when all its places are settled. If it queued the
//! group before, an evictor could reuse the chunk while an operation publishes a record in it.
//!
//! If a withdrawn place is the group's last one, the next record gets it. Otherwise its record is
//! dead, and may or may not have been written. A repairer finds the records behind it in both cases
//! (see `repair`).

use super::group::{Expiry, MapEntry};
use super::layout::Queue;
use super::slot::{GHOST_MORE_MAX, KeyHash, SlotFormat, UNIT_BYTES};
use crate::extent::OpenChunk;
use crate::record::Header;
use atoll_pool::{ChunkId, PoolSettings};

/// A group whose map is in its client's own memory.
#[derive(Debug, Default)]
pub struct OpenGroup {
    /// The chunk that the group fills.
    pub chunk: ChunkId,
    /// The chunk's generation.
    pub generation: u32,
    /// Bytes of the group's records.
    pub used_bytes: u64,
    /// Bytes of the records that are dead already.
    pub(super) dead_bytes: u64,
    /// Bytes of the extents of its large objects.
    pub extent_bytes: u64,
    /// Its index map: an entry for each object, in the order in which they were written.
    pub map: Vec<MapEntry>,
    /// Expiry and bytes of each object that expires.
    pub(super) expiries: Vec<(u64, u64)>,
    /// Places that are not settled.
    unsettled: u32,
}

impl OpenGroup {
    /// A group without objects.
    pub(super) fn of(chunk: ChunkId, generation: u32) -> Self {
        Self { chunk, generation, ..Self::default() }
    }

    /// When the first of its objects expires, if any does.
    pub(super) fn first_expiry_ms(&self) -> Option<u64> {
        self.expiries.iter().map(|(expiry_ms, _)| *expiry_ms).min()
    }

    /// When its objects expire.
    pub(super) fn expiry(&mut self, now_ms: u64) -> Expiry {
        self.expiries.sort_unstable();
        let mut left = (self.used_bytes + self.extent_bytes).div_ceil(4);
        let is_quarter = |(_, bytes): &&(u64, u64)| {
            left = left.saturating_sub(*bytes);
            left == 0
        };
        let quarter_ms = self.expiries.iter().find(is_quarter).map(|(expiry_ms, _)| *expiry_ms);
        let next_ms = self.expiries.first().map(|(expiry_ms, _)| *expiry_ms);
        Expiry { quarter: Expiry::time(quarter_ms, now_ms), next: Expiry::time(next_ms, now_ms) }
    }
}

/// The place of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) chunk: ChunkId,
    /// The tag of the record that the place is to have.
    pub(super) tag: u16,
    pub(super) offset_bytes: u64,
    pub(super) number: u16,
}

/// The fate of the record for which a place was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A slot points to the record, or did. The record has extents of so many bytes.
    Published { extent_bytes: u64 },
    /// No slot will ever point to the record.
    Withdrawn,
}

/// A group that accepts no further record.
#[derive(Debug)]
pub(super) struct ClosedGroup {
    pub(super) queue: Queue,
    pub(super) segment: u8,
    pub(super) group: OpenGroup,
}

/// A client's groups that are not queued yet.
#[derive(Debug, Default)]
pub(super) struct OpenGroups {
    filled: [Option<OpenGroup>; 2],
    closing: Vec<ClosedGroup>,
    /// Groups that were queued. The client reuses their memory.
    memory: Vec<OpenGroup>,
}

impl OpenGroups {
    /// The group that is filled for a queue.
    pub(super) fn filled(&self, queue: Queue) -> Option<&OpenGroup> {
        self.filled[queue as usize].as_ref()
    }

    /// Whether the group that is filled for a queue has room for so many records, which have so
    /// many bytes together.
    pub(super) fn has_room(&self, queue: Queue, (records, bytes): (u32, u64), settings: &PoolSettings) -> bool {
        self.filled(queue).is_some_and(|group| {
            let entries = group.map.len() as u64 + u64::from(records);
            group.used_bytes + bytes + 8 * entries <= settings.chunk_bytes.into()
                && entries <= settings.group_objects_max.into()
        })
    }

    /// By queue, the group that is filled, if so many more records like those in it will fill it,
    /// or one part in `left_one_in` of it.
    pub(super) fn nearly_full(
        &self,
        records: u64,
        left_one_in: u64,
        settings: &PoolSettings,
    ) -> [Option<OpenChunk>; 2] {
        let is_nearly = |group: &&OpenGroup| {
            let (entries, used_bytes) = (group.map.len() as u64, group.used_bytes + 8 * group.map.len() as u64);
            let left_bytes = u64::from(settings.chunk_bytes).saturating_sub(used_bytes);
            let left_entries = u64::from(settings.group_objects_max).saturating_sub(entries);
            let left = left_entries.min(left_bytes * entries / used_bytes.max(1));
            entries > 0 && left <= records.max((entries + left) / left_one_in)
        };
        Queue::ALL.map(|queue| self.filled(queue).filter(is_nearly).map(|group| (group.chunk, group.generation)))
    }

    /// Allocates the next place, if the group has room.
    #[inline]
    pub(super) fn take_place(
        &mut self,
        queue: Queue,
        (slot, hash): (u64, KeyHash),
        carry: u8,
        header: &Header,
        (settings, format): (&PoolSettings, SlotFormat),
    ) -> Option<Place> {
        let record_bytes = header.record_bytes();
        let has_room = self.has_room(queue, (1, record_bytes), settings);
        let group = self.filled[queue as usize].as_mut().filter(|_| has_room)?;
        let place = Place {
            chunk: group.chunk,
            tag: format.tag(group.generation),
            offset_bytes: group.used_bytes,
            number: group.map.len() as u16,
        };
        let offset_units = (group.used_bytes / UNIT_BYTES) as u16;
        let KeyHash { fingerprint, more, .. } = hash;
        let more = more & GHOST_MORE_MAX;
        group.map.push(MapEntry { slot, offset_units, carry, large: header.large, fingerprint, reused: false, more });
        group.used_bytes += record_bytes;
        group.expiries.extend(header.expiry_ms.map(|expiry_ms| (expiry_ms, header.held_bytes())));
        group.unsettled += 1;
        Some(place)
    }

    /// Sets the slot that will point to a place's record.
    pub(super) fn aim(&mut self, place: &Place, slot: u64) {
        if let Some(group) = self.of_chunk(place.chunk) {
            group.map[usize::from(place.number)].slot = slot;
        }
    }

    /// Settles the place of a record with this header. Returns the bytes of the record if it is
    /// dead now, otherwise 0.
    #[inline]
    pub(super) fn settle(&mut self, place: &Place, header: &Header, fate: Fate) -> u64 {
        let Some(group) = self.of_chunk(place.chunk) else { return 0 };
        group.unsettled -= 1;
        if let Fate::Published { extent_bytes } = fate {
            group.extent_bytes += extent_bytes;
            return 0;
        }
        let expiry = header.expiry_ms.map(|expiry_ms| (expiry_ms, header.held_bytes()));
        if let Some(index) = group.expiries.iter().rposition(|noted| Some(*noted) == expiry) {
            group.expiries.swap_remove(index);
        }
        let record_bytes = header.record_bytes();
        if usize::from(place.number) + 1 == group.map.len() {
            group.map.pop();
            group.used_bytes -= record_bytes;
            return 0;
        }
        group.dead_bytes += record_bytes;
        record_bytes
    }

    /// Closes the group that is filled for a queue, and begins to fill a chunk.
    pub(super) fn open_next(&mut self, queue: Queue, (chunk, generation): (ChunkId, u32)) {
        self.close(queue, 0);
        let OpenGroup { map, expiries, .. } = self.memory.pop().unwrap_or_default();
        self.filled[queue as usize] = Some(OpenGroup { map, expiries, ..OpenGroup::of(chunk, generation) });
    }

    /// Closes the group that is filled for a queue.
    pub(super) fn close(&mut self, queue: Queue, segment: u8) {
        let filled = self.filled[queue as usize].take();
        self.closing.extend(filled.map(|group| ClosedGroup { queue, segment, group }));
    }

    /// Whether there are closed groups.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Whether there is a closed group whose places are all settled.
    #[inline]
    pub(super) fn has_settled(&self) -> bool {
        self.closing.iter().any(|closed| closed.group.unsettled == 0)
    }

    /// Takes a closed group whose places are all settled, so that the caller queues it.
    pub(super) fn take_settled(&mut self) -> Option<ClosedGroup> {
        let settled = self.closing.iter().position(|closed| closed.group.unsettled == 0)?;
        Some(self.closing.swap_remove(settled))
    }

    /// Keeps the memory of a group that was queued.
    pub(super) fn keep_memory(&mut self, mut group: OpenGroup) {
        group.map.clear();
        group.expiries.clear();
        self.memory.push(group);
    }

    /// The group of a chunk, if the group is not queued yet.
    #[inline]
    pub(super) fn of_chunk(&mut self, chunk: ChunkId) -> Option<&mut OpenGroup> {
        for group in self.filled.iter_mut().flatten() {
            if group.chunk == chunk {
                return Some(group);
            }
        }
        self.closing.iter_mut().map(|closed| &mut closed.group).find(|group| group.chunk == chunk)
    }
}
