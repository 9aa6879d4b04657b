//! The engine among those whose caches live in a pool.

use super::{CliqueMap, CliqueMapPool};
use atoll_cache::CacheError;
use atoll_cache::audit::Audit;
use atoll_cache::pooled::Pooled;
use atoll_fabric::{Endpoint, Messenger};
use atoll_pool::registry;
use atoll_pool::{Client, PlaceState, PoolError, Repaired};
use std::sync::Arc;

impl<E: Endpoint + Messenger> Pooled<E> for CliqueMap<E> {
    type Shared = CliqueMapPool;

    /// Needs no server.
    async fn join(shared: &Arc<CliqueMapPool>, endpoint: E) -> Result<Self, PoolError> {
        Ok(Self::new(shared, Client::join(&shared.pool, endpoint).await?))
    }

    fn auditor(shared: &Arc<CliqueMapPool>, endpoint: E) -> Result<Self, PoolError> {
        Ok(Self::new(shared, Client::auditor(&shared.pool, endpoint)))
    }

    fn shared(&self) -> &Arc<CliqueMapPool> {
        &self.shared
    }

    fn client(&self) -> &Client<E> {
        &self.client
    }

    /// Unsent accesses are lost.
    async fn leave(&self) -> Result<(), CacheError> {
        Ok(self.client.leave().await?)
    }

    /// Frees the places of clients that died. They held nothing else.
    async fn repair(&self) -> Result<Repaired, CacheError> {
        let mut clients = 0;
        for place in registry::places(&self.client.endpoint, &self.shared.pool).await? {
            clients += u64::from(registry::fence_dead(&self.client.endpoint, &self.shared.pool, &place).await?);
        }
        for place in registry::places(&self.client.endpoint, &self.shared.pool).await? {
            if place.state == PlaceState::Fenced {
                registry::free(&self.client.endpoint, &self.shared.pool, &place).await?;
            }
        }
        self.client.count_upkeep(|upkeep| upkeep.clients_fenced += clients);
        Ok(Repaired { clients, ..Repaired::default() })
    }

    async fn verify(&self) -> Result<Audit, CacheError> {
        self.session.lent().await.audit().await
    }

    /// Never: the server owns the memory of its own node alone.
    async fn grow(&self, bytes: u64) -> Result<u8, PoolError> {
        let why = "the memory node's processor reaches its own memory alone".to_owned();
        Err(PoolError::Growth { wanted_bytes: bytes, why })
    }
}
