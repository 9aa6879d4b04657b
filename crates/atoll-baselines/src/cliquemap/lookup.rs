//! The way of a GET: READ the key's bucket, READ the record. It takes two round trips, and the
//! server sees none of it.
//!
//! | what the record READ shows | then |
//! |---|---|
//! | a whole record of the entry's version, this key | hit, as of the moment when the version's word was READ |
//! | a whole record of the entry's version, another key | an equal hash, or an entry that was reused: the next one |
//! | torn, or of another version | the span was reused meanwhile: begin again |
//!
//! Versions never come again, so a record that passes is the entry's own. A key that is present
//! throughout stays in one entry. So a bucket READ word by word in any order cannot miss it.

use super::entry::{BUCKET_BYTES, Entry};
use super::record::{self, Header, RECORD_HEADER_BYTES, Record};
use super::wire::{Change, Condition, Operation, Outcome};
use super::{Hole, Session};
use atoll_cache::{CacheError, Lookup, Meta, Value};
use atoll_fabric::{Endpoint, Messenger};

/// Attempts after which an operation that finds only unsound records gives up: the pool is damaged.
pub(super) const ATTEMPTS_MAX: u32 = 10_000;

/// The result of a look for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Absent,
    /// There was an expired object.
    Expired,
    /// An object.
    Live(Header),
}

/// The result of a look at an entry.
enum Candidate {
    /// The key's object, which is in the value.
    Ours(Header),
    /// Another key's.
    Other,
    /// It is not the record that the entry names.
    Reused,
}

impl<E: Endpoint + Messenger> Session<E> {
    /// Looks `key` up and notes the access.
    pub(super) async fn lookup(&mut self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let hash = self.shared.hasher.hash(key);
        let found = match self.holes.has(Hole::UntakenExpiry) {
            true => self.look_at_expiry(hash, key, into).await?,
            false => self.look_for_live(hash, key, into).await?,
        };
        match found {
            Found::Absent => self.stats.misses_absent.add(1),
            Found::Expired => self.stats.misses_expired.add(1),
            Found::Live(_) => {
                self.stats.hits.add(1);
                self.note_access(hash).await?;
                return Ok(Lookup::Hit);
            }
        }
        Ok(if found == Found::Absent { Lookup::Absent } else { Lookup::Expired })
    }

    /// The metadata of `key`'s object.
    pub(super) async fn peek_now(&mut self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let mut value = std::mem::take(&mut self.old);
        let found = self.look_for_live(self.shared.hasher.hash(key), key, &mut value).await;
        let meta = value.meta();
        self.old = value;
        Ok(matches!(found?, Found::Live(_)).then_some(meta))
    }

    /// The object of a key, in `into` if it is live. The server removes an expired object, as in
    /// every change, before this reports that it has expired. Clients' clocks differ: once one
    /// client has found it expired, no client may find it live.
    pub(super) async fn look_for_live(&mut self, hash: u64, key: &[u8], into: &mut Value) -> Result<Found, CacheError> {
        loop {
            let Some(header) = self.look(hash, key, into).await? else { return Ok(Found::Absent) };
            if !self.is_over(header.expiry_ms).await? {
                return Ok(Found::Live(header));
            }
            let condition = Condition::Version(header.version);
            let key_bytes = key.len() as u32;
            let remove = Change { operation: Operation::Remove, condition, expiry_ms: None, key_bytes, value_bytes: 0 };
            if Box::pin(self.request(&remove, key, &[])).await?.outcome == Outcome::Done {
                self.stats.expirations.add(1);
                return Ok(Found::Expired);
            }
        }
    }

    /// As [`Self::look_for_live`], for the hole that leaves expired objects in place.
    async fn look_at_expiry(&mut self, hash: u64, key: &[u8], into: &mut Value) -> Result<Found, CacheError> {
        let Some(header) = self.look(hash, key, into).await? else { return Ok(Found::Absent) };
        let is_over = self.is_over(header.expiry_ms).await?;
        Ok(if is_over { Found::Expired } else { Found::Live(header) })
    }

    /// The object of a key, expired or not, in `into`.
    async fn look(&mut self, hash: u64, key: &[u8], into: &mut Value) -> Result<Option<Header>, CacheError> {
        let bucket = self.shared.layout.bucket(self.shared.layout.bucket_of(hash));
        for _ in 0..ATTEMPTS_MAX {
            let mut buffer = std::mem::take(&mut self.bucket);
            buffer.resize(BUCKET_BYTES as usize);
            self.bucket = self.client.endpoint.read(bucket, buffer).await?;
            let is_candidate = |entry: &Entry| entry.version != 0 && entry.hash == hash;
            let candidates: arrayvec::ArrayVec<Entry, { super::entry::BUCKET_ENTRIES }> =
                Entry::of_bucket(self.bucket.words()).filter(is_candidate).collect();
            let mut is_sound = true;
            for entry in candidates {
                match self.read_candidate(entry, key, into).await? {
                    Candidate::Ours(header) => return Ok(Some(header)),
                    Candidate::Other => {}
                    Candidate::Reused => {
                        is_sound = false;
                        break;
                    }
                }
            }
            if is_sound {
                return Ok(None);
            }
            self.stats.rereads.add(1);
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    /// READs an entry's record into `into` and judges it.
    async fn read_candidate(&mut self, entry: Entry, key: &[u8], into: &mut Value) -> Result<Candidate, CacheError> {
        let layout = self.shared.layout;
        let Some(span) = entry.span(layout.heap_bytes) else { return Ok(Candidate::Reused) };
        let mut buffer = into.take_buffer();
        buffer.resize(span.bytes as usize);
        let buffer = self.client.endpoint.read(layout.record(span), buffer).await?;
        let is_believed = self.holes.has(Hole::Validation);
        let record = match is_believed {
            true => record::unchecked(&buffer),
            false => Record::decode(&buffer, &self.shared.hasher),
        };
        let record = record.filter(|record| record.header.version == entry.version || is_believed);
        let is_ours = record.as_ref().is_some_and(|record| record.key == key);
        let found = record.map(|Record { header, value, .. }| (header, value.len()));
        let Some((header, value_bytes)) = found else {
            into.hold(buffer, 0, Meta::default());
            return Ok(Candidate::Reused);
        };
        if !is_ours {
            into.hold(buffer, 0, Meta::default());
            return Ok(Candidate::Other);
        }
        let meta = Meta { expiry_ms: header.expiry_ms, token: header.token, value_bytes, ..Meta::default() };
        into.hold(buffer, RECORD_HEADER_BYTES + key.len(), meta);
        Ok(Candidate::Ours(header))
    }
}
