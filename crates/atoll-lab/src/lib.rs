//! Workloads, traces, experiments, reports.
//!
//! The lab drives caches as their users would, through [`Cache`](atoll_cache::Cache), and holds them against published results, exact
//! policies and other caches.
//!
//! | module | concept |
//! |---|---|
//! | [`trace`] | request traces: files in two formats, generated loads |
//! | [`zipf`] | the generated load whose keys follow Zipf's law |
//! | [`deployment`] | where the lab meets an engine; the list of engines |
//! | [`mod@reference`] | exact eviction policies in ordinary memory |
//! | [`hit_ratio`] | an engine on a folder of traces, beside the oracle's algorithms |
#![forbid(unsafe_code)]

mod command;
pub mod deployment;
mod error;
#[cfg(test)]
mod fixtures;
pub mod hit_ratio;
mod progress;
pub mod random;
pub mod reference;
pub mod trace;
pub mod zipf;

pub use command::LabCommand;
pub use error::LabError;
