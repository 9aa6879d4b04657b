//! First in, first out.

use super::Policy;
use super::order::Order;
use std::hash::Hash;

/// The policy's state.
pub struct Fifo<K> {
    order: Order<K>,
    objects_max: usize,
}

impl<K: Hash + Eq + Clone> Fifo<K> {
    /// Room for `objects_max` objects, at least one.
    pub fn new(objects_max: usize) -> Self {
        Self { order: Order::new(), objects_max: objects_max.max(1) }
    }
}

impl<K: Hash + Eq + Clone> Policy<K> for Fifo<K> {
    fn contains(&self, key: &K) -> bool {
        self.order.contains(key)
    }

    fn touch(&mut self, _key: &K) {}

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
