//! The address cache: where this client last saw the objects of keys. A right entry saves the READ
//! of the bucket.
//!
//! ```text
//! a set    +---------------------------+-----+---------------------------+
//!          | key | slot number | word  | ... |                           |    4 entries of 24 bytes, the last used first
//!          +---------------------------+-----+---------------------------+
//! ```
//!
//! An entry is a guess. An operation that uses it READs the slot in the same batch as the record.
//! It continues only if the slot has the word of the entry. Then the record is the slot's, whatever
//! happened in between, and the client judges it like any other.
//!
//! | operation | without | with a right guess | with a wrong one |
//! |---|---|---|---|
//! | GET | READ bucket; READ record | READ slot, READ record | one round trip more |
//! | change | READ bucket; WRITE protection, READ slot, READ record; ... | WRITE protection, READ slot, READ record; ... | the same |
//!
//! The cache pays where a round trip costs more than a lookup in memory. It is off on fabrics that
//! are [near](atoll_fabric::Endpoint::is_near).

use super::operation::Operation;
use super::search::{Found, Search};
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::candidate::Candidate;
use crate::{CacheError, Lookup, Meta, Value, Want};
use atoll_fabric::{Batch, Endpoint};

/// Memory of a client's address cache where it is on by default: the addresses of 700 000 keys.
pub const ADDRESS_CACHE_BYTES: usize = 16 << 20;
const WAYS: usize = 4;
const SET_BYTES: usize = WAYS * std::mem::size_of::<Known>();

/// Where a key's object was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    key: u64,
    pub(super) slot: u64,
    /// A free word in an unused entry.
    pub(super) word: Slot,
}

const UNUSED: Known = Known { key: 0, slot: 0, word: Slot::EMPTY };
const _: () = assert!(std::mem::size_of::<Known>() == 24);

/// The addresses that a client knows.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// The most sets that the cache may have, a power of two; 0 if it is off.
    sets_max: usize,
    /// Empty until the client learns its first address: a client that never looks up needs no
    /// memory.
    sets: Vec<[Known; WAYS]>,
}

impl Addresses {
    /// A cache of at most `bytes`. Fewer bytes than one set has switch it off.
    pub(super) fn new(bytes: usize) -> Self {
        let sets = bytes / SET_BYTES;
        Self { sets_max: if sets == 0 { 0 } else { 1 << sets.ilog2() }, sets: Vec::new() }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.sets_max > 0
    }

    fn key(hash: KeyHash) -> u64 {
        u64::from(hash.bucket) << 23 | u64::from(hash.fingerprint) << 15 | u64::from(hash.more)
    }

    fn set(&mut self, key: u64) -> &mut [Known; WAYS] {
        // The hash already spreads the buckets evenly. The fingerprint distinguishes the keys of
        // one bucket.
        let at = (key >> 15).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mask = self.sets.len() - 1;
        &mut self.sets[at as usize & mask]
    }

    /// The key's entry, if there is one. The call marks it as the last used.
    pub(super) fn find(&mut self, hash: KeyHash) -> Option<Known> {
        if self.sets.is_empty() {
            return None;
        }
        let key = Self::key(hash);
        let set = self.set(key);
        let at = set.iter().position(|known| known.key == key && !known.word.is_free())?;
        set[..=at].rotate_right(1);
        Some(set[0])
    }

    /// Stores where the key's object is. It replaces the key's entry, or else the least recently
    /// used entry of the set.
    #[inline]
    pub(super) fn learn(&mut self, hash: KeyHash, slot: u64, word: Slot) {
        if self.is_on() {
            self.put(hash, slot, word);
        }
    }

    #[cold]
    fn put(&mut self, hash: KeyHash, slot: u64, word: Slot) {
        if self.sets.is_empty() {
            self.sets = vec![[UNUSED; WAYS]; self.sets_max];
        }
        let key = Self::key(hash);
        let set = self.set(key);
        let at = set.iter().position(|known| known.key == key).unwrap_or(WAYS - 1);
        set[..=at].rotate_right(1);
        set[0] = Known { key, slot, word };
    }

    /// Drops the key's entry: its object is not there any more.
    pub(super) fn forget(&mut self, hash: KeyHash) {
        if self.sets.is_empty() {
            return;
        }
        let key = Self::key(hash);
        let set = self.set(key);
        if let Some(at) = set.iter().position(|known| known.key == key) {
            set[at..].rotate_left(1);
            set[WAYS - 1] = UNUSED;
        }
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Lets this client keep the addresses of objects in up to `bytes` of its own memory; 0
    /// switches the cache off.
    pub fn set_address_cache(&self, bytes: usize) {
        *self.addresses.borrow_mut() = Addresses::new(bytes);
    }

    /// Looks `key` up where its object was last seen. `None` if the object is not there any more,
    /// or the key has no entry.
    pub(super) async fn lookup_known(
        &self,
        hash: KeyHash,
        key: &[u8],
        into: &mut Value,
        counted: bool,
    ) -> Result<Option<Lookup>, CacheError> {
        let Some(known) = self.addresses.borrow_mut().find(hash) else { return Ok(None) };
        let Some((at, bytes, chunk)) = self.record_span(known.word) else {
            self.addresses.borrow_mut().forget(hash);
            return Ok(None);
        };
        self.shared.hotness.expect(chunk);
        let begun_ns = self.client.endpoint.now_ns();
        (into.start, into.meta) = (0, Meta::default());
        let mut buffer = std::mem::take(&mut into.buffer);
        buffer.resize(bytes);
        let mut batch = Batch::new();
        let now = batch.read_word(self.shared.layout.slot(known.slot));
        let read = batch.read(at, buffer);
        self.client.endpoint.post(&mut batch).await?;
        into.buffer = batch.take(read);
        let same = batch.word(now) == known.word.0 || self.is_open(Hole::UncheckedAddress);
        let candidate = match same {
            true => self.judge_candidate(known.word, key, into, begun_ns).await?,
            false => Candidate::Reused,
        };
        let Candidate::Ours(header) = candidate else {
            self.addresses.borrow_mut().forget(hash);
            self.stats.addresses_stale.add(1);
            return Ok(None);
        };
        into.meta = Meta::of(&header);
        if header.expiry_ms.is_some() && self.has_expired(&header, begun_ns).await? {
            // Rare: the ordinary lookup removes the expired object.
            self.addresses.borrow_mut().forget(hash);
            return Ok(None);
        }
        self.stats.addresses_right.add(1);
        if counted {
            self.count_hit(hash, known.word, &header);
        }
        Ok(Some(Lookup::Hit))
    }

    /// Searches, under protection, for an object that is still where it was last seen.
    pub(super) async fn search_known(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        want: Want,
    ) -> Result<Option<Found>, CacheError> {
        let Some(known) = self.addresses.borrow_mut().find(hash) else { return Ok(None) };
        let begun_ns = self.client.endpoint.now_ns();
        if let Search::Found(found) = self.search_slot(op, known.slot, known.word, key, want, begun_ns).await? {
            self.stats.addresses_right.add(1);
            return Ok(Some(found));
        }
        self.addresses.borrow_mut().forget(hash);
        self.stats.addresses_stale.add(1);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> KeyHash {
        KeyHash::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1000)
    }

    fn word(number: u64) -> Slot {
        Slot(1 << 56 | number)
    }

    #[test]
    fn the_last_used_keys_stay_within_the_memory() {
        let mut addresses = Addresses::new(100 * SET_BYTES);
        assert!(addresses.sets.is_empty() && addresses.find(hash(7)).is_none());
        (0..10_000).for_each(|number| addresses.learn(hash(number), number, word(number)));
        assert_eq!(addresses.sets.len(), 64);
        let known = (0..10_000).filter(|number| addresses.find(hash(*number)).is_some()).count();
        assert!(known <= 64 * WAYS && known > 48 * WAYS, "{known}");
        let last = addresses.find(hash(9_999)).unwrap();
        assert_eq!((last.slot, last.word), (9_999, word(9_999)));
    }

    #[test]
    fn what_is_learned_again_replaces_and_what_is_forgotten_is_gone() {
        let mut addresses = Addresses::new(SET_BYTES);
        for slot in 0..3 {
            addresses.learn(hash(7), slot, word(slot));
        }
        assert_eq!(addresses.find(hash(7)).unwrap().slot, 2);
        assert_eq!(addresses.sets[0].iter().filter(|known| !known.word.is_free()).count(), 1);
        addresses.forget(hash(7));
        assert!(addresses.find(hash(7)).is_none());
    }

    #[test]
    fn one_without_memory_knows_nothing() {
        let mut addresses = Addresses::new(SET_BYTES - 1);
        addresses.learn(hash(7), 1, word(1));
        addresses.forget(hash(7));
        assert!(!addresses.is_on() && addresses.find(hash(7)).is_none());
    }
}
