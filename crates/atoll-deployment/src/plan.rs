//! The cache that an experiment wants, and what an engine does for it.

use crate::DeploymentError;
use crate::client::Client;
use crate::name::EngineName;
use atoll_cache::Cache;
use atoll_fabric::Clock;
use atoll_pool::Repaired;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What limits a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// At most so many objects are resident. Bytes are no limit for the plan's objects.
    Objects(u64),
    /// The pool has so many bytes, metadata included.
    Bytes(u64),
}

/// The cache that an experiment wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Which engine.
    pub engine: EngineName,
    /// What limits it.
    pub bound: Bound,
    /// Key and value bytes of a typical object.
    pub object_bytes: u64,
    /// The most clients that will ever be joined at a time, over all processes.
    pub clients_max: u32,
    /// The name under which other processes open it, `shm:/NAME` or
    /// `tcp:HOST:PORT[,HOST:PORT...]`; `None` for a cache of
    /// this process alone.
    pub name: Option<String>,
    /// Whether each process that changes the cache has an evictor, where its engine has one.
    pub evicts_ahead: bool,
    /// The file of the secret that the memory nodes want to be known.
    pub secret_file: Option<PathBuf>,
}

impl Plan {
    /// Whether the cache is on memory nodes.
    pub fn is_over_network(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("tcp:"))
    }

    /// How many memory nodes its pool has.
    pub(crate) fn nodes(&self) -> u32 {
        let name = self.name.as_deref().filter(|_| self.is_over_network()).unwrap_or_default();
        1 + name.matches(',').count() as u32
    }
}

/// What a walk over a quiet cache found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditSummary {
    /// What is wrong, in words.
    pub faults: Vec<String>,
    /// Objects in the cache.
    pub objects: u64,
    /// Clients that have not left, and places of dead ones that are not yet repaired.
    pub clients: u64,
    /// Bytes of chunks that neither are free nor belong to a queued group. In an empty cache that
    /// all clients have left, they are lost.
    pub lost_bytes: u64,
}

/// A look at a cache's clock, in milliseconds since the Unix epoch.
pub type PoolClock<'a> = Box<dyn Fn() -> Result<u64, DeploymentError> + 'a>;

/// A cache as one process has it open.
///
/// It may be bound to the thread that made it. Every thread of an experiment makes or opens its
/// own.
pub trait Deployment {
    /// Another client, with an endpoint of its own.
    fn client(&self) -> Result<Cache<Client>, DeploymentError>;

    /// Whether the client with this number has ended: none of its verbs takes effect any more.
    fn has_ended(&self, _client: u64) -> Result<bool, DeploymentError> {
        Err(DeploymentError::ReferenceOnly)
    }

    /// A look at the cache's clock.
    fn clock(&self) -> Result<PoolClock<'_>, DeploymentError> {
        Err(DeploymentError::ReferenceOnly)
    }

    /// Reclaims now what clients that died held.
    fn repair(&self) -> Result<Repaired, DeploymentError> {
        Err(DeploymentError::ReferenceOnly)
    }

    /// Walks every invariant of the cache. No client may use it meanwhile.
    fn audit(&self) -> Result<AuditSummary, DeploymentError> {
        Err(DeploymentError::ReferenceOnly)
    }

    /// The most objects that were ever resident at a time, if the engine counts it. The lab also
    /// counts for itself.
    fn objects_max(&self) -> Option<u64> {
        None
    }
}

/// A cache that is had by a plan: see the methods of [`Plan`].
pub(crate) trait Made: Deployment + Sized + 'static {
    fn create(plan: &Plan, clock: &Clock) -> Result<Self, DeploymentError>;

    fn open(plan: &Plan, clock: &Clock) -> Result<Self, DeploymentError>;

    fn remove(plan: &Plan) -> Result<(), DeploymentError>;
}
