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
//! | `pooled` | an engine in a pool of shared memory |
//! | `reference` | a policy in ordinary memory |

mod name;
mod plan;
mod pooled;
mod reference;

pub use name::EngineName;
pub use plan::{AuditSummary, Bound, Deployment, Plan};

use crate::LabError;
use atoll_baselines::engines;
use atoll_cache::engines::{EngineKind, KindVisitor};
use name::PooledName;
use pooled::PooledCache;
use reference::ReferenceCache;

/// Something to do with the engine that a user chose.
pub trait Experiment {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<D: Deployment>(self) -> Result<Self::Output, LabError>;
}

/// Runs `experiment` with the deployment of that engine.
pub fn on_engine<E: Experiment>(engine: &EngineName, experiment: E) -> Result<E::Output, LabError> {
    struct OfKind<'n, E> {
        name: &'n PooledName,
        experiment: Option<E>,
    }
    impl<E: Experiment> KindVisitor for OfKind<'_, E> {
        type Output = Result<E::Output, LabError>;

        fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output> {
            self.name.options::<K>()?;
            Some(self.experiment.take()?.run::<PooledCache<K>>())
        }
    }
    match engine {
        EngineName::Pooled(name) => {
            let found = engines::visit(&mut OfKind { name, experiment: Some(experiment) });
            found.expect("every name was found in the list")
        }
        EngineName::Reference(_) | EngineName::Sampled(_) => experiment.run::<ReferenceCache>(),
    }
}
