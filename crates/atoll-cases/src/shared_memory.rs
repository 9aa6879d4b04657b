//! A pool of any engine on shared memory, and its clients.

use atoll_cache::{Cache, Pooled, SetOptions, Stats, Value};
use atoll_fabric::run_ready;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_pool::PoolSettings;
use std::sync::Arc;

/// A pool in anonymous shared memory.
pub struct SharedPool<G: Pooled<ShmEndpoint>> {
    /// Its region.
    pub region: Arc<ShmRegion>,
    /// The pool, as this process has it open.
    pub pool: Arc<G::Shared>,
}

impl<G: Pooled<ShmEndpoint>> SharedPool<G> {
    /// Makes a pool.
    ///
    /// # Panics
    /// If the host has no memory for it, or the settings are wrong.
    pub fn new(settings: PoolSettings) -> Self {
        let region = Arc::new(ShmRegion::anonymous(settings.home_bytes()).expect("the host has memory"));
        let pool = run_ready(G::format(&ShmEndpoint::new(region.clone()), settings)).expect("the settings are right");
        Self { region, pool }
    }

    /// A new endpoint to the pool.
    pub fn endpoint(&self) -> ShmEndpoint {
        ShmEndpoint::new(self.region.clone())
    }

    /// A new client.
    ///
    /// # Panics
    /// If the pool has no place for it.
    pub fn client(&self) -> Cache<G> {
        Cache::new(run_ready(G::join(&self.pool, self.endpoint())).expect("there is a place"))
    }

    /// Walks the pool, which no client may use meanwhile.
    ///
    /// # Panics
    /// If anything is wrong with it.
    pub fn verify(&self) {
        let report = run_ready(self.client().engine().verify()).expect("a walk ends");
        assert_eq!(report.faults, Vec::<String>::new());
    }
}

/// A client of any engine on shared memory, where every operation ends at once. Keys are numbers.
pub trait AnyClient {
    /// Sets a key.
    fn set(&self, key: u64, value: &[u8], options: &SetOptions);
    /// Whether the key is present; its value is read.
    fn get(&self, key: u64, value: &mut Value) -> bool;
    /// Deletes a key; whether it was present.
    fn delete(&self, key: u64) -> bool;
    /// Objects of the pool.
    fn objects(&self) -> u64;
    /// What the client counted.
    fn stats(&self) -> Stats;
    /// Makes a round.
    fn tend(&self);
    /// Leaves the pool.
    fn leave(&self);
    /// Takes some chunks out of use; how many.
    fn retire_chunks(&self, most: u64) -> u64;
}

impl<G: Pooled<ShmEndpoint>> AnyClient for Cache<G> {
    fn set(&self, key: u64, value: &[u8], options: &SetOptions) {
        run_ready(Self::set(self, &key.to_le_bytes(), value, options)).expect("there is room");
    }

    fn get(&self, key: u64, value: &mut Value) -> bool {
        run_ready(Self::get(self, &key.to_le_bytes(), value)).expect("a lookup ends")
    }

    fn delete(&self, key: u64) -> bool {
        run_ready(Self::delete(self, &key.to_le_bytes())).expect("a deletion ends")
    }

    fn objects(&self) -> u64 {
        run_ready(Self::objects(self)).expect("the count is there")
    }

    fn stats(&self) -> Stats {
        Self::stats(self)
    }

    fn tend(&self) {
        run_ready(Self::tend(self)).expect("a round ends");
    }

    fn leave(&self) {
        run_ready(self.engine().leave()).expect("the client can leave");
    }

    fn retire_chunks(&self, most: u64) -> u64 {
        run_ready(self.engine().retire_chunks(most)).expect("chunks can be emptied")
    }
}

/// Bytes that depend on key and version, so that a torn value or another key's is noticed.
pub fn value_of(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (key.wrapping_mul(31) + version.wrapping_mul(7) + index as u64) as u8).collect()
}
