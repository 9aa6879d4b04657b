//! How the pool is made smaller and larger again while everybody uses it, chunk by chunk. Nothing is moved.
//!
//! | | verbs |
//! |---|---|
//! | retire | take a chunk as for a large value, evicting if none is free; CAS Open -> Retired |
//! | restore | READ descriptors; CAS Retired -> Open; CAS Open -> Free; FAA free chunks |
//!
//! In between the chunk is this client's alone, so that its memory can be given back to the host, or be had from it again. A client that dies there has an Open
//! chunk, which a repair frees: then the pool is larger by that one.

use super::Forge;
use crate::CacheError;
use atoll_fabric::{Address, Endpoint};
use atoll_pool::chunks;

impl<E: Endpoint> Forge<E> {
    /// Makes the pool smaller by some chunks: see [`Pooled::retire_chunks`](crate::Pooled::retire_chunks). One at a time: none is emptied faster with others.
    pub async fn retire_chunks(&mut self, _most: u64, discard: impl FnMut(Address, u64)) -> Result<u64, CacheError> {
        self.begin().await?;
        let retired = self.retire(discard).await;
        if let Err(CacheError::Verb(error)) = &retired {
            self.note_failure(error);
        }
        retired
    }

    async fn retire(&mut self, discard: impl FnMut(Address, u64)) -> Result<u64, CacheError> {
        self.restock(1).await?;
        let Some(chunk) = self.stock.pop() else { return Err(CacheError::OutOfMemory) };
        match chunks::retire(&self.endpoint, &self.shared.pool.layout, self.me(), chunk, discard).await? {
            true => Ok(1),
            false => Err(CacheError::Damaged { what: "somebody else changed the state of an open chunk" }),
        }
    }

    /// Gives a retired chunk back: see [`Pooled::restore_chunk`](crate::Pooled::restore_chunk).
    pub async fn restore_chunk(&mut self, reserve: impl FnOnce(Address, u64) -> bool) -> Result<bool, CacheError> {
        self.begin().await?;
        self.learn_nodes().await?;
        let restored = chunks::restore(&self.endpoint, &self.shared.pool.layout, self.me(), reserve).await;
        if let Err(error) = &restored {
            self.note_failure(error);
        }
        Ok(restored?)
    }
}
