//! The verbs of an eviction: an evictor samples groups and merges those of least utility. Its
//! decisions are in the modules that use no verb; the verbs of learning are in `learn`.
//!
//! | step of an eviction | verbs |
//! |---|---|
//! | sample | READ runs of descriptors and of the groups' records, all in one batch |
//! | learn | see `learn` |
//! | own the groups of least utility | as cleaning does: CAS Queued -> Leaving, wherever in a ring the node is |
//! | take their counts | READ counters; CAS each word that is not zero |
//! | merge | see `forge/leaving` |
//!
//! An owned group leaves its node behind. The dequeuer of that node finds it stale and drops it
//! (see `forge/ring`). An eviction that finds a ring half full dequeues the next few nodes first,
//! so that rings do not fill with stale nodes. It puts a group that is still queued back at the
//! tail.
//!
//! Invariant: an owned group is always emptied. It is never put back while its old node is there.

use super::features::{Features, Written};
use super::learner::INFERENCE_NS;
use super::merge::{Candidate, keep_best};
use super::technique::{GlCache, GlCacheDm};
use arrayvec::ArrayVec;
use atoll_cache::forge::Queue;
use atoll_cache::forge::group::Contents;
use atoll_cache::forge::technique::{EFFORT_ALL, Evicted, LeavingGroup, Slots};
use atoll_cache::{CacheError, Pooled};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Purpose};
use atoll_pool::chunks::Descriptor;
use atoll_pool::{ChunkId, ChunkState};

/// Groups that an eviction judges, if there are so many.
const SAMPLE_GROUPS: usize = 64;
/// Chunks of a run: neighbours, which are READ at once.
const RUN_CHUNKS: u32 = 8;
/// Runs of a batch, of two READs each.
const RUNS_AT_ONCE: usize = 8;
/// Batches of random runs before the evictor looks at every chunk.
const SAMPLE_ROUNDS: usize = 4;
/// Nodes that an eviction dequeues from a ring that is half full.
const HEADS_AT_ONCE: usize = 32;

/// A queued group that was sampled.
pub(super) struct Sampled {
    pub(super) chunk: ChunkId,
    pub(super) descriptor: Descriptor,
    pub(super) generation: u32,
    pub(super) contents: Contents,
    pub(super) features: Features,
}

impl GlCache {
    /// Samples groups, and merges those of least utility into one.
    pub(super) async fn evict_least<E: Endpoint>(
        &self,
        forge: &GlCacheDm<E>,
        effort: u32,
    ) -> Result<Evicted, CacheError> {
        let cursors = forge.cursors().await?;
        forge.note_cursors(cursors);
        forge.advance_heads(cursors, HEADS_AT_ONCE, None).await?;
        let sampled = self.sample_groups(forge).await?;
        if sampled.is_empty() {
            return Ok(Evicted::Nothing);
        }
        let before = forge.client().endpoint.purpose(Purpose::Hotness);
        let learned = Box::pin(self.learn(forge, &sampled)).await;
        forge.client().endpoint.purpose(before);
        learned?;
        let take = usize::from(forge.pool().settings().options.merge_groups).min(sampled.len() / 2).max(1);
        let mut groups = Vec::with_capacity(take);
        for place in self.least_first(forge, &sampled) {
            let Sampled { chunk, descriptor, generation, features, .. } = &sampled[place];
            let Some(mut group) = forge.own_group(*chunk, *descriptor, Vec::new(), Slots::IfManyDead).await? else {
                continue;
            };
            let objects = group.objects.len();
            let counts = forge.take_frequencies(group.queue, 0, *chunk, *generation as u16, objects).await?;
            for (leaver, count) in group.objects.iter_mut().zip(counts) {
                leaver.frequency = leaver.frequency.saturating_add(count);
            }
            forge.count_evicted_group();
            groups.push((group, features.age()));
            if groups.len() == take {
                break;
            }
        }
        if groups.is_empty() {
            return Ok(Evicted::Stale);
        }
        self.merge(forge, groups, effort).await?;
        Ok(Evicted::Progress)
    }

    /// Queued groups from random places of the pool, no chunk twice. All places are searched if
    /// there are few.
    async fn sample_groups<E: Endpoint>(&self, forge: &GlCacheDm<E>) -> Result<Vec<Sampled>, CacheError> {
        let chunks = forge.client().pool.layout.chunks().min(forge.pool().annex().area.group_records());
        let (mut looked, mut found) = (0, Vec::new());
        let runs_max = chunks.div_ceil(RUN_CHUNKS);
        if runs_max as usize > RUNS_AT_ONCE {
            for _ in 0..SAMPLE_ROUNDS {
                let random =
                    |_| ChunkId((forge.client().endpoint.random() % u64::from(chunks - RUN_CHUNKS + 1)) as u32);
                let firsts: ArrayVec<_, RUNS_AT_ONCE> = (0..RUNS_AT_ONCE).map(random).collect();
                looked += self.sample_runs(forge, &firsts, chunks, &mut found).await?;
                if found.len() >= SAMPLE_GROUPS * 3 / 4 {
                    break;
                }
            }
        }
        if found.is_empty() {
            // So few groups are queued that the evictor must look at every chunk, from a random one
            // on.
            let begin = (forge.client().endpoint.random() % u64::from(runs_max.max(1))) as u32;
            let runs: Vec<_> = (0..runs_max).map(|nth| ChunkId((begin + nth) % runs_max * RUN_CHUNKS)).collect();
            for firsts in runs.chunks(RUNS_AT_ONCE) {
                looked += self.sample_runs(forge, firsts, chunks, &mut found).await?;
                if found.len() >= SAMPLE_GROUPS * 3 / 4 {
                    break;
                }
            }
        }
        found.sort_by_key(|sampled| sampled.chunk);
        let objects: u64 = found.iter().map(|sampled| u64::from(sampled.contents.objects)).sum();
        found.dedup_by_key(|sampled| sampled.chunk);
        if looked > 0 {
            forge.pool().annex().learner.note_resident(objects * u64::from(chunks) / u64::from(looked));
        }
        Ok(found)
    }

    /// READs the runs that begin at these chunks, and adds the queued groups among them. Returns
    /// the number of chunks that it READ.
    async fn sample_runs<E: Endpoint>(
        &self,
        forge: &GlCacheDm<E>,
        firsts: &[ChunkId],
        chunks: u32,
        found: &mut Vec<Sampled>,
    ) -> Result<u32, CacheError> {
        let (pool, area) = (&forge.client().pool.layout, &forge.pool().annex().area);
        let mut batch = Batch::new();
        let mut reads = ArrayVec::<_, RUNS_AT_ONCE>::new();
        for first in firsts {
            let count = RUN_CHUNKS.min(chunks - first.0);
            let Some(records) = area.group_record(*first) else { continue };
            let mut sized = |at, bytes: u64| {
                let mut buffer = Buffer::new();
                buffer.resize(bytes as usize);
                batch.read(at, buffer)
            };
            let descriptors = sized(pool.descriptor(*first), u64::from(count) * Descriptor::BYTES);
            let records = sized(records, u64::from(count) * area.group_record_bytes());
            reads.push((first, count, descriptors, records));
        }
        forge.client().endpoint.post(&mut batch).await?;
        let record_words = area.group_record_bytes() as usize / 8;
        let mut looked = 0;
        for (first, count, descriptors, records) in reads {
            let (descriptors, records) = (batch.take(descriptors), batch.take(records));
            looked += count;
            let descriptors = descriptors.words().chunks(Descriptor::BYTES as usize / 8).map(Descriptor::from_words);
            for (nth, (descriptor, record)) in descriptors.zip(records.words().chunks(record_words)).enumerate() {
                let chunk = ChunkId(first.0 + nth as u32);
                found.extend(self.sampled(forge, chunk, descriptor, record));
            }
        }
        Ok(looked)
    }

    /// The features of the group in a chunk, if that is queued.
    fn sampled<E: Endpoint>(
        &self,
        forge: &GlCacheDm<E>,
        chunk: ChunkId,
        descriptor: Descriptor,
        record: &[u64],
    ) -> Option<Sampled> {
        let queued = descriptor.chunk.filter(|chunk| chunk.state == ChunkState::Queued)?;
        let contents = Contents::from_word(descriptor.contents);
        let objects = forge.group_objects(descriptor.contents).unwrap_or(0);
        let (head, counters) = record.split_first_chunk()?;
        let written = Written::from_words(*head);
        // A record of another generation belongs to an earlier group: this group's record was lost.
        // Only the counts are known.
        let written = if written.generation == queued.generation { written } else { Written::default() };
        let lanes = counters.iter().flat_map(|word| (0..4).map(move |lane| (word >> (16 * lane)) as u16));
        let counts: Vec<u16> = lanes.take(objects).collect();
        let features = Features::of(&written, self.groups_now.get(), &counts);
        Some(Sampled { chunk, descriptor, generation: queued.generation, contents, features })
    }

    /// The sampled groups by utility, the least first: as the trees predict it, or by age while
    /// there are no trees.
    fn least_first<E: Endpoint>(&self, forge: &GlCacheDm<E>, sampled: &[Sampled]) -> Vec<usize> {
        let features: Vec<Features> = sampled.iter().map(|sampled| sampled.features).collect();
        let trees = forge.pool().annex().learner.trees(forge.client().endpoint.now_ns());
        let predicted = trees.and_then(|trees| {
            forge.client().endpoint.charge(INFERENCE_NS);
            trees.predict(&features)
        });
        let worth = predicted.unwrap_or_else(|| features.iter().map(|features| -features.age()).collect());
        let mut places: Vec<usize> = (0..sampled.len()).collect();
        places.sort_by(|a, b| worth[*a].total_cmp(&worth[*b]));
        places
    }

    /// Moves the best objects of several groups, given with their ages, into one group, and empties
    /// the groups.
    async fn merge<E: Endpoint>(
        &self,
        forge: &GlCacheDm<E>,
        mut groups: Vec<(LeavingGroup, f32)>,
        effort: u32,
    ) -> Result<(), CacheError> {
        let settings = &forge.client().pool.settings;
        let (chunk_bytes, merged) = (u64::from(settings.chunk_bytes), groups.len());
        let mut candidates = Vec::new();
        let mut leavers = Vec::new();
        for (group, age) in &mut groups {
            for leaver in &mut group.objects {
                (leaver.stays, leaver.carry) = (false, 0);
                let Some(word) = leaver.word else { continue };
                let room_bytes = word.length().bytes() + 8;
                let bytes = if word.is_large() { chunk_bytes } else { room_bytes };
                candidates.push(Candidate { frequency: leaver.frequency, bytes, room_bytes, age: *age as u32 });
                leavers.push(leaver);
            }
        }
        // Several groups become one; a single group becomes half a group.
        let share = candidates.len() / merged.max(2);
        let objects_max = if effort > EFFORT_ALL { 0 } else { share.min(settings.group_objects_max as usize) };
        for place in keep_best(&candidates, objects_max, chunk_bytes) {
            leavers[place].stays = true;
        }
        // The merged objects must be alone in their group, so the group that is filled is closed
        // first.
        forge.close_group(Queue::Main, 0).await?;
        for (group, _) in groups {
            forge.empty_group(group, Queue::Main).await?;
        }
        forge.close_group(Queue::Main, 0).await
    }
}

const _: () = assert!(2 * RUNS_AT_ONCE <= BATCH_VERBS_MAX);
