//! Workloads, traces, experiments, reports.
//!
//! The lab drives caches as their users would, through [`Cache`](atoll_cache::Cache), and holds them against published results, exact
//! policies and other caches.
//!
//! | module | concept |
//! |---|---|
//! | [`trace`] | request traces: files in two formats, generated loads |
//! | [`load`] | what clients ask: YCSB, loads like Twitter's, traces; one interface |
//! | [`zipf`] | the generated load whose keys follow Zipf's law |
//! | [`random`] | seeded random words |
//! | [`deployment`] | where the lab meets an engine; the list of engines |
//! | [`mod@reference`] | exact eviction policies in ordinary memory |
//! | [`replay`] | a trace on a cache |
//! | [`hit_ratio`] | an engine on a folder of traces, beside the oracle's algorithms |
//! | [`micro`] | single operations, beside other caches |
//! | [`experiments`] | the papers' figures, measured in virtual time |
//! | [`report`] | results as a page with plots |
//! | [`costs`] | what a protocol's steps cost the processor, for simulated clients |
//! | [`validation`] | the simulated networks beside what the papers print of theirs |
//! | [`verbs`] | round trips, verbs and bytes of single operations |
//! | [`simulated`] | cases of a cache on the simulated fabric |
//! | [`kill`] | processes of a pool are killed and stopped; nothing may be wrong or lost |
//! | `fleet` | the processes of an experiment |
//! | `interrupt` | ctrl-c |
//! | `scheduled` | what the kernel counts of a thread |
//! | `latency` | latencies in a histogram that can be sent between processes |
//! | `progress` | the bar on the terminal |
//! | `command` | the command line |
//!
//! Without the feature `command` there are the simulated cases alone, which the tests of the cache play: the rest would make them wait for minutes.
#![forbid(unsafe_code)]

#[cfg(feature = "command")]
mod command;
#[cfg(feature = "command")]
pub mod costs;
#[cfg(feature = "command")]
pub mod deployment;
#[cfg(feature = "command")]
mod error;
#[cfg(feature = "command")]
pub mod experiments;
#[cfg(all(test, feature = "command"))]
mod fixtures;
#[cfg(feature = "command")]
mod fleet;
#[cfg(feature = "command")]
pub mod hit_ratio;
#[cfg(feature = "command")]
mod interrupt;
#[cfg(feature = "command")]
pub mod kill;
#[cfg(feature = "command")]
mod latency;
#[cfg(feature = "command")]
pub mod load;
#[cfg(feature = "command")]
pub mod micro;
#[cfg(feature = "command")]
mod progress;
#[cfg(feature = "command")]
pub mod random;
#[cfg(feature = "command")]
pub mod reference;
#[cfg(feature = "command")]
pub mod replay;
#[cfg(feature = "command")]
pub mod report;
#[cfg(feature = "command")]
mod scheduled;
pub mod simulated;
#[cfg(feature = "command")]
pub mod trace;
#[cfg(feature = "command")]
pub mod validation;
#[cfg(feature = "command")]
pub mod verbs;
#[cfg(feature = "command")]
pub mod zipf;

#[cfg(feature = "command")]
pub use command::{LabCommand, parse_bytes};
#[cfg(feature = "command")]
pub use error::LabError;
#[cfg(feature = "command")]
pub use fleet::ProcessCommand;
