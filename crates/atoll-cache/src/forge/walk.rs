//! Walks over the whole index: scan, random key, flush.
//!
//! A key stays in its slot while it is present, through replacements and regroupings, so a walk in
//! the order of buckets shows every key that is present throughout. Cursors are bucket numbers.

use super::Forge;
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS};
use super::operation::Operation;
use super::slot::Slot;
use super::technique::Technique;
use crate::extent::ExtentIndex;
use crate::record::{HEADER_BYTES, Header, LargeBody};
use crate::search::ATTEMPTS_MAX;
use crate::{CacheError, Value};
use atoll_fabric::{Batch, Endpoint};

/// Buckets READ at once.
const BUCKETS_AT_ONCE: u64 = 16;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// The words of up to sixteen buckets from `bucket` on.
    async fn bucket_words(&self, bucket: u64) -> Result<Vec<Slot>, CacheError> {
        let end = self.shared.settings.buckets.min(bucket as u32 + BUCKETS_AT_ONCE as u32);
        let mut first = bucket as u32;
        let mut words = Vec::with_capacity(BUCKETS_AT_ONCE as usize * BUCKET_SLOTS);
        while first < end {
            let count = self.shared.layout.buckets_in_a_piece(first).min(end - first);
            let buffer = self.spares.take(BUCKET_BYTES as usize * count as usize);
            let mut batch = Batch::new();
            let read = batch.read(self.shared.layout.bucket(first), buffer);
            self.client.endpoint.post(&mut batch).await?;
            let read = batch.take(read);
            words.extend(read.words().iter().map(|word| Slot(*word)));
            self.spares.keep(read);
            first += count;
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
    ) -> Result<Option<usize>, CacheError> {
        for _ in 0..ATTEMPTS_MAX {
            if !word.is_live() {
                return Ok(None);
            }
            match self.read_protected(op, slot, word).await? {
                // The object was moved or replaced: the slot says where it is now.
                Some((now, _)) if now != word => {}
                Some(_) => {
                    let judged = self.judge(word, &op.record).map(|record| (record.header, record.large()));
                    match judged {
                        None => self.drop_damaged(slot, word).await?,
                        Some((header, large)) => {
                            if let Some(bytes) = self.key_of_record(op, slot, word, &header, large, value).await? {
                                self.unprotect(op);
                                return Ok(bytes);
                            }
                        }
                    }
                }
                None => self.drop_damaged(slot, word).await?,
            }
            self.unprotect(op);
            word = self.slot_word(slot).await?;
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    /// The key of the protected record; the inner `None` if it has expired, the outer if the slot
    /// must be looked at again.
    async fn key_of_record(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        header: &Header,
        large: Option<LargeBody>,
        value: &mut Value,
    ) -> Result<Option<Option<usize>>, CacheError> {
        let now_ns = self.client.endpoint.now_ns();
        if header.expiry_ms.is_some() && header.is_expired(self.client.pool_ms(now_ns).await?) {
            return Ok(Some(None));
        }
        let Some(body) = large else {
            let key = &op.record.bytes()[HEADER_BYTES..HEADER_BYTES + header.key_bytes];
            value.assign(key, crate::Meta::default());
            return Ok(Some(Some(header.key_bytes)));
        };
        let extents = self.extent_io().extents(header, &body).await?;
        if let Some(extents) = &extents {
            let buffer = std::mem::take(&mut value.buffer);
            value.buffer = self.extent_io().read_extents(extents, header.key_bytes, buffer).await?;
            (value.start, value.meta.value_bytes) = (0, header.key_bytes);
        }
        // Extents are not protected: they are the object's own while the slot is what it was.
        if self.slot_word(slot).await? != word {
            return Ok(None);
        }
        if extents.is_none() {
            self.drop_damaged(slot, word).await?;
        }
        Ok(extents.map(|_| Some(header.key_bytes)))
    }

    /// Shows at least `count` keys from bucket `cursor` on; the cursor to go on from, 0 at the end.
    pub(super) async fn walk_keys<F: FnMut(&[u8])>(
        &self,
        op: &mut Operation,
        cursor: u64,
        count: usize,
        mut each: F,
    ) -> Result<u64, CacheError> {
        let buckets = u64::from(self.shared.settings.buckets);
        let (mut bucket, mut shown, mut value) = (cursor, 0, Value::new());
        // A walk over an empty index is long, so that its steps are bounded, too.
        let last = cursor.saturating_add((count as u64).saturating_mul(4).max(1024));
        while bucket < buckets && shown < count && bucket < last {
            let words = self.bucket_words(bucket).await?;
            for (index, word) in words.iter().enumerate() {
                let slot = bucket * BUCKET_SLOTS as u64 + index as u64;
                if word.is_live() && self.key_of(op, slot, *word, &mut value).await?.is_some() {
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
        let buckets = u64::from(self.shared.settings.buckets);
        let start = self.client.endpoint.random() % buckets;
        let mut value = Value::new();
        let step = BUCKETS_AT_ONCE as usize;
        for bucket in (start..buckets).step_by(step).chain((0..start).step_by(step)) {
            let words = self.bucket_words(bucket).await?;
            let first = self.client.endpoint.random() as usize % words.len();
            for index in (first..words.len()).chain(0..first) {
                let slot = bucket * BUCKET_SLOTS as u64 + index as u64;
                if words[index].is_live() && self.key_of(op, slot, words[index], &mut value).await?.is_some() {
                    return Ok(Some(value.bytes().to_vec()));
                }
            }
        }
        Ok(None)
    }

    /// Removes every key that is present now.
    pub(super) async fn remove_all(&self, op: &mut Operation) -> Result<u64, CacheError> {
        let buckets = u64::from(self.shared.settings.buckets);
        let (mut bucket, mut removed) = (0, 0);
        while bucket < buckets {
            let words = self.bucket_words(bucket).await?;
            for (index, word) in words.iter().enumerate() {
                removed += self.remove_slot(op, bucket * BUCKET_SLOTS as u64 + index as u64, *word).await?;
            }
            bucket += (words.len() / BUCKET_SLOTS) as u64;
        }
        Ok(removed)
    }

    /// Empties a slot, whatever it is moved to meanwhile.
    async fn remove_slot(&self, op: &mut Operation, slot: u64, mut word: Slot) -> Result<u64, CacheError> {
        for _ in 0..ATTEMPTS_MAX {
            if !word.is_live() {
                return Ok(0);
            }
            if self.unlink(op, slot, word).await? {
                return Ok(1);
            }
            self.unprotect(op);
            word = self.slot_word(slot).await?;
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }
}
