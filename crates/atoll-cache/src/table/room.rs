//! How room is made: a block at hand, one of a free chunk, one of a dead or expired object, or that
//! of an object which is to go.
//!
//! Nothing is evicted for memory while much of it is dead: then what lives is gathered (see
//! `gather`).
//!
//! Whoever needs a block does this itself; nobody waits for another client. A sample is one READ,
//! or a few in one batch: a random bucket, slots and access information. Dead blocks and expired
//! objects in it go first. Of the others the replacement chooses among those whose blocks fit: of
//! the class, or of one that is larger by a quarter at most.
//!
//! Where sizes differ, chunks must pass from one class to another. Now and then (once for the
//! blocks of so many chunks as [`DRAIN_EVERY`]), when the best choice among all is of another
//! class, or when no sample has a block that fits, the chunk of the chosen object is emptied and
//! cut anew. It takes all along that is in it, and so a victim's chunk goes the more rarely the
//! more blocks it has: see [`Core::passes_on`]. Each class loses chunks as it has chunks, not as it
//! has objects, and gains as it is written: its share of the memory becomes its share of the bytes
//! written, as in one queue for all.

use super::class::Class;
use super::drain::{DRAINS_MAX, DrainLook, Keeps};
use super::gather::GATHERS_MAX;
use super::operation::Operation;
use super::replacement::{Candidate, Replacement, Victim};
use super::sample::Sample;
use super::slot::Slot;
use super::{Core, Objects};
use crate::CacheError;
use crate::extent::ExtentIndex;
use atoll_fabric::{Batch, Endpoint, Purpose};
use atoll_pool::loan::Loan;
use atoll_pool::read_word;

/// Tries, each after a pause, before a writer gives up because nothing can be taken.
pub(super) const TRIES_MAX: u32 = 2_000;
/// Samples for an object that may go, of which one costs a pause.
const SAMPLES_A_TRY: u32 = 16;
/// Samples without a block that fits, after which a chunk is emptied.
const MISFITS_MAX: u32 = 12;
/// Tries before a writer waits for others.
const IDLE_TRIES: u32 = 16;
/// A chunk is emptied once for the blocks of so many chunks.
const DRAIN_EVERY: u64 = 4;
/// Where a chunk is wanted, one is emptied for so many victims.
pub(super) const WANTED_ONCE_FOR: u64 = 2;
/// The share of a chunk that is all of it.
const WHOLE_SHARE: u64 = 1 << 32;
/// Objects over which the mean share of a chunk is taken.
const SHARES_REMEMBERED: u64 = 64;

/// How long a writer waits after so many tries: all of them together take two seconds, in which the
/// dead are found and repaired.
pub(super) fn pause_ns(tried: u32) -> u64 {
    1_000 * u64::from(tried.min(1_000))
}

/// How an attempt to make room ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// There is more room.
    Room,
    /// There may be soon: a chunk is being emptied.
    Begun,
    /// Somebody else was faster.
    Stale,
    /// Nothing that was seen can go.
    Nothing,
    /// Nothing that was seen is of use for the class.
    Misfit,
}

impl<E: Endpoint> Core<E> {
    pub(super) fn fits(&self, word: Slot, wanted: Class) -> bool {
        self.block_fits(word.class(self.shared.settings.large_class), wanted)
    }

    /// Takes a block into the stock, and frees the extents of a large object; whether the slot was
    /// unchanged.
    async fn take(&self, op: &mut Operation, slot: u64, word: Slot, then: Slot) -> Result<bool, CacheError> {
        if self.find_record(word).await?.is_none() {
            self.drop_damaged(slot, word).await?;
            return Ok(false);
        }
        let extents = if word.is_live() { self.extents_of(op, slot, word).await? } else { Some(None) };
        let Some(extents) = extents else { return Ok(false) };
        let Some(held) = self.take_block(slot, word, then).await? else { return Ok(false) };
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

    /// How much of a chunk goes with an object: all of one if it has its own, else what a block is
    /// of it.
    fn share(&self, word: Slot) -> u64 {
        let blocks = word.class(self.shared.settings.large_class).blocks(self.client.pool.layout.chunk_bytes);
        WHOLE_SHARE / if word.is_large() { 1 } else { blocks.max(1) }
    }

    /// Notes an object that was seen, as one of those among which victims are.
    pub(super) fn note_share(&self, word: Slot) {
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
    pub(super) fn passes_on(&self, word: Slot, class: Class, drained: bool, draw: u32) -> bool {
        let once_for = match drained {
            true => WANTED_ONCE_FOR,
            false => DRAIN_EVERY * class.blocks(self.client.pool.layout.chunk_bytes),
        };
        !self.fits(word, class) && self.gives_chunk(word, once_for, draw)
    }

    /// Whether a victim takes its chunk along, by a random `draw`: of all victims together once for
    /// so many, of each as often as its block is part of a chunk.
    pub(super) fn gives_chunk(&self, word: Slot, once_for: u64, draw: u32) -> bool {
        let drawn = u128::from(draw) * u128::from(self.mean_share.get()) * u128::from(once_for);
        drawn < u128::from(self.share(word)) << u32::BITS
    }

    /// Finds room without evicting where much of the memory is dead, as far as this client knows: a
    /// dead block that fits a record of the class, or a chunk that is mostly dead. `None` if little
    /// is dead, or none of it can be had.
    pub(super) async fn avoid_eviction(&self, op: &mut Operation, class: Class) -> Result<Option<Made>, CacheError> {
        if !self.is_sparse() {
            return Ok(None);
        }
        if self.take_dead(class, None).await? {
            return Ok(Some(Made::Room));
        }
        Ok(Box::pin(self.gather(op)).await?.then_some(Made::Begun))
    }

    /// Draws a block for a record of the class, and so many fresh chunks, from what is at hand, and
    /// makes sure that there is a cell; whether the operation has all of it now.
    #[inline]
    pub(super) fn draw(&self, op: &mut Operation, class: Class, chunks: usize) -> bool {
        let notes = &mut op.notes;
        if let Some(held) = notes.block.take_if(|held| !self.block_fits(held.class, class)) {
            self.keep(held, held.tag);
        }
        if notes.block.is_none() {
            notes.block = self.pop_block(class);
        }
        let missing = chunks.saturating_sub(notes.chunks.len());
        if missing > 0 {
            let mut fresh = self.chunks.borrow_mut();
            let left = fresh.len().saturating_sub(missing);
            notes.chunks.extend(fresh.drain(left..));
        }
        notes.block.is_some() && notes.chunks.len() >= chunks && self.stock.borrow().has_cell()
    }

    /// Puts back what an operation has drawn.
    #[inline]
    pub(super) fn put_back_drawn(&self, op: &mut Operation) {
        if let Some(held) = op.notes.block.take() {
            self.keep(held, held.tag);
        }
        if !op.notes.chunks.is_empty() {
            self.chunks.borrow_mut().append(&mut op.notes.chunks);
        }
    }

    /// Gives a reservation back that the operation did not use.
    pub(super) fn release_reservation(&self, op: &mut Operation) {
        if op.has_reserved() {
            op.set_reserved(&self.reserved, false);
            let mut batch = Batch::new();
            batch.fetch_and_add(self.client.pool.layout.resident_objects(), u64::MAX);
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes sure that a block of this class is at hand, a cell, and so many fresh chunks.
    pub(super) async fn restock(&self, op: &mut Operation, class: Class, chunks: usize) -> Result<(), CacheError> {
        let _turn = self.turn_to_make_room(op).await?;
        // Whoever made room before may have left enough.
        if self.core.draw(op, class, chunks) {
            return Ok(());
        }
        self.core.put_back_drawn(op);
        self.core.drains_more.set(0);
        op.notes.gathers_left = GATHERS_MAX.saturating_mul(1 + chunks as u32);
        let before = self.core.client.endpoint.purpose(Purpose::Eviction);
        let restocked = self.fill_and_draw(op, class, chunks).await;
        self.core.client.endpoint.purpose(before);
        restocked
    }

    async fn fill_and_draw(&self, op: &mut Operation, class: Class, chunks: usize) -> Result<(), CacheError> {
        for tried in 1..=TRIES_MAX {
            self.fill_stock(op, class, chunks).await?;
            if self.core.draw(op, class, chunks) {
                return Ok(());
            }
            // The block has the last cell.
            self.core.put_back_drawn(op);
            if tried > 1 {
                // Operations under way have all others, and may wait for somebody who died.
                Box::pin(self.wait_for_others(op, tried - 1)).await?;
            }
        }
        Err(CacheError::OutOfMemory)
    }

    /// Waits until no other operation of this client makes room. It relies on nothing that it has
    /// seen, and has nothing in hand.
    pub(super) async fn turn_to_make_room(&self, op: &mut Operation) -> Result<Loan<'_, ()>, CacheError> {
        self.core.put_back_drawn(op);
        if let Some(turn) = self.making_room.lend() {
            self.core.client.in_flight().renew(&mut op.entry);
            return Ok(turn);
        }
        self.core.release_reservation(op);
        Ok(self.core.client.lent_aside(&self.making_room, &mut op.entry).await?)
    }

    async fn fill_stock(&self, op: &mut Operation, class: Class, chunks: usize) -> Result<(), CacheError> {
        self.free_a_cell(op).await?;
        for round in 1.. {
            match self.obtain_chunks(op, chunks).await {
                // Writers of large values who keep from each other what they have so far: those who
                // give it up let another one end first.
                Err(CacheError::OutOfMemory) if round < 3 => {
                    self.core.free_fresh_chunks().await?;
                    let pause_ns = self.core.client.endpoint.random() % (round * 10_000_000);
                    self.core.client.endpoint.pause(pause_ns).await;
                }
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        self.obtain_block(op, class, chunks).await
    }

    /// Makes sure that this client can tell of another block. Where the index is so full that no
    /// slot takes one back, blocks go with chunks that are emptied: others wait for those that this
    /// client has in hand, and it for theirs.
    pub(super) async fn free_a_cell(&self, op: &mut Operation) -> Result<(), CacheError> {
        let (mut tried, drains_more) = (0, self.core.drains_more.get());
        while !self.core.stock.borrow().has_cell() {
            if self.core.stock.borrow().may_have_cell_soon() && tried < TRIES_MAX {
                // Operations under way have them all.
                tried += 1;
                self.core.client.endpoint.pause(pause_ns(tried)).await;
                continue;
            }
            self.core.give_back_beyond(0).await?;
            self.core.look_for_drains().await?;
            self.core.recheck_waiting(DrainLook::ForRoom).await?;
            tried += 1;
            if tried >= TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            if tried > IDLE_TRIES && !self.core.stock.borrow().has_cell() {
                Box::pin(self.wait_for_others(op, tried - IDLE_TRIES)).await?;
            }
        }
        self.core.drains_more.set(drains_more);
        Ok(())
    }

    async fn obtain_block(&self, op: &mut Operation, class: Class, chunks_kept: usize) -> Result<(), CacheError> {
        let (mut idle, mut misfits) = (0, 0);
        loop {
            self.core.recheck_aging().await?;
            if self.core.has_block(class) {
                return Ok(());
            }
            self.core.recheck_waiting(DrainLook::ForRoom).await?;
            self.free_a_cell(op).await?;
            let has_chunk = self.core.chunks.borrow().len() > chunks_kept;
            if !has_chunk && self.core.searches_left_out.get() == 0 && Box::pin(self.core.gather_if_scarce(op)).await? {
                continue;
            }
            // Where a free chunk may be had, what is left of another one goes first; else the
            // sample looks at the shelves, too.
            if has_chunk || self.core.searches_left_out.get() == 0 {
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
            match self.make_room(op, class, misfits >= MISFITS_MAX).await? {
                Made::Room => (misfits, idle) = (0, 0),
                Made::Begun => (misfits, idle) = (0, idle + 1),
                Made::Misfit => misfits += 1,
                Made::Stale | Made::Nothing => idle += 1,
            }
            if idle.max(misfits) >= TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            // An index that holds little has many empty buckets: those cost no pause at first.
            if idle > IDLE_TRIES {
                Box::pin(self.wait_for_others(op, idle - IDLE_TRIES)).await?;
            }
        }
    }

    /// Gives others what this client can spare, and time.
    async fn wait_for_others(&self, op: &mut Operation, tried: u32) -> Result<(), CacheError> {
        self.core.client.in_flight().renew(&mut op.entry);
        self.core.drains_more.set(tried as usize);
        self.core.searches_left_out.set(0);
        self.core.end_slabs().await?;
        self.core.give_back_beyond(0).await?;
        self.core.client.endpoint.pause(pause_ns(tried)).await;
        // Somebody who died may hold it all.
        Box::pin(atoll_pool::repair::round(&self.core)).await
    }

    /// Takes one block of use for the class; with `drained`, or now and then, by emptying a chunk.
    async fn make_room(&self, op: &mut Operation, class: Class, drained: bool) -> Result<Made, CacheError> {
        if R::QUEUES {
            return self.make_room_by_queue(op, class, drained).await;
        }
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

    /// Takes a dead block or an expired object of a sample, or a block from a shelf, if there is
    /// one of use for the class.
    pub(super) async fn take_free_of(
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

    /// The first slot of a sample that is of use and holds a dead block or an expired object.
    async fn free_of(
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

    /// A sample as the replacement wants it, and what is on the shelves of a class.
    pub(super) async fn look_at_some(&self, class: Option<Class>) -> Result<Sample, CacheError> {
        let (buckets, remembered) = self.replacement.where_to_sample().await;
        self.core.sample(buckets, &remembered, self.replacement.how_to_sample().await, class).await
    }

    /// The replacement's choice: among the objects of a sample, or as it finds one.
    pub(super) async fn choose(&self, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        if !candidates.is_empty()
            && let Some(victim) = self.replacement.choose(&self.core, candidates).await?
        {
            return Ok(Some(victim));
        }
        self.replacement.victim(&self.core).await
    }

    pub(super) async fn evict(&self, op: &mut Operation, victim: Victim) -> Result<Made, CacheError> {
        let evicted = self.core.take(op, victim.slot, victim.word, victim.then).await?;
        self.core.stats.evictions.add(u64::from(evicted && victim.word.is_live()));
        Ok(if evicted { Made::Room } else { Made::Stale })
    }

    /// Makes a chunk free: that in which the block of this slot's word lies, or one of a large
    /// object's.
    pub(super) async fn empty_chunk_of(
        &self,
        op: &mut Operation,
        victim: Option<Victim>,
        word: Slot,
    ) -> Result<Made, CacheError> {
        if let Some(victim) = victim.filter(|victim| victim.word.is_large()) {
            let evicted = self.core.bury(op, victim.slot, victim.word).await?;
            self.core.stats.evictions.add(u64::from(evicted));
            return Ok(if evicted { Made::Room } else { Made::Stale });
        }
        let Some((_, chunk)) = self.core.block_span(word.block()) else { return Ok(Made::Stale) };
        if !self.core.may_claim_chunk() {
            return Ok(Made::Nothing);
        }
        Ok(if self.core.claim_chunk(chunk, Keeps::Nothing).await? { Made::Begun } else { Made::Stale })
    }

    /// Makes sure that so many fresh chunks are at hand. Those that are missing are emptied
    /// together, a few at a time: that takes fewer verbs than one by one.
    pub(super) async fn obtain_chunks(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        let (mut tried, mut misfits) = (0, 0);
        let mut is_claiming = false;
        loop {
            let had = self.core.chunks.borrow().len();
            if had >= chunks {
                break;
            }
            if !is_claiming || self.core.waiting.borrow().len() >= DRAINS_MAX.min(chunks - had) {
                self.core.recheck_waiting(DrainLook::ForRoom).await?;
            }
            if Box::pin(self.core.gather_if_scarce(op)).await?
                || self.core.allocate_another_chunk().await?
                || Box::pin(self.core.gather(op)).await?
            {
                continue;
            }
            let made = match R::QUEUES {
                true => self.empty_chunk_by_queue(op, misfits >= MISFITS_MAX).await?,
                false => self.make_chunk(op, misfits >= MISFITS_MAX).await?,
            };
            match made {
                Made::Room | Made::Begun => misfits = 0,
                Made::Misfit => misfits += 1,
                Made::Stale | Made::Nothing => {}
            }
            is_claiming = matches!(made, Made::Begun | Made::Misfit);
            if made == Made::Room || self.core.chunks.borrow().len() > had {
                tried = 0;
            } else if !is_claiming || made == Made::Begun && tried > IDLE_TRIES {
                tried += 1;
            }
            if tried >= TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            if tried > IDLE_TRIES && made != Made::Misfit {
                Box::pin(self.wait_for_others(op, tried - IDLE_TRIES)).await?;
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
            let buried = self.core.bury(op, slot, word).await?;
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

    /// Counts an object against the limit, evicting until there is room.
    pub(super) async fn reserve_object(&self, op: &mut Operation) -> Result<(), CacheError> {
        let _turn = self.turn_to_make_room(op).await?;
        let before = self.core.client.endpoint.purpose(Purpose::Eviction);
        let reserved = self.make_room_for_object(op).await;
        self.core.client.endpoint.purpose(before);
        reserved
    }

    async fn make_room_for_object(&self, op: &mut Operation) -> Result<(), CacheError> {
        let at = self.core.client.pool.layout.resident_objects();
        let max = self.core.client.pool.settings.objects_max;
        let mut tried = 0;
        loop {
            let mut batch = Batch::new();
            let resident = batch.fetch_and_add(at, 1);
            self.core.client.endpoint.post(&mut batch).await?;
            if batch.word(resident) < max {
                op.set_reserved(&self.core.reserved, true);
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.fetch_and_add(at, u64::MAX);
            self.core.client.endpoint.post(&mut batch).await?;
            if self.evict_one(op).await? {
                continue;
            }
            // Where the index holds little, most samples are empty: only every so manieth costs a
            // pause.
            tried += 1;
            if tried >= SAMPLES_A_TRY * TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            if tried.is_multiple_of(SAMPLES_A_TRY) {
                // It holds no reservation meanwhile: another client that waits counts anew only
                // while all others are at rest.
                self.core.client.wait_aside(&mut op.entry, pause_ns(tried / SAMPLES_A_TRY)).await?;
                Box::pin(atoll_pool::repair::round(&self.core)).await?;
                // Each client that died may have left an object counted that is not there: the
                // limit may be used up by those.
                if self.core.client.are_counts_estimated() {
                    Box::pin(atoll_pool::repair::recount(&self.core)).await?;
                }
            }
        }
    }

    /// Evicts one of the objects of a bucket in which all slots are live.
    pub(super) async fn make_room_in(&self, op: &mut Operation, bucket: u32) -> Result<(), CacheError> {
        let _turn = self.turn_to_make_room(op).await?;
        let before = self.core.client.endpoint.purpose(Purpose::Eviction);
        let made = self.evict_from(op, bucket).await;
        self.core.client.endpoint.purpose(before);
        made
    }

    async fn evict_from(&self, op: &mut Operation, bucket: u32) -> Result<(), CacheError> {
        self.free_a_cell(op).await?;
        let sample = self.core.sample_of(&[bucket], &[], self.replacement.how_to_sample().await, None).await?;
        // Where all have expired there is nothing to choose from.
        if self.take_expired_of(op, &sample).await?.is_some() {
            return Ok(());
        }
        let chosen = match sample.candidates.as_slice() {
            [] => None,
            candidates => self.replacement.choose(&self.core, candidates).await?,
        };
        // One that does not choose among samples has its say about any of them.
        let random = self.core.client.endpoint.random() as usize % sample.candidates.len().max(1);
        let any = sample.candidates.get(random);
        let any = any.map(|any| Victim { slot: any.slot, word: any.word, then: Slot::EMPTY });
        let Some(victim) = chosen.or(any) else { return Ok(()) };
        if self.evict(op, victim).await? == Made::Room {
            self.core.stats.evictions_index.add(1);
            // A queue may have it still.
            if chosen.is_none() || R::QUEUES {
                self.replacement.removed(&self.core, victim.slot, victim.word).await?;
            }
        }
        Ok(())
    }

    /// Evicts one object, whatever its class; whether it did.
    async fn evict_one(&self, op: &mut Operation) -> Result<bool, CacheError> {
        self.free_a_cell(op).await?;
        if R::QUEUES {
            return self.evict_one_by_queue(op).await;
        }
        let sample = self.look_at_some(None).await?;
        if let Some(taken) = self.take_expired_of(op, &sample).await? {
            return Ok(taken);
        }
        let Some(victim) = self.choose(&sample.candidates).await? else { return Ok(false) };
        Ok(self.evict(op, victim).await? == Made::Room)
    }

    /// Takes an expired object of a sample away, if there is one; whether it was unchanged.
    pub(super) async fn take_expired_of(
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

    /// Evicts until no more objects are resident than may be: what a client that died had not
    /// counted may have been too many.
    pub(super) async fn evict_to_limit(&self) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        let max = self.core.client.pool.settings.objects_max;
        for _ in 0..TRIES_MAX {
            let resident =
                read_word(&self.core.client.endpoint, self.core.client.pool.layout.resident_objects()).await?;
            if max == 0 || resident <= max {
                break;
            }
            self.evict_one(op).await?;
            self.core.client.endpoint.flush().await?;
        }
        Ok(())
    }
}
