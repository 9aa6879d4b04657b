//! The descriptor of an engine that users can choose.

use crate::experts::ExpertSet;
use crate::pooled::{EnginePool, Pooled};
use atoll_fabric::Endpoint;
use atoll_pool::{Pool, PoolError, PoolSettings};
use std::fmt;
use std::sync::Arc;

/// An engine: its name, the options of a new pool, and how its pools are made. Each is in its
/// engine's folder.
pub trait EngineKind {
    /// Its name, as users write it.
    const NAME: &'static str;
    /// All names that [`EngineKind::named`] knows, for people.
    const NAMES: &'static str;
    /// Its number in the pool header.
    const NUMBER: u64;
    /// The options of a new pool.
    type Options: Clone + fmt::Debug + PartialEq;
    /// A pool of the engine, as one process has it open.
    type Shared: EnginePool;
    /// A client of the engine.
    type Client<E: Endpoint>: Pooled<E, Shared = Self::Shared>;

    /// Settings for a pool of `capacity_bytes` that may grow by more bytes. `body_bytes_mean` is
    /// the expected size of an object with its key. The index is sized by it. `None` keeps the
    /// engine's own expectation.
    fn for_growth(
        options: &Self::Options,
        body_bytes_mean: Option<u32>,
        capacity_bytes: u64,
        growth_bytes_max: u64,
    ) -> PoolSettings;

    /// The choices of a new pool by a name that a user writes, such as `ditto:lru+lfu`. `None` if
    /// the name is another engine's; an error if the choices are invalid.
    fn named(name: &str) -> Option<Result<Self::Options, String>>;

    /// The name of these choices.
    fn name_of(options: &Self::Options) -> String;

    /// Settings for a pool of at most so many objects with records of up to `record_bytes`, for
    /// experiments that count objects.
    fn for_objects(options: &Self::Options, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings;

    /// A pool whose header was read, and names this engine.
    fn opened(pool: Pool) -> Result<Arc<Self::Shared>, PoolError> {
        Self::Shared::opened(pool)
    }

    /// The policies that choose victims, if the engine has experts.
    fn experts(shared: &Self::Shared) -> Option<ExpertSet> {
        let _ = shared;
        None
    }

    /// The experts of a new pool with these choices.
    fn experts_of(options: &Self::Options) -> Option<ExpertSet> {
        let _ = options;
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
