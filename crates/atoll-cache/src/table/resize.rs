//! How the pool becomes smaller and larger again, chunk by chunk, while clients use it.
//!
//! | | verbs |
//! |---|---|
//! | retire | allocate chunks as for a large value: objects move while much of the memory is dead (see `gather`), else they are evicted; CAS Open -> Retired |
//! | restore | READ descriptors; provide memory; CAS -> Free; FAA free chunks |
//!
//! [`retirement`] says when the memory of a retired chunk returns to the host.

use super::Objects;
use super::drain::DRAINS_MAX;
use super::gather::GATHERS_MAX;
use super::operation::Operation;
use super::replacement::Replacement;
use crate::CacheError;
use atoll_fabric::Endpoint;

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Makes the pool smaller by as many chunks as are emptied together: see
    /// [`Pooled::retire_chunks`](crate::Pooled::retire_chunks).
    pub async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let _turn = self.turn_to_make_room(op).await?;
        let retired = self.retire(op, most.clamp(1, DRAINS_MAX as u64)).await;
        self.end(op, retired).await
    }

    async fn retire(&self, op: &mut Operation, most: u64) -> Result<u64, CacheError> {
        self.free_a_cell(op).await?;
        self.core.drains.more.set(0);
        op.notes.gathers_left = GATHERS_MAX.saturating_mul(most as u32);
        match self.obtain_chunks(op, most as usize).await {
            // Fewer chunks than were wanted count as success.
            Err(CacheError::OutOfMemory) if !self.core.fresh.chunks.is_empty() => {}
            obtained => obtained?,
        }
        let core = &self.core;
        let mut retired = 0;
        while retired < most {
            let fresh = core.fresh.chunks.pop();
            let Some(fresh) = fresh else { break };
            if !core.client.retire(fresh).await? {
                return Err(CacheError::Damaged { what: "another client changed the state of an open chunk" });
            }
            retired += 1;
        }
        Ok(retired)
    }
}
