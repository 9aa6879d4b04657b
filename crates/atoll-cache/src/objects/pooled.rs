//! The engines on the table of objects among those whose caches live in a pool.

use super::{Objects, ObjectsPool, Replacement};
use crate::CacheError;
use crate::pooled::{Audit, Mended, Pooled};
use atoll_fabric::{Address, Endpoint};
use atoll_pool::registry::Times;
use atoll_pool::{Incarnation, Pool, PoolError, PoolSettings};
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

    fn endpoint(&self) -> &E {
        self.endpoint()
    }

    fn me(&self) -> Incarnation {
        self.me()
    }

    fn set_times(&mut self, times: Times) {
        self.set_times(times);
    }

    async fn leave(&mut self) -> Result<(), CacheError> {
        self.leave().await
    }

    async fn repair(&mut self) -> Result<Mended, CacheError> {
        let repaired = self.repair().await?;
        let chunks = repaired.chunks + repaired.extents;
        Ok(Mended { clients: repaired.clients, chunks, recounted: repaired.recounted })
    }

    async fn verify(&mut self) -> Result<Audit, CacheError> {
        let report = self.verify().await?;
        Ok(Audit {
            faults: report.faults,
            objects: report.objects,
            body_bytes: report.body_bytes,
            chunks: report.chunks,
            counts_estimated: report.counts_estimated,
        })
    }

    async fn retire_chunks(&mut self, most: u64) -> Result<u64, CacheError> {
        self.retire_chunks(most).await
    }

    async fn discard_retired(&mut self) -> Result<u64, CacheError> {
        self.discard_retired().await
    }

    async fn restore_chunk(&mut self) -> Result<bool, CacheError> {
        self.restore_chunk().await
    }

    async fn grow(&mut self, bytes: u64) -> Result<u8, PoolError> {
        self.grow(bytes).await
    }
}
