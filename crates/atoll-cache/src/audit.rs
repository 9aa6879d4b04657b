//! A walk over a quiet pool, and the invariants that hold for every engine:
//!
//! - Every chunk has a possible state. An Open or Leaving chunk has an owner in the registry.
//! - Every Extent belongs to exactly one live object.
//! - No key is live twice.
//! - The counts of free chunks and of objects are right, unless a client died since everything was
//!   counted.
//! - Where objects are limited, the limit holds.
//!
//! An engine adds the invariants of its own words: it begins a `Walk`, shows it every live object,
//! and ends it.

use crate::CacheError;
use crate::extent::ExtentIo;
use crate::record::{Header, LargeBody};
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::chunks::Descriptor;
use atoll_pool::registry::Roll;
use atoll_pool::{ChunkId, ChunkState, Client, chunks, read_word, registry};
use std::collections::HashMap;

/// Faults listed at most; a damaged pool has as many as it has objects.
const FAULTS_MAX: usize = 100;

/// The result of a walk over a quiet pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// The faults, in words. Empty for a sound pool.
    pub faults: Vec<String>,
    /// Live objects.
    pub objects: u64,
    /// Bytes of their keys and values.
    pub body_bytes: u64,
    /// Chunks in each state: free, open, queued (or in use), leaving, extent, bound; retired,
    /// discarding, discarded; index.
    pub chunks: [u64; ChunkState::ALL.len()],
    /// Whether the counts of objects and free chunks may be off by a few. That is so if a client
    /// has died since everything was counted, and no client has been alone since.
    pub counts_estimated: bool,
}

impl Audit {
    /// Notes a fault, unless enough are noted.
    pub fn fault(&mut self, what: impl FnOnce() -> String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(what());
        }
    }
}

/// A walk under way.
pub(crate) struct Walk {
    pub(crate) audit: Audit,
    /// All chunks, READ at the start of the walk.
    pub(crate) descriptors: Vec<Descriptor>,
    /// The slot of the object that has an extent.
    extent_slots: HashMap<ChunkId, u64>,
    /// The slot of every live key.
    keys: HashMap<Vec<u8>, u64>,
}

impl Walk {
    /// Begins a walk with the chunks' descriptors.
    pub(crate) async fn begin<E: Endpoint>(client: &Client<E>) -> Result<Self, CacheError> {
        client.learn_absent().await?;
        client.endpoint.flush().await?;
        let descriptors = client.all_descriptors().await?;
        let (deaths, counted) = client.deaths().await?;
        let audit = Audit { counts_estimated: deaths != counted, ..Audit::default() };
        let mut walk = Self { audit, descriptors, extent_slots: HashMap::new(), keys: HashMap::new() };
        walk.visit_chunks(client).await?;
        Ok(walk)
    }

    async fn visit_chunks<E: Endpoint>(&mut self, client: &Client<E>) -> Result<(), CacheError> {
        let roll = Roll::of(&registry::places(&client.endpoint, &client.pool).await?);
        let Self { audit, descriptors, .. } = self;
        for (index, descriptor) in descriptors.iter().enumerate() {
            let Some(chunk) = descriptor.chunk else {
                audit.fault(|| format!("chunk {index} has an impossible state"));
                continue;
            };
            audit.chunks[chunk.state as usize] += 1;
            let is_owned = matches!(chunk.state, ChunkState::Open | ChunkState::Leaving);
            if is_owned && !roll.has(chunk.owner_slot, chunk.owner_epoch) {
                audit.fault(|| format!("chunk {index} is {:?} and its owner is not a client", chunk.state));
            }
        }
        let free = chunks::free_chunks(&client.endpoint, &client.pool.layout).await?;
        if free != audit.chunks[0] && !audit.counts_estimated {
            let found = audit.chunks[0];
            audit.fault(|| format!("{free} chunks are counted as free, {found} are"));
        }
        Ok(())
    }

    /// Visits the extents of the large object in `slot`; returns its key, unless there is a fault.
    pub(crate) async fn visit_large<E: Endpoint>(
        &mut self,
        extents: ExtentIo<'_, E>,
        slot: u64,
        header: &Header,
        body: &LargeBody,
    ) -> Result<Option<Vec<u8>>, CacheError> {
        let Some(listed) = extents.extents(header, body).await? else {
            self.audit.fault(|| format!("slot {slot} has an object with impossible extents"));
            return Ok(None);
        };
        for extent in listed.all() {
            let chunk = self.descriptors[extent.chunk.0 as usize].chunk;
            let is_extent = chunk.is_some_and(|chunk| chunk.state.is_extent() && chunk.generation == extent.generation);
            if !is_extent || self.extent_slots.insert(extent.chunk, slot).is_some() {
                self.audit.fault(|| format!("chunk {} is not slot {slot}'s own extent", extent.chunk.0));
            }
        }
        let body = extents.read_body(header, body, Buffer::new()).await?;
        if body.is_none() {
            self.audit.fault(|| format!("slot {slot} has an object whose extents are not what was written"));
        }
        Ok(body.map(|body| body.bytes()[..header.key_bytes].to_vec()))
    }

    /// Counts the live object in `slot`.
    pub(crate) fn visit_object(&mut self, slot: u64, key: Vec<u8>, body_bytes: usize) {
        self.audit.objects += 1;
        self.audit.body_bytes += body_bytes as u64;
        if let Some(other) = self.keys.insert(key, slot) {
            self.audit.fault(|| format!("slots {other} and {slot} hold the same key"));
        }
    }

    /// Ends the walk, after every object was visited.
    pub(crate) async fn end<E: Endpoint>(mut self, client: &Client<E>) -> Result<Audit, CacheError> {
        let Self { audit, descriptors, extent_slots, .. } = &mut self;
        for (index, descriptor) in descriptors.iter().enumerate() {
            let is_extent = descriptor.chunk.is_some_and(|chunk| chunk.state.is_extent());
            if is_extent && !extent_slots.contains_key(&ChunkId(index as u32)) {
                audit.fault(|| format!("chunk {index} is an extent of no object"));
            }
        }
        let counted = registry::objects(&client.endpoint, &client.pool).await?;
        let (objects, limit) = (audit.objects, client.pool.settings.objects_max);
        if counted != objects && !audit.counts_estimated {
            audit.fault(|| format!("the registry counts {counted} objects, the index holds {objects}"));
        }
        if limit > 0 {
            let resident = read_word(&client.endpoint, client.pool.layout.resident_objects()).await?;
            if objects > limit || (resident != objects && !audit.counts_estimated) {
                audit.fault(|| format!("{objects} objects, counted as {resident}, of at most {limit}"));
            }
        }
        Ok(self.audit)
    }
}
