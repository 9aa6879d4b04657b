//! A cache for peers on the network.
//!
//! A [`Server`] listens, starts the workers and returns when it has been told to stop. A worker is
//! one thread with one client of the cache; a connection lives on one worker. What the bytes of a
//! connection mean is its [`Protocol`]'s to say.
//!
//! | module | concept |
//! |---|---|
//! | [`serve`](mod@serve) | the server: acceptor, workers, connections, over any protocol |
//! | [`redis`] | the Redis protocol |
//! | `http` | the counters as Prometheus reads them |
#![forbid(unsafe_code)]

mod http;
pub mod redis;
pub mod serve;

pub use redis::Redis;
pub use serve::facts::PoolFacts;
pub use serve::options::ServerOptions;
pub use serve::protocol::Protocol;
pub use serve::{ServeError, Server, Stopper, serve};
