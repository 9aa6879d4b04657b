//! The engine `glcache-dm` under test.

use crate::endpoint::CaseEndpoint;
use crate::subject::Subject;
use crate::subjects::forge::ForgeSubject;
use atoll_cache::forge::{self, Forge, ForgeOptions};
use atoll_pool::PoolSettings;
use atoll_sim::Random;

/// The engine `forge` with the learned eviction rule of GLCache.
#[derive(Clone, Debug)]
pub struct GlCacheSubject(pub ForgeSubject);

impl Default for GlCacheSubject {
    fn default() -> Self {
        Self(ForgeSubject { options: ForgeOptions::glcache(), ..ForgeSubject::default() })
    }
}

impl Subject for GlCacheSubject {
    const NAME: &'static str = "glcache-dm";
    type Hole = forge::Hole;
    type Engine = Forge<CaseEndpoint>;
    const CHUNK_BYTES: [u32; 3] = <ForgeSubject as Subject>::CHUNK_BYTES;

    fn drawn(random: &mut Random, _paper: bool) -> Self {
        let merge_groups = random.pick(&[1, 2, 8]);
        Self(ForgeSubject {
            options: ForgeOptions { merge_groups, ..ForgeOptions::glcache() },
            ..ForgeSubject::default()
        })
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.0.settings(base, slots)
    }

    fn without_address_cache(self) -> Self {
        Self(self.0.without_address_cache())
    }

    fn caches_no_addresses(&self) -> bool {
        self.0.caches_no_addresses()
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        self.0.configure(engine, hole);
    }
}
