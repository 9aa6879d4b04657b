//! A queue whose members can also leave from the middle.
//!
//! A member that left stays in the queue as a stale entry, which its ticket tells. Stale entries
//! are removed when they reach the front, or when they outnumber the members.

use rapidhash::RapidHashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// A queue of distinct keys.
#[derive(Debug)]
pub(super) struct Order<K> {
    /// Oldest first; an entry is a member's exactly if it bears the member's ticket.
    entries: VecDeque<(u64, K)>,
    tickets: RapidHashMap<K, u64>,
    ticket_last: u64,
}

impl<K: Hash + Eq + Clone> Order<K> {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), tickets: RapidHashMap::default(), ticket_last: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.tickets.contains_key(key)
    }

    /// Puts `key` at the back, wherever it was before.
    pub(super) fn push(&mut self, key: K) {
        self.ticket_last += 1;
        self.tickets.insert(key.clone(), self.ticket_last);
        self.entries.push_back((self.ticket_last, key));
        if self.entries.len() > 4 * self.tickets.len() + 64 {
            self.entries.retain(|(ticket, key)| self.tickets.get(key) == Some(ticket));
        }
    }

    /// Removes the key at the front.
    pub(super) fn pop(&mut self) -> Option<K> {
        while let Some((ticket, key)) = self.entries.pop_front() {
            if self.tickets.get(&key) == Some(&ticket) {
                self.tickets.remove(&key);
                return Some(key);
            }
        }
        None
    }

    /// The key at the front.
    pub(super) fn front(&mut self) -> Option<&K> {
        while let Some((ticket, key)) = self.entries.front()
            && self.tickets.get(key) != Some(ticket)
        {
            self.entries.pop_front();
        }
        self.entries.front().map(|(_, key)| key)
    }

    pub(super) fn remove(&mut self, key: &K) -> bool {
        self.tickets.remove(key).is_some()
    }
}
