//! The verbs of learning: what clients publish, and what they READ.
//!
//! | step | verbs |
//! |---|---|
//! | publish the utility of groups that were watched for long enough | FAA samples so far; WRITE samples, unawaited |
//! | learn, if enough samples are new | READ all samples |
//! | watch some of the groups that were sampled | READ their maps, in one batch |
//! | publish what the writer of a group knows | WRITE the group's record, in the batch that queues it |
//! | publish accesses | FAA counters, unawaited: some chunks in every round of a client |
//!
//! Counts of an emptied group that are flushed late count for the next group in its chunk.

use super::evict::Sampled;
use super::features::Written;
use super::sample::Sample;
use super::technique::{GlCache, GlCacheDm, Learning};
use arrayvec::ArrayVec;
use atoll_cache::forge::group::MapEntry;
use atoll_cache::forge::layout::BUCKET_SLOTS;
use atoll_cache::forge::slot::{GHOST_MORE_MAX, KeyHash, UNIT_BYTES};
use atoll_cache::forge::technique::OpenGroup;
use atoll_cache::{CacheError, Engine, Pooled};
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint};

/// Groups that an eviction begins to watch.
const WATCH_AT_ONCE: usize = 4;

/// The identity of a key in the watch: the parts of its hash that a group's map has.
#[inline]
fn identity(bucket: u64, fingerprint: u8, more: u16) -> u64 {
    bucket << 15 | u64::from(fingerprint) << 7 | u64::from(more & GHOST_MORE_MAX)
}

impl GlCache {
    /// Notes in the process's watch that a key was looked up.
    #[inline]
    pub(super) fn watch_lookup<E: Endpoint>(&self, forge: &GlCacheDm<E>, hash: KeyHash) {
        let KeyHash { bucket, fingerprint, more, .. } = hash;
        forge.pool().annex().learner.watch.observe(identity(bucket.into(), fingerprint, more));
    }

    /// Adds this process's counts of some groups to the pool.
    pub(super) async fn flush_touched<E: Endpoint>(&self, forge: &GlCacheDm<E>) -> Result<(), CacheError> {
        let cursors = forge.cursors().await?;
        forge.note_cursors(cursors);
        let (Learning { learner, area }, chunks) = (forge.pool().annex(), forge.client().pool.layout.chunks());
        for (chunk, generation) in learner.to_flush(forge.client().operations_per_round(), chunks) {
            if let Some(at) = area.group_counters(chunk) {
                forge.flush_group(at, chunk, generation);
            }
        }
        Ok(())
    }

    /// The record of a group that is about to be queued, and its address.
    pub(super) fn written<E: Endpoint>(&self, forge: &GlCacheDm<E>, group: &OpenGroup) -> Option<(Address, Buffer)> {
        let Learning { learner, area } = forge.pool().annex();
        let at = area.group_record(group.chunk)?;
        let stats = forge.stats();
        let (hits, misses) = (stats.hits, stats.misses());
        let (hits_rated, misses_rated) = self.rated.replace((hits, misses));
        let (hits, misses) = (hits - hits_rated, misses - misses_rated);
        let objects = group.map.len().max(1);
        let written = Written {
            generation: group.generation,
            groups_before: self.groups_now.get(),
            object_bytes: (group.used_bytes + group.extent_bytes) as f32 / objects as f32,
            ..learner.rates(objects as u64, hits + misses, misses, forge.client().endpoint.now_ns())
        };
        let mut words = Buffer::new();
        words.resize(Written::BYTES as usize);
        words.words_mut().copy_from_slice(&written.words());
        Some((at, words))
    }

    /// Publishes the utility of groups that have been watched for long enough. Learns if enough
    /// samples are new. Then begins to watch other groups.
    pub(super) async fn learn<E: Endpoint>(&self, forge: &GlCacheDm<E>, sampled: &[Sampled]) -> Result<(), CacheError> {
        let Learning { learner, area } = forge.pool().annex();
        let samples = learner.watch.finish(learner.watched_lookups());
        if !samples.is_empty() {
            let so_far = self.add_samples(forge, &samples).await?;
            if learner.wants_training(so_far, area.samples()) {
                let samples = self.read_samples(forge, so_far).await?;
                learner.train(&samples, forge.client().endpoint.now_ns());
            }
        }
        if learner.watch.room() > 0 {
            self.watch_some(forge, sampled).await?;
        }
        Ok(())
    }

    /// Adds samples to the pool's; returns how many there have been with them.
    async fn add_samples<E: Endpoint>(&self, forge: &GlCacheDm<E>, samples: &[Sample]) -> Result<u64, CacheError> {
        let area = &forge.pool().annex().area;
        let mut batch = Batch::new();
        let first = batch.fetch_and_add(area.samples_so_far(), samples.len() as u64);
        forge.client().endpoint.post(&mut batch).await?;
        let first = batch.word(first);
        let mut batch = Batch::new();
        for (nth, sample) in samples.iter().enumerate() {
            let mut words = Buffer::new();
            words.resize(Sample::BYTES as usize);
            words.words_mut().copy_from_slice(&sample.words());
            batch.write(area.sample(first.wrapping_add(nth as u64)), words);
            if batch.is_full() {
                forge.client().endpoint.post_unawaited(&mut batch);
            }
        }
        if !batch.is_empty() {
            forge.client().endpoint.post_unawaited(&mut batch);
        }
        Ok(first.wrapping_add(samples.len() as u64))
    }

    /// All sound samples of the pool, when so many have been added.
    async fn read_samples<E: Endpoint>(&self, forge: &GlCacheDm<E>, so_far: u64) -> Result<Vec<Sample>, CacheError> {
        let area = &forge.pool().annex().area;
        let mut buffer = Buffer::new();
        buffer.resize((area.samples().min(so_far.max(1)) * Sample::BYTES) as usize);
        let read = forge.client().endpoint.read(area.sample(0), buffer).await?;
        Ok(read.words().chunks(Sample::WORDS).filter_map(Sample::from_words).collect())
    }

    /// Begins to watch a few of the sampled groups.
    async fn watch_some<E: Endpoint>(&self, forge: &GlCacheDm<E>, sampled: &[Sampled]) -> Result<(), CacheError> {
        let (learner, layout) = (&forge.pool().annex().learner, &forge.client().pool.layout);
        let mut chosen = ArrayVec::<&Sampled, WATCH_AT_ONCE>::new();
        for _ in 0..WATCH_AT_ONCE {
            let one = &sampled[(forge.client().endpoint.random() % sampled.len() as u64) as usize];
            let is_chosen = chosen.iter().any(|other| other.chunk == one.chunk);
            let is_sound = forge.group_objects(one.descriptor.contents).is_some_and(|objects| objects > 0)
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
        forge.client().endpoint.post(&mut batch).await?;
        for (nth, one) in chosen.into_iter().enumerate() {
            let map = batch.take_nth(nth);
            let mut end = one.contents.used_units;
            let objects = map.words().iter().map(|word| {
                // The last object's entry is the first of the map: where an entry begins, the one
                // before it ends.
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
