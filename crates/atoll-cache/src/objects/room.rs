//! How room is made: a block at hand, one of a free chunk, one of a dead or expired object, or that of an object which is to go.
//!
//! Whoever needs a block does this itself; nobody waits for another client. A sample is one READ, or a few in one batch: a random bucket, slots and access information. Dead
//! blocks and expired objects in it go first. Of the others the replacement chooses among those whose blocks fit: of the class, or of one
//! that is larger by a quarter at most.
//!
//! Where sizes differ, chunks must pass from one class to another. Now and then (once for the blocks of so many chunks as [`DRAIN_EVERY`]), when the best
//! choice among all is of another class, or when no sample has a block that fits, the chunk of the chosen object is emptied and cut anew. So each
//! class loses chunks as it has them and gains as it is written: its share of the memory becomes its share of the bytes written, as in one
//! queue for all.

use super::access::{ACCESS_WORDS, Access, hash_of};
use super::change::New;
use super::class::Class;
use super::layout::{ACCESS_BYTES, BUCKET_BYTES, BUCKET_SLOTS};
use super::replacement::{CANDIDATES_MAX, Candidate, REMEMBERED_MAX, Replacement, SAMPLE_BUCKETS_MAX, Victim};
use super::slot::{HISTORY_IDS, KeyHash, Slot};
use super::{Core, Objects};
use crate::CacheError;
use arrayvec::ArrayVec;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Purpose};
use atoll_pool::read_word;

/// Tries, each after a pause, before a writer gives up because nothing can be taken.
const TRIES_MAX: u32 = 2_000;
/// Samples without a block that fits, after which a chunk is emptied.
const MISFITS_MAX: u32 = 12;
/// Tries before a writer waits for others.
const IDLE_TRIES: u32 = 16;
/// Chunks that one client empties at a time.
const DRAINS_MAX: usize = 4;
/// A chunk is emptied once for the blocks of so many chunks.
const DRAIN_EVERY: u64 = 4;

/// How long a writer waits after so many tries: all of them together take two seconds, in which the dead are found and repaired.
fn pause_ns(tried: u32) -> u64 {
    1_000 * u64::from(tried.min(1_000))
}

/// What a look at one bucket gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Slots with dead blocks, and with expired objects.
    pub(super) free: ArrayVec<(u64, Slot), CANDIDATES_MAX>,
    /// Live objects.
    pub(super) candidates: ArrayVec<Candidate, CANDIDATES_MAX>,
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
    /// How many history ids have been given out since this one, as far as this client knows.
    pub(crate) fn history_age(&self, id: u64) -> u64 {
        let age = self.history_seen.wrapping_sub(1).wrapping_sub(id) % HISTORY_IDS;
        // One that this client does not know of yet is young.
        if age > HISTORY_IDS / 2 { 0 } else { age }
    }

    /// A history id for a victim: the one that came with the sample, or another one.
    pub(crate) async fn history_id(&mut self) -> Result<u64, CacheError> {
        if let Some(id) = self.history_at_hand.take() {
            return Ok(id);
        }
        let mut batch = Batch::new();
        let id = batch.fetch_and_add(self.shared.layout.history(), 1);
        self.endpoint.post(&mut batch).await?;
        let id = batch.word(id);
        self.note_history(id);
        Ok(id)
    }

    /// Notes that an id was given out.
    fn note_history(&mut self, id: u64) {
        self.history_seen = self.history_seen.max(id.wrapping_add(1));
    }

    /// Tells the pool of an object that was just inserted, without waiting.
    pub(crate) fn tell_insertion(&self, slot: u64, words: [u64; 4]) {
        let mut buffer = Buffer::new();
        buffer.resize(32);
        buffer.words_mut().copy_from_slice(&words);
        let mut batch = Batch::new();
        batch.write(self.shared.layout.access(slot).add(8), buffer);
        self.endpoint.post_unawaited(&mut batch);
    }

    /// Where a slot's block is, if the word is not damaged.
    pub(crate) fn block_at(&self, word: Slot) -> Option<Address> {
        self.record_span(word).map(|(at, ..)| at)
    }

    /// WRITEs the words beside an object, without waiting.
    pub(crate) fn tell_extension(&self, word: Slot, words: &[u64]) {
        let Some(at) = self.block_at(word) else { return };
        let mut buffer = Buffer::new();
        buffer.resize(8 * words.len());
        buffer.words_mut().copy_from_slice(words);
        let mut batch = Batch::new();
        batch.write(at, buffer);
        self.endpoint.post_unawaited(&mut batch);
    }

    /// Tells the pool of an object's new expiry.
    pub(super) fn tell_expiry(&mut self, slot: u64, new: &New<'_>, before: Option<u64>) {
        if new.header.expiry_ms != before {
            let mut batch = Batch::new();
            let word = super::access::expiry_word(new.header.expiry_ms, new.hash.mark);
            batch.write_word(self.shared.layout.access(slot).add(24), word);
            self.endpoint.post_unawaited(&mut batch);
        }
    }

    /// Looks at random buckets, and at slots that are `remembered`; `with_history` gets a history id along with it.
    pub(super) async fn sample(
        &mut self,
        buckets: usize,
        remembered: &[(u64, Slot)],
        with_history: bool,
    ) -> Result<Sample, CacheError> {
        let mut chosen = ArrayVec::<u32, SAMPLE_BUCKETS_MAX>::new();
        for _ in 0..buckets.clamp(1, SAMPLE_BUCKETS_MAX) {
            let bucket = (self.endpoint.random() % u64::from(self.shared.settings.buckets)) as u32;
            if !chosen.contains(&bucket) {
                chosen.push(bucket);
            }
        }
        self.sample_of(&chosen, remembered, with_history).await
    }

    /// Looks at these buckets, and at slots that are `remembered`.
    async fn sample_of(
        &mut self,
        chosen: &[u32],
        remembered: &[(u64, Slot)],
        with_history: bool,
    ) -> Result<Sample, CacheError> {
        let mut batch = Batch::new();
        for bucket in chosen {
            let mut buffer = self.samples.pop().unwrap_or_default();
            buffer.resize(BUCKET_BYTES as usize);
            batch.read(self.shared.layout.bucket(*bucket), buffer);
        }
        let others = |slot: &u64| !chosen.contains(&((slot / BUCKET_SLOTS as u64) as u32));
        let mut again = ArrayVec::<_, REMEMBERED_MAX>::new();
        for (slot, word) in remembered.iter().filter(|(slot, _)| others(slot)).take(REMEMBERED_MAX) {
            let mut information = Buffer::new();
            information.resize(ACCESS_BYTES as usize);
            let now = batch.read_word(self.shared.layout.slot(*slot));
            again.push((*slot, *word, now, batch.read(self.shared.layout.access(*slot), information)));
        }
        let id = (with_history && self.history_at_hand.is_none())
            .then(|| batch.fetch_and_add(self.shared.layout.history(), 1));
        self.endpoint.post(&mut batch).await?;
        if let Some(id) = id {
            self.history_at_hand = Some(batch.word(id));
            self.note_history(batch.word(id));
        }
        let now_ns = self.endpoint.now_ns();
        let times = (self.pool_ms(now_ns).await?, self.about_us());
        let mut sample = Sample::default();
        for (index, bucket) in chosen.iter().enumerate() {
            let read = batch.take_nth(index);
            let (words, information) = read.words().split_at(BUCKET_SLOTS);
            for (place, information) in information.chunks(ACCESS_WORDS).enumerate() {
                let slot = u64::from(*bucket) * BUCKET_SLOTS as u64 + place as u64;
                self.sort_in(&mut sample, slot, Slot(words[place]), information, times);
            }
            self.samples.push(read);
        }
        for (slot, word, now, information) in again {
            if batch.word(now) == word.0 {
                let information = batch.take(information);
                self.sort_in(&mut sample, slot, word, information.words(), times);
            }
        }
        Ok(sample)
    }

    /// Puts what a slot holds where it belongs in a sample. `times` are the pool's, in milliseconds and about in microseconds.
    fn sort_in(&self, sample: &mut Sample, slot: u64, word: Slot, information: &[u64], times: (u64, u64)) {
        if word.is_dead() && !word.is_pending() {
            sample.free.push((slot, word));
        }
        if !word.is_live() {
            return;
        }
        let hash = hash_of((slot / BUCKET_SLOTS as u64) as u32, word.fingerprint(), information);
        let mut access = Access::decode(information, times.1);
        if hash.is_some() && access.is_expired(times.0) {
            return sample.free.push((slot, word));
        }
        if access.bytes == 0 {
            access.bytes = word.class(self.shared.settings.large_class).bytes();
        }
        sample.candidates.push(Candidate { slot, word, access, hash });
    }

    pub(super) fn fits(&self, word: Slot, wanted: Class) -> bool {
        let class = word.class(self.shared.settings.large_class);
        class == wanted || class > wanted && class.bytes() <= wanted.bytes() * 5 / 4
    }

    /// Takes a block into the stock, and frees the extents of a large object; whether the slot was unchanged.
    async fn take(&mut self, slot: u64, word: Slot, then: Slot) -> Result<bool, CacheError> {
        if self.find_record(word).await?.is_none() {
            self.drop_damaged(slot, word).await?;
            return Ok(false);
        }
        let extents = if word.is_live() { self.extents_of(slot, word).await? } else { Some(None) };
        let Some(extents) = extents else { return Ok(false) };
        let Some(held) = self.take_block(slot, word, then).await? else { return Ok(false) };
        self.stock.put(held);
        if word.is_live() {
            self.count_removed(1).await?;
        }
        if let Some(extents) = extents {
            self.free_extents(&extents).await?;
        }
        Ok(true)
    }

    /// Gives a reservation back that the operation did not use.
    pub(super) fn release_reservation(&mut self) {
        if std::mem::take(&mut self.reserved) {
            let mut batch = Batch::new();
            batch.fetch_and_add(self.shared.pool.layout.resident_objects(), u64::MAX);
            self.endpoint.post_unawaited(&mut batch);
        }
    }

    /// Gives blocks of classes with more than `kept` of them back.
    pub(super) async fn give_back_beyond(&mut self, kept: usize) -> Result<(), CacheError> {
        while let Some(index) = self.stock.surplus(kept) {
            if self.give_back(index).await? {
                continue;
            }
            // Every slot names something. What a client may keep it keeps; else the block's chunk goes, or another one.
            let block = self.stock.all()[index].block;
            if kept > 0 || !self.drain_chunk_of(block).await? && !self.drain_some_chunk().await? {
                break;
            }
        }
        Ok(())
    }

    /// Begins to empty the chunk of a block; whether this client does now.
    pub(super) async fn drain_chunk_of(&mut self, block: super::slot::Block) -> Result<bool, CacheError> {
        let Some((_, chunk)) = self.block_span(block) else { return Ok(false) };
        Box::pin(self.begin_draining(chunk)).await
    }

    /// Begins to empty the chunk of some block that a slot of a random bucket names.
    async fn drain_some_chunk(&mut self) -> Result<bool, CacheError> {
        let sample = self.sample(1, &[], false).await?;
        let live = sample.candidates.iter().map(|candidate| candidate.word);
        let words: Vec<Slot> = sample.free.iter().map(|(_, word)| *word).chain(live).collect();
        for word in words {
            if self.drain_chunk_of(word.block()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives a block of the stock back: a slot of some bucket names it, dead. `false` if no bucket that was looked at has room.
    async fn give_back(&mut self, index: usize) -> Result<bool, CacheError> {
        let held = self.stock.all()[index];
        if let Some(at) = self.block_span(held.block).map(|(at, _)| at) {
            let mut batch = Batch::new();
            self.tell_won(&mut batch, held, at).await?;
            if !batch.is_empty() {
                self.endpoint.post(&mut batch).await?;
            }
        }
        let is_placed = self.place_dead_anywhere(held.class, held.block, held.tag).await?;
        if is_placed {
            self.stock.remove(index);
            self.let_go(held);
        }
        Ok(is_placed)
    }

    /// Names a block that nothing names in a bucket, as a dead one; whether there was room.
    pub(super) async fn place_dead(
        &mut self,
        bucket: u32,
        class: Class,
        block: super::slot::Block,
        tag: u16,
    ) -> Result<bool, CacheError> {
        let hash = KeyHash { bucket, fingerprint: 0, mark: 0, whole: 0 };
        self.read_bucket(hash).await?;
        let places = (0..BUCKET_SLOTS).map(|place| self.seen(hash, place)).filter(|(word, _)| word.is_free());
        // An empty one before a history entry, an old entry before a young one.
        let age = |word: Slot| word.any_history().map_or(u64::MAX, |(_, id)| self.history_age(id));
        let Some((word, slot)) = places.max_by_key(|(word, _)| age(*word)) else { return Ok(false) };
        self.encode_dead(bucket, tag);
        let Some((at, record)) = self.outgoing_record(block) else { return Ok(false) };
        let address = self.shared.layout.slot(slot);
        let mut batch = Batch::new();
        let written = self.write_before(&mut batch, at, record, address).await?;
        let swap = batch.compare_and_swap(address, word.0, Slot::dead(class, block, tag).0);
        self.endpoint.post(&mut batch).await?;
        self.outgoing = written.take(&mut batch);
        Ok(batch.swapped(swap))
    }

    /// Puts everything that this client holds back into the pool; `false` if others have what it would take for that.
    pub(super) async fn put_everything_back(&mut self) -> Result<bool, CacheError> {
        self.end_slabs().await?;
        self.stock.end_aging();
        self.free_fresh_chunks().await?;
        let mut is_done = false;
        for tried in 1..=TRIES_MAX {
            self.give_back_beyond(0).await?;
            self.recheck_orphans().await?;
            self.recheck_waiting(true).await?;
            self.tell_cells().await?;
            is_done = self.orphans.is_empty() && self.waiting.is_empty() && self.stock.all().is_empty();
            if is_done {
                break;
            }
            self.endpoint.pause(pause_ns(tried)).await;
            Box::pin(self.tend()).await?;
        }
        self.free_fresh_chunks().await?;
        Ok(is_done)
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes sure that a block of this class is at hand, a cell, and so many fresh chunks.
    pub(super) async fn restock(&mut self, class: Class, chunks: usize) -> Result<(), CacheError> {
        let before = self.core.endpoint.purpose(Purpose::Eviction);
        let restocked = self.fill_stock(class, chunks).await;
        self.core.endpoint.purpose(before);
        restocked
    }

    async fn fill_stock(&mut self, class: Class, chunks: usize) -> Result<(), CacheError> {
        if !self.core.stock.has_cell() {
            self.core.give_back_beyond(0).await?;
        }
        for round in 1.. {
            match self.obtain_chunks(chunks).await {
                // Writers of large values who keep from each other what they have so far: those who give it up let another one end first.
                Err(CacheError::OutOfMemory) if round < 3 => {
                    self.core.free_fresh_chunks().await?;
                    let pause_ns = self.core.endpoint.random() % (round * 10_000_000);
                    self.core.endpoint.pause(pause_ns).await;
                }
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        self.obtain_block(class, chunks).await
    }

    async fn obtain_block(&mut self, class: Class, chunks_kept: usize) -> Result<(), CacheError> {
        let (mut idle, mut misfits) = (0, 0);
        loop {
            self.core.recheck_aging().await?;
            if self.core.has_block(class) {
                return Ok(());
            }
            self.core.recheck_waiting(false).await?;
            if self.core.chunks.len() <= chunks_kept {
                self.core.obtain_free_chunk_beyond(chunks_kept).await?;
            }
            if self.core.chunks.len() > chunks_kept && self.core.open_slab(class).await? {
                continue;
            }
            if !self.core.stock.has_cell() {
                self.core.give_back_beyond(0).await?;
            }
            idle += 1;
            match self.make_room(class, misfits >= MISFITS_MAX).await? {
                Made::Room => (misfits, idle) = (0, 0),
                Made::Begun => misfits = 0,
                Made::Misfit => misfits += 1,
                Made::Stale | Made::Nothing => {}
            }
            if idle >= TRIES_MAX {
                return Err(CacheError::OutOfMemory);
            }
            // An index that holds little has many empty buckets: those cost no pause at first.
            if idle > IDLE_TRIES {
                self.wait_for_others(idle - IDLE_TRIES).await?;
            }
        }
    }

    /// Gives others what this client can spare, and time.
    async fn wait_for_others(&mut self, tried: u32) -> Result<(), CacheError> {
        self.core.searches_left_out = 0;
        self.core.end_slabs().await?;
        self.core.give_back_beyond(0).await?;
        self.core.endpoint.pause(pause_ns(tried)).await;
        // Somebody who died may hold it all.
        Box::pin(self.core.tend()).await
    }

    /// Takes one block of use for the class; with `drained`, or now and then, by emptying a chunk.
    async fn make_room(&mut self, class: Class, drained: bool) -> Result<Made, CacheError> {
        if R::QUEUES {
            return self.make_room_by_queue(class, drained).await;
        }
        let sample = self.look_at_some().await?;
        if let Some(made) = self.take_free_of(&sample, class).await? {
            return Ok(made);
        }
        if drained || self.is_drain_due(class) {
            let of_all = self.choose(&sample.candidates).await?;
            let chosen = of_all.map(|victim| victim.word).or(sample.free.first().map(|(_, word)| *word));
            if let Some(word) = chosen.filter(|word| drained || !self.core.fits(*word, class)) {
                return self.empty_chunk_of(of_all, word).await;
            }
        }
        let fitting: ArrayVec<Candidate, CANDIDATES_MAX> =
            sample.candidates.iter().filter(|candidate| self.core.fits(candidate.word, class)).copied().collect();
        let Some(victim) = self.choose(&fitting).await? else {
            let is_empty = sample.candidates.is_empty() && sample.free.is_empty();
            return Ok(if is_empty { Made::Nothing } else { Made::Misfit });
        };
        if !self.core.fits(victim.word, class) {
            return Ok(Made::Misfit);
        }
        self.evict(victim).await
    }

    /// Takes a dead block or an expired object of a sample, if there is one of use for the class.
    pub(super) async fn take_free_of(&mut self, sample: &Sample, class: Class) -> Result<Option<Made>, CacheError> {
        let Some(&(slot, word)) = sample.free.iter().find(|(_, word)| self.core.fits(*word, class)) else {
            return Ok(None);
        };
        let taken = self.core.take(slot, word, Slot::EMPTY).await?;
        if taken && word.is_live() {
            self.core.stats.expirations += 1;
            self.replacement.removed(&mut self.core, slot, word).await?;
        }
        Ok(Some(if taken { Made::Room } else { Made::Stale }))
    }

    /// Whether a chunk is to pass to this class now, if the best choice among all is of another one.
    pub(super) fn is_drain_due(&self, class: Class) -> bool {
        let blocks = class.blocks(self.core.shared.pool.layout.chunk_bytes);
        self.core.endpoint.random().is_multiple_of(DRAIN_EVERY * blocks)
    }

    /// A sample as the replacement wants it.
    pub(super) async fn look_at_some(&mut self) -> Result<Sample, CacheError> {
        let (buckets, remembered) = (self.replacement.sample_buckets(), self.replacement.remembered());
        self.core.sample(buckets, remembered, R::WANTS_HISTORY).await
    }

    /// The replacement's choice: among the objects of a sample, or as it finds one.
    pub(super) async fn choose(&mut self, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        if !candidates.is_empty()
            && let Some(victim) = self.replacement.choose(&mut self.core, candidates).await?
        {
            return Ok(Some(victim));
        }
        self.replacement.victim(&mut self.core).await
    }

    pub(super) async fn evict(&mut self, victim: Victim) -> Result<Made, CacheError> {
        let evicted = self.core.take(victim.slot, victim.word, victim.then).await?;
        self.core.stats.evictions += u64::from(evicted && victim.word.is_live());
        Ok(if evicted { Made::Room } else { Made::Stale })
    }

    /// Makes a chunk free: that in which the block of this slot's word lies, or one of a large object's.
    pub(super) async fn empty_chunk_of(&mut self, victim: Option<Victim>, word: Slot) -> Result<Made, CacheError> {
        if let Some(victim) = victim.filter(|victim| victim.word.is_large()) {
            let evicted = self.core.bury(victim.slot, victim.word).await?;
            self.core.stats.evictions += u64::from(evicted);
            return Ok(if evicted { Made::Room } else { Made::Stale });
        }
        let Some((_, chunk)) = self.core.block_span(word.block()) else { return Ok(Made::Stale) };
        if self.core.waiting.len() >= DRAINS_MAX {
            return Ok(Made::Nothing);
        }
        Ok(if Box::pin(self.core.begin_draining(chunk)).await? { Made::Begun } else { Made::Stale })
    }

    async fn obtain_chunks(&mut self, chunks: usize) -> Result<(), CacheError> {
        let mut tried = 0;
        while self.core.chunks.len() < chunks {
            self.core.recheck_waiting(false).await?;
            if self.core.allocate_chunk(self.core.chunks.len() + 1).await? {
                continue;
            }
            let made = match R::QUEUES {
                true => self.empty_chunk_by_queue().await?,
                false => self.empty_some_chunk().await?,
            };
            tried = if made == Made::Room { 0 } else { tried + 1 };
            self.pause_between(tried).await?;
        }
        Ok(())
    }

    /// Makes the chunk of the best choice of a sample free.
    async fn empty_some_chunk(&mut self) -> Result<Made, CacheError> {
        let sample = self.look_at_some().await?;
        let chosen = self.choose(&sample.candidates).await?;
        let word = chosen.map(|victim| victim.word).or(sample.free.first().map(|(_, word)| *word));
        match word {
            Some(word) => self.empty_chunk_of(chosen, word).await,
            None => Ok(Made::Nothing),
        }
    }

    /// Waits after so many tries that gave nothing, or gives up.
    async fn pause_between(&mut self, tried: u32) -> Result<(), CacheError> {
        if tried >= TRIES_MAX {
            return Err(CacheError::OutOfMemory);
        }
        if tried > IDLE_TRIES {
            self.wait_for_others(tried - IDLE_TRIES).await?;
        }
        Ok(())
    }

    /// Counts an object against the limit, evicting until there is room.
    pub(super) async fn reserve_object(&mut self) -> Result<(), CacheError> {
        let before = self.core.endpoint.purpose(Purpose::Eviction);
        let reserved = self.make_room_for_object().await;
        self.core.endpoint.purpose(before);
        reserved
    }

    async fn make_room_for_object(&mut self) -> Result<(), CacheError> {
        let at = self.core.shared.pool.layout.resident_objects();
        let max = self.core.shared.pool.settings.objects_max;
        let mut tried = 0;
        loop {
            let mut batch = Batch::new();
            let resident = batch.fetch_and_add(at, 1);
            self.core.endpoint.post(&mut batch).await?;
            if batch.word(resident) < max {
                self.core.reserved = true;
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.fetch_and_add(at, u64::MAX);
            self.core.endpoint.post(&mut batch).await?;
            if !self.evict_one().await? {
                tried += 1;
                if tried >= 16 * TRIES_MAX {
                    return Err(CacheError::OutOfMemory);
                }
                if tried > 64 {
                    self.core.endpoint.pause(pause_ns(tried / 16)).await;
                    Box::pin(self.core.tend()).await?;
                }
            }
        }
    }

    /// Evicts one of the objects of a bucket in which all slots are live.
    pub(super) async fn make_room_in(&mut self, bucket: u32) -> Result<(), CacheError> {
        let before = self.core.endpoint.purpose(Purpose::Eviction);
        let made = self.evict_from(bucket).await;
        self.core.endpoint.purpose(before);
        made
    }

    async fn evict_from(&mut self, bucket: u32) -> Result<(), CacheError> {
        if !self.core.stock.has_cell() {
            self.core.give_back_beyond(0).await?;
        }
        let sample = self.core.sample_of(&[bucket], &[], R::WANTS_HISTORY).await?;
        // Where all have expired there is nothing to choose from.
        if self.take_expired_of(&sample).await?.is_some() {
            return Ok(());
        }
        let chosen = match sample.candidates.as_slice() {
            [] => None,
            candidates => self.replacement.choose(&mut self.core, candidates).await?,
        };
        // One that does not choose among samples has its say about any of them.
        let random = self.core.endpoint.random() as usize % sample.candidates.len().max(1);
        let any = sample.candidates.get(random);
        let any = any.map(|any| Victim { slot: any.slot, word: any.word, then: Slot::EMPTY });
        let Some(victim) = chosen.or(any) else { return Ok(()) };
        if self.evict(victim).await? == Made::Room {
            self.core.stats.evictions_index += 1;
            // A queue may have it still.
            if chosen.is_none() || R::QUEUES {
                self.replacement.removed(&mut self.core, victim.slot, victim.word).await?;
            }
        }
        Ok(())
    }

    /// Evicts one object, whatever its class; whether it did.
    async fn evict_one(&mut self) -> Result<bool, CacheError> {
        if !self.core.stock.has_cell() {
            self.core.give_back_beyond(0).await?;
        }
        if R::QUEUES {
            return self.evict_one_by_queue().await;
        }
        let sample = self.look_at_some().await?;
        if let Some(taken) = self.take_expired_of(&sample).await? {
            return Ok(taken);
        }
        let Some(victim) = self.choose(&sample.candidates).await? else { return Ok(false) };
        Ok(self.evict(victim).await? == Made::Room)
    }

    /// Takes an expired object of a sample away, if there is one; whether it was unchanged.
    pub(super) async fn take_expired_of(&mut self, sample: &Sample) -> Result<Option<bool>, CacheError> {
        let Some(&(slot, word)) = sample.free.iter().find(|(_, word)| word.is_live()) else { return Ok(None) };
        let taken = self.core.take(slot, word, Slot::EMPTY).await?;
        if taken {
            self.core.stats.expirations += 1;
            self.replacement.removed(&mut self.core, slot, word).await?;
        }
        Ok(Some(taken))
    }

    /// Evicts until no more objects are resident than may be: what a client that died had not counted may have been too many.
    pub(super) async fn evict_to_limit(&mut self) -> Result<(), CacheError> {
        let max = self.core.shared.pool.settings.objects_max;
        for _ in 0..TRIES_MAX {
            let resident = read_word(&self.core.endpoint, self.core.shared.pool.layout.resident_objects()).await?;
            if max == 0 || resident <= max {
                break;
            }
            self.evict_one().await?;
            self.core.endpoint.flush().await?;
        }
        Ok(())
    }
}
