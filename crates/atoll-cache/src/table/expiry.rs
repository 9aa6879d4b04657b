//! How expired objects are removed without a request.
//!
//! Clients that tend look through the index at the pace of [`sweep`](crate::sweep).
//!
//! | step | verbs |
//! |---|---|
//! | claim the buckets that are due | READ the hand; CAS it |
//! | look at them | READ sixteen buckets with their access information |
//! | the words beside a slot say that its object may have expired | READ its record |
//! | it has expired | as a lookup does: see `unlink` |
//! | it has not, and the words are another object's | WRITE its own expiry there |
//!
//! The words beside a slot may be another object's. An unawaited WRITE may have come late, or the
//! engine wrote nothing for an object without expiry. So neither a sweep nor a sample removes an
//! object by those words alone: the record says whether the object has expired.

use super::access::{self, ACCESS_WORDS, Access};
use super::layout::{ACCESS_BYTES, BUCKET_BYTES, BUCKET_SLOTS, SLOTS_BYTES};
use super::operation::Operation;
use super::replacement::Replacement;
use super::slot::Slot;
use super::{Core, Objects};
use crate::CacheError;
use crate::index::{Index, Unlink};
use crate::sweep::Hand;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::read_word;
use std::ops::Range;

/// Buckets of a stretch, at least, if so many are due.
const STRETCH_MIN: u64 = 64;
/// Buckets READ at once.
const BUCKETS_AT_ONCE: u32 = 16;

impl<E: Endpoint> Core<E> {
    /// Whether an object has expired whose words beside the slot say so. Corrects the words if it
    /// has not.
    pub(super) async fn has_expired(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        let now_ns = self.client.endpoint.now_ns();
        let now_ms = self.client.pool_ms(now_ns).await?;
        let Some((header, _)) = self.read_record(op, word).await? else { return Ok(false) };
        if header.is_expired(now_ms) {
            return Ok(true);
        }
        let mut words = Buffer::new();
        words.resize(ACCESS_BYTES as usize);
        let words = self.client.endpoint.read(self.shared.layout.access(slot), words).await?;
        self.correct_expiry(slot, words.words(), header.expiry_ms);
        Ok(false)
    }

    /// Claims buckets that are due; `None` if none are.
    async fn claim_stretch(&self) -> Result<Option<Range<u32>>, CacheError> {
        let at = self.shared.layout.sweep();
        let now_ns = self.client.endpoint.now_ns();
        let now_ms = self.client.pool_ms(now_ns).await?;
        let word = read_word(&self.client.endpoint, at).await?;
        let Some((stretch, next)) = Hand::from_word(word).stretch(now_ms, self.shared.settings.buckets, STRETCH_MIN)
        else {
            return Ok(None);
        };
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, word, next.word());
        self.client.endpoint.post(&mut batch).await?;
        // A client that lost the swap leaves the stretch to the client that won it.
        Ok(batch.swapped(swap).then_some(stretch))
    }

    /// The slots of some buckets whose objects may have expired, with the words beside each slot.
    async fn slots_that_may_have_expired(
        &self,
        buckets: Range<u32>,
        now_ms: u64,
    ) -> Result<Vec<(u64, Slot, [u64; ACCESS_WORDS])>, CacheError> {
        let buffer = self.spares.take(buckets.len() * BUCKET_BYTES as usize);
        let read = self.client.endpoint.read(self.shared.layout.bucket(buckets.start), buffer).await?;
        let mut found = Vec::new();
        for (bucket, words) in buckets.zip(read.words().chunks_exact((BUCKET_BYTES / 8) as usize)) {
            let (slots, beside) = words.split_at((SLOTS_BYTES / 8) as usize);
            for (place, words) in beside.chunks_exact((ACCESS_BYTES / 8) as usize).enumerate() {
                let word = Slot(slots[place]);
                if word.is_live() && access::may_have_expired(words, now_ms) {
                    let mut beside = [0; ACCESS_WORDS];
                    beside.copy_from_slice(words);
                    found.push((u64::from(bucket) * BUCKET_SLOTS as u64 + place as u64, word, beside));
                }
            }
        }
        self.spares.keep(read);
        Ok(found)
    }

    /// Writes an object's expiry beside its slot, over another object's. The mark stays as it is,
    /// because words with two marks prove nothing.
    fn correct_expiry(&self, slot: u64, beside: &[u64], expiry_ms: Option<u64>) {
        let Some(mark) = Access::mark(beside) else { return };
        let mut batch = Batch::new();
        batch.write_word(self.shared.layout.expiry(slot), access::expiry_word(expiry_ms, mark));
        self.client.endpoint.post_unawaited(&mut batch);
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Removes expired objects in the buckets that are due, as far as the client's budget reaches.
    pub(super) async fn sweep_expired(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        let now_ns = self.core.client.endpoint.now_ns();
        let Some(until_ns) = self.core.sweep.borrow_mut().until_ns(now_ns) else { return Ok(()) };
        while self.core.client.endpoint.now_ns() < until_ns {
            let Some(stretch) = self.core.claim_stretch().await? else { break };
            self.sweep_stretch(op, stretch).await?;
        }
        self.core.sweep.borrow_mut().spent(self.core.client.endpoint.now_ns());
        Ok(())
    }

    async fn sweep_stretch(&self, op: &mut Operation, stretch: Range<u32>) -> Result<(), CacheError> {
        let mut first = stretch.start;
        while first < stretch.end {
            let piece = self.core.shared.layout.buckets().in_a_piece(first).min(BUCKETS_AT_ONCE);
            let end = stretch.end.min(first + piece);
            let now_ns = self.core.client.endpoint.now_ns();
            let now_ms = self.core.client.pool_ms(now_ns).await?;
            for (slot, word, beside) in self.core.slots_that_may_have_expired(first..end, now_ms).await? {
                let Some((header, _)) = self.core.read_record(op, word).await? else { continue };
                if header.is_expired(now_ms) {
                    // If the slot has changed meanwhile, it names another object.
                    self.take_expired(op, slot, word).await?;
                } else {
                    self.core.correct_expiry(slot, &beside, header.expiry_ms);
                }
            }
            first = end;
        }
        Ok(())
    }
}
