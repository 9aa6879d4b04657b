//! The simulated fabric: tests of protocols that a seed repeats exactly.
//!
//! Many clients run in one thread over real bytes in regions. Every verb of every batch is a step
//! of one seeded scheduler. The scheduler takes every relaxation that the contract on
//! [`Endpoint`](atoll_fabric::Endpoint) permits. A protocol that is right here under many seeds is
//! right on any fabric. Only the seed decides, so that seed and commit reproduce a run.
//!
//! | module | concept |
//! |---|---|
//! | [`sim`], [`options`] | a simulation: its tasks, its run, and how that ends; its options |
//! | [`client`], [`control`] | the names of clients; what a task may do to the simulation |
//! | [`endpoint`] | one client's access to the simulated fabric |
//! | [`fabric`], `presence` | the control plane: regions that are made and removed while it runs; their users |
//! | `shared` | what endpoints and the simulation share |
//! | [`fault`], `fault_injection` | the faults; what they do to the world |
//! | [`relaxations`] | which relaxations of the contract a run takes, and how often |
//! | [`strict`] | switches for all of these, and which ones a failure needs |
//! | [`schedule`], `runnable` | whose step is next: uniform, bursts, priorities; which clients can run |
//! | [`explore`](mod@explore) | all interleavings of a small case |
//! | `guide`, `guided`, `guided_run`, `footprint` | which step is next; the state and the steps of an explored run; what steps depend on |
//! | [`history`], `event` | what clients of a cache did and saw, and whether the cache kept promise 1 |
//! | `sequential` | the sequential cache of one key, against which a history is checked |
//! | [`linearizability`] | the search for an order that explains a history |
//! | `excerpt` | a history that went wrong, cut to the part that a reader needs |
//! | [`seeds`] | a scenario over many seeds, and the command that replays one |
//! | [`network`], `timed_run` | what verbs cost, on networks known by name; the steps of a timed run |
//! | [`random`] | seeded randomness |
//! | [`requirement`] | what a test needs of the machine beside the workspace |
//! | `world` | everything that changes during a run |
//! | `lane`, `port`, `timers` | its clients, its endpoints, what happens at a time |
//! | `passing`, `alarms`, `clocks` | how time passes; when tasks are woken; what clocks show |
//! | `effect` | what one step did to memory |
//! | `trace`, `record` | the last events of a run; what a step adds to trace and digest |
//! | `in_flight` | batches are posted, their verbs take effect, their completions arrive |
//! | `flight` | a batch between its post and its completion |
//! | `messages` | messages between endpoints, on their way |
//! | `memory` | the bytes |
//! | `post_office` | the messages that are on their way |
//!
//! A run may also be *timed*: with a [`Network`] in the options, nothing is random, and every verb
//! has its cost on a known network. So virtual time shows the throughput of hundreds of clients on
//! many nodes. See [`network`].
#![forbid(unsafe_code)]

mod alarms;
pub mod client;
mod clocks;
pub mod control;
pub mod distance;
mod effect;
pub mod endpoint;
mod event;
mod excerpt;
pub mod explore;
pub mod fabric;
pub mod fault;
mod fault_injection;
mod flight;
mod footprint;
mod guide;
mod guided;
mod guided_run;
pub mod history;
mod in_flight;
mod lane;
pub mod linearizability;
mod memory;
mod messages;
pub mod network;
pub mod options;
mod passing;
mod port;
mod post_office;
mod presence;
pub mod random;
mod record;
pub mod relaxations;
pub mod requirement;
mod runnable;
pub mod schedule;
pub mod seeds;
mod sequential;
mod shared;
pub mod sim;
pub mod strict;
mod timed_run;
mod timers;
mod trace;
mod watch;
mod world;

pub use client::{ClientId, ClientState};
pub use control::Control;
pub use distance::Distance;
pub use endpoint::SimEndpoint;
pub use explore::{ExploreOptions, Explored, ExploredFault, explore, replay};
pub use fabric::SimFabric;
pub use fault::{After, Direction, Fault, Faults, Fencing};
pub use history::History;
pub use network::Network;
pub use options::SimOptions;
pub use random::Random;
pub use relaxations::Relaxations;
pub use requirement::required;
pub use schedule::Strategy;
pub use seeds::{for_each_seed, replay_command};
pub use sim::{RunReport, Sim, SimError};
pub use strict::{Strict, Switch};
pub use watch::Forced;
