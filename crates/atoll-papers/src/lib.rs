//! The papers' figures, measured in virtual time on the simulated network, by the protocol code
//! that also runs on real memory.
//!
//! `atoll lab list` names the experiments, `atoll lab run NAME` runs one. One folder a paper, one
//! file a figure.
//!
//! A crate of its own beside the lab, since nothing here is timed by this machine's clock: the
//! engines on the simulator are compiled for a quick build, those on real memory for speed.
//!
//! | module | concept |
//! |---|---|
//! | [`bench`](mod@bench) | what all experiments have in common: points, sweeps |
//! | `forge` | the figures of FORGE's paper |
//! | `ditto` | the figures of Ditto's paper |
//! | `difache` | the figures of DiFache's paper |
//! | [`list`] | the list of experiments |
//! | `sweep` | sweeps of the user's own |
//! | `measure` | measuring a network, to simulate it |
//! | [`validation`] | the simulated networks beside what the papers print of theirs |
//! | [`verbs`] | round trips, verbs and bytes of single operations |
//! | `command` | the command line |
#![forbid(unsafe_code)]

pub mod bench;
mod command;
mod difache;
mod ditto;
mod forge;
pub mod list;
mod measure;
mod sweep;
pub mod validation;
pub mod verbs;

pub use command::PapersCommand;
