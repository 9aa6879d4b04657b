//! The descriptor of an engine, for programs that let users choose one.

use crate::experts::ExpertSet;
use crate::pooled::{EnginePool, Pooled};
use crate::record::HEADER_BYTES;
use atoll_fabric::Endpoint;
use atoll_pool::{Pool, PoolError, PoolSettings};
use std::fmt;
use std::sync::Arc;

/// The bytes of an object with its header, if its key and value are expected to have so many;
/// `None` leaves what the engine expects.
pub fn object_bytes_mean(body_bytes_mean: Option<u32>, expected: u32) -> u32 {
    body_bytes_mean.map_or(expected, |bytes| bytes.saturating_add(HEADER_BYTES as u32))
}

/// An engine: its name, the choices of a new pool, and how its pools are made. Each descriptor is in
/// its engine's folder.
pub trait EngineKind {
    /// Its name, as users write it.
    const NAME: &'static str;
    /// Its number in the pool header.
    const NUMBER: u64;
    /// The choices of a new pool.
    type Options: Clone + fmt::Debug + PartialEq;
    /// A pool of it, as one process has it open.
    type Shared: EnginePool;
    /// A client of it.
    type Client<E: Endpoint>: Pooled<E, Shared = Self::Shared>;

    /// Settings for a pool of so many bytes, to which so many may be added. `body_bytes_mean` is
    /// what an object is expected to have with its key, by which the index is sized; `None` leaves
    /// what the engine expects.
    fn for_growth(
        options: &Self::Options,
        body_bytes_mean: Option<u32>,
        capacity_bytes: u64,
        growth_bytes_max: u64,
    ) -> PoolSettings;

    /// A pool whose header was read, and names this engine.
    fn opened(pool: Pool) -> Result<Arc<Self::Shared>, PoolError> {
        Self::Shared::opened(pool)
    }

    /// The policies that say what goes, if it is an engine with experts.
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
