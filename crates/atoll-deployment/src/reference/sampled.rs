//! Any policy, or set of experts, in the form that a pool has: from samples of a hash table (Ditto
//! sections 4.2 and 4.3), in ordinary memory.
//!
//! There is one client, no verb and no pool. It shows in seconds what an engine that follows Ditto
//! would hit, except for what clients do not know of each other. The table itself is
//! `atoll_cache::experts::Table`, which knows only hashes of 64 bits: two keys of one hash would be
//! one object. The clock moves `US_PER_ACCESS` at every access, as in the hit-ratio experiment.

use super::Policy;
use crate::random::mix;
use atoll_cache::experts::{ExpertSet, Settings, Table};
use rapidhash::RapidHashMap;
use std::hash::{BuildHasher, Hash};

const US_PER_ACCESS: u64 = 1000;

/// The table, and the keys of its hashes.
pub struct Sampled<K> {
    table: Table,
    /// Of exactly the objects in the table.
    keys: RapidHashMap<u64, K>,
    now_us: u64,
}

impl<K: Hash + Eq + Clone> Sampled<K> {
    /// Room for `objects_max` objects, at least one.
    pub fn new(set: ExpertSet, settings: Settings, objects_max: usize) -> Self {
        Self { table: Table::new(set, settings, objects_max), keys: RapidHashMap::default(), now_us: 0 }
    }
}

fn hash<K: Hash>(key: &K) -> u64 {
    // Mixed once more, since a bucket, a ghost and a sample take different bits of it.
    mix(rapidhash::quality::SeedableState::fixed().hash_one(key))
}

impl<K: Hash + Eq + Clone> Policy<K> for Sampled<K> {
    fn contains(&self, key: &K) -> bool {
        self.table.contains(hash(key))
    }

    fn touch(&mut self, key: &K) {
        self.now_us += US_PER_ACCESS;
        self.table.touch(hash(key), self.now_us);
    }

    fn insert(&mut self, key: K, bytes: u64) -> Option<K> {
        self.now_us += US_PER_ACCESS;
        let hash = hash(&key);
        let evicted = self.table.insert(hash, bytes, self.now_us);
        self.keys.insert(hash, key);
        self.keys.remove(&evicted?)
    }

    fn remove(&mut self, key: &K) {
        self.table.remove(hash(key));
        self.keys.remove(&hash(key));
    }

    fn resident(&self) -> usize {
        self.table.objects()
    }
}
