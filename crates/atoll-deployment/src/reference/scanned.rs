//! Policies whose order changes by itself: hyperbolic and random. An eviction looks at every
//! object.
//!
//! They are exact and slow, for small caches.

use super::Policy;
use crate::random::Random;
use rapidhash::RapidHashMap;
use std::hash::Hash;

const SEED: u64 = 0x0a70_5ca1;

#[derive(Clone, Copy, Debug)]
struct Seen {
    inserted: u64,
    accessed: u64,
    frequency: u64,
    bytes: u64,
    /// Its place in [`Scanned::keys`].
    place: usize,
}

/// How the victim is found.
#[derive(Clone, Debug)]
enum Rule {
    /// The least frequency over age and size; among equals the least recently used.
    Hyperbolic,
    /// Any.
    Random(Random),
}

/// The policy's state.
pub struct Scanned<K> {
    rule: Rule,
    objects: RapidHashMap<K, Seen>,
    keys: Vec<K>,
    accesses: u64,
    objects_max: usize,
}

impl<K: Hash + Eq + Clone> Scanned<K> {
    fn new(rule: Rule, objects_max: usize) -> Self {
        Self { rule, objects: RapidHashMap::default(), keys: Vec::new(), accesses: 0, objects_max: objects_max.max(1) }
    }

    /// Hyperbolic caching over all objects, with room for `objects_max`, at least one.
    pub fn hyperbolic(objects_max: usize) -> Self {
        Self::new(Rule::Hyperbolic, objects_max)
    }

    /// Random eviction, with room for `objects_max` objects, at least one.
    pub fn random(objects_max: usize) -> Self {
        Self::new(Rule::Random(Random::new(SEED)), objects_max)
    }

    fn victim(&mut self) -> Option<K> {
        let now = self.accesses + 1;
        match &mut self.rule {
            Rule::Random(random) => {
                let place = random.below(self.keys.len() as u64) as usize;
                self.keys.get(place).cloned()
            }
            Rule::Hyperbolic => {
                let worth = |seen: &Seen| seen.frequency as f64 / ((now - seen.inserted) * seen.bytes) as f64;
                let order = |a: &Seen, b: &Seen| worth(a).total_cmp(&worth(b)).then(a.accessed.cmp(&b.accessed));
                self.objects.iter().min_by(|a, b| order(a.1, b.1)).map(|(key, _)| key.clone())
            }
        }
    }
}

impl<K: Hash + Eq + Clone> Policy<K> for Scanned<K> {
    fn contains(&self, key: &K) -> bool {
        self.objects.contains_key(key)
    }

    fn touch(&mut self, key: &K) {
        self.accesses += 1;
        if let Some(seen) = self.objects.get_mut(key) {
            seen.frequency += 1;
            seen.accessed = self.accesses;
        }
    }

    fn insert(&mut self, key: K, bytes: u64) -> Option<K> {
        let evicted = if self.objects.len() == self.objects_max { self.victim() } else { None };
        evicted.iter().for_each(|key| self.remove(key));
        self.accesses += 1;
        let (now, place) = (self.accesses, self.keys.len());
        self.objects
            .insert(key.clone(), Seen { inserted: now, accessed: now, frequency: 1, bytes: bytes.max(1), place });
        self.keys.push(key);
        evicted
    }

    fn remove(&mut self, key: &K) {
        let Some(seen) = self.objects.remove(key) else { return };
        self.keys.swap_remove(seen.place);
        if let Some(moved) = self.keys.get(seen.place)
            && let Some(moved) = self.objects.get_mut(moved)
        {
            moved.place = seen.place;
        }
    }

    fn resident(&self) -> usize {
        self.objects.len()
    }
}
