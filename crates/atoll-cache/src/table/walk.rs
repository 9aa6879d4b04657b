//! Walks over the whole index: scan, random key, flush.
//!
//! A key stays in its slot while it is present, so a walk in the order of buckets shows every key
//! that is present throughout. Cursors are bucket numbers.

use super::layout::{BUCKET_BYTES, BUCKET_SLOTS, SLOTS_BYTES};
use super::operation::Operation;
use super::replacement::Replacement;
use super::slot::Slot;
use super::{Core, Objects};
use crate::extent::ExtentIndex;
use crate::record::{HEADER_BYTES, Header, LargeBody};
use crate::search::ATTEMPTS_MAX;
use crate::{CacheError, Value};
use atoll_fabric::{Batch, Buffer, Endpoint};

/// Buckets READ at once: of each its slots.
const BUCKETS_AT_ONCE: u32 = 16;

impl<E: Endpoint> Core<E> {
    /// The words of up to sixteen buckets from `bucket` on.
    pub(super) async fn bucket_words(&self, bucket: u32) -> Result<Vec<Slot>, CacheError> {
        let count = self.shared.layout.buckets_in_a_piece(bucket).min(BUCKETS_AT_ONCE);
        let mut batch = Batch::new();
        for index in 0..count {
            let mut buffer = Buffer::new();
            buffer.resize(SLOTS_BYTES as usize);
            batch.read(self.shared.layout.bucket(bucket).add(u64::from(index) * BUCKET_BYTES), buffer);
        }
        self.client.endpoint.post(&mut batch).await?;
        let mut words = Vec::with_capacity(count as usize * BUCKET_SLOTS);
        for index in 0..count as usize {
            words.extend(batch.take_nth(index).words().iter().map(|word| Slot(*word)));
        }
        Ok(words)
    }

    /// The key of a live slot, if its object is sound and not expired; the value's place is used
    /// for the record.
    async fn key_of(
        &self,
        op: &mut Operation,
        slot: u64,
        mut word: Slot,
        value: &mut Value,
    ) -> Result<bool, CacheError> {
        for _ in 0..ATTEMPTS_MAX {
            if !word.is_live() {
                return Ok(false);
            }
            if let Some((at, bytes, _)) = self.find_record(word).await? {
                let mut buffer = std::mem::take(&mut op.record);
                buffer.resize(bytes);
                let mut record = self.client.endpoint.read(at, buffer).await?;
                let judged = self.judge(word, &mut record).map(|record| (record.header, record.large()));
                op.record = record;
                if let Some((header, large)) = judged
                    && let Some(is_shown) = self.key_of_record(op, slot, word, &header, large, value).await?
                {
                    return Ok(is_shown);
                }
            }
            // Damaged, if the slot stays what it was.
            self.drop_damaged_after_look(op, slot, word).await?;
            word = self.slot_word(slot).await?;
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    async fn drop_damaged_after_look(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<(), CacheError> {
        let large_is_in_flux =
            word.is_large() && self.extents_of(op, slot, word).await?.is_some_and(|listed| listed.is_some());
        if large_is_in_flux { Ok(()) } else { self.drop_damaged(slot, word).await }
    }

    /// The key of the record; the inner `false` if it has expired, `None` if the slot must be
    /// looked at again.
    async fn key_of_record(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        header: &Header,
        large: Option<LargeBody>,
        value: &mut Value,
    ) -> Result<Option<bool>, CacheError> {
        let now_ns = self.client.endpoint.now_ns();
        if header.expiry_ms.is_some() && header.is_expired(self.client.pool_ms(now_ns).await?) {
            return Ok(Some(false));
        }
        let Some(body) = large else {
            let key = &op.record.bytes()[HEADER_BYTES..HEADER_BYTES + header.key_bytes];
            value.assign(key, crate::Meta::default());
            return Ok(Some(true));
        };
        let Some(extents) = self.extent_io().extents(header, &body).await? else { return Ok(None) };
        let buffer = std::mem::take(&mut value.buffer);
        value.buffer = self.extent_io().read_extents(&extents, header.key_bytes, buffer).await?;
        (value.start, value.meta.value_bytes) = (0, header.key_bytes);
        // While the slot is what it was, the extents are its object's.
        Ok((self.slot_word(slot).await? == word).then_some(true))
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Shows at least `count` keys from bucket `cursor` on; the cursor to go on from, 0 at the end.
    pub(super) async fn walk_keys<F: FnMut(&[u8])>(
        &self,
        op: &mut Operation,
        cursor: u64,
        count: usize,
        mut each: F,
    ) -> Result<u64, CacheError> {
        let core = &self.core;
        let buckets = u64::from(core.shared.settings.buckets);
        let (mut bucket, mut shown, mut value) = (cursor, 0, Value::new());
        // A walk over an empty index is long, so that its steps are bounded, too.
        let last = cursor.saturating_add((count as u64).saturating_mul(4).max(1024));
        while bucket < buckets && shown < count && bucket < last {
            let words = core.bucket_words(bucket as u32).await?;
            for (index, word) in words.iter().enumerate() {
                let slot = bucket * BUCKET_SLOTS as u64 + index as u64;
                if word.is_live() && core.key_of(op, slot, *word, &mut value).await? {
                    each(value.bytes());
                    shown += 1;
                }
            }
            bucket += (words.len() / BUCKET_SLOTS) as u64;
        }
        Ok(if bucket >= buckets { 0 } else { bucket })
    }

    /// Some key: the first from a random bucket on.
    pub(super) async fn some_key(&self, op: &mut Operation) -> Result<Option<Vec<u8>>, CacheError> {
        let core = &self.core;
        let buckets = core.shared.settings.buckets;
        let start = (core.client.endpoint.random() % u64::from(buckets)) as u32;
        let (mut bucket, mut looked, mut value) = (start, 0, Value::new());
        while looked < buckets {
            let words = core.bucket_words(bucket).await?;
            let first = core.client.endpoint.random() as usize % words.len();
            for index in (first..words.len()).chain(0..first) {
                let slot = u64::from(bucket) * BUCKET_SLOTS as u64 + index as u64;
                if words[index].is_live() && core.key_of(op, slot, words[index], &mut value).await? {
                    return Ok(Some(value.bytes().to_vec()));
                }
            }
            let passed = (words.len() / BUCKET_SLOTS) as u32;
            (bucket, looked) = ((bucket + passed) % buckets, looked + passed);
        }
        Ok(None)
    }

    /// Removes every key that is present now.
    pub(super) async fn remove_all(&self, op: &mut Operation) -> Result<u64, CacheError> {
        let buckets = self.core.shared.settings.buckets;
        let (mut bucket, mut removed) = (0, 0);
        while bucket < buckets {
            let words = self.core.bucket_words(bucket).await?;
            for (index, word) in words.iter().enumerate() {
                removed += self.remove_slot(op, u64::from(bucket) * BUCKET_SLOTS as u64 + index as u64, *word).await?;
            }
            bucket += (words.len() / BUCKET_SLOTS) as u32;
        }
        Ok(removed)
    }

    /// Removes a slot's object, whichever it is meanwhile.
    async fn remove_slot(&self, op: &mut Operation, slot: u64, mut word: Slot) -> Result<u64, CacheError> {
        for _ in 0..ATTEMPTS_MAX {
            if !word.is_live() {
                return Ok(0);
            }
            if self.unlink(op, slot, word).await? {
                return Ok(1);
            }
            word = self.core.slot_word(slot).await?;
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }
}
