//! Engines that are there to be compared with. Simulated cases and the lab know them; what is
//! served and embedded does not.
//!
//! | module | concept |
//! |---|---|
//! | [`kvs`] | tracks nothing, evicts at random |
//! | [`queues`] | `shard-lru`, `lru-dm`, `sieve-dm`, `s3fifo-dm`: queues that lie in the pool |
//! | [`glcache`] | `glcache-dm`: groups of FORGE, of which trees choose the victims |
//! | [`cliquemap`] | `cliquemap-lru` and `cliquemap-lfu`: a memory node that has a processor |
//! | [`forge_ablations`] | FORGE without single techniques |
//! | [`ditto_ablations`] | Ditto without single techniques |
//!
//! To add a baseline: its [`EngineKind`] in its folder, and a line in [`BASELINES`]. CliqueMap has
//! no descriptor, because its clients need a fabric with messages.
#![forbid(unsafe_code)]

pub mod cliquemap;
pub mod ditto_ablations;
pub mod forge_ablations;
pub mod glcache;
pub mod kvs;
pub mod queues;

use atoll_cache::EngineKind;
use glcache::GlCacheKind;
use kvs::kind::KvsKind;
use queues::kind::QueuesKind;

/// A baseline, as users and pool headers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Its name.
    pub name: &'static str,
    /// Its number in the pool header.
    pub number: u64,
}

impl Baseline {
    const fn of<K: EngineKind>() -> Self {
        Self { name: K::NAME, number: K::NUMBER }
    }
}

/// The baselines that have a descriptor.
pub const BASELINES: [Baseline; 3] =
    [Baseline::of::<KvsKind>(), Baseline::of::<QueuesKind>(), Baseline::of::<GlCacheKind>()];

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_cache::forge::{ForgeOptions, ForgePool};
    use atoll_cache::{EngineId, EnginePool};
    use atoll_pool::{PoolError, PoolSettings};
    use glcache::{GlCacheOptions, GlCachePool};

    #[test]
    fn no_two_engines_share_a_name_or_a_number() {
        let served = EngineId::ALL.iter().map(|engine| Baseline { name: engine.name(), number: engine.number() });
        let all: Vec<Baseline> = served.chain(BASELINES).collect();
        for (place, one) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other.name != one.name && other.number != one.number), "{one:?}");
        }
    }

    #[test]
    fn a_pool_of_one_form_of_forge_is_not_taken_for_one_of_another() {
        let base = PoolSettings::for_capacity(1 << 20);
        let (shipped, learned) =
            (ForgeOptions::default().settings(base.clone(), 256), GlCacheOptions::default().settings(base, 256));
        assert!(ForgePool::check(&shipped).is_ok() && GlCachePool::check(&learned).is_ok());
        assert!(matches!(ForgePool::check(&learned), Err(PoolError::Engine { .. })));
        assert!(matches!(GlCachePool::check(&shipped), Err(PoolError::Engine { .. })));
        assert!(GlCachePool::engine_area(&learned).home_bytes > ForgePool::engine_area(&shipped).home_bytes);
        let mut damaged = learned;
        damaged.engine_settings[2] = 0;
        assert!(matches!(GlCachePool::check(&damaged), Err(PoolError::Damaged { .. })));
        let mut damaged = shipped;
        damaged.engine_settings[2] = 1;
        assert!(matches!(ForgePool::check(&damaged), Err(PoolError::Damaged { .. })));
    }
}
