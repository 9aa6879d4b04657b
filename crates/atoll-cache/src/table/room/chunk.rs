//! Making room: whole chunks.

use super::search::{Need, Next, Search};
use super::share::WANTED_ONCE_FOR;
use super::victim::Made;
use crate::table::Objects;
use crate::table::drain::{DRAINS_MAX, DrainLook, Keeps};
use crate::table::operation::Operation;
use crate::table::replacement::{Replacement, Victim};
use crate::table::slot::Slot;
use crate::{CacheError, Cause};
use atoll_fabric::Endpoint;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes sure that the stock has so many fresh chunks. Missing chunks are emptied together, a
    /// few at a time: that needs fewer verbs than one by one.
    pub(in crate::table) async fn obtain_chunks(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        let mut search = Search::new(Need::Chunks);
        loop {
            let had = self.core.fresh.chunks.len();
            if had >= chunks {
                break;
            }
            if !search.is_claiming() || self.core.drains.len() >= DRAINS_MAX.min(chunks - had) {
                self.core.recheck_waiting(DrainLook::ForRoom).await?;
            }
            if Box::pin(self.core.gather_if_scarce(op)).await?
                || self.core.allocate_chunks(chunks).await?
                || Box::pin(self.core.gather(op)).await?
            {
                continue;
            }
            let made = match R::QUEUES {
                true => self.empty_chunk_by_queue(op, search.drains()).await?,
                false => self.make_chunk(op, search.drains()).await?,
            };
            let has_more = self.core.fresh.chunks.len() > had;
            match search.after(made, has_more) {
                Next::Again => {}
                Next::Wait { tried } => Box::pin(self.wait_for_others(op, tried)).await?,
                Next::GiveUp => return Err(CacheError::OutOfMemory),
            }
        }
        Ok(())
    }

    /// Makes a chunk free, or begins to. A large object frees its chunks at once. To empty the
    /// chunk of a small object, all objects in it are evicted. So the more blocks such a chunk has,
    /// the more rarely it is emptied. The exception is a `drained` chunk, wanted after long without
    /// one.
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

    /// Makes a chunk free: the chunk in which the block of this slot's word lies, or a chunk of a
    /// large object.
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
