//! Every invariant of a quiet pool, walked and named.
//!
//! - every chunk has a possible state; an Open or Leaving one has an owner in the registry;
//! - every Queued chunk has exactly one node of its generation in one of the rings;
//! - every live slot points to a whole record of the chunk's generation, in a chunk that is Open, Queued or Leaving, whose key hashes to that
//!   slot's bucket and fingerprint; no key is live twice; no slot is pending;
//! - every Extent belongs to exactly one live object;
//! - the count of free chunks and the count of objects are right, unless somebody died since they were counted; where objects are limited,
//!   the limit holds.

use super::layout::{BUCKET_BYTES, BUCKET_SLOTS, Queue};
use super::ring::{Cursors, Node};
use super::slot::{KeyHash, Slot};
use super::{Forge, ForgePool};
use crate::CacheError;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::chunks::CHUNK_STATES;
use atoll_pool::registry::Roll;
use atoll_pool::{ChunkId, ChunkState, chunks, registry};
use std::collections::HashMap;

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in words. Empty for a sound pool.
    pub faults: Vec<String>,
    /// Live objects.
    pub objects: u64,
    /// Bytes of their keys and values.
    pub body_bytes: u64,
    /// Chunks in each state: free, open, queued, leaving, extent, bound, retired.
    pub chunks: [u64; CHUNK_STATES],
    /// Whether the counts of objects and free chunks may be off by a few, because a client has died since everything was counted and nobody has
    /// been alone since.
    pub counts_estimated: bool,
}

/// Faults listed at most; a damaged pool has as many as it has objects.
const FAULTS_MAX: usize = 100;

impl Report {
    fn fault(&mut self, what: impl FnOnce() -> String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(what());
        }
    }
}

struct Walk {
    report: Report,
    states: Vec<chunks::Descriptor>,
    extent_owners: HashMap<ChunkId, u64>,
    keys: HashMap<Vec<u8>, u64>,
}

impl<E: Endpoint> Forge<E> {
    /// Walks the pool. Nobody else may use it meanwhile, or what is under way is reported as faults.
    pub async fn verify(&mut self) -> Result<Report, CacheError> {
        self.endpoint.flush().await?;
        let layout = self.shared.pool.layout.clone();
        let states = self.all_descriptors().await?;
        let mut walk = Walk { report: Report::default(), states, extent_owners: HashMap::new(), keys: HashMap::new() };
        let (deaths, counted) = self.deaths().await?;
        walk.report.counts_estimated = deaths != counted;
        self.verify_chunks(&mut walk).await?;
        self.verify_rings(&mut walk).await?;
        self.verify_index(&mut walk).await?;
        for (index, descriptor) in walk.states.iter().enumerate() {
            let is_extent = descriptor.chunk.is_some_and(|chunk| chunk.state.is_extent());
            if is_extent && !walk.extent_owners.contains_key(&ChunkId(index as u32)) {
                walk.report.fault(|| format!("chunk {index} is an extent of no object"));
            }
        }
        let counted = registry::objects(&self.endpoint, &self.shared.pool).await?;
        if counted != walk.report.objects && !walk.report.counts_estimated {
            let found = walk.report.objects;
            walk.report.fault(|| format!("the registry counts {counted} objects, the index holds {found}"));
        }
        let (limit, objects) = (self.shared.pool.settings.objects_max, walk.report.objects);
        if limit > 0 {
            let mut batch = Batch::new();
            let resident = batch.read_word(layout.resident_objects());
            self.endpoint.post(&mut batch).await?;
            let resident = batch.word(resident);
            if objects > limit || (resident != objects && !walk.report.counts_estimated) {
                walk.report.fault(|| format!("{objects} objects, counted as {resident}, of at most {limit}"));
            }
        }
        Ok(walk.report)
    }

    async fn verify_chunks(&mut self, walk: &mut Walk) -> Result<(), CacheError> {
        let roll = Roll::of(&registry::places(&self.endpoint, &self.shared.pool).await?);
        let Walk { report, states, .. } = walk;
        for (index, descriptor) in states.iter().enumerate() {
            let Some(chunk) = descriptor.chunk else {
                report.fault(|| format!("chunk {index} has an impossible state"));
                continue;
            };
            report.chunks[chunk.state as usize] += 1;
            let owned = matches!(chunk.state, ChunkState::Open | ChunkState::Leaving);
            let alive = roll.has(chunk.owner_slot, chunk.owner_epoch);
            if owned && !alive {
                report.fault(|| format!("chunk {index} is {:?} and its owner is not a client", chunk.state));
            }
        }
        let free = chunks::free_chunks(&self.endpoint, &self.shared.pool.layout).await?;
        if free != report.chunks[0] && !report.counts_estimated {
            let found = report.chunks[0];
            report.fault(|| format!("{free} chunks are counted as free, {found} are"));
        }
        Ok(())
    }

    async fn verify_rings(&mut self, walk: &mut Walk) -> Result<(), CacheError> {
        let length = 1u32 << self.shared.settings.ring_log2;
        let mut queued: HashMap<ChunkId, u32> = HashMap::new();
        let cursors = self.cursors().await?;
        for queue in Queue::ALL {
            for (index, node) in self.nodes(queue, 0, length).await?.into_iter().enumerate() {
                let Some(Node { chunk, generation, .. }) = node else { continue };
                let Some(descriptor) = walk.states.get(chunk.0 as usize) else {
                    walk.report.fault(|| format!("node {index} of the {queue:?} queue names chunk {}", chunk.0));
                    continue;
                };
                let state = descriptor.chunk;
                let current = state
                    .is_some_and(|state| state.state == ChunkState::Queued && state.generation as u16 == generation);
                // A node of a group that was cleaned is stale, and will be dropped.
                if !current {
                    continue;
                }
                *queued.entry(chunk).or_default() += 1;
                let Cursors { head, .. } = cursors[queue as usize];
                let distance = (index as u32).wrapping_sub(head) & (length - 1);
                if distance >= cursors[queue as usize].len() {
                    walk.report.fault(|| format!("chunk {} waits in the {queue:?} queue outside its cursors", chunk.0));
                }
            }
        }
        let Walk { report, states, .. } = walk;
        for (index, descriptor) in states.iter().enumerate() {
            let is_queued = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
            let nodes = queued.get(&ChunkId(index as u32)).copied().unwrap_or(0);
            if is_queued && nodes != 1 {
                report.fault(|| format!("chunk {index} is queued and has {nodes} nodes"));
            }
        }
        Ok(())
    }

    async fn verify_index(&mut self, walk: &mut Walk) -> Result<(), CacheError> {
        let buckets = self.shared.settings.buckets;
        let mut first = 0;
        while first < buckets {
            let count = 1024.min(self.shared.layout.buckets_in_a_piece(first));
            let mut buffer = Buffer::new();
            buffer.resize(BUCKET_BYTES as usize * count as usize);
            let mut batch = Batch::new();
            let read = batch.read(self.shared.layout.bucket(first), buffer);
            self.endpoint.post(&mut batch).await?;
            let words = batch.take(read);
            for (index, word) in words.words().iter().enumerate() {
                let slot = u64::from(first) * BUCKET_SLOTS as u64 + index as u64;
                self.verify_slot(walk, slot, Slot(*word)).await?;
            }
            first += count;
        }
        Ok(())
    }

    async fn verify_slot(&mut self, walk: &mut Walk, slot: u64, word: Slot) -> Result<(), CacheError> {
        if word.is_free() {
            return Ok(());
        }
        if word.is_pending() {
            walk.report.fault(|| format!("slot {slot} is pending"));
            return Ok(());
        }
        let Some((at, bytes, chunk)) = self.find_record(word).await? else {
            walk.report.fault(|| format!("slot {slot} points outside the heap"));
            return Ok(());
        };
        let mut buffer = std::mem::take(&mut self.record);
        buffer.resize(bytes);
        let mut batch = Batch::new();
        let read = batch.read(at, buffer);
        self.endpoint.post(&mut batch).await?;
        self.record = batch.take(read);
        let Some(record) = self.judge(word, &self.record) else {
            walk.report.fault(|| format!("slot {slot} points to no record of its own"));
            return Ok(());
        };
        let state = walk.states[chunk.0 as usize].chunk;
        let in_group = state.is_some_and(|state| {
            matches!(state.state, ChunkState::Open | ChunkState::Queued | ChunkState::Leaving)
                && state.generation as u16 == record.header.generation
        });
        if !in_group {
            walk.report
                .fault(|| format!("slot {slot} points into chunk {}, which holds no group of its time", chunk.0));
        }
        let (header, large, mut key) = (record.header, record.large(), record.key.to_vec());
        if let Some(body) = large {
            let Some(extents) = self.extents(&header, &body).await? else {
                walk.report.fault(|| format!("slot {slot} has an object with impossible extents"));
                return Ok(());
            };
            for extent in extents.all() {
                let state = walk.states[extent.chunk.0 as usize].chunk;
                let is_extent =
                    state.is_some_and(|chunk| chunk.state.is_extent() && chunk.generation == extent.generation);
                if !is_extent || walk.extent_owners.insert(extent.chunk, slot).is_some() {
                    walk.report.fault(|| format!("chunk {} is not slot {slot}'s own extent", extent.chunk.0));
                }
            }
            match self.read_body(&header, &body, Buffer::new()).await? {
                Some(buffer) => key = buffer.bytes()[..header.key_bytes].to_vec(),
                None => {
                    walk.report.fault(|| format!("slot {slot} has an object whose extents are not what was written"));
                    return Ok(());
                }
            }
        }
        let hash: KeyHash = self.key_hash(&key);
        if u64::from(hash.bucket) != slot / BUCKET_SLOTS as u64 || hash.fingerprint != word.fingerprint() {
            walk.report.fault(|| format!("slot {slot} holds a key that does not belong there"));
        }
        walk.report.objects += 1;
        walk.report.body_bytes += header.body_bytes() as u64;
        if let Some(other) = walk.keys.insert(key, slot) {
            walk.report.fault(|| format!("slots {other} and {slot} hold the same key"));
        }
        Ok(())
    }
}

impl ForgePool {
    /// What the pool was made with, for whoever prints it.
    pub fn describe_settings(&self) -> Vec<(&'static str, String)> {
        let (pool, forge) = (&self.pool.settings, &self.settings);
        vec![
            ("capacity_bytes", self.pool.capacity_bytes().to_string()),
            ("growth_bytes_max", pool.growth_bytes_max.to_string()),
            ("nodes", self.pool.layout.nodes_known().to_string()),
            ("nodes_max", pool.nodes_max.to_string()),
            ("chunk_bytes", pool.chunk_bytes.to_string()),
            ("chunks", self.pool.layout.chunks().to_string()),
            ("clients_max", pool.clients_max.to_string()),
            ("objects_max", pool.objects_max.to_string()),
            ("group_objects_max", pool.group_objects_max.to_string()),
            ("index_slots", (u64::from(forge.buckets) * BUCKET_SLOTS as u64).to_string()),
            ("rule", format!("{:?}", forge.options.rule).to_lowercase()),
            ("small_percent", forge.options.small_percent.to_string()),
            ("ghosts", forge.options.ghosts.to_string()),
        ]
    }
}
