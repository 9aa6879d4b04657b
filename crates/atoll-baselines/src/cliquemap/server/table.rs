//! The server's own books of the index: what it knows of the objects.
//!
//! A victim is the first in the order of the key's shard. If that shard is empty, it is the first
//! of the next shard that has one. Objects that have expired are evicted before all others.

use super::super::entry::{BUCKET_ENTRIES, Span};
use super::super::layout::CliqueMapLayout;
use super::super::settings::Policy;
use super::super::wire::Present;
use super::order::{Order, SHARDS};
use std::collections::BTreeSet;

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
}

/// Objects by entry of the index, and the order in which they are evicted.
#[derive(Debug)]
pub(super) struct Table {
    layout: CliqueMapLayout,
    /// The hash of the key, by the number of the entry: a bucket's hashes are one line. A hash
    /// counts only if its entry has an object.
    hashes: Vec<u64>,
    /// The objects, by the number of the entry.
    objects: Vec<Option<Box<Object>>>,
    order: Order,
    /// The times at which objects expire, with their entries.
    expiring: BTreeSet<(u64, u32)>,
    count: u64,
}

impl Table {
    pub(super) fn new(policy: Policy, layout: CliqueMapLayout) -> Self {
        let entries = layout.buckets() as usize * BUCKET_ENTRIES;
        let mut objects = Vec::new();
        objects.resize_with(entries, || None);
        let order = Order::new(policy, entries as u32);
        Self { layout, hashes: vec![0; entries], objects, order, expiring: BTreeSet::new(), count: 0 }
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

    /// The object, as changes see it.
    pub(super) fn present(&self, entry: u32) -> Option<Present> {
        let object = self.get(entry)?;
        Some(Present { token: object.token, expiry_ms: object.expiry_ms, value_bytes: object.value_bytes })
    }

    /// The entries of a bucket whose objects have this hash.
    fn with_hash(&self, hash: u64) -> impl Iterator<Item = u32> {
        self.bucket(hash)
            .filter(move |entry| self.hashes[*entry as usize] == hash && self.objects[*entry as usize].is_some())
    }

    /// The entry of a key's object.
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.with_hash(hash).find(|entry| self.get(*entry).is_some_and(|object| *object.key == *key))
    }

    /// An entry of the key's bucket that no object has.
    pub(super) fn free_entry(&self, hash: u64) -> Option<u32> {
        self.bucket(hash).find(|entry| self.get(*entry).is_none())
    }

    /// The object of the key's bucket that is evicted first.
    pub(super) fn victim_in_bucket(&self, hash: u64) -> Option<u32> {
        self.bucket(hash).filter(|entry| self.get(*entry).is_some()).min_by_key(|entry| self.order.rank(*entry))
    }

    /// The object that is evicted first, starting from this key's shard; expired objects before all
    /// others.
    pub(super) fn victim(&self, hash: u64, now_ms: u64) -> Option<u32> {
        if let Some((expiry_ms, entry)) = self.expiring.first()
            && *expiry_ms <= now_ms
        {
            return Some(*entry);
        }
        (0..SHARDS).find_map(|behind| self.order.first((Self::shard(hash) + behind) % SHARDS))
    }

    /// Inserts an object whose entry is free, after one more access than `accesses_before`.
    pub(super) fn insert(&mut self, entry: u32, object: Object, accesses_before: u64) {
        self.order.insert(Self::shard(object.hash), entry, accesses_before);
        self.expiring.extend(object.expiry_ms.map(|expiry_ms| (expiry_ms, entry)));
        self.count += 1;
        self.hashes[entry as usize] = object.hash;
        let before = self.objects[entry as usize].replace(Box::new(object));
        debug_assert!(before.is_none());
    }

    /// Removes an object; returns it with its accesses, where they count.
    pub(super) fn remove(&mut self, entry: u32) -> Option<(Box<Object>, u64)> {
        let object = self.objects[entry as usize].take()?;
        let accesses = self.order.remove(Self::shard(object.hash), entry);
        if let Some(expiry_ms) = object.expiry_ms {
            self.expiring.remove(&(expiry_ms, entry));
        }
        self.count -= 1;
        Some((object, accesses))
    }

    /// Counts an access of the object with this hash, if there is one. If two share the hash, it
    /// counts for the first.
    pub(super) fn access(&mut self, hash: u64) {
        let found = self.with_hash(hash).next();
        if let Some(entry) = found {
            let shard = Self::shard(hash);
            let accesses = self.order.remove(shard, entry);
            self.order.insert(shard, entry, accesses);
        }
    }
}
