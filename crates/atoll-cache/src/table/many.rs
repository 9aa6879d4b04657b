//! The table's own steps of a lookup of many keys: see [`crate::at_once`].

use super::Objects;
use super::layout::BUCKET_SLOTS;
use super::lookup::Beside;
use super::operation::Operation;
use super::replacement::Replacement;
use super::slot::{KeyHash, Slot};
use crate::at_once::{AtOnce, Lookups, Seen};
use crate::candidate::Candidate;
use crate::{CacheError, Lookup, Value};
use atoll_fabric::Endpoint;
use atoll_pool::ChunkId;

impl<E: Endpoint, R: Replacement<E>> Lookups for Objects<E, R> {
    type Hash = KeyHash;

    fn at_once(&self) -> &AtOnce {
        &self.core.at_once
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.core.key_hash(key)
    }

    #[inline]
    fn bucket(&self, hash: KeyHash) -> u32 {
        hash.bucket
    }

    #[inline]
    fn may_be(hash: KeyHash, word: Slot) -> bool {
        word.may_be(hash.fingerprint) & !word.is_pending()
    }

    #[inline]
    fn expect_hit(&self, slot: u64, _chunk: ChunkId) {
        self.core.expect_access(slot);
    }

    /// An operation makes its round before it begins to look keys up.
    async fn begin_many(&self, _keys: usize) -> Result<(), CacheError> {
        Ok(())
    }

    #[inline]
    async fn judge_seen(
        &self,
        op: &mut Operation,
        (hash, key): (KeyHash, &[u8]),
        seen: Seen<Slot>,
        value: &mut Value,
        begun_ns: u64,
    ) -> Result<Option<Lookup>, CacheError> {
        // Where there are extensions, the client must READ more than the block.
        if self.core.extension_bytes() > 0 {
            return Ok(None);
        }
        match self.core.judge_candidate(seen.word, key, value).await? {
            Candidate::Ours(header) => {
                self.found(op, hash, (seen.slot, seen.word), header, value, &Beside::default(), begun_ns).await
            }
            _ => Ok(None),
        }
    }

    #[inline]
    fn was_evicted(hash: KeyHash, words: &[u64; BUCKET_SLOTS]) -> bool {
        words.iter().any(|word| Slot(*word).history_of(hash).is_some())
    }

    fn count_absent(&self, _hash: KeyHash, was_evicted: bool) {
        self.core.stats.count_absent(was_evicted);
    }

    async fn look_up(&self, op: &mut Operation, key: &[u8], value: &mut Value) -> Result<Lookup, CacheError> {
        self.lookup(op, key, value).await
    }
}
