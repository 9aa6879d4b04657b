//! FORGE as one of the engines whose caches live in a pool.

use super::{Forge, ForgePool};
use crate::CacheError;
use crate::audit::Audit;
use crate::pooled::Pooled;
use atoll_fabric::{Address, Endpoint};
use atoll_pool::{Client, Pool, PoolError, PoolSettings, Repaired};
use std::sync::Arc;

impl<E: Endpoint> Pooled<E> for Forge<E> {
    type Shared = ForgePool;

    async fn format(endpoint: &E, settings: PoolSettings) -> Result<Arc<ForgePool>, PoolError> {
        ForgePool::format(endpoint, settings).await
    }

    async fn open(endpoint: &E, home_bytes: u64) -> Result<Arc<ForgePool>, PoolError> {
        ForgePool::open(endpoint, home_bytes).await
    }

    async fn join(shared: &Arc<ForgePool>, endpoint: E) -> Result<Self, PoolError> {
        Self::join(shared, endpoint).await
    }

    fn auditor(shared: &Arc<ForgePool>, endpoint: E) -> Result<Self, PoolError> {
        Ok(Self::auditor(shared, endpoint))
    }

    fn pool_of(shared: &ForgePool) -> &Pool {
        shared.pool()
    }

    fn describe(shared: &ForgePool, at: Address) -> Option<String> {
        shared.layout.describe(at).or_else(|| shared.pool.layout.describe(at))
    }

    fn shared(&self) -> &Arc<ForgePool> {
        self.pool()
    }

    fn client(&self) -> &Client<E> {
        &self.client
    }

    async fn leave(&self) -> Result<(), CacheError> {
        Self::leave(self).await
    }

    async fn repair(&self) -> Result<Repaired, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        atoll_pool::repair::repair(self).await
    }

    async fn verify(&self) -> Result<Audit, CacheError> {
        self.audit().await
    }

    async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        Self::retire_chunks(self, most).await
    }

    async fn restore_chunk(&self) -> Result<bool, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        Ok(self.client.restore().await?)
    }
}
