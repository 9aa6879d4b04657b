//! Caches in the pool.
//!
//! Users call [`Cache`]: every operation of a cache, on keys and values of any bytes. It is written
//! once over the small core of an [`Engine`]: look a key up, and change a key's object atomically.
//!
//! | module | concept |
//! |---|---|
//! | [`cache`] | the operations: set with conditions, increment, append, expire, scan |
//! | [`engine`] | what an engine must offer, and its duties |
//! | [`audit`] | a walk over a quiet pool that reports every fault |
//! | [`pooled`] | engines whose caches live in a pool |
//! | [`near`] | a near cache of this host under an engine |
//! | [`lasting`] | operations that run to their end, whether their futures are awaited or dropped |
//! | [`value`] | the bytes of a hit, and the object's metadata |
//! | [`stats`] | what a client counts |
//! | [`removals`] | the objects that a client has removed, for a program that asks for them |
//! | [`sweep`] | the pace at which clients look for expired objects |
//! | `choices` | what a user chooses of an engine when a pool is made |
//! | [`engines`] | the engines that are served and embedded; the engine that a pool was made for |
//! | [`forge`] | the engine `forge` |
//! | [`ditto`] | the engine `ditto` |
//! | [`table`] | a table of objects that are evicted one by one; several engines are built on it |
//! | [`record`] | an object as it lies in a chunk: header, key, value |
//! | `index` | the index of every engine: buckets of sixteen slots, and the operations on them |
//! | `extent` | objects that need chunks of their own |
//! | `open_chunks` | the empty chunks that a client owns |
//! | `limit` | the limit of resident objects |
//! | `node_order` | the order of operations on several memory nodes |
//! | `search` | how a change finds its key's object, and how an insertion becomes live |
//! | `candidate` | what a lookup takes a slot's record for |
//! | `at_once` | lookups of many keys at once, and hints before other operations |
//! | `post_together` | several batches at once |
//! | `spares` | buffers kept for the next use |
//! | `backoff` | how long a client waits before it looks again at what another client holds up |
//! | `overtaken` | when a change that lost its compare-and-swap still counts as done |
//! | [`open_holes`] | which holes a test has opened |
//! | [`policy`] | eviction policies as pure functions, one file each |
//! | [`experts`] | several policies at once, weighed by their regrets |
//! | [`model`] | the reference engine: one ordinary map, for tests |
#![forbid(unsafe_code)]

mod at_once;
pub mod audit;
mod backoff;
pub mod cache;
mod candidate;
mod choices;
pub mod ditto;
pub mod engine;
pub mod engines;
pub mod experts;
mod extent;
pub mod forge;
mod index;
pub mod lasting;
mod limit;
pub mod miniature;
pub mod model;
pub mod near;
mod node_order;
mod open_chunks;
pub mod open_holes;
mod operation;
mod overtaken;
pub mod policy;
pub mod pooled;
mod post_together;
pub mod record;
pub mod removals;
pub mod reserve;
mod search;
mod spares;
pub mod stats;
pub mod sweep;
pub mod table;
pub mod value;

pub use atoll_near::values::words::Words;
pub use cache::{
    Beginning, Cache, Condition, ExpireCondition, ExpireOutcome, Expiry, Got, Hold, Number, SetOptions, SetOutcome,
};
pub use engine::{Accesses, CacheError, Change, Engine, Flushed, Lookup, Mark, Old, Verdict, Want};
pub use engines::{Chosen, ChosenPool, EngineId, EngineKind, EngineOptions};
pub use extent::pins::Orphaned;
pub use extent::reading::Reading;
pub use extent::staged::Staged;
pub use extent::turns::{Pause, pause_with};
pub use lasting::Lasting;
pub use near::{Copied, Copies, Near, NearCache};
pub use pooled::{Ahead, EnginePool, Pooled};
pub use removals::{Cause, Removal, Removals};
pub use reserve::Reserve;
pub use stats::Stats;
pub use value::{Attributes, Meta, Value};

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
