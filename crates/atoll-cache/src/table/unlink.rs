//! How an object goes: removed, expired, or dropped because it is damaged. Its slot names the same
//! block afterwards, dead.

use super::layout::BUCKET_SLOTS;
use super::operation::Operation;
use super::replacement::Replacement;
use super::slot::{KeyHash, Slot};
use super::{Core, Hole, Objects};
use crate::CacheError;
use crate::extent::ExtentIndex;
use atoll_fabric::{Batch, Endpoint};

impl<E: Endpoint> Core<E> {
    /// Counts objects that this client removed or evicted.
    pub(super) async fn count_removed(&self, objects: u64) -> Result<(), CacheError> {
        self.client.count_objects(-(objects as i64)).await?;
        if self.client.pool.settings.objects_max > 0 {
            let mut batch = Batch::new();
            batch.fetch_and_add(self.client.pool.layout.resident_objects(), objects.wrapping_neg());
            self.client.endpoint.post_unawaited(&mut batch);
        }
        Ok(())
    }

    /// The record of a slot as it is now; `None` if the slot has changed. `Err` in the inner result
    /// stands for a record that is damaged.
    async fn record_now(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
    ) -> Result<Option<Result<Listed, ()>>, CacheError> {
        let Some((at, bytes, _)) = self.find_record(word).await? else { return Ok(Some(Err(()))) };
        let mut buffer = std::mem::take(&mut op.record);
        buffer.resize(bytes);
        op.record = self.client.endpoint.read(at, buffer).await?;
        let mut record = std::mem::take(&mut op.record);
        let judged = self.judge(word, &mut record).map(|record| (record.header, record.large()));
        op.record = record;
        let listed = match judged {
            Some((header, Some(body))) => self.extent_io().extents(&header, &body).await?.map(Some),
            Some((_, None)) => Some(None),
            None => None,
        };
        if listed.is_none() && self.slot_word(slot).await? != word {
            return Ok(None);
        }
        Ok(Some(listed.ok_or(())))
    }

    /// Extents of a large object, to be freed by whoever makes it dead; `None` if the slot has
    /// changed. A damaged object has none.
    pub(super) async fn extents_of(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
    ) -> Result<Option<Listed>, CacheError> {
        if !word.is_large() {
            return Ok(Some(None));
        }
        Ok(self.record_now(op, slot, word).await?.map(|listed| listed.unwrap_or(None)))
    }

    /// Makes a live slot's block dead if it still has this word; whether it did. Its extents are
    /// freed. A word that names no block leaves none.
    pub(super) async fn bury(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        let Some(extents) = self.extents_of(op, slot, word).await? else { return Ok(false) };
        let then = match self.find_record(word).await? {
            Some(_) => word.buried(self.shared.settings.large_class),
            None => Slot::EMPTY,
        };
        if !self.swap_slot(slot, word, then).await? {
            return Ok(false);
        }
        if then.is_dead() {
            self.note_dead(word.block(), word.class(self.shared.settings.large_class), 1);
        }
        self.count_removed(1).await?;
        if let Some(extents) = extents {
            self.extent_io().free_extents(&extents).await?;
        }
        Ok(true)
    }

    /// A slot's word now.
    pub(super) async fn slot_word(&self, slot: u64) -> Result<Slot, CacheError> {
        let mut batch = Batch::new();
        let word = batch.read_word(self.shared.layout.slot(slot));
        self.client.endpoint.post(&mut batch).await?;
        Ok(Slot(batch.word(word)))
    }

    /// Changes a slot's word from one to another; whether it was the one.
    pub(super) async fn swap_slot(&self, slot: u64, from: Slot, to: Slot) -> Result<bool, CacheError> {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.shared.layout.slot(slot), from.0, to.0);
        self.client.endpoint.post(&mut batch).await?;
        Ok(batch.swapped(swap))
    }

    /// Looks at every object of a bucket, and drops those that are damaged.
    pub(super) async fn examine(&self, op: &mut Operation, hash: KeyHash) -> Result<(), CacheError> {
        self.read_bucket(op, hash).await?;
        for place in 0..BUCKET_SLOTS {
            let (word, slot) = op.seen(hash, place);
            if word.is_live() {
                self.drop_if_damaged(op, slot, word).await?;
            }
        }
        Ok(())
    }

    /// Looks at the object of a live slot, and drops it if it is damaged.
    pub(super) async fn drop_if_damaged(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<(), CacheError> {
        if self.record_now(op, slot, word).await? == Some(Err(())) {
            self.drop_damaged(slot, word).await?;
        }
        Ok(())
    }

    /// Drops an object whose record is unsound although its slot still names it: something else
    /// than a client wrote to the pool, and a lookup would find the same for ever.
    pub(super) async fn drop_damaged(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        if self.slot_word(slot).await? != word {
            return Ok(());
        }
        // A word that names no block of the heap cannot stay as a dead block either, and a pending
        // one's is in its inserter's hands.
        let is_block = self.record_span(word).is_some();
        let then = if is_block && word.is_live() { word.buried(self.shared.settings.large_class) } else { Slot::EMPTY };
        if self.swap_slot(slot, word, then).await? {
            if then.is_dead() {
                self.note_dead(word.block(), word.class(self.shared.settings.large_class), 1);
            }
            self.stats.damaged.add(1);
            if word.is_live() {
                self.count_removed(1).await?;
            }
        }
        Ok(())
    }
}

/// The extents of a large object; `None` of a small one.
pub(super) type Listed = Option<super::extent::Extents>;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes an object dead and tells the replacement; whether the slot still had this word.
    pub(super) async fn unlink(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        let removed = self.core.bury(op, slot, word).await?;
        if removed {
            self.replacement.removed(&self.core, slot, word).await?;
        }
        Ok(removed)
    }

    /// Takes an expired object away, before anybody is told that it has expired: then nobody who
    /// found it live a moment ago can bring it back. `false` if the slot has changed.
    pub(super) async fn take_expired(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        if self.core.is_open(Hole::UntakenExpiry) {
            return Ok(true);
        }
        let removed = self.unlink(op, slot, word).await?;
        self.core.stats.expirations.add(u64::from(removed));
        Ok(removed)
    }
}
