//! Groups: a client fills one chunk at a time for each queue, and closes it when it is full.
//!
//! ```text
//! a group's chunk    0                                                               chunk_bytes
//!                    +----------+----------+----------+- - - -+---------+---------+---------+
//!                    | record 0 | record 1 | record 2 |       | entry 2 | entry 1 | entry 0 |
//!                    +----------+----------+----------+- - - -+---------+---------+---------+
//!
//! an entry of the two-way index map
//!    63        30 29      18 17   16 15   15 14        7 6      6 5        0
//!    +------------+----------+-------+-------+-----------+--------+----------+
//!    | slot number| offset,  | carry | large |  finger-  | reused | more of  |
//!    |     34     | units 12 |   2   |   1   |  print 8  |   1    | the hash |
//!    +------------+----------+-------+-------+-----------+--------+----------+
//!
//! descriptor word 1    objects 16 | queue 1 | units of all records 13 (from bit 0 up)
//! descriptor word 3    a quarter of the bytes has expired at 32 | the next object expires at 32
//!                      both the low bits of ms, no more than 24 days ahead; 0: never
//!                      atomics only once the group is queued
//! ```
//!
//! A client writes records in order, without a gap. It keeps the map in its own memory, and writes
//! it by one WRITE when the group closes: only an evictor reads it. If the client dies before, a
//! repairer makes the map from the records. `carry` is the frequency that an object brings from an
//! earlier group. `reused` is set once a client has used the place of a dead record anew (see
//! `vacancies`).
//!
//! The next record begins where a record ends. So an entry and its neighbour give every bit of the
//! slot's word while the slot points to the record, unless the place was used anew. An evictor can
//! swap a slot that it has not READ.
//!
//! Invariants:
//! - Only its owner writes to an open chunk.
//! - A record that a live slot ever pointed to is not overwritten before the chunk's generation has
//!   gone up, except by the client that replaced it, with a record of the next edition.
//! - A record that never became live may be overwritten by its owner.

use super::layout::Queue;
use super::slot::{GHOST_MORE_MAX, UNIT_BYTES};

/// An entry of the two-way index map: from an object in a group back to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// The slot's number: bucket * 16 + place.
    pub slot: u64,
    /// The record's offset in the chunk, in units.
    pub offset_units: u16,
    /// Frequency that the object brings from an earlier group, at most 3.
    pub carry: u8,
    /// Whether the object has extents.
    pub large: bool,
    /// The key's fingerprint.
    pub fingerprint: u8,
    /// Whether its place was used anew, so that the map does not give the tag of the slot's word.
    pub reused: bool,
    /// The further hash bits that a ghost has.
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
            | u64::from(self.reused) << 6
            | u64::from(self.more & GHOST_MORE_MAX)
    }

    /// The entry of a record that was never written.
    pub(super) fn of_nothing(offset_units: u16) -> Self {
        Self { slot: 0, offset_units, carry: 0, large: false, fingerprint: 0, reused: false, more: 0 }
    }

    /// The entry of a word. Every word is an entry, and its fields must be checked against the
    /// pool.
    pub fn from_word(word: u64) -> Self {
        Self {
            slot: word >> 30,
            offset_units: (word >> 18) as u16 & 0xfff,
            carry: (word >> 16) as u8 & 3,
            large: word & 1 << 15 != 0,
            fingerprint: (word >> 7) as u8,
            reused: word & 1 << 6 != 0,
            more: word as u16 & GHOST_MORE_MAX,
        }
    }
}

const USED_UNITS_MAX: u16 = 0x1fff;

/// Descriptor word 1 of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Objects written to it.
    pub objects: u16,
    /// The queue that the group was filled for.
    pub queue: Queue,
    /// Where the last record ends, in units.
    pub used_units: u16,
}

impl Contents {
    pub(super) fn word(self) -> u64 {
        u64::from(self.objects) | (self.queue as u64) << 16 | u64::from(self.used_units & USED_UNITS_MAX) << 17
    }

    /// Bytes of all records, including dead ones; all of the chunk if the word is impossible.
    pub(super) fn used_bytes(self, chunk_bytes: u64) -> u64 {
        let bytes = u64::from(self.used_units) * UNIT_BYTES;
        if bytes == 0 || bytes > chunk_bytes { chunk_bytes } else { bytes }
    }

    /// Decodes a word.
    pub fn from_word(word: u64) -> Self {
        let queue = if word & 1 << 16 == 0 { Queue::Small } else { Queue::Main };
        Self { objects: word as u16, queue, used_units: (word >> 17) as u16 & USED_UNITS_MAX }
    }
}

/// The times in a group's descriptor word 3: the low bits of ms, 0 for never. A noted time is at
/// most half of the range of 32 bits ahead. When it has come, a later time is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expiry {
    /// When a quarter of the bytes, extents included, has expired. Then the group is worth
    /// cleaning.
    pub(super) quarter: u32,
    /// When the next unswept object expires.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_time_is_over_from_then_on_and_one_far_ahead_is_noted_again() {
        let day_ms = 86_400_000;
        for now_ms in [1_700_000_000_000, (1 << 32) - 10, 1 << 32, (5 << 32) + 7] {
            for ahead_ms in [1, 1000, 20 * day_ms] {
                let time = Expiry::time(Some(now_ms + ahead_ms), now_ms);
                // One moment in 49 days has the low bits that mean never: there the next moment is
                // noted.
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
        let entry = MapEntry { slot, offset_units, carry: 3, large: true, fingerprint, reused: true, more: 0x3f };
        assert_eq!(MapEntry::from_word(entry.word()), entry);
        let entry = MapEntry::of_nothing(0);
        assert_eq!(MapEntry::from_word(entry.word()), entry);
    }
}
