//! Every invariant of a quiet pool, walked and named.
//!
//! - every chunk has a possible state; an Open or Leaving one has an owner in the registry;
//! - every block of a chunk in use is named by exactly one slot or shelf, or one cell of a client; none of a chunk that is free is named by a slot;
//! - every live slot names a whole record of its tag, whose key hashes to that slot's bucket and fingerprint; every dead one a block whose record tells
//!   its bucket; no key is live twice; no slot is pending;
//! - every Extent belongs to exactly one live object;
//! - the counts of free chunks, of objects, and of dead bytes in every chunk and in all are right, unless somebody died since they were counted; where objects are limited,
//!   the limit holds.

use super::class::Class;
use super::layout::{BUCKET_SLOTS, CELLS};
use super::slot::{Block, KeyHash, Slot};
use super::stock::Cell;
use super::{Core, ObjectsPool};
use crate::CacheError;
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::chunks::CHUNK_STATES;
use atoll_pool::registry::Roll;
use atoll_pool::{ChunkId, ChunkState, chunks, read_word, registry};
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
    /// Dead blocks, which wait for their next use.
    pub dead_blocks: u64,
    /// Chunks in each state: free, open, in use, leaving, extent, bound, retired.
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
    named: HashMap<Block, u64>,
    dead_bytes: HashMap<ChunkId, u64>,
}

impl<E: Endpoint> Core<E> {
    pub(super) async fn verify(&mut self) -> Result<Report, CacheError> {
        self.tell_dead();
        self.endpoint.flush().await?;
        let states = self.all_descriptors().await?;
        let mut walk = Walk {
            report: Report::default(),
            states,
            extent_owners: HashMap::new(),
            keys: HashMap::new(),
            named: HashMap::new(),
            dead_bytes: self.dead_on_shelves().await?,
        };
        let (deaths, counted) = self.deaths().await?;
        walk.report.counts_estimated = deaths != counted;
        self.verify_chunks(&mut walk).await?;
        let buckets = self.shared.settings.buckets;
        let mut first = 0;
        while first < buckets {
            let words = self.bucket_words(first).await?;
            for (index, word) in words.iter().enumerate() {
                self.verify_slot(&mut walk, u64::from(first) * BUCKET_SLOTS as u64 + index as u64, *word).await?;
            }
            first += (words.len() / BUCKET_SLOTS) as u32;
        }
        self.verify_shelves(&mut walk).await?;
        self.verify_blocks(&mut walk).await?;
        for (index, descriptor) in walk.states.iter().enumerate() {
            let is_extent = descriptor.chunk.is_some_and(|chunk| chunk.state.is_extent());
            if is_extent && !walk.extent_owners.contains_key(&ChunkId(index as u32)) {
                walk.report.fault(|| format!("chunk {index} is an extent of no object"));
            }
        }
        self.verify_counts(&mut walk.report).await?;
        self.verify_dead(&mut walk).await?;
        Ok(walk.report)
    }

    async fn verify_counts(&mut self, report: &mut Report) -> Result<(), CacheError> {
        let counted = registry::objects(&self.endpoint, &self.shared.pool).await?;
        if counted != report.objects && !report.counts_estimated {
            let found = report.objects;
            report.fault(|| format!("the registry counts {counted} objects, the index holds {found}"));
        }
        let (limit, objects) = (self.shared.pool.settings.objects_max, report.objects);
        if limit > 0 {
            let resident = read_word(&self.endpoint, self.shared.pool.layout.resident_objects()).await?;
            if objects > limit || (resident != objects && !report.counts_estimated) {
                report.fault(|| format!("{objects} objects, counted as {resident}, of at most {limit}"));
            }
        }
        Ok(())
    }

    async fn verify_dead(&mut self, walk: &mut Walk) -> Result<(), CacheError> {
        let (deaths, _) = self.deaths().await?;
        self.look_at_deaths(deaths).await?;
        if self.are_dead_bytes_doubtful() {
            return Ok(());
        }
        let counted = read_word(&self.endpoint, self.shared.layout.dead()).await?;
        let Walk { report, states, dead_bytes, .. } = walk;
        let found: u64 = dead_bytes.values().sum();
        // Clients that are there and do nothing have not told all of it.
        let places = registry::places(&self.endpoint, &self.shared.pool).await?;
        let me = self.member.as_ref().map(|member| member.incarnation);
        if places.iter().any(|place| place.state.is_alive() && Some(place.incarnation) != me) {
            return Ok(());
        }
        if counted != found {
            report.fault(|| format!("{counted} bytes are counted as dead, {found} are"));
        }
        for (index, descriptor) in states.iter().enumerate() {
            let (counted, found) = (descriptor.dead_bytes, dead_bytes.get(&ChunkId(index as u32)).copied());
            if counted != found.unwrap_or(0) {
                report.fault(|| format!("{counted} bytes of chunk {index} are counted as dead, {found:?} are"));
            }
        }
        Ok(())
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

    /// A shelf names blocks of a chunk in use, which nothing else names and whose records say that they are dead.
    async fn verify_shelves(&mut self, walk: &mut Walk) -> Result<(), CacheError> {
        for class in Class::all() {
            for (index, word) in self.shelves(class).await?.into_iter().enumerate().filter(|(_, word)| *word != 0) {
                let name = format!("shelf {index} of class {}", class.code());
                let Some(shelf) = self.sound_shelf(class, word) else {
                    walk.report.fault(|| format!("{name} is damaged"));
                    continue;
                };
                let descriptor = walk.states[shelf.chunk.0 as usize];
                let is_in_use = descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
                if !is_in_use || descriptor.contents != u64::from(class.code()) {
                    walk.report.fault(|| format!("{name} names chunk {} that is none ({descriptor:?})", shelf.chunk.0));
                    continue;
                }
                let lying = self.blocks(shelf.chunk).await?.lying;
                for (number, lying) in lying.iter().enumerate().skip(shelf.next.into()) {
                    let block = self.block_of(shelf.chunk, class, number);
                    if let Some(other) = walk.named.insert(block, u64::MAX) {
                        walk.report.fault(|| format!("{name} and slot {other} name the same block"));
                    }
                    if lying.tag() != Some(shelf.tag) {
                        walk.report.fault(|| format!("{name} names a block whose record does not tell it"));
                    }
                    walk.report.dead_blocks += 1;
                }
            }
        }
        Ok(())
    }

    /// Every block of chunks in use is named by a slot, a shelf or a cell.
    async fn verify_blocks(&mut self, walk: &mut Walk) -> Result<(), CacheError> {
        let places = registry::places(&self.endpoint, &self.shared.pool).await?;
        let cells = self.all_cells().await?;
        let mut in_hands = HashMap::new();
        for (index, word) in cells.iter().enumerate() {
            let Some(cell) = Cell::from_word(*word) else { continue };
            let client = (index / CELLS) as u32;
            if !places.iter().any(|place| place.incarnation.slot == client && place.state.is_alive()) {
                walk.report.fault(|| format!("a cell of client {client}, who is not there, names {:?}", cell.block));
            }
            in_hands.insert(cell.block, client);
        }
        let chunk_bytes = self.shared.pool.layout.chunk_bytes;
        let Walk { report, states, named, .. } = walk;
        for (index, descriptor) in states.iter().enumerate() {
            if descriptor.chunk.is_none_or(|chunk| chunk.state != ChunkState::Queued) {
                continue;
            }
            let Some(class) = u8::try_from(descriptor.contents).ok().and_then(Class::from_code) else {
                report.fault(|| format!("chunk {index} is in use and has no class"));
                continue;
            };
            for number in 0..class.blocks(chunk_bytes) {
                let block = Block::at(index as u64 * chunk_bytes + number * class.bytes());
                if !named.contains_key(&block) && !in_hands.contains_key(&block) {
                    report.fault(|| format!("nobody has block {number} of chunk {index} ({block:?})"));
                }
            }
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
        if let Some(other) = walk.named.insert(word.block(), slot) {
            walk.report.fault(|| format!("slots {other} and {slot} name the same block"));
        }
        let class = word.class(self.shared.settings.large_class);
        let descriptor = walk.states[chunk.0 as usize];
        let (_, within) = self.shared.pool.layout.divide(word.block().heap_offset());
        let is_of_chunk = descriptor.contents == u64::from(class.code())
            && within.is_multiple_of(class.bytes())
            && descriptor.chunk.is_some_and(|chunk| {
                matches!(chunk.state, ChunkState::Open | ChunkState::Queued | ChunkState::Leaving)
            });
        if !is_of_chunk {
            walk.report
                .fault(|| format!("slot {slot} names a block of chunk {} that is none ({descriptor:?})", chunk.0));
        }
        let mut buffer = std::mem::take(&mut self.record);
        buffer.resize(bytes);
        let mut record = self.endpoint.read(at, buffer).await?;
        let bucket = (slot / BUCKET_SLOTS as u64) as u32;
        if word.is_dead() {
            walk.report.dead_blocks += 1;
            *walk.dead_bytes.entry(chunk).or_default() += class.bytes();
            let lying = self.lying(&mut record, 0, bytes);
            if (lying.bucket(), lying.tag()) != (Some(bucket), Some(word.tag())) {
                walk.report.fault(|| format!("slot {slot} names a dead block whose record does not tell it"));
            }
            self.record = record;
            return Ok(());
        }
        let judged = self.judge(word, &mut record).map(|record| (record.header, record.large(), record.key.to_vec()));
        self.record = record;
        let Some((header, large, mut key)) = judged else {
            walk.report.fault(|| format!("slot {slot} points to no record of its own"));
            return Ok(());
        };
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
        if hash.bucket != bucket || hash.fingerprint != word.fingerprint() {
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

impl ObjectsPool {
    /// What the pool was made with, for whoever prints it.
    pub fn describe_settings(&self) -> Vec<(&'static str, String)> {
        let (pool, objects) = (&self.pool.settings, &self.settings);
        vec![
            ("capacity_bytes", self.pool.capacity_bytes().to_string()),
            ("growth_bytes_max", pool.growth_bytes_max.to_string()),
            ("nodes", self.pool.layout.nodes_known().to_string()),
            ("nodes_max", pool.nodes_max.to_string()),
            ("chunk_bytes", pool.chunk_bytes.to_string()),
            ("chunks", self.pool.layout.chunks().to_string()),
            ("clients_max", pool.clients_max.to_string()),
            ("objects_max", pool.objects_max.to_string()),
            ("index_slots", (u64::from(objects.buckets) * BUCKET_SLOTS as u64).to_string()),
            ("extension_bytes", objects.extension_bytes.to_string()),
        ]
    }
}
