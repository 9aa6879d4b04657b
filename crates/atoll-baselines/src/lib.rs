//! Engines for comparison. Simulated cases and the lab know them; the programs that serve and embed
//! caches do not.
//!
//! | module | concept |
//! |---|---|
//! | [`engines`] | the list of all engines, including the served ones |
//! | [`kvs`] | nothing is tracked, objects are evicted at random |
//! | [`queues`] | `shard-lru`, `lru-dm`, `sieve-dm`, `s3fifo-dm`: queues that lie in the pool |
//! | [`glcache`] | `glcache-dm`: groups of FORGE, of which trees choose the victims |
//! | [`forge_ablations`] | FORGE without single techniques |
//! | [`ditto_ablations`] | Ditto without single techniques |
//! | [`cliquemap`] | `cliquemap-lru` and `cliquemap-lfu`: a memory node that has a processor |
#![forbid(unsafe_code)]

pub mod cliquemap;
pub mod ditto_ablations;
pub mod engines;
pub mod forge_ablations;
pub mod glcache;
pub mod kvs;
pub mod queues;
