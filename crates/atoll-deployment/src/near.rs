//! A pool as the library opens it for programs, with a near cache.
//!
//! All clients of a process use its near cache, so the threads share the pool. A client that
//! joins after memory was lost joins the pool that is there then, as in a program.

use crate::DeploymentError;
use crate::client::Client;
use crate::memory::{fabric_of, name_of};
use crate::plan::Plan;
use crate::pooled::number_of;
use atoll::Pool;
use atoll::fabric::PoolFabric;
use atoll_cache::Cache;
use atoll_fabric::Endpoint;
use atoll_fabric::shm::ShmFabric;

/// The pool of a plan, and the near cache that this process uses on it.
pub struct NearPool(Box<dyn Joining>);

impl NearPool {
    /// Opens the pool that another process made, with a near cache of at most so many bytes.
    pub fn open(plan: &Plan, bytes: u64) -> Result<Self, DeploymentError> {
        if plan.is_over_network() {
            return Self::on(&fabric_of(plan)?, bytes);
        }
        Self::on(&ShmFabric::named(name_of(plan)?)?, bytes)
    }

    fn on<F: PoolFabric>(fabric: &F, bytes: u64) -> Result<Self, DeploymentError> {
        let pool = Pool::open_on(fabric)?;
        pool.near(bytes)?;
        Ok(Self(Box::new(pool)))
    }

    /// Another client, for the calling thread.
    pub fn client(&self) -> Result<Cache<Client>, DeploymentError> {
        self.0.join()
    }
}

/// A pool over any fabric.
trait Joining: Send + Sync {
    fn join(&self) -> Result<Cache<Client>, DeploymentError>;
}

impl<F: PoolFabric> Joining for Pool<F> {
    fn join(&self) -> Result<Cache<Client>, DeploymentError> {
        let engine = self.client()?.into_operations().into_engine();
        let number = number_of(engine.client().me());
        Ok(Cache::new(Client::new(engine, number, |engine| engine.client().endpoint.wait())))
    }
}
