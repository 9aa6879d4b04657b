//! What a look at some objects shows, which of them is evicted, and how.

use crate::index::Index;
use crate::table::class::Class;
use crate::table::operation::Operation;
use crate::table::replacement::{Candidate, Replacement, Victim};
use crate::table::sample::Sample;
use crate::table::slot::Slot;
use crate::table::{Core, Objects};
use crate::{CacheError, Cause};
use atoll_fabric::{Endpoint, Intent};

/// How an attempt to make room ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Made {
    /// There is more room.
    Room,
    /// There may be room soon: a chunk is being emptied.
    Begun,
    /// Another client was faster.
    Stale,
    /// No object that was seen can be evicted.
    Nothing,
    /// No block that was seen suits the class.
    Misfit,
}

impl<E: Endpoint> Core<E> {
    /// Takes a block into the stock, and frees the extents of a large object; returns whether the
    /// slot was unchanged.
    pub(super) async fn take(&self, op: &mut Operation, slot: u64, word: Slot, then: Slot) -> Result<bool, CacheError> {
        if self.find_record(word).await?.is_none() {
            self.drop_damaged(slot, word).await?;
            return Ok(false);
        }
        let extents = if word.is_live() { self.extents_of(op, slot, word).await? } else { Some(None) };
        let Some(extents) = extents else { return Ok(false) };
        let removal = self.removal_before(word, Some(Cause::Evicted)).await?;
        let Some(held) = self.take_block(slot, word, then).await? else { return Ok(false) };
        self.removals.note_read(removal);
        self.stock.borrow_mut().put(held);
        if word.is_live() {
            self.count_removed(1).await?;
        } else {
            self.note_dead(held.block, held.class, -1);
        }
        if let Some(extents) = extents {
            self.extent_io().free_extents(&extents).await?;
        }
        Ok(true)
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// A sample as the replacement wants it, and the shelves of a class.
    pub(in crate::table) async fn look_at_some(&self, class: Option<Class>) -> Result<Sample, CacheError> {
        let (buckets, remembered) = self.replacement.where_to_sample().await;
        self.core.sample(buckets, &remembered, self.replacement.how_to_sample().await, class).await
    }

    /// The first slot of a sample with a suitable block that is dead or whose object has expired.
    pub(super) async fn free_of(
        &self,
        op: &mut Operation,
        sample: &Sample,
        is_of_use: impl Fn(&Core<E>, Slot) -> bool,
    ) -> Result<Option<(u64, Slot)>, CacheError> {
        for (slot, word) in &sample.free {
            if is_of_use(&self.core, *word) && (word.is_dead() || self.core.has_expired(op, *slot, *word).await?) {
                return Ok(Some((*slot, *word)));
            }
        }
        Ok(None)
    }

    /// Removes an expired object of a sample, if there is one; returns whether it was unchanged.
    pub(in crate::table) async fn take_expired_of(
        &self,
        op: &mut Operation,
        sample: &Sample,
    ) -> Result<Option<bool>, CacheError> {
        let Some((slot, word)) = self.free_of(op, sample, |_, word| word.is_live()).await? else { return Ok(None) };
        let taken = self.core.take(op, slot, word, Slot::EMPTY).await?;
        if taken {
            self.core.stats.expirations.add(1);
            self.replacement.removed(&self.core, slot, word).await?;
        }
        Ok(Some(taken))
    }

    /// The replacement's choice: among the objects of a sample, or by its own search.
    pub(in crate::table) async fn choose(&self, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        if !candidates.is_empty()
            && let Some(victim) = self.replacement.choose(&self.core, candidates).await?
        {
            return Ok(Some(victim));
        }
        self.replacement.victim(&self.core).await
    }

    pub(in crate::table) async fn evict(&self, op: &mut Operation, victim: Victim) -> Result<Made, CacheError> {
        // The block's next record is written there.
        if let Some((at, bytes, _)) = self.core.record_span(victim.word) {
            self.core.client.endpoint.expect(at, bytes as u64, Intent::Write);
        }
        let evicted = self.core.take(op, victim.slot, victim.word, victim.then).await?;
        self.core.stats.evictions.add(u64::from(evicted && victim.word.is_live()));
        Ok(if evicted { Made::Room } else { Made::Stale })
    }
}
