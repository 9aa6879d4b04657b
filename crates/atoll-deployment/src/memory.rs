//! The memory of an experiment's pool: this host's, or that of memory nodes (`tcp:HOST:PORT,...`).

use crate::DeploymentError;
use crate::plan::Plan;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::tcp::{Secret, TcpEndpoint, TcpFabric, TcpOptions, TcpReach};
use atoll_fabric::{Clock, Endpoint, Fabric, Reach, Region};
use atoll_pool::PoolSettings;
use std::sync::Arc;

/// Seed of everything random in an experiment on this host.
const SEED: u64 = 0x0a70_1100;

/// The regions of one pool, as a process has them open.
pub(crate) trait PoolMemory: Sized {
    /// A client's endpoint.
    type Endpoint: Endpoint + 'static;

    /// Creates that of a plan; without a name for this process alone.
    fn create(plan: &Plan, settings: &PoolSettings) -> Result<Self, DeploymentError>;

    /// Opens what another process has created.
    fn open(plan: &Plan) -> Result<Self, DeploymentError>;

    /// Removes the name.
    fn remove(plan: &Plan) -> Result<(), DeploymentError>;

    /// Bytes of the home's region.
    fn bytes(&self) -> u64;

    /// Another endpoint.
    fn endpoint(&self, clock: &Clock) -> Self::Endpoint;

    /// Waits until some endpoint of this thread may make progress.
    fn wait(&self);
}

impl PoolMemory for Arc<ShmRegion> {
    type Endpoint = ShmEndpoint;

    fn create(plan: &Plan, settings: &PoolSettings) -> Result<Self, DeploymentError> {
        let bytes = settings.home_bytes();
        Ok(Arc::new(match &plan.name {
            Some(name) => ShmRegion::create(name, bytes)?,
            None => ShmRegion::anonymous(bytes)?,
        }))
    }

    fn open(plan: &Plan) -> Result<Self, DeploymentError> {
        Ok(Arc::new(ShmRegion::open(name_of(plan)?)?))
    }

    fn remove(plan: &Plan) -> Result<(), DeploymentError> {
        plan.name.as_deref().map_or(Ok(()), |name| Ok(ShmRegion::remove(name)?))
    }

    fn bytes(&self) -> u64 {
        self.attributes().bytes
    }

    /// Every experiment runs from the same seeds. A run of one process repeats to the miss.
    fn endpoint(&self, clock: &Clock) -> ShmEndpoint {
        ShmEndpoint::with_regions(vec![self.clone()], clock.clone()).seeded(SEED)
    }

    fn wait(&self) {
        unreachable!("shared memory answers at once")
    }
}

pub(crate) fn name_of(plan: &Plan) -> Result<&str, DeploymentError> {
    plan.name.as_deref().ok_or(DeploymentError::ReferenceOnly)
}

pub(crate) fn fabric_of(plan: &Plan) -> Result<TcpFabric, DeploymentError> {
    let Some(path) = &plan.secret_file else { return Ok(TcpFabric::named(name_of(plan)?)?) };
    let options = TcpOptions { secret: Some(Secret::of_file(path)?), ..TcpOptions::default() };
    Ok(TcpFabric::with_options(name_of(plan)?, options)?)
}

impl PoolMemory for TcpReach {
    type Endpoint = TcpEndpoint;

    fn create(plan: &Plan, settings: &PoolSettings) -> Result<Self, DeploymentError> {
        let (fabric, bytes) = (fabric_of(plan)?, settings.home_bytes());
        let reach = fabric.reach(fabric.create(0, bytes, bytes)?);
        let bytes = settings.member_bytes;
        for node in 1..settings.nodes as u8 {
            let is_new = reach.admit(node, fabric.create(node, bytes, bytes)?);
            assert!(is_new, "nobody else knows of these nodes");
        }
        Ok(reach)
    }

    fn open(plan: &Plan) -> Result<Self, DeploymentError> {
        let fabric = fabric_of(plan)?;
        Ok(fabric.reach(fabric.open(0)?))
    }

    fn remove(plan: &Plan) -> Result<(), DeploymentError> {
        let fabric = fabric_of(plan)?;
        for node in 1..plan.nodes() as u8 {
            // One that was killed has nothing to remove.
            let _ = fabric.remove(node);
        }
        Ok(fabric.remove(0)?)
    }

    fn bytes(&self) -> u64 {
        self.home().attributes().bytes
    }

    fn endpoint(&self, _: &Clock) -> TcpEndpoint {
        Reach::endpoint(self)
    }

    fn wait(&self) {
        Reach::wait(self);
    }
}
