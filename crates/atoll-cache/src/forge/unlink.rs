//! How an object goes: removed, expired, evicted by itself, or dropped because it is damaged.

use super::lookup::REUSE_NS;
use super::operation::Operation;
use super::search::Found;
use super::slot::Slot;
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::extent::ExtentIndex;
use crate::search::Large;
use atoll_fabric::{Batch, Buffer, Endpoint};

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Accounts for an object that this client has just made dead.
    pub(super) async fn bury(&self, found: Found, extents_live_on: bool) -> Result<(), CacheError> {
        self.count_dead(found.beside, found.header.record_bytes());
        match &found.large {
            Some(large) if !extents_live_on => self.extent_io().free_extents(&large.extents).await,
            _ => Ok(()),
        }
    }

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

    /// Takes an expired object away, before anybody is told that it has expired: then nobody who
    /// found it live a moment ago can bring it back. `false` if the slot has changed.
    pub(super) async fn take_expired(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        if self.is_open(Hole::UntakenExpiry) {
            return Ok(true);
        }
        let removed = self.unlink(op, slot, word).await?;
        self.unprotect(op);
        self.stats.expirations.add(u64::from(removed));
        Ok(removed)
    }

    /// Makes a slot empty if it still has this word, and buries its object; whether it did. For
    /// evictions and flushes of single slots.
    pub(super) async fn unlink(&self, op: &mut Operation, slot: u64, word: Slot) -> Result<bool, CacheError> {
        let begun_ns = self.client.endpoint.now_ns();
        let Some((now, chunk)) = self.read_protected(op, slot, word).await? else { return Ok(false) };
        let record: Buffer = std::mem::take(&mut op.record);
        let judged = self.judge(word, &record).map(|record| (record.header, record.large()));
        op.record = record;
        if now != word || self.client.endpoint.now_ns().wrapping_sub(begun_ns) > REUSE_NS {
            return Ok(false);
        }
        let large = match judged {
            Some((header, Some(body))) => {
                let extents = self.extent_io().extents(&header, &body).await?;
                extents.map(|extents| Some(Box::new(Large { body, extents })))
            }
            Some((_, None)) => Some(None),
            None => None,
        };
        let (Some((header, _)), Some(large)) = (judged, large) else {
            // Extents, which are not protected, say nothing if the slot has changed meanwhile; then
            // the swap fails.
            self.drop_damaged(slot, word).await?;
            return Ok(false);
        };
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.shared.layout.slot(slot), word.0, 0);
        self.client.endpoint.post(&mut batch).await?;
        let removed = batch.swapped(swap);
        if removed {
            self.count_removed(1).await?;
            self.bury(Found { slot, word, header, large, beside: chunk }, false).await?;
        }
        self.unprotect(op);
        Ok(removed)
    }

    /// Drops an object whose record is unsound although it cannot have been reused: `slot` still
    /// had `word` when the record was READ under protection. If it is live, something else than a
    /// client wrote to the pool, and a lookup would find the same for ever.
    pub(super) async fn drop_damaged(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        if self.is_open(Hole::Protection) || self.is_open(Hole::EarlyReuse) {
            return Ok(());
        }
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.shared.layout.slot(slot), word.0, 0);
        self.client.endpoint.post(&mut batch).await?;
        // Only a live object is lost, and a sign of damage. The record of a pending slot may be
        // unsound without any: an insertion that withdrew gives its place back, and beginning anew
        // it may WRITE to the same place again and make the same slot pending with the same word,
        // while this client READs. The swap is from a pending word, so that it hits an insertion
        // that is not decided, whichever it is: nobody has seen its object, and its inserter, whose
        // own swap from that word fails now, begins anew.
        if batch.swapped(swap) && word.is_live() {
            self.stats.damaged.add(1);
            self.count_removed(1).await?;
        }
        Ok(())
    }
}
