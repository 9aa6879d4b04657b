//! A pool of shared memory as one process has it open.

use crate::Cache;
use atoll_cache::CacheError;
use atoll_cache::forge::verify::Report;
use atoll_cache::forge::{Forge, ForgeOptions, ForgePool};
use atoll_fabric::region::Region;
use atoll_fabric::shm::{ShmEndpoint, ShmError, ShmRegion};
use atoll_fabric::{Clock, run_ready};
use atoll_pool::registry::Place;
use atoll_pool::{PoolError, chunks, registry};
use std::sync::Arc;

/// Why a pool could not be made, opened or joined.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The shared memory.
    #[error(transparent)]
    Region(#[from] ShmError),
    /// What is in it.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// What a new pool is to be like.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    capacity_bytes: u64,
    clients_max: Option<u32>,
    forge: ForgeOptions,
}

impl Default for PoolOptions {
    /// 1 GiB, the default engine settings.
    fn default() -> Self {
        Self { capacity_bytes: 1 << 30, clients_max: None, forge: ForgeOptions::default() }
    }
}

impl PoolOptions {
    /// Bytes of the whole pool, metadata included; the hard limit.
    pub fn capacity_bytes(self, capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..self }
    }

    /// Most clients (threads) at a time. By default 64, fewer in pools below 2 MiB.
    pub fn clients_max(self, clients_max: u32) -> Self {
        Self { clients_max: Some(clients_max), ..self }
    }

    /// Expected bytes of an object with its key, by which the index is sized (default 288). Objects much smaller than that fill the index
    /// before the memory.
    pub fn object_bytes_mean(mut self, bytes: u32) -> Self {
        self.forge.object_bytes_mean = bytes.saturating_add(atoll_cache::forge::object::HEADER_BYTES as u32);
        self
    }

    /// The engine's own choices.
    pub fn forge(self, forge: ForgeOptions) -> Self {
        Self { forge, ..self }
    }

    fn settings(&self) -> atoll_pool::PoolSettings {
        let mut settings = self.forge.for_capacity(self.capacity_bytes);
        settings.clients_max = self.clients_max.unwrap_or(settings.clients_max);
        settings
    }
}

/// What `pool info` tells.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// What the pool was made with: name and value.
    pub settings: Vec<(&'static str, String)>,
    /// Objects in it.
    pub objects: u64,
    /// Free chunks, of all.
    pub chunks_free: u64,
    /// All chunks.
    pub chunks: u64,
    /// The clients.
    pub clients: Vec<Place>,
}

/// A pool that this process has open. Cheap to clone; threads share it and take clients of their own.
#[derive(Clone)]
pub struct Pool {
    region: Arc<ShmRegion>,
    forge: Arc<ForgePool>,
    clock: Clock,
}

impl Pool {
    /// A pool of this process alone.
    pub fn anonymous(options: &PoolOptions) -> Result<Self, OpenError> {
        // Settings that are not possible are told before any memory is taken.
        options.settings().check()?;
        Self::format(ShmRegion::anonymous(options.capacity_bytes)?, options)
    }

    /// A new pool that other processes can open: `shm:/NAME`, or the path of a file. It stays until it is removed or the host reboots.
    pub fn create(name: &str, options: &PoolOptions) -> Result<Self, OpenError> {
        options.settings().check()?;
        let pool = Self::format(ShmRegion::create(name, options.capacity_bytes / 8 * 8)?, options);
        if pool.is_err() {
            ShmRegion::remove(name)?;
        }
        pool
    }

    fn format(region: ShmRegion, options: &PoolOptions) -> Result<Self, OpenError> {
        let (region, clock) = (Arc::new(region), Clock::host());
        let endpoint = ShmEndpoint::with_regions(vec![region.clone()], clock.clone());
        let forge = run_ready(ForgePool::format(&endpoint, options.settings()))?;
        Ok(Self { region, forge, clock })
    }

    /// Opens a pool that somebody created.
    pub fn open(name: &str) -> Result<Self, OpenError> {
        let (region, clock) = (Arc::new(ShmRegion::open(name)?), Clock::host());
        let endpoint = ShmEndpoint::with_regions(vec![region.clone()], clock.clone());
        let forge = run_ready(ForgePool::open(&endpoint, region.attributes().bytes))?;
        Ok(Self { region, forge, clock })
    }

    /// Removes a pool's name. Processes that have it open keep using its memory until they close it.
    pub fn remove(name: &str) -> Result<(), OpenError> {
        Ok(ShmRegion::remove(name)?)
    }

    fn endpoint(&self) -> ShmEndpoint {
        ShmEndpoint::with_regions(vec![self.region.clone()], self.clock.clone())
    }

    /// A new client, for one thread.
    pub fn client(&self) -> Result<Cache, OpenError> {
        Ok(Cache::new(atoll_cache::Cache::new(run_ready(Forge::join(&self.forge, self.endpoint()))?)))
    }

    /// Bytes of the whole pool.
    pub fn capacity_bytes(&self) -> u64 {
        self.forge.pool().settings.capacity_bytes
    }

    /// Bytes of chunks that are in use, and of the metadata.
    pub fn used_bytes(&self) -> u64 {
        let layout = &self.forge.pool().layout;
        let free = run_ready(chunks::free_chunks(&self.endpoint(), layout)).unwrap_or(0);
        self.capacity_bytes() - free.min(layout.chunks.into()) * layout.chunk_bytes
    }

    /// The name under which other processes open it.
    pub fn name(&self) -> Option<&str> {
        self.region.name()
    }

    /// What the pool was made with: name and value.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.forge.describe_settings()
    }

    /// Who uses it, and how full it is.
    pub fn info(&self) -> Result<PoolInfo, CacheError> {
        let (endpoint, pool) = (self.endpoint(), self.forge.pool());
        Ok(PoolInfo {
            settings: self.settings(),
            objects: run_ready(registry::objects(&endpoint, pool))?,
            chunks_free: run_ready(chunks::free_chunks(&endpoint, &pool.layout))?,
            chunks: pool.layout.chunks.into(),
            clients: run_ready(registry::places(&endpoint, pool))?,
        })
    }

    /// Walks every invariant of the pool and says what is wrong. Nobody may use the pool meanwhile.
    pub fn verify(&self) -> Result<Report, CacheError> {
        run_ready(Forge::auditor(&self.forge, self.endpoint()).verify())
    }
}
