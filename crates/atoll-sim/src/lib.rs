//! The simulated fabric: tests of protocols that a seed repeats to the bit.
//!
//! Many clients run in one thread over real bytes in regions. Every verb of every batch is a step of one seeded scheduler, which
//! takes each liberty that the contract on [`Endpoint`](atoll_fabric::Endpoint) permits: what a protocol gets away with here for
//! many seeds, it may do on any fabric. Nothing but the seed decides, so that seed and commit reproduce a run.
//!
//! | module | concept |
//! |---|---|
//! | [`sim`] | a simulation: its options, its tasks, its run and how that ends |
//! | [`endpoint`] | one client's access to the simulated fabric |
//! | [`liberties`] | which liberties of the contract are taken, and how often |
//! | [`schedule`] | whose step is next: uniform, bursts, priorities |
//! | [`seeds`] | a scenario over many seeds, and the command that replays one |
//! | [`random`] | the seeded randomness of it all |
//! | `world` | everything that changes during a run |
//! | `flight` | a batch between its post and its completion |
//! | `memory` | the bytes |
//!
//! Verbs cost nothing yet and nobody dies yet. Costs will come in where the world lets time pass for a step; faults where the world
//! takes a step of a lane, because a lane is a client with all that it has in flight.
#![forbid(unsafe_code)]

pub mod endpoint;
mod flight;
pub mod liberties;
mod memory;
pub mod random;
pub mod schedule;
pub mod seeds;
pub mod sim;
mod world;

pub use endpoint::SimEndpoint;
pub use liberties::Liberties;
pub use random::Random;
pub use schedule::Strategy;
pub use seeds::for_each_seed;
pub use sim::{RunReport, Sim, SimError, SimOptions};
