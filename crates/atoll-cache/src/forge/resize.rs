//! How the pool becomes smaller and larger again, chunk by chunk, while clients use it. No object
//! is moved.
//!
//! | | verbs |
//! |---|---|
//! | retire | allocate a chunk as for a large value, evicting if none is free; CAS Open -> Retired |
//! | restore | READ descriptors; provide memory; CAS -> Free; FAA free chunks |
//!
//! [`retirement`] says when the memory of a retired chunk returns to the host.

use super::Forge;
use super::operation::Operation;
use super::technique::Technique;
use crate::CacheError;
use atoll_fabric::Endpoint;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Makes the pool smaller by one chunk: see
    /// [`Pooled::retire_chunks`](crate::Pooled::retire_chunks). Several chunks together would not
    /// be emptied faster.
    pub async fn retire_chunks(&self, _most: u64) -> Result<u64, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        let retired = self.retire(op).await;
        if let Err(CacheError::Verb(error)) = &retired {
            self.client.note_failure(error);
        }
        retired
    }

    async fn retire(&self, op: &mut Operation) -> Result<u64, CacheError> {
        self.restock(op, 1).await?;
        self.queue_settled_groups().await?;
        let Some(chunk) = op.notes.chunks.pop() else { return Err(CacheError::OutOfMemory) };
        match self.client.retire(chunk).await? {
            true => Ok(1),
            false => Err(CacheError::Damaged { what: "another client changed the state of an open chunk" }),
        }
    }
}
