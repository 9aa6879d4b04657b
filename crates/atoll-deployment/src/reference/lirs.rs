//! LIRS with its stack and its queue (Jiang and Zhang, SIGMETRICS 2002, section 3.3).
//!
//! | set | which keys | kept in |
//! |---|---|---|
//! | LIR | low inter-reference recency, resident | the stack |
//! | HIR, resident | high, 1 % of the cache and at least two objects | the queue, and perhaps the stack |
//! | HIR, not resident | seen since the oldest LIR | the stack |
//!
//! The bottom of the stack is a LIR. An accessed HIR that is in the stack becomes LIR: its distance
//! is shorter than the recency of the bottom. The bottom becomes HIR. The front of the queue is the
//! next victim. At most `STACK_PER_OBJECT` times the cache's objects stay in the stack without
//! being resident.

use super::Policy;
use super::order::Order;
use rapidhash::RapidHashMap;
use std::hash::Hash;

const HIR_PERCENT: usize = 1;
const STACK_PER_OBJECT: usize = 2;

/// The policy's state.
pub struct Lirs<K> {
    /// Most recent at the back; LIRs, and HIRs that came after the oldest of these.
    stack: Order<K>,
    /// Resident HIRs, next victim first.
    queue: Order<K>,
    /// Keys of the stack that are not resident, oldest first.
    gone: Order<K>,
    /// Whether a resident key is LIR.
    resident: RapidHashMap<K, bool>,
    lirs: usize,
    lirs_max: usize,
    objects_max: usize,
}

impl<K: Hash + Eq + Clone> Lirs<K> {
    /// Room for `objects_max` objects, at least three.
    pub fn new(objects_max: usize) -> Self {
        let objects_max = objects_max.max(3);
        let hirs = (objects_max * HIR_PERCENT / 100).max(2);
        let order = Order::new;
        let (stack, queue, gone) = (order(), order(), order());
        let lirs_max = objects_max - hirs;
        Self { stack, queue, gone, resident: RapidHashMap::default(), lirs: 0, lirs_max, objects_max }
    }

    fn is_lir(&self, key: &K) -> bool {
        self.resident.get(key) == Some(&true)
    }

    /// Takes HIRs from the bottom of the stack until a LIR is there.
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.front().cloned() {
            if self.is_lir(&bottom) {
                break;
            }
            self.stack.remove(&bottom);
            self.gone.remove(&bottom);
        }
    }

    fn promote(&mut self, key: &K) {
        self.resident.insert(key.clone(), true);
        self.queue.remove(key);
        self.lirs += 1;
        if self.lirs > self.lirs_max
            && let Some(bottom) = self.stack.pop()
        {
            self.resident.insert(bottom.clone(), false);
            self.queue.push(bottom);
            self.lirs -= 1;
            self.prune();
        }
    }

    fn evict(&mut self) -> Option<K> {
        let key = match self.queue.pop() {
            Some(key) => key,
            // All are LIR: the oldest of them leaves.
            None => {
                let key = self.stack.pop()?;
                self.lirs -= 1;
                key
            }
        };
        self.resident.remove(&key);
        if self.stack.contains(&key) {
            self.gone.push(key.clone());
            if self.gone.len() > STACK_PER_OBJECT * self.objects_max
                && let Some(oldest) = self.gone.pop()
            {
                self.stack.remove(&oldest);
            }
        }
        self.prune();
        Some(key)
    }
}

impl<K: Hash + Eq + Clone> Policy<K> for Lirs<K> {
    fn contains(&self, key: &K) -> bool {
        self.resident.contains_key(key)
    }

    fn touch(&mut self, key: &K) {
        let in_stack = self.stack.contains(key);
        self.stack.push(key.clone());
        if self.is_lir(key) {
            self.prune();
        } else if in_stack {
            self.promote(key);
        } else {
            self.queue.push(key.clone());
        }
    }

    fn insert(&mut self, key: K, _bytes: u64) -> Option<K> {
        let evicted = if self.resident.len() == self.objects_max { self.evict() } else { None };
        let in_stack = self.stack.contains(&key);
        self.gone.remove(&key);
        self.stack.push(key.clone());
        self.resident.insert(key.clone(), false);
        if in_stack || self.lirs < self.lirs_max {
            self.promote(&key);
        } else {
            self.queue.push(key);
        }
        evicted
    }

    fn remove(&mut self, key: &K) {
        match self.resident.remove(key) {
            Some(true) => self.lirs -= 1,
            Some(false) => {
                self.queue.remove(key);
            }
            None => return,
        }
        self.stack.remove(key);
        self.prune();
    }

    fn resident(&self) -> usize {
        self.resident.len()
    }
}
