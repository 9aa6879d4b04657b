//! Whether a key is worth a copy: it is looked up often enough, and its copies live long enough.
//!
//! ```text
//! cell   log2 of lookups needed, plus 1 4 | lookups 12 | fingerprint 8 | period 8   two to a word
//! ```
//!
//! A copy costs a swap of the slot, and its end costs a change of the object two round trips. A hit
//! saves one or two. So a key gets its first copy only at its second lookup within a period. A copy
//! that ended before it had [`HITS_PAYING`] hits doubles the lookups that its key needs; one that
//! had more halves them, down to one: the next lookup makes the next copy. So keys that are written
//! much stay uncached: DiFache's adaptive caching, by what the processes of a host see themselves.
//!
//! A cell is one key's, by its fingerprint. Each lookup of another key takes one from its lookups;
//! once none is left, the other key has the cell. So a cell is that of the key which most of its
//! lookups are for, and keys that are seldom looked up get no copies however many there are.

use super::store::{CELLS, LOOKUPS};
use atoll_fabric::shm::HostMemory;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Hits from which on a copy has paid.
pub const HITS_PAYING: u64 = super::store::HEAT_MAX;
/// For the first copy of a key.
const NEEDED_LOG2_FIRST: u32 = 1;
const NEEDED_LOG2_MAX: u32 = 11;
/// Lookups of a period, by cell.
const LOOKUPS_PER_CELL: u64 = 4;

/// What the processes of a host remember of the keys that they look up.
#[derive(Debug)]
pub struct Worth {
    memory: Arc<HostMemory>,
    cells: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    needed_log2: u32,
    lookups: u32,
    fingerprint: u32,
    period: u32,
}

impl Cell {
    fn of(bits: u32) -> Self {
        let needed_log2 = (bits & 15).checked_sub(1).unwrap_or(NEEDED_LOG2_FIRST);
        Self { needed_log2, lookups: bits >> 4 & 0xfff, fingerprint: bits >> 16 & 0xff, period: bits >> 24 }
    }

    fn bits(self) -> u32 {
        (self.needed_log2 + 1) | self.lookups << 4 | self.fingerprint << 16 | self.period << 24
    }

    /// A new cell of a key.
    fn new(hash: u64, period: u32) -> Self {
        Self { needed_log2: NEEDED_LOG2_FIRST, lookups: 0, fingerprint: fingerprint(hash), period }
    }
}

fn fingerprint(hash: u64) -> u32 {
    (hash >> 24) as u32 & 0xff
}

impl Worth {
    /// In this memory, in so many cells, a power of two.
    pub(super) fn new(memory: Arc<HostMemory>, cells: usize) -> Self {
        Self { memory, cells }
    }

    /// Changes the cell of a key. Of changes at the same time, to it and to its neighbour, some may
    /// be lost.
    fn change<R>(&self, hash: u64, change: impl FnOnce(&mut Cell) -> R) -> R {
        let cell = (hash >> 32) as usize & (self.cells - 1);
        let (word, shift) = (self.memory.word(CELLS + cell / 2), 32 * (cell % 2));
        let before = word.load(Ordering::Relaxed);
        let mut cell = Cell::of((before >> shift) as u32);
        let result = change(&mut cell);
        let after = before & !(u64::from(u32::MAX) << shift) | u64::from(cell.bits()) << shift;
        if after != before {
            word.store(after, Ordering::Relaxed);
        }
        result
    }

    /// Notes a lookup that found no copy; whether its key is worth one now.
    pub fn note_lookup(&self, hash: u64) -> bool {
        let lookups = self.memory.word(LOOKUPS).fetch_add(1, Ordering::Relaxed);
        let period = (lookups / (LOOKUPS_PER_CELL * self.cells as u64)) as u32 & 0xff;
        self.change(hash, |cell| {
            if cell.period != period {
                (cell.lookups, cell.period) = (0, period);
            }
            if cell.fingerprint != fingerprint(hash) {
                if cell.lookups > 0 {
                    cell.lookups -= 1;
                    return false;
                }
                *cell = Cell::new(hash, period);
            }
            cell.lookups += 1;
            let is_worth = cell.lookups >= 1 << cell.needed_log2;
            if is_worth {
                cell.lookups = 0;
            }
            is_worth
        })
    }

    /// Notes that a copy has ended, because its object was changed, after so many hits.
    pub fn note_end(&self, hash: u64, hits: u64) {
        let has_paid = hits >= HITS_PAYING;
        self.change(hash, |cell| {
            if cell.fingerprint != fingerprint(hash) {
                if has_paid {
                    return;
                }
                *cell = Cell::new(hash, cell.period);
            }
            cell.needed_log2 = match has_paid {
                true => cell.needed_log2.saturating_sub(1),
                false => (cell.needed_log2 + 1).min(NEEDED_LOG2_MAX),
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth() -> Worth {
        Worth::new(Arc::new(HostMemory::of_process(CELLS + 128, CELLS + 128).unwrap()), 256)
    }

    #[test]
    fn a_key_is_worth_a_copy_at_its_second_lookup_of_a_period() {
        let worth = worth();
        assert!(!worth.note_lookup(7) && worth.note_lookup(7));
        assert!(!worth.note_lookup(7), "after a copy was made it is counted anew");
        for key in 0..LOOKUPS_PER_CELL * 256 {
            worth.note_lookup((1 + key % 200) << 32);
        }
        assert!(!worth.note_lookup(7), "that was in an earlier period");
    }

    #[test]
    fn a_key_keeps_its_cell_among_others_that_are_looked_up_less() {
        let worth = worth();
        let (hot, cold) = (7 << 24, |number: u64| (number % 200) << 24);
        let mut copies = [0, 0];
        for number in 8..800 {
            copies[0] += u32::from(worth.note_lookup(hot)) + u32::from(worth.note_lookup(hot));
            copies[1] += u32::from(worth.note_lookup(cold(number)));
        }
        assert!(copies[0] > 300 && copies[1] < 10, "{copies:?}");
    }

    #[test]
    fn copies_that_did_not_pay_make_a_key_need_more_lookups_and_those_that_did_fewer() {
        let worth = worth();
        let needed = || (1..5000).find(|_| worth.note_lookup(7)).unwrap_or(5000);
        assert_eq!(needed(), 2);
        (0..3).for_each(|_| worth.note_end(7, HITS_PAYING - 1));
        assert_eq!(needed(), 16);
        worth.note_end(7, HITS_PAYING);
        assert_eq!(needed(), 8);
        (0..40).for_each(|_| worth.note_end(7, 0));
        assert_eq!(worth.change(7, |cell| cell.needed_log2), NEEDED_LOG2_MAX);
        (0..40).for_each(|_| worth.note_end(7, 1000));
        assert_eq!(needed(), 1, "the next lookup makes the next copy");
        worth.note_end(7, 0);
        assert_eq!(needed(), 2);
    }
}
