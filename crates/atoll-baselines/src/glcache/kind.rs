//! The descriptor of GLCache-DM, and the choices of a new pool.

use super::area::ENGINE_GLCACHE;
use super::technique::{GlCacheDm, GlCachePool, Learning};
use atoll_cache::engines::{Described, EngineChoices, EngineIdentity, EngineKind, PoolSize};
use atoll_cache::forge::ForgeOptions;
use atoll_cache::forge::annex::Annex;
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

impl EngineChoices for GlCacheOptions {
    const ENGINE: EngineIdentity = EngineIdentity {
        name: "glcache-dm",
        forms: &[Described {
            name: "glcache-dm",
            what: "FORGE's groups; decision trees choose the group that is evicted",
        }],
        options: &[],
        number: ENGINE_GLCACHE,
    };

    fn named(name: &str) -> Option<Result<Self, String>> {
        (name == Self::ENGINE.name).then(|| Ok(Self::default()))
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        Learning::claim(self.0.of_size(size))
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.0.for_objects_with::<Learning>(objects_max, clients_max, record_bytes)
    }
}

/// [`glcache`](super).
pub enum GlCacheKind {}

impl EngineKind for GlCacheKind {
    type Options = GlCacheOptions;
    type Shared = GlCachePool;
    type Client<E: Endpoint> = GlCacheDm<E>;
}
