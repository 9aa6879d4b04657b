//! How a client makes room where queues choose the victim (see `queues`).
//!
//! | step | then |
//! |---|---|
//! | now and then look at a random bucket | a dead block or an expired object is used |
//! | where much of the memory is dead | live objects are gathered (see `gather`) |
//! | where the bucket had an object that is in no queue | it is evicted |
//! | ask the replacement for a victim | it is evicted, if its block is of use |
//! | there is no victim | look at a random bucket, and evict what the replacement chooses there |
//!
//! The pace of looks follows their success. After a look that found something, the next look is one
//! victim later. After a look in vain, the distance doubles. Where nothing is deleted, nothing
//! expires and no client dies, one victim in sixteen costs a look.
//!
//! A victim has left its queue when the replacement returns it. If it is not evicted, the
//! replacement is told, and puts it back.

use super::block::BlockRequest;
use super::share::WANTED_ONCE_FOR;
use super::victim::Made;
use crate::table::Objects;
use crate::table::class::Class;
use crate::table::operation::Operation;
use crate::table::replacement::{Candidate, Replacement, Victim};
use crate::table::sample::Sample;
use crate::table::slot::Slot;
use crate::{CacheError, Cause};
use atoll_fabric::Endpoint;

/// Most victims between two looks.
const LEFT_OUT_MAX: u32 = 16;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// A look at a random bucket, if one is due.
    async fn due_look(&self, class: Option<Class>) -> Result<Option<Sample>, CacheError> {
        let (left, before) = self.core.samples_left_out.get();
        if left > 0 {
            self.core.samples_left_out.set((left - 1, before));
            return Ok(None);
        }
        let next = (2 * before).clamp(1, LEFT_OUT_MAX);
        self.core.samples_left_out.set((next, next));
        Ok(Some(self.look_at_some(class).await?))
    }

    /// Takes one block of use; if it is to be `drained`, or now and then, by emptying a chunk.
    pub(super) async fn make_room_by_queue(
        &self,
        op: &mut Operation,
        request: BlockRequest,
    ) -> Result<Made, CacheError> {
        let BlockRequest { class, drained } = request;
        let mut sample = self.due_look(Some(class)).await?;
        if let Some(sample) = &sample
            && let Some(made) = self.take_free_of(op, sample, class).await?
        {
            self.core.samples_left_out.set((0, 0));
            return Ok(made);
        }
        if self.core.client.endpoint.is_near() {
            self.core.look_at_memory().await?;
        }
        if let Some(made) = self.core.avoid_eviction(op, class).await? {
            return Ok(made);
        }
        if let Some(sample) = &mut sample
            && let Some(made) = self.evict_unqueued(op, sample, class).await?
        {
            self.core.samples_left_out.set((0, 0));
            return Ok(made);
        }
        let Some(victim) = self.replacement.victim(&self.core).await? else {
            return self.make_room_without_queue(op, request).await;
        };
        self.core.note_share(victim.word);
        let draw = self.core.client.endpoint.random() as u32;
        let made = match self.core.passes_on(victim.word, class, drained, draw) {
            true => self.empty_chunk_of_victim(op, victim).await?,
            false if self.core.fits(victim.word, class) => self.evict(op, victim).await?,
            false => Made::Misfit,
        };
        self.spare_unless_gone(victim, made).await?;
        Ok(made)
    }

    /// Evicts an object of a sample that is in no queue, if there is one.
    async fn evict_unqueued(
        &self,
        op: &mut Operation,
        sample: &mut Sample,
        class: Class,
    ) -> Result<Option<Made>, CacheError> {
        let fitting = sample.first(|word| self.core.fits(word, class));
        if !fitting.is_empty()
            && let Some(unqueued) = self.replacement.unqueued(&self.core, fitting).await?
        {
            return Ok(Some(self.evict(op, unqueued).await?));
        }
        Ok(None)
    }

    /// Makes room when no queue gives a victim: all are empty, or another client keeps their locks.
    async fn make_room_without_queue(&self, op: &mut Operation, request: BlockRequest) -> Result<Made, CacheError> {
        let BlockRequest { class, drained } = request;
        let mut sample = self.look_at_some(Some(class)).await?;
        if let Some(made) = self.take_free_of(op, &sample, class).await? {
            return Ok(made);
        }
        let of_all = self.choose_of(&sample.candidates).await?;
        let of_use = self.choose_of(sample.first(|word| self.core.fits(word, class))).await?;
        match (of_use, of_all.map(|victim| victim.word).or(sample.free.first().map(|(_, word)| *word))) {
            (Some(victim), _) if !drained => self.evict_from_queue(op, victim).await,
            (_, Some(word)) if drained => self.empty_chunk_of(op, of_all, word).await,
            (_, None) => Ok(Made::Nothing),
            _ => Ok(Made::Misfit),
        }
    }

    async fn choose_of(&self, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        if candidates.is_empty() {
            return Ok(None);
        }
        if let Some(chosen) = self.replacement.choose(&self.core, candidates).await? {
            return Ok(Some(chosen));
        }
        let any = &candidates[self.core.client.endpoint.random() as usize % candidates.len()];
        Ok(Some(Victim { slot: any.slot, word: any.word, then: Slot::EMPTY }))
    }

    /// Evicts an object that a queue may still have.
    async fn evict_from_queue(&self, op: &mut Operation, victim: Victim) -> Result<Made, CacheError> {
        let made = self.evict(op, victim).await?;
        if made == Made::Room {
            self.replacement.removed(&self.core, victim.slot, victim.word).await?;
        }
        Ok(made)
    }

    /// Makes the chunk of a victim free, or begins to. If another client empties that chunk,
    /// perhaps for long, the victim is evicted alone. At its queue's end it would block all other
    /// objects.
    async fn empty_chunk_of_victim(&self, op: &mut Operation, victim: Victim) -> Result<Made, CacheError> {
        let made = self.empty_chunk_of(op, Some(victim), victim.word).await?;
        let is_in_the_way = made == Made::Stale && victim.word.is_live();
        if !is_in_the_way || !self.core.bury(op, victim.slot, victim.word, Some(Cause::Evicted)).await? {
            return Ok(made);
        }
        self.core.stats.evictions.add(1);
        Ok(Made::Room)
    }

    async fn spare_unless_gone(&self, victim: Victim, made: Made) -> Result<(), CacheError> {
        // Where a chunk is being emptied, all objects in it are evicted.
        if !matches!(made, Made::Room | Made::Begun) {
            self.replacement.spared(&self.core, victim).await?;
        }
        Ok(())
    }

    /// Makes the chunk of a victim free. The more blocks the chunk has, the more rarely, unless it
    /// is to be `drained`.
    pub(super) async fn empty_chunk_by_queue(&self, op: &mut Operation, drained: bool) -> Result<Made, CacheError> {
        let Some(victim) = self.replacement.victim(&self.core).await? else {
            let sample = self.look_at_some(None).await?;
            let chosen = self.choose_of(&sample.candidates).await?;
            return match chosen.map(|victim| victim.word).or(sample.free.first().map(|(_, word)| *word)) {
                Some(word) => self.empty_chunk_of(op, chosen, word).await,
                None => Ok(Made::Nothing),
            };
        };
        self.core.note_share(victim.word);
        let draw = self.core.client.endpoint.random() as u32;
        let gives = drained || victim.word.is_large() || self.core.gives_chunk(victim.word, WANTED_ONCE_FOR, draw);
        let made = if gives { self.empty_chunk_of_victim(op, victim).await? } else { Made::Misfit };
        self.spare_unless_gone(victim, made).await?;
        Ok(made)
    }

    /// Evicts one object of any class; returns whether it did.
    pub(super) async fn evict_one_by_queue(&self, op: &mut Operation) -> Result<bool, CacheError> {
        if let Some(sample) = self.due_look(None).await? {
            let mut taken = self.take_expired_of(op, &sample).await?;
            if taken.is_none()
                && !sample.candidates.is_empty()
                && let Some(unqueued) = self.replacement.unqueued(&self.core, &sample.candidates).await?
            {
                taken = Some(self.evict(op, unqueued).await? == Made::Room);
            }
            if let Some(taken) = taken {
                self.core.samples_left_out.set((0, 0));
                return Ok(taken);
            }
        }
        let Some(victim) = self.replacement.victim(&self.core).await? else {
            let sample = self.look_at_some(None).await?;
            if let Some(taken) = self.take_expired_of(op, &sample).await? {
                return Ok(taken);
            }
            let Some(victim) = self.choose_of(&sample.candidates).await? else { return Ok(false) };
            return Ok(self.evict_from_queue(op, victim).await? == Made::Room);
        };
        let made = self.evict(op, victim).await?;
        self.spare_unless_gone(victim, made).await?;
        Ok(made == Made::Room && victim.word.is_live())
    }
}
