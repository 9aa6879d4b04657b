//! What the wire says: the Redis protocol (RESP2 and RESP3) over a [`Cache`](atoll_cache::Cache).
//!
//! [`serve()`] listens, starts the workers and returns when the server has been told to stop. A
//! worker is one thread with one client of the cache; a connection lives on one worker. What a
//! command does is a handler of `command`, found through one table.
//!
//! | module | concept |
//! |---|---|
//! | [`options`] | what is configured |
//! | [`serve`](mod@serve) | the acceptor: listens, hands connections to the workers, stops all |
//! | [`listen`] | the addresses that connections come from |
//! | `worker` | one thread with one client of the cache |
//! | `connection` | one connection: read a batch of commands, run it, write its replies |
//! | `ahead` | commands that have been parsed and wait to be run |
//! | `session` | what a connection has agreed on with its peer |
//! | [`resp`] | the bytes of the protocol: parser, replies |
//! | [`command`] | the commands: their table, and one file for each family |
//! | [`glob`] | patterns of keys |
//! | [`extended`] | the floating-point numbers that Redis counts with |
//! | [`counters`] | what the workers count, for all to read |
//! | [`facts`] | what the server is told of the pool, to show it |
//! | `metrics` | the counters as Prometheus reads them |
#![forbid(unsafe_code)]

mod ahead;
pub mod command;
mod connection;
pub mod counters;
pub mod extended;
pub mod facts;
pub mod glob;
pub mod listen;
mod metrics;
pub mod options;
pub mod resp;
pub mod serve;
mod session;
mod worker;

pub use facts::PoolFacts;
pub use options::ServerOptions;
pub use serve::{ServeError, Server, Stopper, serve};
