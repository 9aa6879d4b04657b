//! The steps in which GLCache-DM differs from the shipped FORGE: see [`Technique`].

use super::area::{Area, ENGINE_GLCACHE};
use super::learner::Learner;
use atoll_cache::CacheError;
use atoll_cache::forge::annex::Annex;
use atoll_cache::forge::ring::Cursors;
use atoll_cache::forge::slot::KeyHash;
use atoll_cache::forge::technique::{Evicted, OpenGroup, Technique};
use atoll_cache::forge::{Forge, ForgePoolWith, Queue};
use atoll_fabric::{Address, Buffer, Endpoint};
use atoll_pool::{ChunkId, Pool, PoolError, PoolSettings};
use std::cell::Cell;

/// A client of a pool of GLCache-DM.
pub type GlCacheDm<E> = Forge<E, GlCache>;

/// A pool of GLCache-DM as one process has it open.
pub type GlCachePool = ForgePoolWith<Learning>;

/// What GLCache-DM adds to a pool, as one process has it.
pub struct Learning {
    /// What this process knows and learns.
    pub learner: Learner,
    /// Where records and samples are in the pool.
    pub area: Area,
}

impl Annex for Learning {
    const ENGINE: u64 = ENGINE_GLCACHE;

    fn claim(mut settings: PoolSettings) -> PoolSettings {
        settings.engine = ENGINE_GLCACHE;
        settings.engine_settings[2] = Area::settings_word(&settings);
        settings
    }

    fn area_bytes(settings: &PoolSettings) -> Result<u64, PoolError> {
        Area::new(settings, Address::new(0, 0, 0)).map(|area| area.bytes())
    }

    fn opened(pool: &Pool, area: Address) -> Result<Self, PoolError> {
        let learner = Learner::new(pool.layout.chunks_max, pool.settings.group_objects_max);
        Ok(Self { learner, area: Area::new(&pool.settings, area)? })
    }

    fn describe(&self, offset: u64) -> String {
        self.area.describe(offset)
    }
}

/// One client's side of GLCache-DM.
#[derive(Debug, Default)]
pub struct GlCache {
    /// Groups that had been written to the pool when this client last looked, modulo 2^32.
    pub(super) groups_now: Cell<u32>,
    /// Hits and misses of this client that the process's rates include.
    pub(super) rated: Cell<(u64, u64)>,
}

impl<E: Endpoint> Technique<E> for GlCache {
    type Annex = Learning;

    /// No other baseline does.
    fn reuses_places(&self) -> bool {
        false
    }

    #[inline]
    fn looked_up(&self, forge: &GlCacheDm<E>, hash: KeyHash) {
        self.watch_lookup(forge, hash);
    }

    #[inline]
    fn counted_hit(&self, forge: &GlCacheDm<E>, chunk: ChunkId, _number: u16, generation: u16) {
        forge.pool().annex().learner.touch(chunk, generation);
    }

    async fn flush_hotness(&self, forge: &GlCacheDm<E>) -> Result<(), CacheError> {
        self.flush_touched(forge).await
    }

    fn counters(&self, forge: &GlCacheDm<E>, chunk: ChunkId, queue: Queue, position: u32) -> Address {
        let counters = forge.pool().annex().area.group_counters(chunk);
        counters.unwrap_or_else(|| forge.pool().layout().frequencies(queue, position))
    }

    fn counts_by_chunk(&self) -> bool {
        true
    }

    fn group_record(&self, forge: &GlCacheDm<E>, group: &OpenGroup) -> Option<(Address, Buffer)> {
        self.written(forge, group)
    }

    async fn evict(&self, forge: &GlCacheDm<E>, effort: u32) -> Result<Evicted, CacheError> {
        // Boxed: it is much larger than the eviction of the shipped engine.
        Box::pin(self.evict_least(forge, effort)).await
    }

    fn note_cursors(&self, cursors: [Cursors; 2]) {
        self.groups_now.set(cursors[0].tail.wrapping_add(cursors[1].tail));
    }
}
