//! FORGE's own steps of a lookup of many keys: see [`crate::at_once`].

use super::addresses::Known;
use super::ghosts::has_ghost;
use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::at_once::{AtOnce, By, Lookups, Seen};
use crate::candidate::Candidate;
use crate::index::BUCKET_SLOTS;
use crate::{CacheError, Lookup, Meta, Value};
use atoll_fabric::Endpoint;
use atoll_pool::ChunkId;

impl<E: Endpoint, T: Technique<E>> Lookups for Forge<E, T> {
    type Hash = KeyHash;

    fn at_once(&self) -> &AtOnce {
        &self.at_once
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.key_hash(key)
    }

    #[inline]
    fn bucket(&self, hash: KeyHash) -> u32 {
        self.bucket_now(hash)
    }

    #[inline]
    fn is_bucket_of(&self, hash: KeyHash, bucket: u32, words: &[u64; BUCKET_SLOTS]) -> bool {
        self.is_bucket_of(hash, bucket, words)
    }

    #[inline]
    fn may_be(hash: KeyHash, word: Slot) -> bool {
        word.is_live_of(hash.fingerprint)
    }

    #[inline]
    fn expect_hit(&self, _slot: u64, chunk: ChunkId) {
        self.shared.hotness.expect(chunk);
    }

    fn recall(&self, hash: KeyHash, key: &[u8]) -> Option<(u64, Slot)> {
        self.remembered(hash, key).map(|known| (known.slot, known.word))
    }

    fn is_worth_learning(&self, hash: KeyHash, key: &[u8]) -> bool {
        let is_late = |known| self.reuses_max() > 0 && self.is_late(&known);
        self.addresses.borrow().is_on() && self.remembered(hash, key).is_none_or(is_late)
    }

    fn learn_seen(&self, key: &[u8], seen: Seen<Slot>, value: &Value, begun_ns: u64) {
        let is_current = matches!(seen.by, By::Bucket | By::Memory { is_same: true });
        let is_outdated = self.is_outdated(begun_ns);
        if is_current && seen.word.is_large() {
            // Its record does not show its key: what is remembered may be right.
            return;
        }
        let record = self.judge(seen.word, &value.buffer).filter(|record| record.key == key);
        match record.filter(|_| is_current && !is_outdated) {
            Some(record) => self.learn(key, Known::of(seen.slot, seen.word, &record.header), begun_ns),
            None => self.forget(key),
        }
    }

    /// A round between the READs would renew the lease. The lease would then say that this client
    /// has stopped using the memory that it READ before. A key counts as one operation, and as a
    /// second one if it is looked up alone.
    async fn begin_many(&self, keys: usize) -> Result<(), CacheError> {
        let counted = 2 * keys as u32;
        if self.client.is_round_due_within(counted) {
            Box::pin(self.make_round()).await?;
            self.client.put_off_round(counted);
        }
        Ok(())
    }

    #[inline]
    async fn judge_seen(
        &self,
        _op: &mut Operation,
        (hash, key): (KeyHash, &[u8]),
        seen: Seen<Slot>,
        value: &mut Value,
        begun_ns: u64,
    ) -> Result<Option<Lookup>, CacheError> {
        self.client.count_operation();
        let is_current = match seen.by {
            By::Bucket => true,
            By::Memory { is_same } => is_same || self.is_open(Hole::UncheckedAddress),
        };
        let candidate = match is_current {
            true => self.judge_candidate(seen.word, key, value, begun_ns).await?,
            false => Candidate::Reused,
        };
        if let Candidate::Ours(header) = candidate
            && (header.expiry_ms.is_none() || !self.has_expired(&header, begun_ns).await?)
        {
            value.meta = Meta::of(&header);
            self.learn(key, Known::of(seen.slot, seen.word, &header), begun_ns);
            self.stats.addresses_right.add(u64::from(seen.by != By::Bucket));
            self.technique.looked_up(self, hash);
            self.count_hit(hash, seen.word, &header);
            return Ok(Some(Lookup::Hit));
        }
        if seen.by != By::Bucket {
            self.forget(key);
            self.stats.addresses_stale.add(1);
        }
        Ok(None)
    }

    #[inline]
    fn was_evicted(hash: KeyHash, words: &[u64; BUCKET_SLOTS]) -> bool {
        has_ghost(words, hash)
    }

    fn count_absent(&self, hash: KeyHash, was_evicted: bool) {
        self.client.count_operation();
        self.technique.looked_up(self, hash);
        self.stats.count_absent(was_evicted);
        self.note_read(hash, false);
    }

    async fn look_up(&self, op: &mut Operation, key: &[u8], value: &mut Value) -> Result<Lookup, CacheError> {
        self.lookup(op, key, value, true).await
    }

    /// Later than that the slot may have got the same word for another record: see `lookup`.
    fn is_timely(&self, begun_ns: u64) -> bool {
        !self.is_outdated(begun_ns)
    }
}
