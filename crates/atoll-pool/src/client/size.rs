//! How a client makes the pool larger and smaller: memory nodes, and chunks out of use.

use super::Client;
use crate::nodes::{self, Claim};
use crate::retirement;
use crate::{ChunkId, PoolError};
use atoll_fabric::{Endpoint, VerbError};

impl<E: Endpoint> Client<E> {
    /// Adds a memory node with at most this many bytes, on a fabric whose regions all exist;
    /// returns its number. On other fabrics the region is created between [`nodes::claim`] and
    /// [`Claim::prepare`].
    pub async fn grow(&self, bytes: u64) -> Result<u8, PoolError> {
        let grown = self.add_node(bytes).await;
        // The node may be ready and its chunks not counted. If this client left as usual, no client
        // would count them.
        if let Err(PoolError::Verb(error)) = &grown {
            self.note_failure(error);
        }
        grown
    }

    async fn add_node(&self, bytes: u64) -> Result<u8, PoolError> {
        let claim = nodes::claim(&self.endpoint, &self.pool, self.me(), bytes).await?;
        let identity = claim.prepare(&self.endpoint, &self.pool).await?;
        self.publish_node(&claim, identity).await?;
        Ok(claim.node)
    }

    /// Publishes the chunks of a node that this client has claimed and prepared.
    pub async fn publish_node(&self, claim: &Claim, identity: u32) -> Result<(), PoolError> {
        // Between the node's word and the count of free chunks, no client may recount.
        let was_at_rest = self.is_at_rest();
        self.as_operation(claim.publish(&self.endpoint, &self.pool, identity)).await?;
        if was_at_rest {
            self.rest().await?;
        }
        Ok(())
    }

    /// Takes a chunk out of use that this client owns as Open.
    pub async fn retire(&self, open: (ChunkId, u32)) -> Result<bool, VerbError> {
        let retired = retirement::retire(&self.endpoint, &self.pool.layout, self.me(), open).await?;
        // While another operation returns memory, the next look at the chunks finds this one.
        if let (Some(retired), Some(mut retirement)) = (retired, self.retirement.lend()) {
            retirement.note_retired(&self.endpoint, (open.0, retired));
        }
        Ok(retired.is_some())
    }

    /// Puts one chunk back into use; returns whether there was one, and memory for it.
    pub async fn restore(&self) -> Result<bool, PoolError> {
        self.learn_nodes().await?;
        let restored = retirement::restore(&self.endpoint, &self.pool.layout).await;
        Ok(restored.inspect_err(|error| self.note_failure(error))?)
    }

    /// Continues to return the memory of chunks out of use, of at most this many at a time. Returns
    /// how many are left. The caller relies on nothing that it READ before.
    pub async fn discard_retired(&self, most: usize) -> Result<u64, VerbError> {
        // Another operation of this client is doing this.
        let Some(mut retirement) = self.retirement.lend() else { return Ok(1) };
        let gone_on = retirement.go_on(&self.observer(), most).await;
        self.out_of_use.set(retirement.out_of_use(self.pool.layout.chunks()));
        gone_on.inspect_err(|error| self.note_failure(error)).map(|()| retirement.left() as u64)
    }

    /// Chunks out of use, by its last READ: see
    /// [`Retirement::out_of_use`](crate::retirement::Retirement::out_of_use).
    pub fn chunks_out_of_use(&self) -> u64 {
        self.out_of_use.get()
    }

    /// Returns memory without waiting for operations, so that a simulation shows the harm.
    #[cfg(feature = "holes")]
    pub fn discard_hastily(&self) {
        if let Some(mut retirement) = self.retirement.lend() {
            *retirement = retirement::Retirement::hasty();
        }
    }
}
