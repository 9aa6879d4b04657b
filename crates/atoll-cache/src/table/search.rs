//! How a change searches for a key's object in the bucket that was READ. The steps after the search
//! are the same for all engines: see [`crate::search`].
//!
//! A block whose record is unsound, although its slot still names it, is damaged. The client drops
//! its object (`unlink`).

use super::access::Access;
use super::layout::{ACCESS_BYTES, BUCKET_SLOTS};
use super::lookup::Beside;
use super::operation::Operation;
use super::replacement::Replacement;
use super::slot::{KeyHash, Slot};
use super::{Core, Objects};
use crate::index::{ATTEMPTS_MAX, Index, Unlink};
use crate::search::{self, Searched, complete_large};
use crate::{Accesses, CacheError, Meta, Want};
use atoll_fabric::{Buffer, Endpoint};

/// An object found.
pub(crate) type Found = search::Found<Slot, Beside>;
/// The result of a search for a key.
pub(crate) type Search = search::Search<Slot, Beside>;

impl<E: Endpoint> Core<E> {
    /// Searches the bucket that was READ for the key's object. `skip` is a slot of the caller's
    /// own. With [`Want::Value`] the value is in `old`. The record of a small object is in `record`
    /// in any case.
    pub(super) async fn search(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        want: Want,
        pending: bool,
        skip: Option<u64>,
    ) -> Result<Search, CacheError> {
        for place in 0..BUCKET_SLOTS {
            let (word, slot) = op.seen(hash, place);
            if !word.may_be(hash.fingerprint) || word.is_pending() != pending || skip == Some(slot) {
                continue;
            }
            let searched = self.search_slot(op, slot, word, key, want).await?;
            if !matches!(searched, Search::Absent) {
                return Ok(searched);
            }
        }
        Ok(Search::Absent)
    }

    /// The key's object, if it is in the slot in which the last attempt found another word than
    /// expected.
    pub(super) async fn search_overtaken(
        &self,
        op: &mut Operation,
        key: &[u8],
        want: Want,
    ) -> Result<Option<Found>, CacheError> {
        let by = op.overtaken.as_mut().and_then(|overtaken| overtaken.by.take());
        let Some((slot, word)) = by.filter(|(_, word)| !word.is_pending()) else { return Ok(None) };
        match self.search_slot(op, slot, word, key, want).await? {
            Search::Found(found) => Ok(Some(found)),
            _ => Ok(None),
        }
    }

    async fn search_slot(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        key: &[u8],
        want: Want,
    ) -> Result<Search, CacheError> {
        let Some((at, bytes, _)) = self.find_record(word).await? else {
            self.drop_damaged(slot, word).await?;
            return Ok(Search::Anew);
        };
        let mut buffer = std::mem::take(&mut op.record);
        buffer.resize(bytes);
        let mut beside = Beside::default();
        let mut record = self.read_block(slot, at, buffer, &mut beside).await?;
        let judged = self.judge(word, &mut record).map(|record| (record.header, record.large(), record.key == key));
        let Some((header, large, is_ours)) = judged else {
            op.record = record;
            // The object is damaged if the slot still has the same word.
            self.drop_damaged(slot, word).await?;
            return Ok(Search::Anew);
        };
        let found = Found { slot, word, header, large: None, beside };
        let searched = match large {
            None if is_ours => {
                if want == Want::Value {
                    header.copy_value(&record, &mut op.old);
                }
                Search::Found(found)
            }
            None => Search::Absent,
            Some(body) => Box::pin(complete_large(self, op, found, body, key, want)).await?,
        };
        op.record = record;
        Ok(searched)
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// The metadata of a key's object, if it is present.
    pub(super) async fn present(&self, op: &mut Operation, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let hash = self.core.key_hash(key);
        for _ in 0..ATTEMPTS_MAX {
            let begun_ns = self.core.client.endpoint.now_ns();
            self.core.read_bucket(op, hash).await?;
            match self.core.search(op, hash, key, Want::Meta, false, None).await? {
                Search::Anew | Search::Overtaken { .. } => self.core.stats.rereads.add(1),
                Search::Absent => return Ok(None),
                Search::Found(found) => {
                    let now_ms = self.core.client.pool_ms(begun_ns).await?;
                    if !found.header.is_expired(now_ms) {
                        op.found = Some((found.slot, found.word));
                        return Ok(Some(Meta::of(&found.header)));
                    }
                    if self.take_expired(op, found.slot, found.word).await? {
                        return Ok(None);
                    }
                }
            }
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    /// What the words beside a key's object say of the accesses to it.
    pub(super) async fn known_accesses(&self, op: &mut Operation, key: &[u8]) -> Result<Option<Accesses>, CacheError> {
        // Without an object it is that of another operation.
        let Some((slot, _)) = self.present(op, key).await?.and(op.found.take()) else {
            return Ok(Some(Accesses { hits: 0, idle_ms: Some(0) }));
        };
        let client = &self.core.client;
        let at = self.core.shared.layout.access(slot);
        let words = client.endpoint.read(at, Buffer::sized(ACCESS_BYTES as usize)).await?;
        let now_us = client.about_us();
        let access = Access::decode(words.words(), now_us);
        // The insertion is one of them.
        let hits = access.frequency.saturating_sub(1);
        Ok(Some(Accesses { hits, idle_ms: Some(now_us.saturating_sub(access.last_us) / 1000) }))
    }
}

impl<E: Endpoint> Searched for Core<E> {
    type Hash = KeyHash;
    type Beside = Beside;

    fn read_bucket(&self, op: &mut Operation, hash: KeyHash) -> impl Future<Output = Result<(), CacheError>> {
        self.read_bucket(op, hash)
    }

    fn search(
        &self,
        op: &mut Operation,
        (hash, key): (KeyHash, &[u8]),
        want: Want,
        pending: bool,
        skip: Option<u64>,
        _begun_ns: u64,
    ) -> impl Future<Output = Result<Search, CacheError>> {
        self.search(op, hash, key, want, pending, skip)
    }

    /// `drop_damaged` READs the slot before it drops an object in any case.
    fn drop_unlisted(&self, slot: u64, word: Slot) -> impl Future<Output = Result<(), CacheError>> {
        self.drop_damaged(slot, word)
    }
}
