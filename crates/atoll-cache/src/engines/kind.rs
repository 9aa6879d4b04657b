//! What a program needs to know of an engine that users can choose.

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
    /// Its number in the pool header.
    const NUMBER: u64;
    /// The options of a new pool.
    type Options: Clone + fmt::Debug + PartialEq;
    /// A pool of it, as one process has it open.
    type Shared: EnginePool;
    /// A client of it.
    type Client<E: Endpoint>: Pooled<E, Shared = Self::Shared>;

    /// Where the options have the bytes that an object is expected to have, its header included:
    /// the index is sized by them.
    fn object_bytes_mean(options: &mut Self::Options) -> &mut u32;

    /// Settings for a pool of so many bytes, to which so many may be added.
    fn for_growth(options: &Self::Options, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings;

    /// A pool whose header was read, and names this engine.
    fn opened(pool: Pool) -> Result<Arc<Self::Shared>, PoolError> {
        Self::Shared::opened(pool)
    }

    /// The policies that choose victims, if the engine has experts.
    fn experts(shared: &Self::Shared) -> Option<ExpertSet> {
        let _ = shared;
        None
    }

    /// The same of a new pool.
    fn experts_of(options: &Self::Options) -> Option<ExpertSet> {
        let _ = options;
        None
    }
}
