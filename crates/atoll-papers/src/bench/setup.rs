//! What a point of an experiment runs on: network, pool, threads, load.

use super::processor::{Processor, ServerCosts};
use super::sizes::{self, COMPUTE_NODES, GROUP_OBJECTS, clients_max, cliquemap_footprint, objects_pool};
use super::tuning::{DittoAblation, ForgeAblation, ForgeTuning, GlCacheTuning, Tuning};
use atoll_baselines::cliquemap::{CliqueMapOptions, Policy};
use atoll_baselines::glcache::GlCacheOptions;
use atoll_baselines::kvs;
use atoll_baselines::queues::QueueOptions;
use atoll_baselines::{ditto_ablations, forge_ablations};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::{ForgeOptions, ForgeSettings};
use atoll_lab::load::Load;
use atoll_pool::PoolSettings;
use atoll_sim::network::{Profile, profiles};
use std::sync::Arc;

/// What is there before the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The cache is empty.
    #[default]
    Empty,
    /// The load's keys are set.
    Loaded,
    /// They are set, and every thread has looked each up once.
    LookedUp,
}

/// A point of an experiment.
#[derive(Clone)]
pub struct Setup {
    /// The network.
    pub profile: Profile,
    /// The compute nodes that the threads are spread over.
    pub compute_nodes: u16,
    /// The pool, whose settings name the engine.
    pub pool: PoolSettings,
    /// Bytes of an object in the mean: key and value.
    pub object_bytes: u32,
    /// Client threads.
    pub threads: u16,
    /// Operations that each thread has in flight.
    pub in_flight: u16,
    /// Requests of all threads that arrive in a second, in an open loop; `None` for a closed loop,
    /// in which a thread begins the next request when one has ended.
    pub rate_per_s: Option<u64>,
    /// What the threads ask.
    pub load: Arc<dyn Load>,
    /// What is there before the first request.
    pub start: Start,
    /// Bytes of the near cache of each compute node; 0 for none.
    pub near_bytes: u64,
    /// How long a thread waits after a miss before it sets the key.
    pub miss_penalty_ns: u64,
    /// Whether each compute node has a client that only makes room ahead of need, for an engine
    /// that can.
    pub has_evictors: bool,
    /// The switches of every client's engine, set after it has joined.
    pub tuning: Option<Arc<dyn Tuning>>,
    /// The memory node's processor, for an engine that needs one.
    pub processor: Option<Processor>,
    /// Seed of the simulation.
    pub seed: u64,
}

impl Setup {
    /// FORGE's testbed with a cache of `cache_bytes` for objects of `object_bytes` in the mean.
    pub fn new(load: Arc<dyn Load>, threads: u16, cache_bytes: u64, object_bytes: u32, seed: u64) -> Self {
        Self {
            profile: profiles::CX5_100G,
            compute_nodes: COMPUTE_NODES,
            pool: sizes::pool(cache_bytes, object_bytes, threads, GROUP_OBJECTS),
            object_bytes,
            threads,
            in_flight: 1,
            rate_per_s: None,
            load,
            start: Start::Empty,
            near_bytes: 0,
            miss_penalty_ns: 0,
            has_evictors: false,
            tuning: Some(Arc::new(ForgeTuning::default())),
            processor: None,
            seed,
        }
    }

    /// The same point on FORGE with other choices, in a pool of `cache_bytes`.
    pub fn on_forge(self, choices: ForgeOptions, cache_bytes: u64) -> Self {
        let pool = sizes::pool_of(choices, cache_bytes, self.object_bytes, self.threads, GROUP_OBJECTS);
        Self { pool, tuning: Some(Arc::new(ForgeTuning::default())), ..self }
    }

    /// The same point, which is on FORGE in a pool of `cache_bytes`, with groups of at most this
    /// many objects, whose chunks they fill.
    pub fn with_groups(self, objects: u32, cache_bytes: u64) -> Self {
        let decoded = ForgeSettings::decode(&self.pool).expect("the point is on FORGE");
        let pool = sizes::pool_of(decoded.options, cache_bytes, self.object_bytes, self.threads, objects);
        Self { pool, ..self }
    }

    /// Nanoseconds between two requests of a thread in the mean, in an open loop.
    pub(crate) fn arrivals_ns(&self) -> Option<f64> {
        self.rate_per_s.map(|rate_per_s| f64::from(self.threads) * 1e9 / rate_per_s as f64)
    }

    /// The same point with its cache on this many memory nodes.
    pub fn spread(self, nodes: u32) -> Self {
        Self { pool: self.pool.clone().spread(nodes), ..self }
    }

    /// The same point on Ditto, in a pool of `cache_bytes`.
    pub fn on_ditto(self, options: &DittoOptions, cache_bytes: u64) -> Self {
        let pool = objects_pool(options.objects(), cache_bytes, self.object_bytes, self.threads);
        Self { pool, tuning: None, ..self }
    }

    /// The same point, which is on FORGE, without these techniques.
    pub fn ablated_forge(self, without: forge_ablations::Variant) -> Self {
        Self { tuning: Some(Arc::new(ForgeAblation { without, ..ForgeAblation::default() })), ..self }
    }

    /// The same point on FORGE as its paper has it, in a pool of `cache_bytes`: its rule and its
    /// verbs.
    pub fn on_forge_paper(self, cache_bytes: u64) -> Self {
        let one = self.on_forge(ForgeOptions::paper(), cache_bytes);
        one.ablated_forge_paper(forge_ablations::Variant::default())
    }

    /// The same point, which is on FORGE with the paper's rule, without these techniques: with the
    /// paper's verbs.
    pub fn ablated_forge_paper(self, without: forge_ablations::Variant) -> Self {
        let tuning = ForgeAblation { without, paper_verbs: true };
        Self { tuning: Some(Arc::new(tuning)), ..self }
    }

    /// The same point, which is on Ditto, without these techniques.
    pub fn ablated_ditto(self, without: ditto_ablations::Variant) -> Self {
        Self { tuning: Some(Arc::new(DittoAblation(without))), ..self }
    }

    /// The same point on GLCache-DM, in a pool of `cache_bytes`.
    pub fn on_glcache(self, cache_bytes: u64) -> Self {
        let (settings, options, slots) =
            sizes::groups_of(GlCacheOptions::default().0, cache_bytes, self.object_bytes, self.threads, GROUP_OBJECTS);
        let pool = GlCacheOptions(options).settings(settings, slots);
        Self { pool, tuning: Some(Arc::new(GlCacheTuning)), ..self }
    }

    /// The same point on a table of objects that tracks nothing, in a pool of `cache_bytes`.
    pub fn on_kvs(self, cache_bytes: u64) -> Self {
        let pool = objects_pool(kvs::options(), cache_bytes, self.object_bytes, self.threads);
        Self { pool, tuning: None, ..self }
    }

    /// The same point on queues in the pool, in a pool of `cache_bytes`.
    pub fn on_queues(self, options: QueueOptions, cache_bytes: u64) -> Self {
        let pool = objects_pool(options.objects(), cache_bytes, self.object_bytes, self.threads);
        Self { pool, tuning: None, ..self }
    }

    /// The same point on CliqueMap, in a pool of `cache_bytes`, with one core at the memory node.
    pub fn on_cliquemap(self, policy: Policy, cache_bytes: u64) -> Self {
        let options = CliqueMapOptions { policy, object_bytes_mean: cliquemap_footprint(self.object_bytes) as u32 };
        let pool = PoolSettings { clients_max: clients_max(self.threads), ..options.for_capacity(cache_bytes) };
        let processor = Processor { cores: 1, costs: ServerCosts::measured(policy) };
        Self { pool, tuning: None, processor: Some(processor), ..self }
    }
}
