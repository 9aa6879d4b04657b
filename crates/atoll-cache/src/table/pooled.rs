//! The engines on the table of objects among those whose caches live in a pool.

use super::{Objects, Replacement, TablePool};
use crate::CacheError;
use crate::audit::Audit;
use crate::pooled::Pooled;
use atoll_fabric::Endpoint;
use atoll_pool::{Client, PoolError, Repaired};
use std::sync::Arc;

impl<E: Endpoint, R: Replacement<E>> Pooled<E> for Objects<E, R> {
    type Shared = TablePool;

    async fn join(shared: &Arc<TablePool>, endpoint: E) -> Result<Self, PoolError> {
        Self::join(shared, endpoint).await
    }

    fn auditor(shared: &Arc<TablePool>, endpoint: E) -> Result<Self, PoolError> {
        Self::auditor(shared, endpoint)
    }

    fn shared(&self) -> &Arc<TablePool> {
        self.pool()
    }

    fn client(&self) -> &Client<E> {
        &self.core.client
    }

    async fn leave(&self) -> Result<(), CacheError> {
        Self::leave(self).await
    }

    async fn repair(&self) -> Result<Repaired, CacheError> {
        Self::repair(self).await
    }

    async fn verify(&self) -> Result<Audit, CacheError> {
        Self::verify(self).await
    }

    async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        Self::retire_chunks(self, most).await
    }

    async fn restore_chunk(&self) -> Result<bool, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let _turn = self.turn_to_make_room(op).await?;
        let restored = self.core.client.restore().await;
        self.end(op, restored.map_err(CacheError::from)).await
    }
}
