//! How the pool is made smaller and larger again while everybody uses it, chunk by chunk. Nothing is moved.
//!
//! | | verbs |
//! |---|---|
//! | retire | take a chunk as for a large value, evicting if none is free; CAS Open -> Retired |
//! | restore | READ descriptors; CAS Retired -> Open; CAS Open -> Free; FAA free chunks |
//!
//! In between the chunk is this client's alone, so that its memory can be given back to the host, or be had from it again. A client that dies there has an Open
//! chunk, which a repair frees: then the pool is larger by that one.

use super::Objects;
use super::replacement::Replacement;
use crate::CacheError;
use atoll_fabric::{Address, Endpoint};
use atoll_pool::chunks;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes the pool smaller by one chunk: see [`Pooled::retire_chunk`](crate::Pooled::retire_chunk).
    pub async fn retire_chunk(&mut self, discard: impl FnOnce(Address, u64)) -> Result<(), CacheError> {
        self.begin().await?;
        let retired = self.retire(discard).await;
        self.end(retired).await
    }

    async fn retire(&mut self, discard: impl FnOnce(Address, u64)) -> Result<(), CacheError> {
        if !self.core.stock.has_cell() {
            self.core.give_back_beyond(0).await?;
        }
        self.core.drains_more = 0;
        self.obtain_chunks(1).await?;
        let (me, core) = (self.core.me(), &mut self.core);
        let Some(fresh) = core.chunks.pop() else { return Ok(()) };
        let (layout, chunk) = (&core.shared.pool.layout, (fresh.chunk, fresh.generation));
        match chunks::retire(&core.endpoint, layout, me, chunk, discard).await? {
            true => Ok(()),
            false => Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" }),
        }
    }

    /// Gives a retired chunk back: see [`Pooled::restore_chunk`](crate::Pooled::restore_chunk).
    pub async fn restore_chunk(&mut self, reserve: impl FnOnce(Address, u64) -> bool) -> Result<bool, CacheError> {
        self.begin().await?;
        self.core.learn_nodes().await?;
        let core = &self.core;
        let restored = chunks::restore(&core.endpoint, &core.shared.pool.layout, core.me(), reserve).await;
        self.end(restored.map_err(CacheError::Verb)).await
    }
}
