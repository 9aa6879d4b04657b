//! A cache on the simulated fabric: pools so small that everything happens all the time, clients
//! that play on them, and what must hold afterwards.
//!
//! | module | concept |
//! |---|---|
//! | [`case`] | a pool, its clients and what the simulation is like |
//! | `subject` | the engines that cases are about |
//! | [`client`] | one client, and what it records |
//! | [`load`] | what clients do, recorded as a history |
//! | [`turmoil`] | a case in which things go wrong |
//! | [`explored`] | small cases, of which every interleaving is run |
//! | [`stops`] | orders on purpose: a client stops in front of a verb that a test names |
//! | [`engine`] | the list of engines |
//! | [`swarm`] | many cases in which things go wrong |
//!
//! The command line is `atoll sim`; the tests of the cache play the same cases.
#![forbid(unsafe_code)]

pub mod case;
pub mod client;
pub mod engine;
pub mod explored;
pub mod load;
pub mod stops;
mod subject;
pub mod swarm;
pub mod turmoil;

pub use case::{Case, ForgePoolWords, Shared};
pub use client::Client;
pub use load::Load;
pub use stops::{Stop, Stops};
pub use subject::{Ablated, Attendant, Cliqued, Dittoed, Forged, Learned, Queueing, Stored, Subject};
pub use turmoil::Turmoil;
