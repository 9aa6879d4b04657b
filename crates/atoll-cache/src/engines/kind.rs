//! What a program needs to know of an engine that users can choose.

use crate::experts::ExpertSet;
use crate::pooled::{EnginePool, Pooled};
use atoll_fabric::Endpoint;
use atoll_pool::{Pool, PoolError, PoolSettings};
use std::fmt;
use std::sync::Arc;

/// How users and the pool header name an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineIdentity {
    /// Its name, as users write it.
    pub name: &'static str,
    /// All names that [`EngineChoices::named`] knows, for people.
    pub names: &'static str,
    /// Its number in the pool header.
    pub number: u64,
}

/// How large a new pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// The expected size of an object with its key, by which the index is sized. `None` keeps the
    /// engine's own expectation.
    pub body_bytes_mean: Option<u32>,
    /// Bytes of the new pool.
    pub capacity_bytes: u64,
    /// Bytes that may be added later.
    pub growth_bytes_max: u64,
}

/// What a user chooses of an engine for a new pool.
pub trait EngineChoices: Clone + fmt::Debug + PartialEq {
    /// The engine.
    const ENGINE: EngineIdentity;

    /// The choices of a new pool by a name that a user writes, such as `ditto:lru+lfu`. `None` if
    /// the name is another engine's; an error if its choices make no sense.
    fn named(name: &str) -> Option<Result<Self, String>>;

    /// The name that stands for these choices.
    fn name(&self) -> String {
        Self::ENGINE.name.to_owned()
    }

    /// The policies that choose victims, if the engine has experts.
    fn experts(&self) -> Option<ExpertSet> {
        None
    }

    /// Settings for a pool of this size.
    fn of_size(&self, size: PoolSize) -> PoolSettings;

    /// Settings for a pool of at most so many objects with records of up to `record_bytes`, for
    /// experiments that count objects.
    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings;
}

/// An engine: its choices, and how its pools are opened. Each is in its engine's folder.
pub trait EngineKind {
    /// The options of a new pool.
    type Options: EngineChoices;
    /// A pool of it, as one process has it open.
    type Shared: EnginePool;
    /// A client of it.
    type Client<E: Endpoint>: Pooled<E, Shared = Self::Shared>;

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
    /// What it looks for.
    type Output;

    /// Looks at one kind. The walk ends with the first that gives something.
    fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output>;
}
