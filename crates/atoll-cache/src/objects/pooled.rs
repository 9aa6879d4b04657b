//! The engines on the table of objects among those whose caches live in a pool.

use super::{Objects, ObjectsPool, Replacement};
use crate::CacheError;
use crate::audit::Audit;
use crate::pooled::Pooled;
use atoll_fabric::{Address, Endpoint};
use atoll_pool::{Client, Pool, PoolError, PoolSettings, Repaired};
use std::sync::Arc;

impl<E: Endpoint, R: Replacement<E>> Pooled<E> for Objects<E, R> {
    type Shared = ObjectsPool;

    async fn format(endpoint: &E, settings: PoolSettings) -> Result<Arc<ObjectsPool>, PoolError> {
        ObjectsPool::format(endpoint, settings).await
    }

    async fn open(endpoint: &E, home_bytes: u64) -> Result<Arc<ObjectsPool>, PoolError> {
        ObjectsPool::open(endpoint, home_bytes).await
    }

    async fn join(shared: &Arc<ObjectsPool>, endpoint: E) -> Result<Self, PoolError> {
        Self::join(shared, endpoint).await
    }

    fn auditor(shared: &Arc<ObjectsPool>, endpoint: E) -> Result<Self, PoolError> {
        Self::auditor(shared, endpoint)
    }

    fn pool_of(shared: &ObjectsPool) -> &Pool {
        shared.pool()
    }

    fn describe(shared: &ObjectsPool, at: Address) -> Option<String> {
        shared.layout.describe(at).or_else(|| shared.pool.layout.describe(at))
    }

    fn shared(&self) -> &Arc<ObjectsPool> {
        self.pool()
    }

    fn client(&self) -> &Client<E> {
        &self.core.client
    }

    async fn leave(&mut self) -> Result<(), CacheError> {
        self.leave().await
    }

    async fn repair(&mut self) -> Result<Repaired, CacheError> {
        self.repair().await
    }

    async fn verify(&mut self) -> Result<Audit, CacheError> {
        self.verify().await
    }

    async fn retire_chunks(&mut self, most: u64) -> Result<u64, CacheError> {
        self.retire_chunks(most).await
    }

    async fn restore_chunk(&mut self) -> Result<bool, CacheError> {
        self.begin().await?;
        let restored = self.core.client.restore().await;
        self.end(restored.map_err(CacheError::from)).await
    }
}
