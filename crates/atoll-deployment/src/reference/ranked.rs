//! Policies that keep their objects in the order of a number, which only an access changes: an
//! ordered tree, where the papers have a heap.
//!
//! A [`Rank`] is derived from the papers, apart from the sampled forms in `atoll_cache::policy`,
//! which it tests.

use super::Policy;
use rapidhash::RapidHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// What a policy may look at when an object is accessed. Times are numbers of accesses to the whole
/// cache.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When it was inserted.
    pub inserted: u64,
    /// When it was last accessed: now.
    pub accessed: u64,
    /// When it was accessed before that; `None` for an insertion.
    pub previous: Option<u64>,
    /// Accesses since its insertion, which is the first.
    pub frequency: u64,
    /// Its size.
    pub bytes: u64,
    /// What [`Rank::rank`] said at the access before; zero for an insertion.
    pub value: f64,
}

/// A policy's number.
pub trait Rank {
    /// The value of an object after an access, the lowest first out. `age` is the value of the last
    /// object that was evicted by this policy.
    fn rank(&self, seen: &Seen, age: f64) -> f64;
}

impl<F: Fn(&Seen, f64) -> f64> Rank for F {
    fn rank(&self, seen: &Seen, age: f64) -> f64 {
        self(seen, age)
    }
}

/// LFU with counts that are forgotten with the object; among equals the least recently used leaves.
pub fn lfu(seen: &Seen, _age: f64) -> f64 {
    seen.frequency as f64
}

/// Most recently used.
pub fn mru(seen: &Seen, _age: f64) -> f64 {
    -(seen.accessed as f64)
}

/// The largest.
pub fn size(seen: &Seen, _age: f64) -> f64 {
    -(seen.bytes as f64)
}

/// GreedyDual-Size with a cost of one.
pub fn gds(seen: &Seen, age: f64) -> f64 {
    age + 1.0 / seen.bytes as f64
}

/// GreedyDual-Size with frequency, and a cost of one.
pub fn gdsf(seen: &Seen, age: f64) -> f64 {
    age + seen.frequency as f64 / seen.bytes as f64
}

/// LFU with dynamic ageing.
pub fn lfuda(seen: &Seen, age: f64) -> f64 {
    age + seen.frequency as f64
}

/// LRU-2: the access before the last; no such access comes first.
pub fn lru_2(seen: &Seen, _age: f64) -> f64 {
    seen.previous.map_or(-1.0, |previous| previous as f64)
}

/// Accesses after which one counts half in [`lrfu`]: ten seconds of the hit-ratio experiment's
/// clock.
const LRFU_HALF_LIFE: f64 = 10_000.0;

/// LRFU. The sum F(0) + F(t - t1) + ... with F(x) = 2^(-x / half-life) is compared as log2 of what
/// it would have been at time zero, which does not change until an access to the object.
pub fn lrfu(seen: &Seen, _age: f64) -> f64 {
    let now = seen.accessed as f64 / LRFU_HALF_LIFE;
    let earlier = if seen.previous.is_some() { (seen.value - now).exp2() } else { 0.0 };
    (1.0 + earlier).log2() + now
}

/// The policy's state.
pub struct Ranked<K, R> {
    rank: R,
    objects: RapidHashMap<K, Seen>,
    /// By value, then by access: no two objects have the same access.
    order: BTreeMap<(i64, u64), K>,
    age: f64,
    accesses: u64,
    objects_max: usize,
}

/// A float as a number that orders like it.
fn ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl<K: Hash + Eq + Clone, R: Rank> Ranked<K, R> {
    /// Room for `objects_max` objects, at least one.
    pub fn new(rank: R, objects_max: usize) -> Self {
        let (objects, order) = (RapidHashMap::default(), BTreeMap::new());
        Self { rank, objects, order, age: 0.0, accesses: 0, objects_max: objects_max.max(1) }
    }

    fn put(&mut self, key: K, seen: Seen) {
        let seen = Seen { value: self.rank.rank(&seen, self.age), ..seen };
        self.order.insert((ordered(seen.value), seen.accessed), key.clone());
        self.objects.insert(key, seen);
    }

    fn take(&mut self, key: &K) -> Option<Seen> {
        let seen = self.objects.remove(key)?;
        self.order.remove(&(ordered(seen.value), seen.accessed));
        Some(seen)
    }
}

impl<K: Hash + Eq + Clone, R: Rank> Policy<K> for Ranked<K, R> {
    fn contains(&self, key: &K) -> bool {
        self.objects.contains_key(key)
    }

    fn touch(&mut self, key: &K) {
        self.accesses += 1;
        let Some(seen) = self.take(key) else { return };
        let accessed = self.accesses;
        let seen = Seen { accessed, previous: Some(seen.accessed), frequency: seen.frequency + 1, ..seen };
        self.put(key.clone(), seen);
    }

    fn insert(&mut self, key: K, bytes: u64) -> Option<K> {
        let lowest = if self.objects.len() == self.objects_max { self.order.first_key_value() } else { None };
        let evicted = lowest.map(|(_, key)| key.clone());
        if let Some(seen) = evicted.as_ref().and_then(|key| self.take(key)) {
            self.age = seen.value;
        }
        self.accesses += 1;
        let now = self.accesses;
        self.put(key, Seen { inserted: now, accessed: now, previous: None, frequency: 1, bytes, value: 0.0 });
        evicted
    }

    fn remove(&mut self, key: &K) {
        self.take(key);
    }

    fn resident(&self) -> usize {
        self.objects.len()
    }
}
