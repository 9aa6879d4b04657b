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
//! | [`settings`] | what all processes agree on |
//! | [`error`] | why a region is no pool, or a pool cannot be used |
//! | [`header`] | the settings in the region, checked on open |
//! | [`layout`] | where everything is |
//! | `pool` | a pool, as one process has it open |
//! | `words` | verbs on one word |
//! | [`fields`] | words that have several fields |
//! | [`boot`] | a region that outlives its host's boot |
//! | [`registry`] | clients: incarnations, what they protect, how dead ones are shut out |
//! | [`in_flight`] | the operations of a client that are under way |
//! | [`loan`] | what one operation of a client has at a time |
//! | [`client`] | a client: what it is and does, whatever it uses the pool for |
//! | `upkeep` | what clients count of the pool's upkeep |
//! | [`repair`] | what a client that died held comes back: a walk over estates |
//! | `known_nodes` | the memory nodes that a process knows |
//! | [`nodes`] | the memory nodes: what there is of them, and how one is added |
//! | [`chunk`] | a chunk: what it is used for, who owns it |
//! | [`chunks`] | allocation of chunks by atomics alone |
//! | [`provision`] | how the memory comes to be there while the pool is served |
//! | [`retirement`] | chunks out of use: how a pool becomes smaller, and larger again |
//! | [`clock`] | the pool's clock, which judges expiry |
#![forbid(unsafe_code)]

pub mod boot;
pub mod chunk;
pub mod chunks;
pub mod client;
pub mod clock;
pub mod error;
pub mod fields;
pub mod gate;
pub mod header;
pub mod in_flight;
mod known_nodes;
pub mod layout;
pub mod loan;
pub mod nodes;
mod pool;
pub mod provision;
pub mod registry;
pub mod repair;
pub mod retirement;
pub mod settings;
mod upkeep;
mod words;

pub use chunk::{Chunk, ChunkId, ChunkState};
pub use client::Client;
pub use clock::PoolClock;
pub use error::PoolError;
pub use fields::Fields;
pub use layout::{EngineArea, Layout};
pub use pool::Pool;
pub use registry::{Incarnation, Member, PlaceState};
pub use repair::Estate;
pub use settings::PoolSettings;
pub use upkeep::{Repaired, Upkeep};
pub use words::read_word;
