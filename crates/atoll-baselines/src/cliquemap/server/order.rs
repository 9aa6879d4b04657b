//! The order in which objects are evicted. It is exact, in 128 shards by the hash of the key
//! (Ditto, section 5.3), so that cores do not wait for each other.
//!
//! | policy | a shard is | an access |
//! |---|---|---|
//! | LRU | a list of entries, the one accessed last at its end | moves the entry to the end |
//! | LFU | a set of entries ordered by their accesses; of equals, the one accessed last behind | takes the entry out and puts it in again |
//!
//! Accesses count in the order in which they arrive at the server.

use super::super::settings::Policy;
use std::collections::BTreeSet;

/// Shards.
pub(super) const SHARDS: usize = 128;

/// A place in an order; the lowest is evicted first.
pub(super) type Rank = (u64, u64);

/// The orders of all shards.
#[derive(Debug)]
pub(super) enum Order {
    /// By the last access.
    Lru(Lists),
    /// By the number of accesses.
    Lfu(Sets),
}

/// Shards as lists. Every list is a ring through an end node of its own, so every node has
/// neighbours.
#[derive(Debug)]
pub(super) struct Lists {
    /// Nodes by entry; behind them the end nodes by shard.
    links: Vec<Link>,
    entries: u32,
    accesses: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    before: u32,
    behind: u32,
    /// The number of its last access, among all accesses.
    at: u64,
}

/// Shards as ordered sets.
#[derive(Debug)]
pub(super) struct Sets {
    /// By entry, its accesses, and the number of its last access.
    ranks: Vec<Rank>,
    shards: Vec<BTreeSet<(Rank, u32)>>,
    accesses: u64,
}

impl Lists {
    fn new(entries: u32) -> Self {
        let mut links = vec![Link::default(); entries as usize];
        links.extend((0..SHARDS as u32).map(|shard| Link { before: entries + shard, behind: entries + shard, at: 0 }));
        Self { links, entries, accesses: 0 }
    }

    fn insert(&mut self, shard: usize, entry: u32) {
        self.accesses += 1;
        let end = self.entries + shard as u32;
        let last = std::mem::replace(&mut self.links[end as usize].before, entry);
        self.links[last as usize].behind = entry;
        self.links[entry as usize] = Link { before: last, behind: end, at: self.accesses };
    }

    fn remove(&mut self, entry: u32) {
        let Link { before, behind, .. } = self.links[entry as usize];
        self.links[before as usize].behind = behind;
        self.links[behind as usize].before = before;
    }

    fn first(&self, shard: usize) -> Option<u32> {
        let end = &self.links[self.entries as usize + shard];
        (end.behind < self.entries).then_some(end.behind)
    }
}

impl Sets {
    fn new(entries: u32) -> Self {
        Self { ranks: vec![(0, 0); entries as usize], shards: vec![BTreeSet::new(); SHARDS], accesses: 0 }
    }

    fn insert(&mut self, shard: usize, entry: u32, accesses: u64) {
        self.accesses += 1;
        let rank = (accesses, self.accesses);
        self.ranks[entry as usize] = rank;
        self.shards[shard].insert((rank, entry));
    }

    /// Returns its accesses.
    fn remove(&mut self, shard: usize, entry: u32) -> u64 {
        let rank = self.ranks[entry as usize];
        self.shards[shard].remove(&(rank, entry));
        rank.0
    }
}

impl Order {
    pub(super) fn new(policy: Policy, entries: u32) -> Self {
        match policy {
            Policy::Lru => Self::Lru(Lists::new(entries)),
            Policy::Lfu => Self::Lfu(Sets::new(entries)),
        }
    }

    /// Puts an entry into its shard's order, after one more access than `accesses_before`.
    pub(super) fn insert(&mut self, shard: usize, entry: u32, accesses_before: u64) {
        match self {
            Self::Lru(lists) => lists.insert(shard, entry),
            Self::Lfu(sets) => sets.insert(shard, entry, accesses_before + 1),
        }
    }

    /// Removes an entry; returns its accesses, where they count.
    pub(super) fn remove(&mut self, shard: usize, entry: u32) -> u64 {
        match self {
            Self::Lru(lists) => {
                lists.remove(entry);
                0
            }
            Self::Lfu(sets) => sets.remove(shard, entry),
        }
    }

    /// The entry of a shard that is evicted first.
    pub(super) fn first(&self, shard: usize) -> Option<u32> {
        match self {
            Self::Lru(lists) => lists.first(shard),
            Self::Lfu(sets) => sets.shards[shard].first().map(|(_, entry)| *entry),
        }
    }

    /// The place of an entry that is in the order.
    pub(super) fn rank(&self, entry: u32) -> Rank {
        match self {
            Self::Lru(lists) => (0, lists.links[entry as usize].at),
            Self::Lfu(sets) => sets.ranks[entry as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which entries are evicted, if `accessed` are accessed after all were inserted
    /// in the order of their numbers.
    fn goes(policy: Policy, accessed: &[u32]) -> Vec<u32> {
        let mut order = Order::new(policy, 4);
        (0..4).for_each(|entry| order.insert(3, entry, 0));
        for entry in accessed {
            let accesses = order.remove(3, *entry);
            order.insert(3, *entry, accesses);
        }
        assert_eq!(order.first(4), None);
        let mut gone = Vec::new();
        while let Some(first) = order.first(3) {
            assert!(gone.iter().all(|earlier| order.rank(*earlier) < order.rank(first)));
            order.remove(3, first);
            gone.push(first);
        }
        gone
    }

    #[test]
    fn lru_lets_go_what_was_accessed_longest_ago_and_lfu_what_was_accessed_least_often() {
        assert_eq!(goes(Policy::Lru, &[1, 1, 1, 0, 3]), [2, 1, 0, 3]);
        assert_eq!(goes(Policy::Lfu, &[1, 1, 1, 0, 3]), [2, 0, 3, 1]);
        assert_eq!(goes(Policy::Lru, &[]), [0, 1, 2, 3]);
    }
}
