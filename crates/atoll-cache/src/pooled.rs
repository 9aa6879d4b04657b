//! What an engine has in common with others whose caches live in a pool: how it is made, joined,
//! left, repaired and verified.
//!
//! Whoever lets a user choose an engine is written once, over [`Pooled`].

use crate::audit::Audit;
use crate::{CacheError, Engine};
use atoll_fabric::{Address, Endpoint};
use atoll_pool::{Client, Pool, PoolError, PoolSettings, Repaired};
use std::sync::Arc;

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

    /// The client of the pool that this is.
    fn client(&self) -> &Client<E>;

    /// Puts everything that this client holds back into the pool and gives up its place.
    async fn leave(&self) -> Result<(), CacheError>;

    /// Looks after everybody now, and reclaims what the dead ones held.
    async fn repair(&self) -> Result<Repaired, CacheError>;

    /// Walks the pool. Nobody else may use it meanwhile, or what is under way is reported as
    /// faults.
    async fn verify(&self) -> Result<Audit, CacheError>;

    /// Makes the pool smaller by some chunks, at least one and at most `most`, evicting what is in
    /// them if none are free; nothing is moved. Gives how many. An error if all chunks are in use
    /// for what cannot be evicted.
    async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        // An engine whose memory is not its clients' to give has these.
        let _ = most;
        Err(CacheError::OutOfMemory)
    }

    /// Goes on giving back the memory of chunks that were taken out of use; how many it still
    /// waits with. Clients do this by themselves when they look after each other, a few chunks at a
    /// time. The memory of a chunk stays while an operation is under way that was so when the chunk
    /// was retired: see [`retirement`](atoll_pool::retirement).
    async fn discard_retired(&self) -> Result<u64, CacheError> {
        let client = self.client();
        Ok(client.as_operation(client.discard_retired(usize::MAX)).await?)
    }

    /// Gives one of the chunks back that were taken out of use; whether there was one, and memory
    /// for it.
    async fn restore_chunk(&self) -> Result<bool, CacheError> {
        Ok(false)
    }

    /// Adds a memory node with at most so many bytes, on a fabric whose regions are all there;
    /// gives its number.
    async fn grow(&self, bytes: u64) -> Result<u8, PoolError> {
        self.client().grow(bytes).await
    }
}
