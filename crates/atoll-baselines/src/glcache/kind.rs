//! The descriptor of GLCache-DM, and the choices of a new pool.

use super::area::ENGINE_GLCACHE;
use super::technique::{GlCacheDm, GlCachePool, Learning};
use atoll_cache::EngineKind;
use atoll_cache::forge::annex::Annex;
use atoll_cache::forge::{ForgeKind, ForgeOptions};
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// Choices of a pool of GLCache-DM: the choices of a pool of FORGE. Its queues and ghosts are not
/// used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlCacheOptions(pub ForgeOptions);

impl Default for GlCacheOptions {
    /// As FORGE's section 6.1 describes it: eight groups merged into one.
    fn default() -> Self {
        Self(ForgeOptions { small_percent: 100, ..ForgeOptions::paper() })
    }
}

impl GlCacheOptions {
    /// Writes the choices into a pool's settings, for an index of `slots`.
    pub fn settings(&self, settings: PoolSettings, slots: u64) -> PoolSettings {
        Learning::claim(self.0.settings(settings, slots))
    }

    /// Settings for a pool of so many bytes.
    pub fn for_capacity(&self, capacity_bytes: u64) -> PoolSettings {
        Learning::claim(self.0.for_capacity(capacity_bytes))
    }
}

/// [`glcache`](super).
#[derive(Clone, Copy, Debug)]
pub struct GlCacheKind;

impl EngineKind for GlCacheKind {
    const NAME: &'static str = "glcache-dm";
    const NAMES: &'static str = "glcache-dm";
    const NUMBER: u64 = ENGINE_GLCACHE;
    type Options = GlCacheOptions;
    type Shared = GlCachePool;
    type Client<E: Endpoint> = GlCacheDm<E>;

    fn for_growth(
        options: &GlCacheOptions,
        body_bytes_mean: Option<u32>,
        capacity_bytes: u64,
        growth_bytes_max: u64,
    ) -> PoolSettings {
        Learning::claim(ForgeKind::for_growth(&options.0, body_bytes_mean, capacity_bytes, growth_bytes_max))
    }

    fn named(name: &str) -> Option<Result<GlCacheOptions, String>> {
        (name == Self::NAME).then(|| Ok(GlCacheOptions::default()))
    }

    fn name_of(_: &GlCacheOptions) -> String {
        Self::NAME.to_owned()
    }

    fn for_objects(options: &GlCacheOptions, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        options.0.for_objects_with::<Learning>(objects_max, clients_max, record_bytes)
    }
}
