//! Atoll: a cache in a memory pool that every process of a host can reach.
//!
//! A [`Pool`] is memory, either anonymous or named. Other processes can open a named pool. The
//! threads of a process use the pool through a [`Cache`]. A hit costs two memory reads and one
//! copy, whichever process wrote the value. No server runs.
//!
//! ```
//! use atoll::{Cache, Pool, PoolOptions};
//! use std::time::Duration;
//!
//! let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(16 << 20))?;
//! let cache = Cache::builder().build(&pool)?;
//! cache.set(b"greeting", b"hello")?;
//! assert_eq!(cache.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
//! cache.set_for(b"session", b"alice", Duration::from_secs(60))?;
//!
//! // Clones share it, in any thread.
//! let other = cache.clone();
//! std::thread::spawn(move || other.increment(b"visits", 1)).join().expect("no panic")?;
//! assert_eq!(cache.increment(b"visits", 1)?, 2);
//!
//! // The first thread that misses a key loads it, for all threads.
//! let user = cache.get_with(b"user 7", || b"bob".to_vec())?;
//! assert_eq!(user, b"bob");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | for | use |
//! |---|---|
//! | many threads | [`Cache`] |
//! | tasks of an executor | [`Cache::into_future`](cache::Cache::into_future) |
//! | a program's own types | [`Cache::typed`](cache::Cache::typed); `serde` types need the feature `serde` |
//! | the lowest latency, in a thread that has its own client | [`Client`], from [`Pool::client`] |
//!
//! A pool's engine is chosen when the pool is created ([`PoolOptions::engine`]). All engines have
//! the same operations.
//!
//! Two processes share a cache by the pool's name: see `examples/two_processes.rs`.
//!
//! A writer that needs room evicts objects. A thread of the process can do so ahead of need: see
//! [`Pool::evict_ahead`].
//!
//! Operations also find clients whose process died, and reclaim what those held. In an idle program
//! a thread of the [`Cache`] does that. An idle program with bare [`Client`]s must call
//! [`Client::tend`]. A process that forks must open the pool anew in the child: see
//! [`Cache::is_inherited`](cache::Cache::is_inherited).
#![forbid(unsafe_code)]

pub mod cache;
pub mod client;
pub mod fabric;
pub mod pool;
pub mod size;

pub use atoll_cache::audit::Audit;
pub use atoll_cache::{
    Attributes, Beginning, CacheError, Cause, Condition, EngineId, EngineOptions, ExpireCondition, ExpireOutcome,
    Expiry, KEY_BYTES_MAX, Meta, Number, Removal, SetOptions, SetOutcome, Stats, VALUE_BYTES_MAX, Value,
};
pub use atoll_fabric::{FabricError, VerbError};
pub use atoll_pool::{PoolError, Repaired};
pub use cache::{
    BuildError, Builder, Cache, Codec, Error, Lease, LoadError, Statistics, TypedCache, TypedError, WeakCache,
};
pub use client::Client;
pub use pool::{
    CHUNKS_LEAST, ClientInfo, ClientState, NodeInfo, OpenError, Pool, PoolInfo, PoolOptions, RemoveError, Removed,
    ResizeError, Resized, UpkeepError, Users,
};
