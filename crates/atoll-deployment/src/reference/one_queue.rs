//! The policies with one queue: first in, first out; and least recently used.

use super::Policy;
use super::order::Order;
use std::hash::Hash;

/// First in, first out: an access changes nothing.
pub type Fifo<K> = OneQueue<K, false>;

/// Least recently used: an accessed key goes to the back of the queue.
pub type Lru<K> = OneQueue<K, true>;

/// The policies' state. The key at the front of the queue is the next victim.
pub struct OneQueue<K, const IS_BY_ACCESS: bool> {
    order: Order<K>,
    objects_max: usize,
}

impl<K: Hash + Eq + Clone, const IS_BY_ACCESS: bool> OneQueue<K, IS_BY_ACCESS> {
    /// Room for `objects_max` objects, at least one.
    pub fn new(objects_max: usize) -> Self {
        Self { order: Order::new(), objects_max: objects_max.max(1) }
    }
}

impl<K: Hash + Eq + Clone, const IS_BY_ACCESS: bool> Policy<K> for OneQueue<K, IS_BY_ACCESS> {
    fn contains(&self, key: &K) -> bool {
        self.order.contains(key)
    }

    fn touch(&mut self, key: &K) {
        if IS_BY_ACCESS {
            self.order.push(key.clone());
        }
    }

    fn insert(&mut self, key: K, _bytes: u64) -> Option<K> {
        let evicted = if self.order.len() == self.objects_max { self.order.pop() } else { None };
        self.order.push(key);
        evicted
    }

    fn remove(&mut self, key: &K) {
        self.order.remove(key);
    }

    fn resident(&self) -> usize {
        self.order.len()
    }
}
