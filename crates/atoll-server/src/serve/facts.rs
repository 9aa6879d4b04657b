//! Facts about the pool that the server shows.

use std::fmt;

/// The pool's facts. They are the caller's to know: the server sees a cache only through its
/// operations.
pub struct PoolFacts {
    /// The fabric that was chosen: `shm`, `tcp`, `verbs`.
    pub fabric: String,
    /// The engine of the pool: `forge`, `ditto`.
    pub engine: String,
    /// The policies that choose what is evicted, if the engine has experts: `lru+lfu`.
    pub experts: Option<String>,
    /// Gives the bytes that the pool holds at most, which grow with every memory node that is
    /// added. Called as the next.
    pub capacity_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Gives the bytes of the capacity whose memory is there; a pool is served while the others are
    /// still being provided. Called as the next.
    pub provided_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Gives the bytes of the pool that are in use. Called for each `INFO` and each reading of the
    /// metrics, from any thread.
    pub used_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Gives how far this host's wall clock is ahead of the pool's time, in milliseconds; negative
    /// if it is behind. Called as the last.
    pub wall_clock_ahead_ms: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl fmt::Debug for PoolFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolFacts")
            .field("fabric", &self.fabric)
            .field("engine", &self.engine)
            .field("experts", &self.experts)
            .field("capacity_bytes", &(self.capacity_bytes)())
            .finish_non_exhaustive()
    }
}
