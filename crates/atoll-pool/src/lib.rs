//! Memory nodes' regions: layout, allocation, membership.
//!
//! A pool is one region or several, one on each memory node. It is formatted once, and any number
//! of processes open it. Node 0 is its home, which holds all tables. More nodes may be added later.
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
//! | [`registry`] | clients: incarnations, protections, and how dead clients are shut out |
//! | [`in_flight`] | the running operations of a client |
//! | [`cut_off`] | operations that were dropped halfway |
//! | [`loan`] | what a client lends to one operation at a time |
//! | [`client`] | a client, independent of what it uses the pool for |
//! | `upkeep` | what clients count of the pool's upkeep |
//! | [`repair`] | reclaiming what dead clients held, by estates |
//! | `known_nodes` | the memory nodes that a process knows |
//! | [`nodes`] | the table of memory nodes, and how a node is added |
//! | [`loss`] | a memory node whose region is gone, and comes back empty |
//! | [`chunk`] | the state and the owner of a chunk |
//! | [`chunks`] | allocation of chunks by atomics alone |
//! | `search` | how free chunks are found, several at once |
//! | [`reuses`] | how often chunks began a new life |
//! | [`provision`] | how memory is provided while clients use the pool |
//! | [`retirement`] | chunks out of use: how a pool becomes smaller, and larger again |
//! | [`sharers`] | processes that keep copies of objects, and how copies end |
//! | [`clock`] | the pool's clock, which judges expiry |
#![forbid(unsafe_code)]

pub mod boot;
pub mod chunk;
pub mod chunks;
pub mod client;
pub mod clock;
pub mod cut_off;
pub mod error;
pub mod fields;
pub mod gate;
pub mod header;
pub mod in_flight;
mod known_nodes;
pub mod layout;
mod line;
pub mod loan;
pub mod loss;
pub mod nodes;
mod pool;
pub mod provision;
pub mod registry;
pub mod repair;
pub mod retirement;
pub mod reuses;
mod search;
pub mod settings;
pub mod sharers;
mod upkeep;
mod waiters;
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
pub use sharers::Sharers;
pub use upkeep::{Repaired, Upkeep};
pub use words::read_word;
