//! How the pool is made smaller and larger again while everybody uses it, chunk by chunk.
//!
//! | | verbs |
//! |---|---|
//! | retire | take chunks as for a large value: objects move while much of the memory is dead (see `gather`), else they are evicted; CAS Open -> Retired |
//! | restore | READ descriptors; provide memory; CAS -> Free; FAA free chunks |
//!
//! When the memory of a retired chunk goes back to the host is said in [`retirement`].

use super::Objects;
use super::drain::DRAINS_MAX;
use super::gather::GATHERS_MAX;
use super::replacement::Replacement;
use crate::CacheError;
use atoll_fabric::Endpoint;
use atoll_pool::retirement;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes the pool smaller by some chunks: see [`Pooled::retire_chunks`](crate::Pooled::retire_chunks). As many at a time as are emptied together.
    pub async fn retire_chunks(&mut self, most: u64) -> Result<u64, CacheError> {
        self.begin().await?;
        let retired = self.retire(most.clamp(1, DRAINS_MAX as u64)).await;
        self.end(retired).await
    }

    async fn retire(&mut self, most: u64) -> Result<u64, CacheError> {
        self.free_a_cell().await?;
        self.core.drains_more = 0;
        self.core.gathers_left = GATHERS_MAX.saturating_mul(most as u32);
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
            if !retirement::retire(&core.endpoint, layout, me, chunk, &mut core.retirement).await? {
                return Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" });
            }
            retired += 1;
        }
        Ok(retired)
    }

    /// Goes on giving back the memory of retired chunks: see
    /// [`Pooled::discard_retired`](crate::Pooled::discard_retired).
    pub async fn discard_retired(&mut self) -> Result<u64, CacheError> {
        let me = self.core.me();
        let core = &mut self.core;
        let gone_on = core.retirement.go_on(&core.endpoint, &core.shared.pool, me, usize::MAX).await;
        let left = core.retirement.left() as u64;
        self.noted(gone_on.map(|()| left).map_err(CacheError::Verb))
    }

    /// Gives a retired chunk back: see [`Pooled::restore_chunk`](crate::Pooled::restore_chunk).
    pub async fn restore_chunk(&mut self) -> Result<bool, CacheError> {
        self.begin().await?;
        self.core.learn_nodes().await?;
        let core = &self.core;
        let restored = retirement::restore(&core.endpoint, &core.shared.pool.layout).await;
        self.end(restored.map_err(CacheError::Verb)).await
    }
}
