//! SIEVE (Zhang et al., "SIEVE is simpler than LRU: an efficient turn-key eviction algorithm for
//! web caches", NSDI 2024). New keys are inserted at the head of one queue and stay in place. A
//! hand moves from the tail towards the head. It spares keys with an access since its last pass,
//! and evicts the first key without.

use super::Policy;
use rapidhash::RapidHashMap;
use std::hash::Hash;

/// A resident key's place in the queue.
struct Place<K> {
    key: K,
    /// Towards the head.
    newer: Option<usize>,
    /// Towards the tail.
    older: Option<usize>,
    visited: bool,
}

/// The policy's state.
pub struct Sieve<K> {
    places: Vec<Option<Place<K>>>,
    free: Vec<usize>,
    index: RapidHashMap<K, usize>,
    head: Option<usize>,
    tail: Option<usize>,
    /// The next place that is looked at; the tail if there is none.
    hand: Option<usize>,
    objects_max: usize,
}

impl<K: Hash + Eq + Clone> Sieve<K> {
    /// Room for `objects_max` objects, at least one.
    pub fn new(objects_max: usize) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            index: RapidHashMap::default(),
            head: None,
            tail: None,
            hand: None,
            objects_max: objects_max.max(1),
        }
    }

    fn place(&mut self, at: usize) -> &mut Place<K> {
        self.places[at].as_mut().expect("the queue links resident keys only")
    }

    fn take(&mut self, at: usize) -> K {
        let place = self.places[at].take().expect("the queue links resident keys only");
        match place.newer {
            Some(newer) => self.place(newer).older = place.older,
            None => self.head = place.older,
        }
        match place.older {
            Some(older) => self.place(older).newer = place.newer,
            None => self.tail = place.newer,
        }
        if self.hand == Some(at) {
            self.hand = place.newer;
        }
        self.index.remove(&place.key);
        self.free.push(at);
        place.key
    }

    fn evict(&mut self) -> Option<K> {
        let mut at = self.hand.or(self.tail)?;
        while self.place(at).visited {
            self.place(at).visited = false;
            at = self.place(at).newer.or(self.tail)?;
        }
        self.hand = Some(at);
        Some(self.take(at))
    }
}

impl<K: Hash + Eq + Clone> Policy<K> for Sieve<K> {
    fn contains(&self, key: &K) -> bool {
        self.index.contains_key(key)
    }

    fn touch(&mut self, key: &K) {
        if let Some(at) = self.index.get(key).copied() {
            self.place(at).visited = true;
        }
    }

    fn insert(&mut self, key: K, _bytes: u64) -> Option<K> {
        let evicted = if self.index.len() == self.objects_max { self.evict() } else { None };
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[at] = Some(Place { key: key.clone(), newer: None, older: self.head, visited: false });
        match self.head {
            Some(head) => self.place(head).newer = Some(at),
            None => self.tail = Some(at),
        }
        self.head = Some(at);
        self.index.insert(key, at);
        evicted
    }

    fn remove(&mut self, key: &K) {
        if let Some(at) = self.index.get(key).copied() {
            self.take(at);
        }
    }

    fn resident(&self) -> usize {
        self.index.len()
    }
}
