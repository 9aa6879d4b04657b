//! Memory nodes' regions: layout, allocation, membership.
//!
//! A pool is one region or several, one on each memory node, formatted once and opened by any
//! number of processes. Node 0 is its home, which says what there is; more nodes may come later.
//!
//! ```text
//! +--------+-----------------------------+-------------+-------------+----------------------+
//! | header | registry: signals, accounts | chunk table | engine area |         heap         |
//! +--------+-----------------------------+-------------+-------------+----------------------+
//! +--------+--------------+-----------------------------------------------------------------+
//! | header | engine share |                              heap                               |
//! +--------+--------------+-----------------------------------------------------------------+
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`header`] | the settings on which all processes agree, checked on open |
//! | [`layout`] | where everything is |
//! | [`fields`] | words that have several fields |
//! | [`boot`] | a region that outlives its host's boot |
//! | [`registry`] | who is a client: incarnations, what they protect, how the dead are shut out |
//! | [`in_flight`] | the operations of a client that are under way |
//! | [`loan`] | what one operation of a client has at a time |
//! | [`client`] | a client: what it is and does, whatever it uses the pool for |
//! | [`repair`] | what a client that died held comes back: a walk over estates |
//! | [`nodes`] | the memory nodes: what there is of them, and how one is added |
//! | [`chunks`] | the heap's chunks: who owns which, allocation by atomics alone |
//! | [`provision`] | how the memory comes to be there while the pool is served |
//! | [`retirement`] | chunks out of use: how a pool becomes smaller, and larger again |
//! | [`clock`] | the pool's clock, which judges expiry |
#![forbid(unsafe_code)]

pub mod boot;
pub mod chunks;
pub mod client;
pub mod clock;
pub mod fields;
pub mod gate;
pub mod header;
pub mod in_flight;
pub mod layout;
pub mod loan;
pub mod nodes;
pub mod provision;
pub mod registry;
pub mod repair;
pub mod retirement;

pub use chunks::{Chunk, ChunkId, ChunkState};
pub use client::{Client, Upkeep};
pub use clock::PoolClock;
pub use fields::Fields;
pub use header::{PoolError, PoolSettings};
pub use layout::{EngineArea, Layout};
pub use registry::{Incarnation, Member, PlaceState};
pub use repair::{Estate, Repaired};

use atoll_fabric::{Batch, Endpoint, VerbError};

/// A formatted pool: its settings and layout, checked. Every thread uses it with its own endpoint.
#[derive(Clone, Debug)]
pub struct Pool {
    /// What all processes agree on.
    pub settings: PoolSettings,
    /// Where everything is.
    pub layout: Layout,
    /// What the regions of its nodes know each other by: random, made with the pool.
    pub id: u64,
}

impl Pool {
    /// Formats all-zero regions, which the endpoint reaches.
    pub async fn format<E: Endpoint>(
        endpoint: &E,
        settings: PoolSettings,
        engine_area: EngineArea,
    ) -> Result<Self, PoolError> {
        let layout = Layout::plan(&settings, engine_area)?;
        let pool = Self { settings, layout, id: endpoint.random() };
        nodes::write_first(endpoint, &pool).await?;
        header::write(endpoint, &pool).await?;
        Ok(pool)
    }

    /// Opens a pool that was formatted, checking every word of all headers. `home_bytes` is the
    /// size of node 0's region.
    pub async fn open<E: Endpoint>(endpoint: &E, home_bytes: u64) -> Result<Self, PoolError> {
        let pool = header::read(endpoint, home_bytes).await?;
        nodes::learn(endpoint, &pool).await?;
        provision::provided(endpoint, &pool.layout).await?;
        Ok(pool)
    }
}

/// READs one word.
pub async fn read_word<E: Endpoint>(endpoint: &E, at: atoll_fabric::Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let word = batch.read_word(at);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(word))
}
