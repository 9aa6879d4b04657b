//! What an engine has in common with others whose caches live in a pool: how it is made, joined, left, repaired and verified.
//!
//! Whoever lets a user choose an engine is written once, over [`Pooled`].

use crate::{CacheError, Engine};
use atoll_fabric::{Address, Endpoint};
use atoll_pool::chunks::CHUNK_STATES;
use atoll_pool::registry::Times;
use atoll_pool::{Incarnation, Pool, PoolError, PoolSettings};
use std::sync::Arc;

/// What came back from clients that died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Clients that were shut out.
    pub clients: u64,
    /// Chunks that they had held, large objects' among them.
    pub chunks: u64,
    /// Whether everything was counted anew.
    pub recounted: bool,
}

impl std::ops::AddAssign for Mended {
    fn add_assign(&mut self, more: Self) {
        self.clients += more.clients;
        self.chunks += more.chunks;
        self.recounted |= more.recounted;
    }
}

/// What a walk over a quiet pool found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// What is wrong, in words. Empty for a sound pool.
    pub faults: Vec<String>,
    /// Live objects.
    pub objects: u64,
    /// Bytes of their keys and values.
    pub body_bytes: u64,
    /// Chunks in each state: free, open, queued (or in use), leaving, extent, bound; retired,
    /// discarding, discarded.
    pub chunks: [u64; CHUNK_STATES],
    /// Whether the counts of objects and free chunks may be off by a few, because a client has died since everything was counted and nobody has
    /// been alone since.
    pub counts_estimated: bool,
}

/// An engine whose cache lives in a pool, as one client uses it.
#[allow(async_fn_in_trait)]
pub trait Pooled<E: Endpoint>: Engine + Sized {
    /// The pool as one process has it open.
    type Shared: 'static;

    /// Formats all-zero regions, which the endpoint reaches.
    async fn format(endpoint: &E, settings: PoolSettings) -> Result<Arc<Self::Shared>, PoolError>;

    /// Opens a pool that somebody formatted. `home_bytes` is the size of node 0's region.
    async fn open(endpoint: &E, home_bytes: u64) -> Result<Arc<Self::Shared>, PoolError>;

    /// Joins as a new client.
    async fn join(shared: &Arc<Self::Shared>, endpoint: E) -> Result<Self, PoolError>;

    /// One that only looks, without a place in the pool: for [`Pooled::verify`].
    fn auditor(shared: &Arc<Self::Shared>, endpoint: E) -> Result<Self, PoolError>;

    /// The pool behind it.
    fn pool_of(shared: &Self::Shared) -> &Pool;

    /// What is at an address, for whoever follows a trace.
    fn describe(shared: &Self::Shared, at: Address) -> Option<String>;

    /// The pool, as this client's process has it open.
    fn shared(&self) -> &Arc<Self::Shared>;

    /// The client's endpoint.
    fn endpoint(&self) -> &E;

    /// Who this client is in the pool.
    fn me(&self) -> Incarnation;

    /// Sets how often this client looks after the others, and how long one may stand still.
    fn set_times(&mut self, times: Times);

    /// Puts everything that this client holds back into the pool and gives up its place.
    async fn leave(&mut self) -> Result<(), CacheError>;

    /// Looks after everybody now, and reclaims what the dead ones held.
    async fn repair(&mut self) -> Result<Mended, CacheError>;

    /// Walks the pool. Nobody else may use it meanwhile, or what is under way is reported as faults.
    async fn verify(&mut self) -> Result<Audit, CacheError>;

    /// Makes the pool smaller by some chunks, at least one and at most `most`, evicting what is in
    /// them if none are free; nothing is moved. Gives how many. An error if all chunks are in use
    /// for what cannot be evicted.
    async fn retire_chunks(&mut self, most: u64) -> Result<u64, CacheError> {
        // An engine whose memory is not its clients' to give has these.
        let _ = most;
        Err(CacheError::OutOfMemory)
    }

    /// Goes on giving back the memory of chunks that were taken out of use; how many it still
    /// waits with. Clients do this by themselves when they look after each other, a few chunks at a
    /// time. The memory of a chunk stays while an operation is under way that was so when the chunk
    /// was retired: see [`retirement`](atoll_pool::retirement).
    async fn discard_retired(&mut self) -> Result<u64, CacheError> {
        Ok(0)
    }

    /// Gives one of the chunks back that were taken out of use; whether there was one, and memory
    /// for it.
    async fn restore_chunk(&mut self) -> Result<bool, CacheError> {
        Ok(false)
    }

    /// Adds a memory node with at most so many bytes, on a fabric whose regions are all there; gives its number.
    async fn grow(&mut self, bytes: u64) -> Result<u8, PoolError>;
}
