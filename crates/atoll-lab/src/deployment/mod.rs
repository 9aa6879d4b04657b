//! Where the lab meets an engine on real memory: how a cache is made, opened by another process,
//! and given clients.
//!
//! An engine takes part in every experiment by its descriptor in the list of
//! [`engines`]. Nothing here names an engine.
//!
//! | module | concept |
//! |---|---|
//! | `plan` | the cache that an experiment wants, and what an engine does for it |
//! | `name` | the engines, as users name them |
//! | `pooled` | an engine in a pool |
//! | `memory` | the memory of that pool: this host's, or a memory node's |
//! | `reference` | a policy in ordinary memory |

mod memory;
mod name;
mod plan;
mod pooled;
mod reference;

pub use name::EngineName;
pub use plan::{AuditSummary, Bound, Deployment, Plan};

use crate::LabError;
use atoll_baselines::engines;
use atoll_cache::engines::{EngineKind, KindVisitor};
use atoll_fabric::shm::ShmRegion;
use atoll_fabric::tcp::TcpReach;
use memory::PoolMemory;
use name::PooledName;
use pooled::PooledCache;
use reference::ReferenceCache;
use std::marker::PhantomData;
use std::sync::Arc;

/// Something to do with the engine that a user chose.
pub trait Experiment {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<D: Deployment>(self) -> Result<Self::Output, LabError>;
}

/// Runs `experiment` with the deployment of that engine, on this host.
pub fn on_engine<E: Experiment>(engine: &EngineName, experiment: E) -> Result<E::Output, LabError> {
    match engine {
        EngineName::Pooled(name) => on_pooled::<E, Arc<ShmRegion>>(name, experiment),
        EngineName::Reference(_) | EngineName::Sampled(_) => experiment.run::<ReferenceCache>(),
    }
}

/// The same for a plan whose name may be that of a memory node.
pub fn on_plan<E: Experiment>(plan: &Plan, experiment: E) -> Result<E::Output, LabError> {
    match &plan.engine {
        EngineName::Pooled(name) if plan.is_over_network() => on_pooled::<E, TcpReach>(name, experiment),
        engine => on_engine(engine, experiment),
    }
}

fn on_pooled<E: Experiment, M: PoolMemory>(name: &PooledName, experiment: E) -> Result<E::Output, LabError> {
    struct OfKind<'n, E, M> {
        name: &'n PooledName,
        experiment: Option<E>,
        memory: PhantomData<M>,
    }
    impl<E: Experiment, M: PoolMemory> KindVisitor for OfKind<'_, E, M> {
        type Output = Result<E::Output, LabError>;

        fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output> {
            self.name.options::<K>()?;
            Some(self.experiment.take()?.run::<PooledCache<K, M>>())
        }
    }
    let found = engines::visit(&mut OfKind { name, experiment: Some(experiment), memory: PhantomData::<M> });
    found.expect("every name was found in the list")
}
