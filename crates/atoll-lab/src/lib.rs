//! Workloads, traces, experiments, reports.
//!
//! The lab drives caches as their users would, through [`Cache`](atoll_cache::Cache), and holds
//! them against published results, exact policies and other caches.
//!
//! | module | concept |
//! |---|---|
//! | [`trace`] | request traces: files in two formats, generated loads |
//! | [`load`] | what clients ask: YCSB, loads like Twitter's, traces; one interface |
//! | [`zipf`] | the generated load whose keys follow Zipf's law |
//! | [`replay`] | a trace on a cache |
//! | [`hit_ratio`] | an engine on a folder of traces, beside the oracle's algorithms |
//! | [`advise`] | which engine and capacity fit a load |
//! | [`micro`] | single operations, beside other caches |
//! | [`report`] | results as a page with plots |
//! | [`costs`] | what a protocol's steps cost the processor, for simulated clients |
//! | [`kill`] | processes of a pool are killed and stopped; nothing may be wrong or lost |
//! | `fleet` | the processes of an experiment |
//! | `process` | the command that a process of an experiment runs |
//! | `interrupt` | ctrl-c |
//! | [`scheduled`] | what the kernel counts of a thread |
//! | [`latency`] | latencies in a histogram that can be sent between processes |
//! | `progress` | the bar on the terminal |
//! | [`output`] | what a command prints |
//! | `command` | the command line |
#![forbid(unsafe_code)]

pub mod advise;
mod command;
pub mod costs;
mod error;
#[cfg(test)]
mod fixtures;
mod fleet;
pub mod hit_ratio;
pub mod interrupt;
pub mod kill;
pub mod latency;
pub mod load;
pub mod micro;
pub mod output;
mod process;
mod progress;
pub mod replay;
pub mod report;
pub mod scheduled;
pub mod trace;
pub mod zipf;

pub use command::LabCommand;
pub use error::LabError;
pub use process::ProcessCommand;
pub use progress::Progress;
