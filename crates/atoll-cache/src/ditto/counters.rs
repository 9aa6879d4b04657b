//! The frequency-counter cache (section 4.2.2): a client adds up accesses in its own memory.
//!
//! It adds them to the pool's count by one FAA when an object has enough, when they are old, or
//! when the cache is full.

use crate::table::Core;
use atoll_fabric::{Batch, Endpoint};
use std::collections::{HashMap, VecDeque};

/// Accesses of one slot's object.
#[derive(Clone, Copy, Debug)]
struct Counted {
    accesses: u32,
    /// When the first of these accesses was counted.
    since_us: u64,
}

/// One client's counters.
#[derive(Debug)]
pub struct Counters {
    counted: HashMap<u64, Counted>,
    /// Slots in the order in which they were first counted, with that time. Entries that do not
    /// match a current counter are stale.
    order: VecDeque<(u64, u64)>,
    entries_max: usize,
    threshold: u32,
    age_us: u64,
}

impl Counters {
    /// Counters of at most so many slots. A count of `threshold` accesses, or older than `age_us`,
    /// is due.
    pub fn new(entries_max: usize, threshold: u32, age_us: u64) -> Self {
        let threshold = if entries_max == 0 { 1 } else { threshold.max(1) };
        Self { counted: HashMap::new(), order: VecDeque::new(), entries_max, threshold, age_us }
    }

    /// Counts an access; returns how many accesses of this slot to publish now.
    #[inline]
    pub fn count(&mut self, slot: u64, now_us: u64) -> Option<u32> {
        if self.threshold == 1 {
            return Some(1);
        }
        let counted = self.counted.entry(slot).or_insert_with(|| {
            self.order.push_back((slot, now_us));
            Counted { accesses: 0, since_us: now_us }
        });
        counted.accesses += 1;
        let accesses = counted.accesses;
        (accesses >= self.threshold).then(|| {
            self.counted.remove(&slot);
            accesses
        })
    }

    /// A slot whose accesses are due: they are old, or the cache is full.
    pub fn due(&mut self, now_us: u64) -> Option<(u64, u32)> {
        let is_full = self.counted.len() > self.entries_max;
        self.oldest(if is_full { u64::MAX } else { now_us.saturating_sub(self.age_us) })
    }

    /// The slot that has been counted longest, if its count began before then.
    fn oldest(&mut self, before_us: u64) -> Option<(u64, u32)> {
        loop {
            let (slot, since_us) = *self.order.front()?;
            let current = self.counted.get(&slot).is_some_and(|counted| counted.since_us == since_us);
            if current && since_us >= before_us {
                return None;
            }
            self.order.pop_front();
            if current {
                return self.counted.remove(&slot).map(|counted| (slot, counted.accesses));
            }
        }
    }

    /// Slots whose accesses are old.
    pub fn drain_aged(&mut self, now_us: u64) -> Vec<(u64, u32)> {
        let before_us = now_us.saturating_sub(self.age_us);
        std::iter::from_fn(|| self.oldest(before_us)).collect()
    }

    /// All slots.
    pub fn drain(&mut self) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| self.oldest(u64::MAX)).collect()
    }

    /// Adds accesses of a slot's object to the pool's count, without waiting.
    pub fn publish<E: Endpoint>(core: &Core<E>, slot: u64, accesses: u32) {
        let mut batch = Batch::new();
        batch.fetch_and_add(core.shared.layout.access(slot), accesses.into());
        core.client.endpoint.post_unawaited(&mut batch);
    }

    /// Forgets the count of a slot that has another object now.
    pub fn forget(&mut self, slot: u64) {
        self.counted.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_published_at_the_threshold_by_age_and_for_want_of_room_and_none_is_lost() {
        let mut counters = Counters::new(2, 3, 100);
        assert_eq!([counters.count(7, 0), counters.count(7, 1), counters.count(7, 2)], [None, None, Some(3)]);
        assert_eq!(counters.count(7, 10), None);
        assert_eq!(counters.due(109), None);
        assert_eq!(counters.due(111), Some((7, 1)));
        for slot in [1, 2, 3] {
            assert_eq!(counters.count(slot, 200), None);
        }
        assert_eq!((counters.due(200), counters.due(200)), (Some((1, 1)), None));
        counters.forget(2);
        assert_eq!(counters.drain_aged(301), vec![(3, 1)]);
    }

    #[test]
    fn without_room_every_access_is_published_at_once() {
        let mut counters = Counters::new(0, 10, 100);
        assert_eq!((counters.count(1, 0), counters.count(1, 0)), (Some(1), Some(1)));
    }
}
