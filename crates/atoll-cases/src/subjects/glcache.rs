//! The engine `glcache-dm` under test.

use crate::endpoint::CaseEndpoint;
use crate::engine::Simulated;
use crate::subject::Subject;
use crate::subjects::forge::{ForgeSubject, configure_forge};
use atoll_baselines::glcache::{GlCacheDm, GlCacheKind, GlCacheOptions};
use atoll_cache::engines::EngineChoices;
use atoll_cache::forge;
use atoll_pool::PoolSettings;
use atoll_sim::Random;

/// The engine `glcache-dm`: groups of FORGE with the learned eviction rule of GLCache.
#[derive(Clone, Debug, Default)]
pub struct GlCacheSubject {
    /// Its options.
    pub options: GlCacheOptions,
    /// Whether no client caches addresses or misses. Otherwise every other client does.
    pub without_address_cache: bool,
}

impl Simulated for GlCacheKind {
    type Subject = GlCacheSubject;
}

impl Subject for GlCacheSubject {
    const NAME: &'static str = GlCacheOptions::ENGINE.name;
    type Hole = forge::Hole;
    type Engine = GlCacheDm<CaseEndpoint>;
    const CHUNK_BYTES: [u32; 3] = <ForgeSubject as Subject>::CHUNK_BYTES;

    fn drawn(random: &mut Random, _paper: bool) -> Self {
        let mut options = GlCacheOptions::default();
        options.0.merge_groups = random.pick(&[1, 2, 8]);
        Self { options, ..Self::default() }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.options.settings(base, slots)
    }

    fn without_address_cache(self) -> Self {
        Self { without_address_cache: true, ..self }
    }

    fn caches_no_addresses(&self) -> bool {
        self.without_address_cache
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        configure_forge(engine, self.without_address_cache, hole);
    }
}
