//! FORGE as one of the engines whose caches live in a pool.

use super::technique::Technique;
use super::{Forge, ForgePoolWith};
use crate::audit::Audit;
use crate::pooled::Pooled;
use crate::{Ahead, CacheError};
use atoll_fabric::Endpoint;
use atoll_pool::{Client, PoolError, Repaired};
use std::sync::Arc;

impl<E: Endpoint, T: Technique<E>> Pooled<E> for Forge<E, T> {
    type Shared = ForgePoolWith<T::Annex>;

    async fn join(shared: &Arc<ForgePoolWith<T::Annex>>, endpoint: E) -> Result<Self, PoolError> {
        Self::join(shared, endpoint).await
    }

    fn auditor(shared: &Arc<ForgePoolWith<T::Annex>>, endpoint: E) -> Result<Self, PoolError> {
        Ok(Self::auditor(shared, endpoint))
    }

    fn shared(&self) -> &Arc<ForgePoolWith<T::Annex>> {
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

    async fn evict_ahead(&self) -> Result<Ahead, CacheError> {
        Self::evict_ahead(self).await
    }

    async fn restore_chunk(&self) -> Result<bool, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        Ok(self.client.restore().await?)
    }
}
