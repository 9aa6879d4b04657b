//! Caches of any engine on real memory, for experiments: how one is made, opened by another
//! process, and given clients.
//!
//! An engine takes part in every experiment by its descriptor in the list of
//! [`engines`]. Nothing here names an engine.
//!
//! Above this crate no experiment is generic over engines or memories: it has a [`Deployment`] and
//! its [`Client`]s, whatever is below. So every engine is compiled once for each memory, not once
//! for each experiment, nor for the tests of one. An operation pays one indirect call for it.
//!
//! | module | concept |
//! |---|---|
//! | `plan` | the cache that an experiment wants, and what an engine does for it |
//! | `name` | the engines, as users name them |
//! | `pooled` | an engine in a pool |
//! | `memory` | the memory of that pool: this host's, or a memory node's |
//! | `exact` | a policy in ordinary memory |
//! | [`mod@reference`] | the exact policies |
//! | `near` | a pool as programs open it, with a near cache |
//! | `client` | a client of any of them |
//! | `ahead` | a client whose process has an evictor |
//! | [`reviewed`] | a change around another change |
//! | [`random`] | seeded random words |
//! | `error` | why a cache could not be had |
#![forbid(unsafe_code)]

mod ahead;
mod client;
mod error;
mod exact;
mod memory;
mod name;
mod near;
mod plan;
mod pooled;
pub mod random;
pub mod reference;
pub mod reviewed;

pub use client::Client;
pub use error::DeploymentError;
pub use name::EngineName;
pub use near::NearPool;
pub use plan::{AuditSummary, Bound, Deployment, Plan, PoolClock};

use atoll_baselines::engines;
use atoll_cache::engines::{self as served, EngineKind, KindVisitor};
use atoll_fabric::Clock;
use atoll_fabric::shm::ShmRegion;
use atoll_fabric::tcp::TcpReach;
use exact::ReferenceCache;
use memory::PoolMemory;
use name::PooledName;
use plan::Made;
use pooled::PooledCache;
use std::marker::PhantomData;
use std::sync::Arc;

impl Plan {
    /// Makes an empty cache. `clock` is the clock of all its clients in this process.
    pub fn create(&self, clock: &Clock) -> Result<Box<dyn Deployment>, DeploymentError> {
        (Way::of(self)?.create)(self, clock)
    }

    /// Opens the named cache that another process made.
    pub fn open(&self, clock: &Clock) -> Result<Box<dyn Deployment>, DeploymentError> {
        (Way::of(self)?.open)(self, clock)
    }

    /// Removes the cache's name. Its memory is freed when the last process that has it open closes
    /// it.
    pub fn remove(&self) -> Result<(), DeploymentError> {
        (Way::of(self)?.remove)(self)
    }
}

type Had = Result<Box<dyn Deployment>, DeploymentError>;

/// How the caches of one engine on one memory are had.
struct Way {
    create: fn(&Plan, &Clock) -> Had,
    open: fn(&Plan, &Clock) -> Had,
    remove: fn(&Plan) -> Result<(), DeploymentError>,
}

impl Way {
    /// That of a plan. Over a network only the engines that serve are there.
    fn of(plan: &Plan) -> Result<Self, DeploymentError> {
        let EngineName::Pooled(name) = &plan.engine else { return Ok(Self::to::<ReferenceCache>()) };
        if plan.is_over_network() {
            let refused = || DeploymentError::Plan(format!("{} runs on shared memory alone", plan.engine));
            return served::visit(&mut OfKind::<TcpReach> { name, memory: PhantomData }).ok_or_else(refused);
        }
        let found = engines::visit(&mut OfKind::<Arc<ShmRegion>> { name, memory: PhantomData });
        Ok(found.expect("every name was found in the list"))
    }

    fn to<D: Made>() -> Self {
        Self {
            create: |plan, clock| Ok(Box::new(D::create(plan, clock)?)),
            open: |plan, clock| Ok(Box::new(D::open(plan, clock)?)),
            remove: D::remove,
        }
    }
}

/// Finds the kind that a name is of.
struct OfKind<'n, M> {
    name: &'n PooledName,
    memory: PhantomData<M>,
}

impl<M: PoolMemory + 'static> KindVisitor for OfKind<'_, M> {
    type Output = Way;

    fn visit<K: EngineKind + 'static>(&mut self) -> Option<Way> {
        self.name.options::<K>().map(|_| Way::to::<PooledCache<K, M>>())
    }
}
