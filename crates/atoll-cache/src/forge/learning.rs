//! What there is to learn from, told to the pool and read from it. What comes of it is in
//! [`glcache`](crate::glcache), and says how this differs from the papers.
//!
//! | step | verbs |
//! |---|---|
//! | tell what was watched for long enough | FAA samples so far; WRITE samples, unawaited |
//! | learn, if enough of them are new | READ all samples |
//! | watch some of the groups that were sampled | READ their maps, in one batch |
//! | tell what the writer of a group knows | WRITE its record, in the batch that queues it |
//! | tell of accesses | FAA counters, unawaited: some chunks in every round of a client |
//!
//! What is flushed of a group that is gone counts for the next one in its chunk.

use super::Forge;
use super::group::MapEntry;
use super::layout::BUCKET_SLOTS;
use super::learned::Sampled;
use super::open_groups::OpenGroup;
use super::ring::Cursors;
use super::slot::{GHOST_MORE_MAX, KeyHash, UNIT_BYTES};
use super::technique::Technique;
use crate::CacheError;
use crate::glcache::{Sample, Written};
use arrayvec::ArrayVec;
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint};

/// Groups that an eviction begins to watch.
const WATCH_AT_ONCE: usize = 4;

/// What a client has to remember for the rule.
#[derive(Debug, Default)]
pub(super) struct Lesson {
    /// Groups that had been written to the pool when this client last looked, modulo 2^32.
    pub(super) groups_now: u32,
    /// Hits and misses that are in the process's rates.
    told: (u64, u64),
}

impl Lesson {
    pub(super) fn note_cursors(&mut self, cursors: [Cursors; 2]) {
        self.groups_now = cursors[0].tail.wrapping_add(cursors[1].tail);
    }
}

/// What tells keys apart to whoever watches: what the map of a group knows of their hashes.
#[inline]
fn identity(bucket: u64, fingerprint: u8, more: u16) -> u64 {
    bucket << 15 | u64::from(fingerprint) << 7 | u64::from(more & GHOST_MORE_MAX)
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Tells whoever watches that a key was looked up.
    #[inline(always)]
    pub(super) fn observe(&self, hash: KeyHash) {
        if self.shared.learner.is_some() {
            self.tell_watch(hash);
        }
    }

    /// Out of the way of the other rules' lookups, which it would make longer if it were inlined.
    #[cold]
    #[inline(never)]
    fn tell_watch(&self, hash: KeyHash) {
        if let Some(learner) = &self.shared.learner {
            learner.watch.observe(identity(hash.bucket.into(), hash.fingerprint, hash.more));
        }
    }

    /// Adds this process's counts of some groups to the pool.
    pub(super) async fn flush_touched(&self) -> Result<(), CacheError> {
        let cursors = self.cursors().await?;
        self.note_cursors(cursors);
        let shared = self.shared.clone();
        let Some(learner) = &shared.learner else { return Ok(()) };
        for (chunk, generation) in learner.to_flush(self.client.operations_per_round(), shared.pool.layout.chunks()) {
            if let Some(at) = shared.layout.group_counters(chunk) {
                self.flush_group(at, chunk, generation);
            }
        }
        Ok(())
    }

    /// The record of a group that is about to be queued, and where it goes.
    pub(super) fn group_record(&self, group: &OpenGroup) -> Option<(Address, Buffer)> {
        let learner = self.shared.learner.as_ref()?;
        let at = self.shared.layout.group_record(group.chunk)?;
        let stats = self.stats.stats(self.client.upkeep());
        let (hits, misses) = (stats.hits, stats.misses());
        let (hits_told, misses_told) = std::mem::replace(&mut self.lesson.borrow_mut().told, (hits, misses));
        let (hits, misses) = (hits - hits_told, misses - misses_told);
        let objects = group.map.len().max(1);
        let written = Written {
            generation: group.generation,
            groups_before: self.lesson.borrow().groups_now,
            object_bytes: (group.used_bytes + group.extent_bytes) as f32 / objects as f32,
            ..learner.rates(objects as u64, hits + misses, misses, self.client.endpoint.now_ns())
        };
        let mut words = Buffer::new();
        words.resize(Written::BYTES as usize);
        words.words_mut().copy_from_slice(&written.words());
        Some((at, words))
    }

    /// Tells what groups were worth that have been watched for long enough, learns if that is
    /// enough that is new, and begins to watch others.
    pub(super) async fn learn(&self, sampled: &[Sampled]) -> Result<(), CacheError> {
        let shared = self.shared.clone();
        let Some(learner) = &shared.learner else { return Ok(()) };
        let samples = learner.watch.finish(learner.watched_lookups());
        if !samples.is_empty() {
            let so_far = self.add_samples(&samples).await?;
            if learner.wants_training(so_far, shared.layout.samples()) {
                let samples = self.read_samples(so_far).await?;
                learner.train(&samples, self.client.endpoint.now_ns());
            }
        }
        if learner.watch.room() > 0 {
            self.watch_some(sampled).await?;
        }
        Ok(())
    }

    /// Adds samples to those of the pool; how many there have been with them.
    async fn add_samples(&self, samples: &[Sample]) -> Result<u64, CacheError> {
        let layout = &self.shared.layout;
        let mut batch = Batch::new();
        let first = batch.fetch_and_add(layout.samples_so_far(), samples.len() as u64);
        self.client.endpoint.post(&mut batch).await?;
        let first = batch.word(first);
        let mut batch = Batch::new();
        for (nth, sample) in samples.iter().enumerate() {
            let mut words = Buffer::new();
            words.resize(Sample::BYTES as usize);
            words.words_mut().copy_from_slice(&sample.words());
            batch.write(layout.sample(first.wrapping_add(nth as u64)), words);
            if batch.is_full() {
                self.client.endpoint.post_unawaited(&mut batch);
            }
        }
        if !batch.is_empty() {
            self.client.endpoint.post_unawaited(&mut batch);
        }
        Ok(first.wrapping_add(samples.len() as u64))
    }

    /// All samples of the pool that make sense, when so many have been added.
    async fn read_samples(&self, so_far: u64) -> Result<Vec<Sample>, CacheError> {
        let layout = &self.shared.layout;
        let mut buffer = Buffer::new();
        buffer.resize((layout.samples().min(so_far.max(1)) * Sample::BYTES) as usize);
        let read = self.client.endpoint.read(layout.sample(0), buffer).await?;
        Ok(read.words().chunks(Sample::WORDS).filter_map(Sample::from_words).collect())
    }

    /// Begins to watch a few of the sampled groups.
    async fn watch_some(&self, sampled: &[Sampled]) -> Result<(), CacheError> {
        let shared = self.shared.clone();
        let (Some(learner), layout) = (&shared.learner, &shared.pool.layout) else { return Ok(()) };
        let mut chosen = ArrayVec::<&Sampled, WATCH_AT_ONCE>::new();
        for _ in 0..WATCH_AT_ONCE {
            let one = &sampled[(self.client.endpoint.random() % sampled.len() as u64) as usize];
            let is_chosen = chosen.iter().any(|other| other.chunk == one.chunk);
            let is_sound = self.group_objects(one.descriptor.contents).is_some_and(|objects| objects > 0)
                && layout.checked_chunk(one.chunk.0).is_some();
            if is_sound && !is_chosen && !learner.watch.watches((one.chunk.0, one.generation)) {
                chosen.push(one);
            }
        }
        let mut batch = Batch::new();
        for one in &chosen {
            let bytes = 8 * u64::from(one.contents.objects);
            let mut map = Buffer::new();
            map.resize(bytes as usize);
            batch.read(layout.chunk(one.chunk).add(layout.chunk_bytes - bytes), map);
        }
        if chosen.is_empty() {
            return Ok(());
        }
        self.client.endpoint.post(&mut batch).await?;
        for (nth, one) in chosen.into_iter().enumerate() {
            let map = batch.take_nth(nth);
            let mut end = one.contents.used_units;
            let objects = map.words().iter().map(|word| {
                // The last object's entry is the first of the map: where one begins the one before
                // it ends.
                let entry = MapEntry::from_word(*word);
                let units = end.saturating_sub(entry.offset_units).max(1);
                end = entry.offset_units;
                let units = if entry.large { (layout.chunk_bytes / UNIT_BYTES) as u16 } else { units };
                (identity(entry.slot / BUCKET_SLOTS as u64, entry.fingerprint, entry.more), units)
            });
            learner.watch.begin((one.chunk.0, one.generation), one.features, objects);
        }
        Ok(())
    }
}

const _: () = assert!(WATCH_AT_ONCE <= BATCH_VERBS_MAX);
