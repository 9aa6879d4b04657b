//! What the processes of the experiment know of every key, in a region of its own beside the pool
//! under test.
//!
//! ```text
//! line 0    word 0  whether the load is to end
//!           word 1  over a network, the pool's time as it was a while ago    one writer
//! line 1..  the totals, one a line                                    atomics only
//! places    the number of each writer's last client, over a network       one writer each
//! a key     word 0  issued: versions (or increments, appends) begun   atomics only
//!           word 1  floor: what a value found must not be below       atomics only
//!           word 2  completed: increments ended                       atomics only
//!           word 3  unused
//! ```
//!
//! A writer takes the version of a key from `issued` before its change. Versions are written in
//! ascending order. A plain key has one writer at a time: the next process in its place begins
//! after the last one's death. One writer alone makes a chain key. The others replace it under the
//! token of the value that they saw before they took their version.
//!
//! The **floor** of such a key only grows. It is `2 v` once a process knows that version `v` was
//! stored. It is `2 v + 1` once a process knows that the key was missing after that.
//!
//! | the operation | reads before it | holds | raises the floor to |
//! |---|---|---|---|
//! | a hit of version v | floor f | `2 v >= f`; `v <=` issued afterwards | `2 v` |
//! | a miss, a removal | floor f | | `f` with its lowest bit set |
//! | a change that stored version v | | | `2 v` |
//!
//! Over a network, verbs of a client that was killed or lost take effect later, or never. A reader
//! takes a version between floor and issued for right, so that is nothing new. But a late version
//! must not follow one of the next client in that place. So the next client begins when the pool's
//! registry says that the last one has ended: then its agent executes no verb of it any more.
//!
//! All clients increment counters. A floor is a pair: a count c that was seen, and d, the
//! increments that had ended before the lookup of c. A later reader sees at least c, and a later
//! increment more than c. Otherwise the counter was missing in between: then none of those d
//! increments are in the count, which is at most issued - d. A miss keeps the pair of the largest
//! c.

use crate::LabError;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Address, Batch, Endpoint, run_ready};
use std::sync::Arc;

const LINE: u64 = 64;
const KEY_BYTES: u64 = 32;
const PLACES: u64 = LINE * (1 + Total::ALL.len() as u64);
/// Places of writers, at most.
const PLACES_MAX: u64 = 256;
const KEYS: u64 = PLACES + 8 * PLACES_MAX;

/// What all processes count together. The counts of a killed process are not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    /// Operations of the workers.
    Operations,
    /// Nanoseconds on a core of the workers.
    CoreNs,
    /// Values and misses checked.
    Checked,
    /// Changes made.
    Writes,
    /// Checks that failed.
    Wrong,
    /// Changes refused because the pool had no room.
    Refused,
    /// Clients found dead and shut out.
    Fenced,
    /// Chunks that came back from dead clients.
    Repaired,
    /// Clients that were lost while their process lived.
    Lost,
    /// Lookups that a near cache answered.
    NearHits,
    /// Copies in near caches that a lookup found outdated.
    NearOutdated,
    /// Copies that were made in near caches.
    NearCopies,
    /// Changes that ended copies in near caches first.
    CopiesEnded,
}

impl Total {
    const ALL: [Self; 13] = [
        Self::Operations,
        Self::CoreNs,
        Self::Checked,
        Self::Writes,
        Self::Wrong,
        Self::Refused,
        Self::Fenced,
        Self::Repaired,
        Self::Lost,
        Self::NearHits,
        Self::NearOutdated,
        Self::NearCopies,
        Self::CopiesEnded,
    ];
}

/// One thread's access.
pub(super) struct Ledger {
    endpoint: ShmEndpoint,
}

/// A count and the increments that had ended before it was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountFloor {
    /// `None` after a miss.
    pub(super) count: Option<u32>,
    pub(super) ended: u32,
}

impl CountFloor {
    const MISSED: u32 = u32::MAX;

    fn of(word: u64) -> Self {
        let count = (word >> 32) as u32;
        Self { count: (count != Self::MISSED).then_some(count), ended: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.count.unwrap_or(Self::MISSED)) << 32 | u64::from(self.ended)
    }
}

impl Ledger {
    /// Makes the region, for this many keys.
    pub(super) fn create(name: &str, keys: u64) -> Result<Self, LabError> {
        let bytes = (KEYS + keys * KEY_BYTES).next_multiple_of(4096);
        Ok(Self { endpoint: ShmEndpoint::new(Arc::new(ShmRegion::create(name, bytes)?)) })
    }

    pub(super) fn open(name: &str) -> Result<Self, LabError> {
        Ok(Self { endpoint: ShmEndpoint::new(Arc::new(ShmRegion::open(name)?)) })
    }

    fn word(&self, at: u64) -> u64 {
        let mut batch = Batch::new();
        let word = batch.read_word(Address::new(0, 0, at));
        run_ready(self.endpoint.post(&mut batch)).expect("the region has a word for everything");
        batch.word(word)
    }

    fn add(&self, at: u64, by: u64) -> u64 {
        let mut batch = Batch::new();
        let found = batch.fetch_and_add(Address::new(0, 0, at), by);
        run_ready(self.endpoint.post(&mut batch)).expect("the region has a word for everything");
        batch.word(found)
    }

    fn swap(&self, at: u64, from: u64, to: u64) -> Result<(), u64> {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(Address::new(0, 0, at), from, to);
        run_ready(self.endpoint.post(&mut batch)).expect("the region has a word for everything");
        if batch.swapped(swap) { Ok(()) } else { Err(batch.word(swap)) }
    }

    /// Monotone time in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.endpoint.now_ns()
    }

    /// Milliseconds since the Unix epoch.
    pub(super) fn unix_ms(&self) -> u64 {
        self.endpoint.unix_ms()
    }

    fn set(&self, at: u64, to: u64) {
        let mut batch = Batch::new();
        batch.write_word(Address::new(0, 0, at), to);
        run_ready(self.endpoint.post(&mut batch)).expect("the region has a word for everything");
    }

    /// What the pool's time had been for the pool's skew, or longer.
    pub(super) fn pool_ms(&self) -> u64 {
        self.word(8)
    }

    pub(super) fn set_pool_ms(&self, ms: u64) {
        self.set(8, ms);
    }

    /// The number of the last client in a place; 0 if there was none.
    pub(super) fn last_client(&self, place: u64) -> u64 {
        self.word(PLACES + 8 * place)
    }

    pub(super) fn set_last_client(&self, place: u64, number: u64) {
        assert!(place < PLACES_MAX, "a hundred workers have at most 201 threads with the checker");
        self.set(PLACES + 8 * place, number);
    }

    /// Ends the load, for all.
    pub(super) fn end(&self) {
        self.add(0, 1);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.word(0) > 0
    }

    pub(super) fn count(&self, total: Total, by: u64) {
        if by > 0 {
            self.add(LINE * (1 + total as u64), by);
        }
    }

    pub(super) fn total(&self, total: Total) -> u64 {
        self.word(LINE * (1 + total as u64))
    }

    fn key(key: u64) -> u64 {
        KEYS + key * KEY_BYTES
    }

    /// Begins a version of the key; its number, from 1.
    pub(super) fn issue(&self, key: u64) -> u64 {
        self.add(Self::key(key), 1) + 1
    }

    pub(super) fn issued(&self, key: u64) -> u64 {
        self.word(Self::key(key))
    }

    pub(super) fn floor(&self, key: u64) -> u64 {
        self.word(Self::key(key) + 8)
    }

    /// Raises the floor to at least `to`.
    pub(super) fn raise(&self, key: u64, to: u64) {
        let mut found = self.floor(key);
        while found < to {
            match self.swap(Self::key(key) + 8, found, to) {
                Ok(()) => return,
                Err(other) => found = other,
            }
        }
    }

    /// Increments of the counter that have ended.
    pub(super) fn ended(&self, key: u64) -> u64 {
        self.word(Self::key(key) + 16)
    }

    pub(super) fn end_increment(&self, key: u64) {
        self.add(Self::key(key) + 16, 1);
    }

    pub(super) fn count_floor(&self, key: u64) -> CountFloor {
        CountFloor::of(self.floor(key))
    }

    /// Sets the floor of a counter, if it is still what the caller saw: any pair that was seen is a
    /// true one.
    pub(super) fn set_count_floor(&self, key: u64, seen: CountFloor, to: CountFloor) {
        let _ = self.swap(Self::key(key) + 8, seen.word(), to.word());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_only_grow_and_versions_are_never_issued_twice() {
        let name = format!("shm:/atoll-ledger-{}", std::process::id());
        let ledger = Ledger::create(&name, 10).unwrap();
        let other = Ledger::open(&name).unwrap();
        ShmRegion::remove(&name).unwrap();
        assert_eq!((ledger.issue(3), other.issue(3), other.issued(3), other.issued(4)), (1, 2, 2, 0));
        ledger.raise(3, 5);
        other.raise(3, 4);
        assert_eq!(ledger.floor(3), 5);
        let floor = CountFloor { count: Some(7), ended: 9 };
        ledger.set_count_floor(4, ledger.count_floor(4), floor);
        assert_eq!(other.count_floor(4), floor);
        other.set_count_floor(4, floor, CountFloor { count: None, ended: 11 });
        assert_eq!(ledger.count_floor(4), CountFloor { count: None, ended: 11 });
        assert!(!other.is_ending());
        ledger.end();
        ledger.count(Total::Wrong, 2);
        assert!(other.is_ending() && other.total(Total::Wrong) == 2 && other.total(Total::Refused) == 0);
    }
}
