//! The systems that most of the paper's figures have: Ditto with two experts and with each alone,
//! and CliqueMap.

use super::testbed::{cache_bytes, paper, testbed};
use crate::bench::loads::Known;
use crate::bench::setup::Setup;
use crate::bench::sizes::{cliquemap_footprint, objects_footprint};
use atoll_baselines::cliquemap::Policy;
use atoll_baselines::kvs;
use atoll_cache::ditto::DittoOptions;
use atoll_lab::load::{Load, ycsb::OBJECT_BYTES};
use std::sync::Arc;

/// Of the experiments in which a miss takes time (section 5.4).
const MISS_PENALTY_NS: u64 = 500_000;
/// The places of the experts alone among [`ditto`]'s systems.
pub(super) const LRU: usize = 1;
/// The same of LFU.
pub(super) const LFU: usize = 2;

/// An engine with its choices.
#[derive(Clone)]
enum Engine {
    Ditto(DittoOptions),
    CliqueMap(Policy),
    /// A table of objects that tracks nothing and evicts at random.
    Random,
}

/// A system: its name, and its engine.
#[derive(Clone)]
pub(super) struct System {
    pub(super) name: &'static str,
    engine: Engine,
}

/// Two experts that learn from regrets, as in the paper; each of them alone; and both as they learn
/// by default. `choose` makes further choices of all of them.
pub(super) fn ditto(choose: fn(DittoOptions) -> DittoOptions) -> Vec<System> {
    let miniatures = DittoOptions { learning: atoll_cache::experts::Settings::default(), ..paper("lru+lfu") };
    let all = [
        ("ditto", paper("lru+lfu")),
        ("ditto-lru", paper("lru")),
        ("ditto-lfu", paper("lfu")),
        ("ditto, miniatures", miniatures),
    ];
    all.map(|(name, options)| System { name, engine: Engine::Ditto(choose(options)) }).into()
}

/// CliqueMap with each policy: one core, and room for as many objects.
pub(super) fn cliquemap() -> [System; 2] {
    [Policy::Lru, Policy::Lfu].map(|policy| System { name: policy.engine_name(), engine: Engine::CliqueMap(policy) })
}

/// Random eviction.
pub(super) const RANDOM: System = System { name: "random", engine: Engine::Random };

/// What the systems are called.
pub(super) fn names(systems: &[System]) -> Vec<String> {
    systems.iter().map(|system| system.name.to_owned()).collect()
}

impl System {
    /// A point with a cache for this many objects. A miss takes time.
    pub(super) fn point(&self, load: &Arc<dyn Load>, threads: u16, objects: u64, seed: u64) -> Setup {
        let base = testbed(load.clone(), threads, objects * u64::from(OBJECT_BYTES), seed);
        let base = Setup { miss_penalty_ns: MISS_PENALTY_NS, ..base };
        match &self.engine {
            Engine::Ditto(options) => base.on_ditto(options, cache_bytes(options, objects)),
            Engine::CliqueMap(policy) => base.on_cliquemap(*policy, objects * cliquemap_footprint(OBJECT_BYTES)),
            Engine::Random => base.on_kvs(objects * objects_footprint(&kvs::options(), OBJECT_BYTES)),
        }
    }

    /// The same with a cache for a share of the load's objects.
    pub(super) fn share(&self, load: &Known, threads: u16, percent: u64, seed: u64) -> Setup {
        self.point(&load.load, threads, load.objects(percent), seed)
    }
}
