//! A cache on the simulated fabric: pools so small that everything happens all the time, clients that play on them, and what must hold
//! afterwards.
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
//! | [`swarm`] | many of those, and one again |
//! | `command`, `explore_command` | the command line |

pub mod case;
pub mod client;
#[cfg(feature = "command")]
mod command;
#[cfg(feature = "command")]
mod explore_command;
pub mod explored;
pub mod load;
pub mod stops;
mod subject;
#[cfg(feature = "command")]
pub mod swarm;
pub mod turmoil;

pub use case::{Case, ForgePoolWords, Shared};
pub use client::Client;
#[cfg(feature = "command")]
pub use command::SimCommand;
pub use load::Load;
pub use stops::{Stop, Stops};
pub use subject::{Attendant, Cliqued, Dittoed, Forged, Learned, Queueing, Stored, Subject};
pub use turmoil::Turmoil;
