//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023) with the
//! parameters of libCacheSim at the oracle's version. The small queue is 10 % of the cache. The
//! ghost queue remembers as many keys as 90 % of it. An object moves to the main queue when it had
//! two accesses since its insertion. Counts stop at 3.

use super::Policy;
use super::order::Order;
use rapidhash::RapidHashMap;
use std::hash::Hash;

const FREQUENCY_MAX: u8 = 3;
const MOVE_TO_MAIN_FREQUENCY: u8 = 2;

/// The policy's state.
pub struct S3Fifo<K> {
    /// Accesses of every resident key since it came or was last spared, at most
    /// [`FREQUENCY_MAX`].
    frequencies: RapidHashMap<K, u8>,
    small: Order<K>,
    main: Order<K>,
    ghost: Order<K>,
    objects_max: usize,
}

impl<K: Hash + Eq + Clone> S3Fifo<K> {
    /// Room for `objects_max` objects, at least two.
    pub fn new(objects_max: usize) -> Self {
        let [small, main, ghost] = std::array::from_fn(|_| Order::new());
        Self { small, main, ghost, frequencies: RapidHashMap::default(), objects_max: objects_max.max(2) }
    }

    fn main_max(&self) -> usize {
        self.objects_max - (self.objects_max / 10).max(1)
    }

    /// Evicts an object. On the way it moves others from the small queue to the main one.
    fn evict(&mut self) -> Option<K> {
        if self.main.len() <= self.main_max()
            && let Some(evicted) = self.evict_from_small()
        {
            return Some(evicted);
        }
        self.evict_from_main()
    }

    fn evict_from_small(&mut self) -> Option<K> {
        while let Some(key) = self.small.pop() {
            let frequency = self.frequencies.get_mut(&key)?;
            if *frequency >= MOVE_TO_MAIN_FREQUENCY {
                *frequency = 0;
                self.main.push(key);
                continue;
            }
            self.frequencies.remove(&key);
            if self.ghost.len() >= self.objects_max * 9 / 10 {
                self.ghost.pop();
            }
            self.ghost.push(key.clone());
            return Some(key);
        }
        None
    }

    fn evict_from_main(&mut self) -> Option<K> {
        loop {
            let key = self.main.pop()?;
            let frequency = self.frequencies.get_mut(&key)?;
            if *frequency == 0 {
                self.frequencies.remove(&key);
                return Some(key);
            }
            *frequency -= 1;
            self.main.push(key);
        }
    }
}

impl<K: Hash + Eq + Clone> Policy<K> for S3Fifo<K> {
    fn contains(&self, key: &K) -> bool {
        self.frequencies.contains_key(key)
    }

    fn touch(&mut self, key: &K) {
        if let Some(frequency) = self.frequencies.get_mut(key) {
            *frequency = (*frequency + 1).min(FREQUENCY_MAX);
        }
    }

    fn insert(&mut self, key: K, _bytes: u64) -> Option<K> {
        // The ghost is asked before it forgets a key for the object that leaves.
        let remembered = self.ghost.remove(&key);
        let full = self.resident() == self.objects_max;
        let evicted = if full { self.evict() } else { None };
        self.frequencies.insert(key.clone(), 0);
        let queue = if remembered { &mut self.main } else { &mut self.small };
        queue.push(key);
        evicted
    }

    fn remove(&mut self, key: &K) {
        if self.frequencies.remove(key).is_some() && !self.small.remove(key) {
            self.main.remove(key);
        }
    }

    fn resident(&self) -> usize {
        self.small.len() + self.main.len()
    }
}
