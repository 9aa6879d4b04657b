//! A cache server for peers on the network.
//!
//! A [`Server`] listens, starts the workers, and returns when it is stopped. A worker is one thread
//! with one client of the cache. A connection stays on one worker. Its [`Protocol`] interprets the
//! bytes of a connection.
//!
//! | module | concept |
//! |---|---|
//! | [`serve`](mod@serve) | the server: acceptor, workers, connections, over any protocol |
//! | [`redis`] | the Redis protocol |
//! | [`memcached`] | the memcached protocol, over the same keys |
//! | `http` | the counters for Prometheus |
#![forbid(unsafe_code)]

mod http;
pub mod memcached;
pub mod redis;
pub mod serve;

pub use memcached::Memcached;
pub use redis::{Redis, RedisOptions};
pub use serve::facts::{NearFacts, PoolFacts};
pub use serve::options::{ServerOptions, TlsOptions};
pub use serve::protocol::Protocol;
pub use serve::{ServeError, Server, Stopper, serve};
