//! What the server knows of the objects: its own books of the index, and the order in which objects go.
//!
//! The order is exact, in 128 shards by the hash of the key, as in Ditto's CliqueMap (section 5.3), where they keep cores from waiting for each other. Each shard
//! is an ordered set, of times for LRU, of counts and times for LFU: what a list and a heap give, in one structure. A victim is the first of the shard of the key
//! that needs room; if that shard has none, of the next one that has.

use super::super::layout::{BUCKET_ENTRIES, CliqueMapLayout, Span};
use super::super::settings::Policy;
use super::super::wire::Present;
use std::collections::BTreeSet;

/// Shards of the order.
const SHARDS: usize = 128;

/// An object, as the server knows it.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) hash: u64,
    pub(super) key: Box<[u8]>,
    pub(super) version: u64,
    pub(super) token: u64,
    pub(super) expiry_ms: Option<u64>,
    pub(super) value_bytes: u64,
    pub(super) span: Span,
    /// Its place in the order of its shard.
    pub(super) rank: Rank,
}

/// The lowest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Accesses, where they count; else 0.
    accesses: u64,
    /// The last access, on the server's clock.
    at_ns: u64,
}

impl Rank {
    /// That of an object after one more access.
    pub(super) fn accessed(policy: Policy, before: Option<Self>, at_ns: u64) -> Self {
        let accesses = match policy {
            Policy::Lru => 0,
            Policy::Lfu => before.map_or(0, |before| before.accesses) + 1,
        };
        Self { accesses, at_ns: before.map_or(0, |before| before.at_ns).max(at_ns) }
    }
}

/// Objects by entry of the index, and their orders.
#[derive(Debug)]
pub(super) struct Table {
    policy: Policy,
    layout: CliqueMapLayout,
    /// By the number of the entry.
    objects: Vec<Option<Box<Object>>>,
    /// By the low bits of the hash, the rank and the entry of each object.
    shards: Vec<BTreeSet<(Rank, u32)>>,
    /// When objects expire that do, and their entries.
    expiring: BTreeSet<(u64, u32)>,
    count: u64,
}

impl Table {
    pub(super) fn new(policy: Policy, layout: CliqueMapLayout) -> Self {
        let mut objects = Vec::new();
        objects.resize_with(layout.buckets() as usize * BUCKET_ENTRIES, || None);
        let shards = vec![BTreeSet::new(); SHARDS];
        Self { policy, layout, objects, shards, expiring: BTreeSet::new(), count: 0 }
    }

    /// How many objects there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// How many entries there are.
    pub(super) fn entries(&self) -> u32 {
        self.objects.len() as u32
    }

    fn bucket(&self, hash: u64) -> std::ops::Range<u32> {
        let first = self.layout.bucket_of(hash) * BUCKET_ENTRIES as u32;
        first..first + BUCKET_ENTRIES as u32
    }

    fn shard(hash: u64) -> usize {
        hash as usize % SHARDS
    }

    pub(super) fn get(&self, entry: u32) -> Option<&Object> {
        self.objects[entry as usize].as_deref()
    }

    /// What changes say of an object.
    pub(super) fn present(&self, entry: u32) -> Option<Present> {
        let object = self.get(entry)?;
        Some(Present { token: object.token, expiry_ms: object.expiry_ms, value_bytes: object.value_bytes })
    }

    /// The entry of a key's object.
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_ours = |object: &Object| object.hash == hash && *object.key == *key;
        self.bucket(hash).find(|entry| self.get(*entry).is_some_and(is_ours))
    }

    /// An entry of the key's bucket that no object has.
    pub(super) fn free_entry(&self, hash: u64) -> Option<u32> {
        self.bucket(hash).find(|entry| self.get(*entry).is_none())
    }

    /// The object of the key's bucket that goes first.
    pub(super) fn victim_in_bucket(&self, hash: u64) -> Option<u32> {
        self.bucket(hash).filter_map(|entry| Some((self.get(entry)?.rank, entry))).min().map(|(_, entry)| entry)
    }

    /// The object that goes first, seen from this key; one that has expired before all others.
    pub(super) fn victim(&self, hash: u64, now_ms: u64) -> Option<u32> {
        if let Some((expiry_ms, entry)) = self.expiring.first()
            && *expiry_ms <= now_ms
        {
            return Some(*entry);
        }
        let shards = (0..SHARDS).map(|behind| &self.shards[(Self::shard(hash) + behind) % SHARDS]);
        shards.filter_map(BTreeSet::first).map(|(_, entry)| *entry).next()
    }

    /// Enters an object whose entry is free.
    pub(super) fn insert(&mut self, entry: u32, object: Object) {
        self.shards[Self::shard(object.hash)].insert((object.rank, entry));
        self.expiring.extend(object.expiry_ms.map(|expiry_ms| (expiry_ms, entry)));
        self.count += 1;
        let before = self.objects[entry as usize].replace(Box::new(object));
        debug_assert!(before.is_none());
    }

    /// Strikes an object out.
    pub(super) fn remove(&mut self, entry: u32) -> Option<Box<Object>> {
        let object = self.objects[entry as usize].take()?;
        self.shards[Self::shard(object.hash)].remove(&(object.rank, entry));
        if let Some(expiry_ms) = object.expiry_ms {
            self.expiring.remove(&(expiry_ms, entry));
        }
        self.count -= 1;
        Some(object)
    }

    /// Counts an access of the object with this hash, if there is one; of two that share it, the first.
    pub(super) fn access(&mut self, hash: u64, at_ns: u64) {
        let (policy, bucket) = (self.policy, self.bucket(hash));
        for entry in bucket {
            let Some(object) = self.objects[entry as usize].as_deref_mut().filter(|object| object.hash == hash) else {
                continue;
            };
            let shard = &mut self.shards[Self::shard(hash)];
            shard.remove(&(object.rank, entry));
            object.rank = Rank::accessed(policy, Some(object.rank), at_ns);
            shard.insert((object.rank, entry));
            return;
        }
    }
}
