//! Samples: random buckets, with their slots and access information, in one READ each.

use super::Core;
use super::access::{ACCESS_WORDS, Access, hash_of};
use super::class::Class;
use super::layout::{ACCESS_BYTES, BUCKET_BYTES, BUCKET_SLOTS, SLOTS_BYTES};
use super::replacement::{CANDIDATES_MAX, Candidate, REMEMBERED_MAX, SAMPLE_BUCKETS_MAX, Sampling};
use super::shelf::Shelves;
use super::slot::{HISTORY_IDS, Slot};
use crate::CacheError;
use arrayvec::ArrayVec;
use atoll_fabric::{Batch, Buffer, Endpoint, Intent};
use std::cell::Cell;

/// What a look at some buckets returned. It is on the heap: it is passed through futures that wait,
/// and each would carry all of its room.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Slots with dead blocks, and with expired objects.
    pub(super) free: Vec<(u64, Slot)>,
    /// Live objects.
    pub(super) candidates: Vec<Candidate>,
    /// The shelves of the class that the caller asked for.
    pub(super) shelves: Shelves,
}

impl Sample {
    fn new() -> Self {
        Self { free: Vec::new(), candidates: Vec::with_capacity(CANDIDATES_MAX), shelves: Shelves::default() }
    }

    /// The live objects whose words are of some kind. They come first from now on, in their order.
    pub(super) fn first(&mut self, is_wanted: impl Fn(Slot) -> bool) -> &[Candidate] {
        // Most often all are.
        if self.candidates.iter().any(|candidate| !is_wanted(candidate.word)) {
            self.candidates.sort_by_key(|candidate| !is_wanted(candidate.word));
        }
        let wanted = self.candidates.partition_point(|candidate| is_wanted(candidate.word));
        &self.candidates[..wanted]
    }
}

/// A client's view of the history: each victim gets an id from a counter of the pool.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The highest id that it knows to be taken, plus one.
    seen: Cell<u64>,
    /// An id that no victim has yet.
    at_hand: Cell<Option<u64>>,
}

impl History {
    fn age(&self, id: u64) -> u64 {
        let age = self.seen.get().wrapping_sub(1).wrapping_sub(id) % HISTORY_IDS;
        // An id that this client does not know yet is young.
        if age > HISTORY_IDS / 2 { 0 } else { age }
    }

    /// Notes that an id was taken.
    fn note(&self, id: u64) {
        self.seen.set(self.seen.get().max(id.wrapping_add(1)));
    }
}

impl<E: Endpoint> Core<E> {
    /// How many history ids have been taken since this one, as far as this client knows.
    pub fn history_age(&self, id: u64) -> u64 {
        self.history.age(id)
    }

    /// A history id for a victim: the id that came with the sample, or a new one.
    pub async fn history_id(&self) -> Result<u64, CacheError> {
        if let Some(id) = self.history.at_hand.take() {
            return Ok(id);
        }
        let mut batch = Batch::new();
        let id = batch.fetch_and_add(self.shared.layout.history(), 1);
        self.client.endpoint.post(&mut batch).await?;
        let id = batch.word(id);
        self.history.note(id);
        Ok(id)
    }

    /// Looks at random buckets, and at slots that are `remembered`. With a `class` it READs the
    /// class's shelves too.
    pub(super) async fn sample(
        &self,
        buckets: usize,
        remembered: &[(u64, Slot)],
        sampling: Sampling,
        class: Option<Class>,
    ) -> Result<Sample, CacheError> {
        let chosen = match self.next_sample.take() {
            Some((drawn, chosen)) if drawn == buckets => chosen,
            _ => self.draw_buckets(buckets),
        };
        let sample = self.sample_of(&chosen, remembered, sampling, class).await;
        self.expect_next_sample(buckets);
        sample
    }

    /// Draws random buckets, about so many.
    fn draw_buckets(&self, buckets: usize) -> ArrayVec<u32, SAMPLE_BUCKETS_MAX> {
        let mut chosen = ArrayVec::new();
        for _ in 0..buckets.clamp(1, SAMPLE_BUCKETS_MAX) {
            let bucket = (self.client.endpoint.random() % u64::from(self.shared.settings.buckets)) as u32;
            if !chosen.contains(&bucket) {
                chosen.push(bucket);
            }
        }
        chosen
    }

    /// Draws the buckets of the next sample, and prefetches them where the fabric uses hints.
    fn expect_next_sample(&self, buckets: usize) {
        let (endpoint, layout) = (&self.client.endpoint, &self.shared.layout);
        if !endpoint.expect(layout.dead(), 8, Intent::Read) {
            return;
        }
        let chosen = self.draw_buckets(buckets);
        for bucket in &chosen {
            endpoint.expect(layout.bucket(*bucket), BUCKET_BYTES, Intent::Read);
        }
        self.next_sample.set(Some((buckets, chosen)));
    }

    /// Looks at these buckets, and at slots that are `remembered`.
    pub(super) async fn sample_of(
        &self,
        chosen: &[u32],
        remembered: &[(u64, Slot)],
        sampling: Sampling,
        class: Option<Class>,
    ) -> Result<Sample, CacheError> {
        let mut batch = Batch::new();
        for bucket in chosen {
            let mut buffer = self.spares.take(0);
            buffer.resize(if sampling.one_by_one.is_some() { SLOTS_BYTES } else { BUCKET_BYTES } as usize);
            batch.read(self.shared.layout.bucket(*bucket), buffer);
        }
        let others = |slot: &u64| !chosen.contains(&((slot / BUCKET_SLOTS as u64) as u32));
        let mut again = ArrayVec::<_, REMEMBERED_MAX>::new();
        for (slot, word) in remembered.iter().filter(|(slot, _)| others(slot)).take(REMEMBERED_MAX) {
            let information = self.spares.take(ACCESS_BYTES as usize);
            let now = batch.read_word(self.shared.layout.slot(*slot));
            again.push((*slot, *word, now, batch.read(self.shared.layout.access(*slot), information)));
        }
        let shelves = class.map(|class| self.read_shelves(&mut batch, class));
        let dead = self.read_dead(&mut batch);
        let id = (sampling.with_history && self.history.at_hand.get().is_none())
            .then(|| batch.fetch_and_add(self.shared.layout.history(), 1));
        self.client.endpoint.post(&mut batch).await?;
        self.note_dead_seen(batch.word(dead));
        if let Some(id) = id {
            self.history.at_hand.set(Some(batch.word(id)));
            self.history.note(batch.word(id));
        }
        let now_ns = self.client.endpoint.now_ns();
        let times = (self.client.pool_ms(now_ns).await?, self.client.about_us());
        let mut sample = Sample::new();
        if let Some(shelves) = shelves {
            sample.shelves = Self::shelves_read(&batch.take(shelves));
        }
        for (index, bucket) in chosen.iter().enumerate() {
            let read = batch.take_nth(index);
            let (words, information) = read.words().split_at(BUCKET_SLOTS);
            for (place, information) in information.chunks(ACCESS_WORDS).enumerate() {
                let slot = u64::from(*bucket) * BUCKET_SLOTS as u64 + place as u64;
                self.sort_in(&mut sample, slot, Slot(words[place]), information, times);
            }
            if let Some(most) = sampling.one_by_one {
                self.sort_in_one_by_one(&mut sample, *bucket, words, most, times).await?;
            }
            self.spares.keep(read);
        }
        for (slot, word, now, information) in again {
            let information = batch.take(information);
            if batch.word(now) == word.0 {
                self.sort_in(&mut sample, slot, word, information.words(), times);
            }
            self.spares.keep(information);
        }
        Ok(sample)
    }

    /// Sorts the slots of a bucket into a sample, with a limited number of live objects.
    #[cold]
    async fn sort_in_one_by_one(
        &self,
        sample: &mut Sample,
        bucket: u32,
        words: &[u64],
        most: usize,
        times: (u64, u64),
    ) -> Result<(), CacheError> {
        let mut left = most;
        for (place, word) in words.iter().enumerate() {
            let (slot, word) = (u64::from(bucket) * BUCKET_SLOTS as u64 + place as u64, Slot(*word));
            let mut information = Buffer::new();
            if word.is_live() {
                if left == 0 {
                    continue;
                }
                left -= 1;
                information.resize(ACCESS_BYTES as usize);
                information = self.client.endpoint.read(self.shared.layout.access(slot), information).await?;
            }
            self.sort_in(sample, slot, word, information.words(), times);
        }
        Ok(())
    }

    /// Sorts a slot into a sample. `times` are the pool's, in milliseconds and about in
    /// microseconds.
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
}
