//! Caches on the simulated fabric: pools so small that everything happens all the time, clients
//! that use them, and what must hold afterwards. The tests and the command `atoll sim` run the same
//! cases.
//!
//! | module | concept |
//! |---|---|
//! | [`subject`] | the engine under test |
//! | [`subjects`] | the engines that can be under test |
//! | [`case`] | a pool, its clients and the simulation's options |
//! | [`cast`] | the clients of a scenario that know each other's tasks |
//! | [`play`] | how a case is run |
//! | [`client`] | one client, and what it records |
//! | [`compiled`] | engines that are compiled here, once for all tests |
//! | [`endpoint`] | its endpoint, which can be slow, and stops |
//! | [`load`] | what clients do, recorded as a history |
//! | [`ticketed`] | the same of several threads or processes |
//! | [`faulty`] | a case in which things go wrong |
//! | [`small_case`] | small cases, of which every interleaving is run |
//! | [`stops`] | orders on purpose: a client stops in front of a verb that a test names |
//! | [`engine`] | the list of engines |
//! | [`swarm`] | many cases with faults |
//! | [`promises`] | the promises of every engine, over many seeds |
//! | `holes` | opened holes, which seeds must show |
//! | [`shared_memory`] | a pool of any engine on shared memory |
//! | [`forge_words`] | the addresses of a `forge` pool's words |
#![forbid(unsafe_code)]

pub mod case;
pub mod cast;
pub mod client;
pub mod compiled;
pub mod endpoint;
pub mod engine;
pub mod faulty;
pub mod forge_words;
#[cfg(feature = "holes")]
pub mod holes;
pub mod load;
pub mod play;
pub mod promises;
pub mod shared_memory;
pub mod small_case;
pub mod stops;
pub mod subject;
pub mod subjects;
pub mod swarm;
pub mod ticketed;

pub use case::Case;
pub use cast::Cast;
pub use client::Client;
pub use faulty::FaultyCase;
pub use forge_words::ForgePoolWords;
pub use load::Load;
pub use stops::{Stop, Stops};
pub use subject::{ServerSpawner, Shared, Subject};
pub use subjects::{
    AblatedSubject, CliqueMapSubject, DittoSubject, ForgeSubject, GlCacheSubject, KvsSubject, MarkedSubject,
    NearSubject, QueuesSubject,
};
