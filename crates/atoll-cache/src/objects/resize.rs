//! How the pool is made smaller and larger again while everybody uses it, chunk by chunk. Nothing is moved.
//!
//! | | verbs |
//! |---|---|
//! | retire | take chunks as for a large value, evicting if none are free; CAS Open -> Retired |
//! | restore | READ descriptors; CAS Retired -> Open; CAS Open -> Free; FAA free chunks |
//!
//! In between the chunk is this client's alone, so that its memory can be given back to the host, or be had from it again. A client that dies there has an Open
//! chunk, which a repair frees: then the pool is larger by that one.

use super::Objects;
use super::drain::DRAINS_MAX;
use super::replacement::Replacement;
use crate::CacheError;
use atoll_fabric::{Address, Endpoint};
use atoll_pool::chunks;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes the pool smaller by some chunks: see [`Pooled::retire_chunks`](crate::Pooled::retire_chunks). As many at a time as are emptied together.
    pub async fn retire_chunks(&mut self, most: u64, discard: impl FnMut(Address, u64)) -> Result<u64, CacheError> {
        self.begin().await?;
        let retired = self.retire(most.clamp(1, DRAINS_MAX as u64), discard).await;
        self.end(retired).await
    }

    async fn retire(&mut self, most: u64, mut discard: impl FnMut(Address, u64)) -> Result<u64, CacheError> {
        self.free_a_cell().await?;
        self.core.drains_more = 0;
        match self.obtain_chunks(most as usize).await {
            // Fewer than were wanted are some.
            Err(CacheError::OutOfMemory) if !self.core.chunks.is_empty() => {}
            obtained => obtained?,
        }
        let (me, core) = (self.core.me(), &mut self.core);
        let mut retired = 0;
        while retired < most
            && let Some(fresh) = core.chunks.pop()
        {
            let (layout, chunk) = (&core.shared.pool.layout, (fresh.chunk, fresh.generation));
            if !chunks::retire(&core.endpoint, layout, me, chunk, &mut discard).await? {
                return Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" });
            }
            retired += 1;
        }
        Ok(retired)
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
