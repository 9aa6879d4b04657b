//! The address cache: where this client last saw the objects of keys. A right entry saves the READ
//! of the bucket.
//!
//! ```text
//! a set    +---------------------------+-----+---------------------------+
//!          | key's hash | about | word | ... |                           |    4 entries of 24 bytes, the last used first
//!          +---------------------------+-----+---------------------------+
//!          about, from bit 0 up: place in the bucket 4 | main queue 1 | number in the group 12
//!          | the count of reuses that the record's chunk has, as the client knew it then 47
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
//! | SET | as a change | one round trip: see `blind` | one round trip more than a right guess of a change |
//!
//! The cache pays where a round trip costs more than a lookup in memory. It is off on fabrics that
//! are [near](atoll_fabric::Endpoint::is_near).

use super::operation::Operation;
use super::search::{Found, Search};
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::candidate::Candidate;
use crate::index::copies::Sharing;
use crate::index::{BUCKET_SLOTS, Index, SlotWord, first_slot};
use crate::record::Header;
use crate::{CacheError, Lookup, Meta, Value, Want};
use atoll_fabric::{Batch, Endpoint};

/// The most memory of a client's address cache where it is on by default: the addresses of 2.8
/// million keys. The host provides what of it is used.
const BYTES_MAX: usize = 64 << 20;
/// It has so much of the pool's capacity, up to the most.
const POOL_SHARE: u64 = 8;
const WAYS: usize = 4;
const SET_BYTES: usize = WAYS * std::mem::size_of::<Entry>();
const PLACES: u64 = BUCKET_SLOTS as u64;

/// Where a key's object was.
///
/// Numbers alone: the memory of so many zeros costs nothing before it is used.
type Entry = [u64; 3];

/// The whole hash of the key: no other key's entry is taken for it.
const HASH: usize = 0;
const ABOUT: usize = 1;
/// A free word in an unused entry.
const WORD: usize = 2;
const UNUSED: Entry = [0; 3];
const _: () = assert!(Slot::EMPTY.0 == 0);
const NUMBER_SHIFT: u32 = 5;
const REUSES_SHIFT: u32 = 17;

/// What a client remembers of a key's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Its slot's number.
    pub(super) slot: u64,
    /// Its slot's word.
    pub(super) word: Slot,
    /// Whether its group was made for the main queue.
    pub(super) main: bool,
    /// Its number in the group.
    pub(super) number: u16,
    /// The count of reuses that the record's chunk has, as the client knew it: no later than the
    /// client relies on a tag after it saw the word in the slot, and the key in the record.
    pub(super) reuses: u64,
}

impl Known {
    /// The object with this header, in a slot that has the word. The client that learns it notes
    /// the reuses.
    pub(super) fn of(slot: u64, word: Slot, header: &Header) -> Self {
        Self { slot, word, main: header.main, number: header.number, reuses: 0 }
    }
}

/// The addresses that a client knows.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// The sets that the cache has once it is used; 0 if it is off.
    sets_max: usize,
    /// Empty until the client learns its first address: a client that never looks up needs no
    /// memory.
    sets: Vec<[Entry; WAYS]>,
}

impl Addresses {
    /// A cache of at most `bytes`. Fewer bytes than one set has switch it off.
    pub(super) fn new(bytes: usize) -> Self {
        Self { sets_max: bytes / SET_BYTES, sets: Vec::new() }
    }

    /// The cache of a client of a pool of so many bytes: the places of all objects, if they have
    /// 200 bytes, up to the most.
    pub(super) fn of_pool(capacity_bytes: u64) -> Self {
        let bytes = usize::try_from(capacity_bytes / POOL_SHARE).unwrap_or(usize::MAX);
        Self::new(bytes.clamp(SET_BYTES, BYTES_MAX))
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.sets_max > 0
    }

    fn set(&mut self, hash: u64) -> &mut [Entry; WAYS] {
        let share = hash >> 20 & u64::from(u32::MAX);
        let number = (share * self.sets.len() as u64) >> 32;
        &mut self.sets[number as usize]
    }

    /// The entry of the key with this hash, if there is one; `bucket` is the key's. The call marks
    /// the entry as the last used.
    fn find(&mut self, hash: u64, bucket: u32) -> Option<Known> {
        if self.sets.is_empty() {
            return None;
        }
        let set = self.set(hash);
        let at = set.iter().position(|entry| entry[HASH] == hash && !Slot(entry[WORD]).is_free())?;
        set[..=at].rotate_right(1);
        let [_, about, word] = set[0];
        Some(Known {
            slot: first_slot(bucket) + about % PLACES,
            word: Slot(word),
            main: about >> 4 & 1 != 0,
            number: (about >> NUMBER_SHIFT) as u16 & 0xfff,
            reuses: about >> REUSES_SHIFT,
        })
    }

    /// Stores where the key's object is. It replaces the key's entry, or else the least recently
    /// used entry of the set.
    fn learn(&mut self, hash: u64, known: &Known) {
        if self.sets.is_empty() {
            self.sets = vec![[UNUSED; WAYS]; self.sets_max];
        }
        let about = (known.slot % PLACES)
            | (u64::from(known.main) << 4)
            | (u64::from(known.number & 0xfff) << NUMBER_SHIFT)
            | (known.reuses << REUSES_SHIFT);
        let set = self.set(hash);
        let at = set.iter().position(|entry| entry[HASH] == hash).unwrap_or(WAYS - 1);
        set[..=at].rotate_right(1);
        (set[0][HASH], set[0][ABOUT], set[0][WORD]) = (hash, about, known.word.0);
    }

    /// Follows the object that the client has moved: an entry with the word `from` gets this one.
    fn follow(&mut self, hash: u64, from: Slot, to: &Known) {
        if !self.sets.is_empty() && self.set(hash).iter().any(|entry| entry[HASH] == hash && entry[WORD] == from.0) {
            self.learn(hash, to);
        }
    }

    /// Drops the key's entry: its object is not there any more.
    fn forget(&mut self, hash: u64) {
        if self.sets.is_empty() {
            return;
        }
        let set = self.set(hash);
        if let Some(at) = set.iter().position(|entry| entry[HASH] == hash) {
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

    /// Remembers where the key's object is, if this client remembers addresses. The object has been
    /// there at `begun_ns` or later; if that is too long ago, nothing is remembered.
    #[inline]
    pub(super) fn learn(&self, key: &[u8], known: Known, begun_ns: u64) {
        let mut addresses = self.addresses.borrow_mut();
        if !addresses.is_on() {
            return;
        }
        let hash = self.shared.hasher.hash(key);
        match self.record_span(known.word).filter(|_| !self.is_outdated(begun_ns)) {
            Some((_, _, chunk)) => addresses.learn(hash, &Known { reuses: self.reuses_of(chunk), ..known }),
            None => addresses.forget(hash),
        }
    }

    /// Follows an object that this client has moved at `begun_ns` or later, if it knew that the
    /// slot had the word `from`.
    pub(super) fn follow(&self, key: &[u8], from: Slot, to: Known, begun_ns: u64) {
        let mut addresses = self.addresses.borrow_mut();
        if addresses.is_on()
            && !self.is_outdated(begun_ns)
            && let Some((_, _, chunk)) = self.record_span(to.word)
        {
            let known = Known { reuses: self.reuses_of(chunk), ..to };
            addresses.follow(self.shared.hasher.hash(key), from, &known);
        }
    }

    /// Drops what this client remembers of a key's object.
    pub(super) fn forget(&self, key: &[u8]) {
        let mut addresses = self.addresses.borrow_mut();
        if addresses.is_on() {
            addresses.forget(self.shared.hasher.hash(key));
        }
    }

    /// What this client remembers of a key's object.
    pub(super) fn remembered(&self, hash: KeyHash, key: &[u8]) -> Option<Known> {
        let mut addresses = self.addresses.borrow_mut();
        if addresses.is_on() { addresses.find(self.shared.hasher.hash(key), self.bucket_now(hash)) } else { None }
    }

    /// Looks `key` up where its object was last seen. `None` if the object is not there any more,
    /// or the key has no entry.
    pub(super) async fn lookup_known(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        into: &mut Value,
        counted: bool,
    ) -> Result<Option<Lookup>, CacheError> {
        let Some(known) = self.remembered(hash, key) else { return Ok(None) };
        let Some((at, bytes, chunk)) = self.record_span(known.word) else {
            self.forget(key);
            return Ok(None);
        };
        self.shared.hotness.expect(chunk);
        let begun_ns = self.client.endpoint.now_ns();
        let mut buffer = into.emptied();
        buffer.resize(bytes);
        let mut batch = Batch::new();
        let now = batch.read_word(self.slot_at(known.slot));
        let read = batch.read(at, buffer);
        self.client.endpoint.post(&mut batch).await?;
        into.buffer = batch.take(read);
        // Whether the object has copies may have changed.
        let now = Slot(batch.word(now));
        let same = now.shared_as(Sharing::None) == known.word.shared_as(Sharing::None);
        let candidate = match same || self.is_open(Hole::UncheckedAddress) {
            true => self.judge_candidate(known.word, key, into, begun_ns).await?,
            false => Candidate::Reused,
        };
        let Candidate::Ours(header) = candidate else {
            self.forget(key);
            self.stats.addresses_stale.add(1);
            return Ok(None);
        };
        into.meta = Meta::of(&header);
        if header.expiry_ms.is_some() && self.has_expired(&header, begun_ns).await? {
            // Rare: the ordinary lookup removes the expired object.
            self.forget(key);
            return Ok(None);
        }
        self.stats.addresses_right.add(1);
        self.learn(key, Known::of(known.slot, if same { now } else { known.word }, &header), begun_ns);
        if counted {
            self.count_hit(hash, known.word, &header);
        }
        op.found = same.then_some((known.slot, now));
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
        let Some(known) = self.remembered(hash, key) else { return Ok(None) };
        let begun_ns = self.client.endpoint.now_ns();
        if let Search::Found(found) = self.search_slot(op, known.slot, known.word, key, want, begun_ns).await? {
            self.stats.addresses_right.add(1);
            return Ok(Some(found));
        }
        self.forget(key);
        self.stats.addresses_stale.add(1);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn known(number: u64) -> Known {
        let (slot, word) = (7 * PLACES + number % PLACES, Slot(1 << 56 | number));
        Known { slot, word, main: number % 2 == 1, number: number as u16 & 0xfff, reuses: 3 * number }
    }

    #[test]
    fn the_last_used_keys_stay_within_the_memory() {
        let mut addresses = Addresses::new(100 * SET_BYTES);
        assert!(addresses.sets.is_empty() && addresses.find(hash(7), 7).is_none());
        (0..10_000).for_each(|number| addresses.learn(hash(number), &known(number)));
        assert_eq!(addresses.sets.len(), 100);
        let found = (0..10_000).filter_map(|number| Some((number, addresses.find(hash(number), 7)?)));
        let found: Vec<_> = found.collect();
        assert!(found.len() <= 100 * WAYS && found.len() > 75 * WAYS, "{}", found.len());
        assert!(found.iter().all(|(number, found)| *found == known(*number)), "all of it is kept");
        assert!(addresses.find(hash(9_999), 7).is_some());
    }

    #[test]
    fn what_is_learned_again_replaces_and_what_is_forgotten_is_gone() {
        let mut addresses = Addresses::new(SET_BYTES);
        for number in 0..3 {
            addresses.learn(hash(7), &known(number));
        }
        assert_eq!(addresses.find(hash(7), 7).unwrap(), known(2));
        assert_eq!(addresses.sets[0].iter().filter(|entry| !Slot(entry[WORD]).is_free()).count(), 1);
        addresses.forget(hash(7));
        assert!(addresses.find(hash(7), 7).is_none());
    }

    #[test]
    fn the_keys_of_a_pool_have_places_up_to_a_limit() {
        const KEYS: u64 = 100_000;
        let mut addresses = Addresses::of_pool(KEYS * 296);
        (0..KEYS).for_each(|number| addresses.learn(hash(number), &known(number)));
        let found = (0..KEYS).filter(|number| addresses.find(hash(*number), 7).is_some()).count();
        assert!(found > 90_000, "{found}");
        assert_eq!(Addresses::of_pool(1 << 30).sets_max, BYTES_MAX / SET_BYTES);
        assert!(Addresses::of_pool(1).is_on());
    }

    #[test]
    fn one_without_memory_knows_nothing() {
        let mut addresses = Addresses::new(SET_BYTES - 1);
        addresses.forget(hash(7));
        assert!(!addresses.is_on() && addresses.find(hash(7), 7).is_none());
    }
}
