//! Facts about the pool that the server shows.

use std::fmt;

/// The pool's facts. The caller provides them, because the server sees a cache only through its
/// operations.
pub struct PoolFacts {
    /// The fabric in use: `shm`, `tcp`, `verbs`.
    pub fabric: String,
    /// The engine of the pool: `forge`, `ditto`.
    pub engine: String,
    /// The policies that choose victims, if the engine has experts: `lru+lfu`.
    pub experts: Option<String>,
    /// Returns the pool's capacity in bytes, which grows with every memory node that is added.
    /// Called like the next function.
    pub capacity_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Returns the bytes of the capacity whose memory is present. A pool is served while the rest
    /// is still being provided. Called like the next function.
    pub provided_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Returns the bytes of the pool in use. Called for each `INFO` and each read of the metrics,
    /// from any thread.
    pub used_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Returns how far this host's wall clock is ahead of the pool's time, in milliseconds. It is
    /// negative if the clock is behind. Called like the previous function.
    pub wall_clock_ahead_ms: Box<dyn Fn() -> i64 + Send + Sync>,
    /// Returns how many of the pool's memory nodes have ended and are not back. Called likewise.
    pub nodes_absent: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Joins the pool and leaves it, or says why it cannot. It may take long. Called on a thread of
    /// its own before a worker joins again whose client was lost, so that the worker does not wait.
    pub try_join: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Returns what the server's near cache has, if it has one. Called likewise.
    pub near: Box<dyn Fn() -> Option<NearFacts> + Send + Sync>,
}

/// What a near cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearFacts {
    /// Copies.
    pub copies: u64,
    /// Bytes that they take.
    pub used_bytes: u64,
    /// Bytes that the near cache may take.
    pub bytes: u64,
    /// Whether other processes of the host share it.
    pub is_shared: bool,
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
