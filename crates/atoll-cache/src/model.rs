//! The reference engine: one ordinary map that never evicts. Tests compare the other engines with
//! it. Programs built on [`Engine`] can be tested on it without a pool.

use crate::stats::Counters;
use crate::{
    Attributes, CacheError, Change, Engine, Flushed, Lookup, Meta, Old, Stats, VALUE_BYTES_MAX, Value, Verdict,
};
use atoll_fabric::{Clock, Traffic};
use atoll_pool::Upkeep;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

struct Entry {
    value: Vec<u8>,
    expiry_ms: Option<u64>,
    token: u64,
    attributes: Attributes,
}

impl Entry {
    fn meta(&self) -> Meta {
        let Self { expiry_ms, token, attributes, .. } = *self;
        Meta { expiry_ms, token, value_bytes: self.value.len(), attributes }
    }

    fn is_live(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_none_or(|expiry_ms| now_ms < expiry_ms)
    }
}

/// An engine over a map of its own.
pub struct Model {
    entries: RefCell<BTreeMap<Vec<u8>, Entry>>,
    clock: Clock,
    token_last: Cell<u64>,
    stats: Counters,
}

impl Model {
    /// An empty map on `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { entries: RefCell::default(), clock, token_last: Cell::new(0), stats: Counters::default() }
    }
}

impl Engine for Model {
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let now_ms = self.clock.unix_ms();
        let lookup = match self.entries.borrow().get(key) {
            None => Lookup::Absent,
            Some(entry) if !entry.is_live(now_ms) => Lookup::Expired,
            Some(entry) => {
                into.assign(&entry.value, entry.meta());
                Lookup::Hit
            }
        };
        match lookup {
            Lookup::Hit => self.stats.hits.add(1),
            Lookup::Absent => self.stats.misses_absent.add(1),
            Lookup::Expired => self.stats.misses_expired.add(1),
        }
        Ok(lookup)
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let now_ms = self.clock.unix_ms();
        Ok(self.entries.borrow().get(key).filter(|entry| entry.is_live(now_ms)).map(Entry::meta))
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let now_ms = self.clock.unix_ms();
        let mut entries = self.entries.borrow_mut();
        let old = entries.get(key).filter(|entry| entry.is_live(now_ms));
        let verdict = change.decide(now_ms, old.map(|entry| Old { meta: entry.meta(), value: &entry.value }));
        match verdict {
            Verdict::Leave => {}
            Verdict::Remove => {
                entries.remove(key);
                self.stats.removes.add(1);
            }
            Verdict::Put { expiry_ms, attributes } => {
                self.token_last.set(self.token_last.get() + 1);
                let (value, token) = (change.value().to_vec(), self.token_last.get());
                let entry = Entry { value, expiry_ms, token, attributes };
                entries.insert(key.to_vec(), entry);
                self.stats.puts.add(1);
            }
            Verdict::Expire { expiry_ms } => {
                if let Some(entry) = entries.get_mut(key) {
                    entry.expiry_ms = expiry_ms;
                }
            }
        }
        Ok(entries.get(key).filter(|entry| entry.is_live(now_ms)).map(|entry| entry.token))
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, mut each: F) -> Result<u64, CacheError> {
        let now_ms = self.clock.unix_ms();
        let end = (cursor as usize).saturating_add(count.max(1));
        let entries = self.entries.borrow();
        for (_, (key, _)) in
            (0..end).zip(&*entries).skip(cursor as usize).filter(|(_, (_, entry))| entry.is_live(now_ms))
        {
            each(key);
        }
        Ok(if end >= entries.len() { 0 } else { end as u64 })
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        let now_ms = self.clock.unix_ms();
        Ok(self.entries.borrow().iter().find(|(_, entry)| entry.is_live(now_ms)).map(|(key, _)| key.clone()))
    }

    async fn flush(&self, _cursor: u64) -> Result<Flushed, CacheError> {
        let removed = std::mem::take(&mut *self.entries.borrow_mut()).len() as u64;
        Ok(Flushed { removed, next: 0 })
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        Ok(self.entries.borrow().len() as u64)
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        Ok(self.clock.unix_ms())
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn stats(&self) -> Stats {
        self.stats.stats(Upkeep::default(), Traffic::default())
    }
}
