//! An exact or a sampled policy in ordinary memory, as a cache of one process.

use crate::DeploymentError;
use crate::client::Client;
use crate::name::EngineName;
use crate::plan::{Bound, Deployment, Made, Plan};
use crate::reference::Policy;
use crate::reference::engine::{ReferenceEngine, Shared};
use crate::reference::sampled::Sampled;
use atoll_cache::Cache;
use atoll_cache::experts::Settings;
use atoll_fabric::Clock;

/// A cache of one process under an exact or a sampled policy.
pub(crate) struct ReferenceCache(Shared);

impl Deployment for ReferenceCache {
    fn client(&self) -> Result<Cache<Client>, DeploymentError> {
        let never = |_: &ReferenceEngine| unreachable!("ordinary memory answers at once");
        Ok(Cache::new(Client::new(ReferenceEngine::new(&self.0), 0, never)))
    }
}

impl Made for ReferenceCache {
    fn create(plan: &Plan, clock: &Clock) -> Result<Self, DeploymentError> {
        let (Bound::Objects(objects_max), None) = (plan.bound, &plan.name) else {
            return Err(DeploymentError::ReferenceOnly);
        };
        let objects_max = objects_max as usize;
        let policy: Box<dyn Policy<Vec<u8>>> = match &plan.engine {
            EngineName::Reference(policy) => policy.make(objects_max),
            EngineName::Sampled(set) => Box::new(Sampled::new(*set, Settings::default(), objects_max)),
            EngineName::Pooled(_) => return Err(DeploymentError::ReferenceOnly),
        };
        Ok(Self(Shared::new(policy, clock.clone())))
    }

    fn open(_plan: &Plan, _clock: &Clock) -> Result<Self, DeploymentError> {
        Err(DeploymentError::ReferenceOnly)
    }

    fn remove(_plan: &Plan) -> Result<(), DeploymentError> {
        Ok(())
    }
}
