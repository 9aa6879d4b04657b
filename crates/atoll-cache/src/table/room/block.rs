//! Making room: a block of a class.

use super::search::{Need, Next, Search};
use super::victim::Made;
use crate::CacheError;
use crate::table::class::Class;
use crate::table::drain::DrainLook;
use crate::table::operation::Operation;
use crate::table::replacement::Replacement;
use crate::table::sample::Sample;
use crate::table::slot::Slot;
use crate::table::{Core, Objects};
use atoll_fabric::Endpoint;

/// The block that a search makes room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRequest {
    pub(super) class: Class,
    /// Whether a chunk is emptied for it.
    pub(super) drained: bool,
}

impl<E: Endpoint> Core<E> {
    pub(in crate::table) fn fits(&self, word: Slot, wanted: Class) -> bool {
        self.block_fits(word.class(self.shared.settings.large_class), wanted)
    }

    /// Finds room without evicting while much of the memory is dead, as far as this client knows.
    /// It takes a dead block that fits a record of the class, or gathers a chunk that is mostly
    /// dead. `None` if little is dead, or none of it can be taken.
    pub(in crate::table) async fn avoid_eviction(
        &self,
        op: &mut Operation,
        class: Class,
    ) -> Result<Option<Made>, CacheError> {
        if !self.is_sparse() {
            return Ok(None);
        }
        if self.take_dead(class, None).await? {
            return Ok(Some(Made::Room));
        }
        Ok(Box::pin(self.gather(op)).await?.then_some(Made::Begun))
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    pub(super) async fn obtain_block(
        &self,
        op: &mut Operation,
        class: Class,
        chunks_kept: usize,
    ) -> Result<(), CacheError> {
        let mut search = Search::new(Need::Block);
        loop {
            self.core.recheck_aging().await?;
            if self.core.has_block(class) {
                return Ok(());
            }
            self.core.recheck_waiting(DrainLook::ForRoom).await?;
            self.free_a_cell(op).await?;
            let has_chunk = self.core.fresh.chunks.len() > chunks_kept;
            if !has_chunk && self.core.fresh.is_search_due() && Box::pin(self.core.gather_if_scarce(op)).await? {
                continue;
            }
            // If a free chunk may be available, the rest of another chunk is used first. Otherwise
            // the sample looks at the shelves too.
            if has_chunk || self.core.fresh.is_search_due() {
                let shelves = self.core.shelves(class).await?;
                if self.core.take_shelved(class, &shelves).await?.is_some() {
                    continue;
                }
            }
            if (has_chunk || self.core.obtain_free_chunk_beyond(chunks_kept).await?)
                && self.core.open_slab(class).await?
            {
                continue;
            }
            let made = self.make_room(op, BlockRequest { class, drained: search.drains() }).await?;
            match search.after(made, false) {
                Next::Again => {}
                Next::Wait { tried } => Box::pin(self.wait_for_others(op, tried)).await?,
                Next::GiveUp => return Err(CacheError::OutOfMemory),
            }
        }
    }

    /// Takes one block of use; if it is to be `drained`, or now and then, by emptying a chunk.
    async fn make_room(&self, op: &mut Operation, request: BlockRequest) -> Result<Made, CacheError> {
        if R::QUEUES {
            return self.make_room_by_queue(op, request).await;
        }
        let BlockRequest { class, drained } = request;
        let mut sample = self.look_at_some(Some(class)).await?;
        sample.candidates.iter().for_each(|candidate| self.core.note_share(candidate.word));
        if let Some(made) = self.take_free_of(op, &sample, class).await? {
            return Ok(made);
        }
        if let Some(made) = self.core.avoid_eviction(op, class).await? {
            return Ok(made);
        }
        let draw = self.core.client.endpoint.random() as u32;
        let passes_on = |core: &Core<E>, word: Slot| core.passes_on(word, class, drained, draw);
        let free = || sample.free.first().map(|(_, word)| *word);
        if sample
            .candidates
            .iter()
            .map(|candidate| candidate.word)
            .chain(free())
            .any(|word| passes_on(&self.core, word))
        {
            let of_all = self.choose(&sample.candidates).await?;
            let chosen = of_all.map(|victim| victim.word).or_else(free);
            if let Some(word) = chosen.filter(|word| passes_on(&self.core, *word)) {
                return self.empty_chunk_of(op, of_all, word).await;
            }
        }
        let chosen = self.choose(sample.first(|word| self.core.fits(word, class))).await?;
        let Some(victim) = chosen else {
            let is_empty = sample.candidates.is_empty() && sample.free.is_empty();
            return Ok(if is_empty { Made::Nothing } else { Made::Misfit });
        };
        if !self.core.fits(victim.word, class) {
            return Ok(Made::Misfit);
        }
        self.evict(op, victim).await
    }

    /// Takes a dead block or an expired object of a sample, or a block from a shelf, if one suits
    /// the class.
    pub(in crate::table) async fn take_free_of(
        &self,
        op: &mut Operation,
        sample: &Sample,
        class: Class,
    ) -> Result<Option<Made>, CacheError> {
        let made = |taken| if taken { Made::Room } else { Made::Stale };
        let Some((slot, word)) = self.free_of(op, sample, |core, word| core.fits(word, class)).await? else {
            return Ok(self.core.take_shelved(class, &sample.shelves).await?.map(made));
        };
        let taken = self.core.take(op, slot, word, Slot::EMPTY).await?;
        if taken && word.is_live() {
            self.core.stats.expirations.add(1);
            self.replacement.removed(&self.core, slot, word).await?;
        }
        Ok(Some(made(taken)))
    }
}
