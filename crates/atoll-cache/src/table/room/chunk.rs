//! Whole chunks, and when the chunk of a victim passes from one class to another.

use super::search::{Need, Next, Search};
use super::victim::Made;
use crate::table::class::Class;
use crate::table::drain::{DRAINS_MAX, DrainLook, Keeps};
use crate::table::operation::Operation;
use crate::table::replacement::{Replacement, Victim};
use crate::table::slot::Slot;
use crate::table::{Core, Objects};
use crate::{CacheError, Cause};
use atoll_fabric::Endpoint;

/// A chunk is emptied once for the blocks of so many chunks.
const DRAIN_EVERY: u64 = 4;
/// Where a chunk is wanted, one is emptied for so many victims.
pub(super) const WANTED_ONCE_FOR: u64 = 2;
/// The share of a chunk that is all of it.
const WHOLE_SHARE: u64 = 1 << 32;
/// Objects over which the mean share of a chunk is taken.
const SHARES_REMEMBERED: u64 = 64;

impl<E: Endpoint> Core<E> {
    /// How much of a chunk goes with an object: all of one if it has its own, else what a block is
    /// of it.
    fn share(&self, word: Slot) -> u64 {
        let blocks = word.class(self.shared.settings.large_class).blocks(self.client.pool.layout.chunk_bytes);
        WHOLE_SHARE / if word.is_large() { 1 } else { blocks.max(1) }
    }

    /// Notes an object that was seen, as one of those among which victims are.
    pub(in crate::table) fn note_share(&self, word: Slot) {
        let (mean, share) = (self.mean_share.get(), self.share(word));
        self.mean_share.set(if mean == 0 {
            share
        } else {
            mean - mean / SHARES_REMEMBERED + share / SHARES_REMEMBERED
        });
    }

    /// Whether the chunk of a victim that is of no use for the class is to pass to it now, by a
    /// random `draw`: of all victims together once for the blocks of [`DRAIN_EVERY`] chunks, or,
    /// where one is to be `drained`, one of two; of each as often as its block is part of a chunk.
    pub(in crate::table) fn passes_on(&self, word: Slot, class: Class, drained: bool, draw: u32) -> bool {
        let once_for = match drained {
            true => WANTED_ONCE_FOR,
            false => DRAIN_EVERY * class.blocks(self.client.pool.layout.chunk_bytes),
        };
        !self.fits(word, class) && self.gives_chunk(word, once_for, draw)
    }

    /// Whether a victim takes its chunk along, by a random `draw`: of all victims together once for
    /// so many, of each as often as its block is part of a chunk.
    pub(in crate::table) fn gives_chunk(&self, word: Slot, once_for: u64, draw: u32) -> bool {
        let drawn = u128::from(draw) * u128::from(self.mean_share.get()) * u128::from(once_for);
        drawn < u128::from(self.share(word)) << u32::BITS
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes sure that so many fresh chunks are at hand. Those that are missing are emptied
    /// together, a few at a time: that takes fewer verbs than one by one.
    pub(in crate::table) async fn obtain_chunks(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        let mut search = Search::new(Need::Chunks);
        loop {
            let had = self.core.chunks.borrow().len();
            if had >= chunks {
                break;
            }
            if !search.is_claiming() || self.core.drains.len() >= DRAINS_MAX.min(chunks - had) {
                self.core.recheck_waiting(DrainLook::ForRoom).await?;
            }
            if Box::pin(self.core.gather_if_scarce(op)).await?
                || self.core.allocate_another_chunk().await?
                || Box::pin(self.core.gather(op)).await?
            {
                continue;
            }
            let made = match R::QUEUES {
                true => self.empty_chunk_by_queue(op, search.drains()).await?,
                false => self.make_chunk(op, search.drains()).await?,
            };
            let has_more = self.core.chunks.borrow().len() > had;
            match search.after(made, has_more) {
                Next::Again => {}
                Next::Wait { tried } => Box::pin(self.wait_for_others(op, tried)).await?,
                Next::GiveUp => return Err(CacheError::OutOfMemory),
            }
        }
        Ok(())
    }

    /// Makes a chunk free, or begins to. A large object gives its chunks at once; the chunk of a
    /// small one takes all that are in it along, and so it goes the more rarely the more it holds,
    /// unless one is to be `drained` because none did for long.
    async fn make_chunk(&self, op: &mut Operation, drained: bool) -> Result<Made, CacheError> {
        let mut sample = self.look_at_some(None).await?;
        if let Some((slot, word)) = self.free_of(op, &sample, |_, word| word.is_live() && word.is_large()).await? {
            let buried = self.core.bury(op, slot, word, Some(Cause::Expired)).await?;
            if buried {
                self.core.stats.expirations.add(1);
                self.replacement.removed(&self.core, slot, word).await?;
            }
            return Ok(if buried { Made::Room } else { Made::Stale });
        }
        sample.candidates.iter().for_each(|candidate| self.core.note_share(candidate.word));
        let of_all = self.choose(&sample.candidates).await?;
        let Some(word) = of_all.map(|victim| victim.word).or(sample.free.first().map(|(_, word)| *word)) else {
            return Ok(Made::Nothing);
        };
        let draw = self.core.client.endpoint.random() as u32;
        if word.is_large() || self.core.gives_chunk(word, WANTED_ONCE_FOR, draw) {
            return self.empty_chunk_of(op, of_all, word).await;
        }
        match self.choose(sample.first(Slot::is_large)).await? {
            Some(victim) if victim.word.is_large() => self.empty_chunk_of(op, Some(victim), victim.word).await,
            _ if drained => self.empty_chunk_of(op, of_all, word).await,
            _ => Ok(Made::Misfit),
        }
    }

    /// Makes a chunk free: that in which the block of this slot's word lies, or one of a large
    /// object's.
    pub(in crate::table) async fn empty_chunk_of(
        &self,
        op: &mut Operation,
        victim: Option<Victim>,
        word: Slot,
    ) -> Result<Made, CacheError> {
        if let Some(victim) = victim.filter(|victim| victim.word.is_large()) {
            let evicted = self.core.bury(op, victim.slot, victim.word, Some(Cause::Evicted)).await?;
            self.core.stats.evictions.add(u64::from(evicted));
            return Ok(if evicted { Made::Room } else { Made::Stale });
        }
        let Some((_, chunk)) = self.core.block_span(word.block()) else { return Ok(Made::Stale) };
        if !self.core.may_claim_chunk() {
            return Ok(Made::Nothing);
        }
        Ok(if self.core.claim_chunk(chunk, Keeps::Nothing).await? { Made::Begun } else { Made::Stale })
    }
}
