//! Memory nodes' regions: layout, allocation, membership.
//!
//! A pool is one region, formatted once and opened by any number of processes.
//!
//! ```text
//! +--------+-----------------------------+-------------+-------------+----------------------+
//! | header | registry: signals, accounts | chunk table | engine area |         heap         |
//! +--------+-----------------------------+-------------+-------------+----------------------+
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`header`] | the settings on which all processes agree, checked on open |
//! | [`layout`] | where everything is |
//! | [`boot`] | a region that outlives its host's boot |
//! | [`registry`] | who is a client: incarnations, what they protect, how the dead are shut out |
//! | [`chunks`] | the heap's chunks: who owns which, allocation by atomics alone |
//! | [`clock`] | the pool's clock, which judges expiry |
#![forbid(unsafe_code)]

pub mod boot;
pub mod chunks;
pub mod clock;
pub mod header;
pub mod layout;
pub mod registry;

pub use chunks::{Chunk, ChunkId, ChunkState};
pub use clock::PoolClock;
pub use header::{PoolError, PoolSettings};
pub use layout::Layout;
pub use registry::{Incarnation, Member, PlaceState};

use atoll_fabric::{Batch, Endpoint, VerbError};

/// A formatted pool: its settings and layout, checked. Plain data; every thread uses it with its own endpoint.
#[derive(Clone, Debug)]
pub struct Pool {
    /// What all processes agree on.
    pub settings: PoolSettings,
    /// Where everything is.
    pub layout: Layout,
}

impl Pool {
    /// Formats an all-zero region. `engine_area` gives the bytes that the engine needs for so many chunks.
    pub async fn format<E: Endpoint>(
        endpoint: &E,
        settings: PoolSettings,
        engine_area: impl Fn(u32) -> u64,
    ) -> Result<Self, PoolError> {
        let layout = Layout::plan(&settings, engine_area)?;
        let pool = Self { settings, layout };
        header::write(endpoint, &pool).await?;
        Ok(pool)
    }

    /// Opens a region that was formatted, checking every word of the header.
    pub async fn open<E: Endpoint>(endpoint: &E, region_bytes: u64) -> Result<Self, PoolError> {
        header::read(endpoint, region_bytes).await
    }
}

/// READs one word.
pub async fn read_word<E: Endpoint>(endpoint: &E, at: atoll_fabric::Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let word = batch.read_word(at);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(word))
}
