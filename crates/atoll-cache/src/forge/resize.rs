//! How the pool is made smaller and larger again while everybody uses it, chunk by chunk. Nothing is moved.
//!
//! | | verbs |
//! |---|---|
//! | retire | take a chunk as for a large value, evicting if none is free; CAS Open -> Retired |
//! | restore | READ descriptors; provide memory; CAS -> Free; FAA free chunks |
//!
//! When the memory of a retired chunk goes back to the host is said in [`retirement`].

use super::Forge;
use crate::CacheError;
use atoll_fabric::Endpoint;
use atoll_pool::retirement;

impl<E: Endpoint> Forge<E> {
    /// Makes the pool smaller by some chunks: see [`Pooled::retire_chunks`](crate::Pooled::retire_chunks). One at a time: none is emptied faster with others.
    pub async fn retire_chunks(&mut self, _most: u64) -> Result<u64, CacheError> {
        self.begin().await?;
        let retired = self.retire().await;
        if let Err(CacheError::Verb(error)) = &retired {
            self.note_failure(error);
        }
        retired
    }

    async fn retire(&mut self) -> Result<u64, CacheError> {
        self.restock(1).await?;
        let Some(chunk) = self.stock.pop() else { return Err(CacheError::OutOfMemory) };
        let (me, layout) = (self.me(), &self.shared.pool.layout);
        match retirement::retire(&self.endpoint, layout, me, chunk, &mut self.retirement).await? {
            true => Ok(1),
            false => Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" }),
        }
    }

    /// Goes on giving back the memory of retired chunks: see
    /// [`Pooled::discard_retired`](crate::Pooled::discard_retired).
    pub async fn discard_retired(&mut self) -> Result<u64, CacheError> {
        let me = self.me();
        let gone_on = self.retirement.go_on(&self.endpoint, &self.shared.pool, me, usize::MAX).await;
        if let Err(error) = &gone_on {
            self.note_failure(error);
        }
        gone_on?;
        Ok(self.retirement.left() as u64)
    }

    /// Gives a retired chunk back: see [`Pooled::restore_chunk`](crate::Pooled::restore_chunk).
    pub async fn restore_chunk(&mut self) -> Result<bool, CacheError> {
        self.begin().await?;
        self.learn_nodes().await?;
        let restored = retirement::restore(&self.endpoint, &self.shared.pool.layout).await;
        if let Err(error) = &restored {
            self.note_failure(error);
        }
        Ok(restored?)
    }
}
