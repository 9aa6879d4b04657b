//! The descriptor of an engine that users can choose.

use crate::choices::EngineChoices;
use crate::experts::ExpertSet;
use crate::near::Copied;
use crate::pooled::{EnginePool, Pooled};
use atoll_fabric::Endpoint;
use atoll_pool::{Pool, PoolError};
use std::sync::Arc;

/// An engine: its choices, and how its pools are opened. Each is in its engine's folder.
pub trait EngineKind {
    /// The options of a new pool.
    type Options: EngineChoices;
    /// A pool of the engine, as one process has it open.
    type Shared: EnginePool;
    /// A client of the engine.
    type Client<E: Endpoint>: Pooled<E, Shared = Self::Shared> + Copied<Endpoint = E>;

    /// A pool whose header was read, and names this engine.
    fn opened(pool: Pool) -> Result<Arc<Self::Shared>, PoolError> {
        Self::Shared::opened(pool)
    }

    /// The policies that choose victims, if the engine has experts.
    fn experts(shared: &Self::Shared) -> Option<ExpertSet> {
        let _ = shared;
        None
    }
}

/// Looks at the kinds of engines in a list, one after the other.
pub trait KindVisitor {
    /// The result of the visit.
    type Output;

    /// Visits one kind. The first kind that returns a result ends the walk.
    fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output>;
}
