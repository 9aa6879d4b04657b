//! Atoll: a cache whose memory is a pool that every process of a host can reach.
//!
//! A [`Pool`] is memory: anonymous, or named, so that other processes open it. A [`Cache`] is one
//! thread's client of it. A hit costs two memory reads and one copy, whichever process wrote the
//! value; no server runs.
//!
//! ```
//! use atoll::{Pool, PoolOptions, SetOptions, Expiry};
//!
//! let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(16 << 20))?;
//! let mut cache = pool.client()?;
//! cache.set(b"greeting", b"hello")?;
//! assert_eq!(cache.get(b"greeting")?, Some(&b"hello"[..]));
//!
//! let options = SetOptions { expiry: Expiry::InMs(60_000), ..SetOptions::default() };
//! cache.set_with(b"session", b"alice", &options)?;
//!
//! // Every other thread takes a client of its own.
//! let mut other = pool.client()?;
//! std::thread::spawn(move || other.increment(b"visits", 1)).join().expect("no panic")?;
//! assert_eq!(cache.get(b"visits")?, Some(&b"1"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Which engine keeps the cache is chosen when its pool is made ([`PoolOptions::engine`]);
//! everything else is the same for all of them.
//!
//! Two processes share a cache by its name: see `examples/two_processes.rs`.
//!
//! Nothing runs in the background: whoever writes makes room, and a client that does nothing owes
//! nobody anything. Operations also look after clients whose process died, and reclaim what they
//! held; a program that may be idle for long calls [`Cache::tend`] now and then (`atoll serve`
//! does). A process that forks must open the pool anew in the child.
#![forbid(unsafe_code)]

pub mod cache;
pub mod fabric;
pub mod pool;

pub use atoll_cache::audit::Audit;
pub use atoll_cache::{
    CacheError, Condition, EngineId, EngineOptions, ExpireCondition, ExpireOutcome, Expiry, KEY_BYTES_MAX, Meta,
    Number, SetOptions, SetOutcome, Stats, VALUE_BYTES_MAX, Value,
};
pub use atoll_pool::Repaired;
pub use cache::Cache;
pub use pool::{
    CHUNKS_LEAST, ClientInfo, ClientState, GrowError, NodeInfo, OpenError, Pool, PoolInfo, PoolOptions, RemoveError,
    Removed, RepairError, ResizeError, Resized,
};
