//! What a point of an experiment runs on: network, pool, threads, load.

use super::processor::{Processor, ServerCosts};
use super::system::System;
use crate::load::{KEY_BYTES, Load};
use atoll_baselines::cliquemap::{CliqueMapOptions, Policy, record};
use atoll_baselines::ditto_ablations;
use atoll_baselines::forge_ablations::Variant;
use atoll_baselines::glcache::GlCacheOptions;
use atoll_baselines::kvs;
use atoll_baselines::queues::QueueOptions;
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::record::small_record_bytes;
use atoll_cache::table::TableOptions;
use atoll_cache::table::class::Class;
use atoll_cache::table::layout::ACCESS_BYTES;
use atoll_pool::PoolSettings;
use atoll_sim::network::{Profile, profiles};
use rapidhash::RapidHashMap;
use std::sync::Arc;

/// Compute nodes of FORGE's testbed.
pub const COMPUTE_NODES: u16 = 3;
/// Objects of a group (FORGE 6.1).
pub const GROUP_OBJECTS: u32 = 64;

const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 512..=64 << 10;
/// Chunks for each thread below which chunks become smaller: a thread holds two open groups and
/// some chunks in stock.
const CHUNKS_PER_THREAD: u64 = 16;
/// Objects of a chunk below which chunks do not become smaller: objects longer than half a chunk
/// would be cut in pieces.
const CHUNK_OBJECTS_MIN: u32 = 8;
/// What a record of a small object has besides key and value, and its places in map and index.
const OVERHEAD_BYTES: u32 = 48;

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
    /// The engine, for which the pool is made.
    pub system: System,
    /// The pool.
    pub pool: PoolSettings,
    /// Client threads.
    pub threads: u16,
    /// Operations that each has under way at a time.
    pub in_flight: u16,
    /// What they ask.
    pub load: Arc<dyn Load>,
    /// What is there before the first request.
    pub start: Start,
    /// Memory of each thread's address cache, which only `forge` has; 0 switches it off.
    pub address_cache_bytes: usize,
    /// How long a thread waits after a miss before it sets the key.
    pub miss_penalty_ns: u64,
    /// What all threads' engines do without, on [`System::AblatedForge`].
    pub variant: Variant,
    /// The same on [`System::AblatedDitto`].
    pub ditto_variant: ditto_ablations::Variant,
    /// The memory node's processor, which only CliqueMap needs.
    pub processor: Processor,
    /// Seed of the simulation.
    pub seed: u64,
}

impl Setup {
    /// FORGE's testbed with a cache of `cache_bytes` for objects of `object_bytes` in the mean.
    pub fn new(load: Arc<dyn Load>, threads: u16, cache_bytes: u64, object_bytes: u32, seed: u64) -> Self {
        Self {
            profile: profiles::CX5_100G,
            compute_nodes: COMPUTE_NODES,
            system: System::Forge,
            pool: pool(cache_bytes, object_bytes, threads, GROUP_OBJECTS),
            threads,
            in_flight: 1,
            load,
            start: Start::Empty,
            address_cache_bytes: 0,
            miss_penalty_ns: 0,
            variant: Variant::default(),
            ditto_variant: ditto_ablations::Variant::default(),
            processor: Processor::default(),
            seed,
        }
    }

    /// The same point on FORGE without these techniques.
    pub fn ablated(self, variant: Variant) -> Self {
        Self { system: System::AblatedForge, variant, ..self }
    }

    /// The same point, which is on Ditto, without these techniques.
    pub fn ablated_ditto(self, ditto_variant: ditto_ablations::Variant) -> Self {
        Self { system: System::AblatedDitto, ditto_variant, ..self }
    }

    /// The same point on Ditto, in a pool of `cache_bytes` for the same objects.
    pub fn on_ditto(self, options: &DittoOptions, cache_bytes: u64, object_bytes: u32) -> Self {
        let pool = objects_pool(options.objects(), cache_bytes, object_bytes, self.threads);
        Self { system: System::Ditto, pool, ..self }
    }

    /// The same point on GLCache-DM, in a pool of `cache_bytes` for the same objects.
    pub fn on_glcache(self, cache_bytes: u64, object_bytes: u32) -> Self {
        let (settings, options, slots) =
            groups_of(GlCacheOptions::default().0, cache_bytes, object_bytes, self.threads, GROUP_OBJECTS);
        Self { system: System::GlCacheDm, pool: GlCacheOptions(options).settings(settings, slots), ..self }
    }

    /// The same point on a table of objects that tracks nothing, in a pool of `cache_bytes` for the
    /// same objects.
    pub fn on_kvs(self, cache_bytes: u64, object_bytes: u32) -> Self {
        let pool = objects_pool(kvs::options(), cache_bytes, object_bytes, self.threads);
        Self { system: System::Kvs, pool, ..self }
    }

    /// The same point on queues in the pool, in a pool of `cache_bytes` for the same objects.
    pub fn on_queues(self, options: QueueOptions, cache_bytes: u64, object_bytes: u32) -> Self {
        let pool = objects_pool(options.objects(), cache_bytes, object_bytes, self.threads);
        Self { system: System::Queues, pool, ..self }
    }

    /// The same point on CliqueMap, in a pool of `cache_bytes` for the same objects.
    pub fn on_cliquemap(self, policy: Policy, cache_bytes: u64, object_bytes: u32) -> Self {
        let options = CliqueMapOptions { policy, object_bytes_mean: cliquemap_footprint(object_bytes) as u32 };
        let pool = PoolSettings { clients_max: clients_max(self.threads), ..options.for_capacity(cache_bytes) };
        let processor = Processor { costs: ServerCosts::measured(policy), ..self.processor };
        Self { system: System::CliqueMap, pool, processor, ..self }
    }
}

/// Slots for which the replacement's area is asked after.
const AREA_SLOTS: u64 = 1 << 20;

/// Bytes of pool that an object of so many bytes takes on the table of objects: its block, and its
/// slots with their access information and what the replacement keeps for each.
pub fn objects_footprint(options: &TableOptions, object_bytes: u32) -> u64 {
    let record = small_record_bytes(KEY_BYTES as usize, object_bytes.saturating_sub(KEY_BYTES) as usize);
    let block = Class::of(record + 8 * options.extension_words).map_or(u64::from(object_bytes), Class::bytes);
    block + options.slots_per_object * (8 + ACCESS_BYTES + (options.area_bytes)(AREA_SLOTS) / AREA_SLOTS)
}

/// Bytes of pool that an object of so many bytes takes on CliqueMap: its record, and its entries.
pub fn cliquemap_footprint(object_bytes: u32) -> u64 {
    let record = record::record_bytes(KEY_BYTES as usize, object_bytes.saturating_sub(KEY_BYTES) as usize);
    CliqueMapOptions::default().footprint_bytes(record)
}

/// Settings of a pool of `cache_bytes`, metadata included, on the table of objects: the index is
/// made for as many objects as there is room for.
fn objects_pool(options: TableOptions, cache_bytes: u64, object_bytes: u32, threads: u16) -> PoolSettings {
    let expected = cache_bytes / objects_footprint(&options, object_bytes);
    let settings = PoolSettings {
        chunk_bytes: fair_chunk_bytes(cache_bytes, object_bytes, threads, GROUP_OBJECTS),
        group_objects_max: 1,
        clients_max: clients_max(threads),
        ..PoolSettings::for_capacity(cache_bytes)
    };
    let slots = options.slots_per_object * expected;
    options.settings(settings, slots)
}

/// Places of clients for so many threads, and for those that make and open the pool.
fn clients_max(threads: u16) -> u32 {
    u32::from(threads) + u32::from(COMPUTE_NODES) + 1
}

/// The power of two below what a group of so many objects needs, in bytes.
fn chunk_bytes(object_bytes: u32, group_objects: u32) -> u64 {
    let group_bytes = u64::from(group_objects) * (u64::from(object_bytes) + u64::from(OVERHEAD_BYTES));
    1 << group_bytes.clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end()).ilog2()
}

/// The size of chunks for groups of at most so many objects, of which every thread has its share.
fn fair_chunk_bytes(cache_bytes: u64, object_bytes: u32, threads: u16, group_objects: u32) -> u32 {
    let wanted = chunk_bytes(object_bytes, group_objects);
    let least = chunk_bytes(object_bytes, CHUNK_OBJECTS_MIN).min(wanted);
    let fair = (cache_bytes / (CHUNKS_PER_THREAD * u64::from(threads))).max(1);
    (1 << fair.ilog2()).clamp(least, wanted) as u32
}

/// The smallest cache that so many threads can share: with less, they hold most of it open.
pub fn cache_bytes_min(object_bytes: u32, threads: u16) -> u64 {
    CHUNKS_PER_THREAD * u64::from(threads) * chunk_bytes(object_bytes, CHUNK_OBJECTS_MIN)
}

/// Settings of a pool of `cache_bytes`, metadata included, for groups of at most so many objects.
pub fn pool(cache_bytes: u64, object_bytes: u32, threads: u16, group_objects: u32) -> PoolSettings {
    pool_of(ForgeOptions::default(), cache_bytes, object_bytes, threads, group_objects)
}

/// The same, with other choices than the default ones.
pub fn pool_of(
    choices: ForgeOptions,
    cache_bytes: u64,
    object_bytes: u32,
    threads: u16,
    group_objects: u32,
) -> PoolSettings {
    let (settings, options, slots) = groups_of(choices, cache_bytes, object_bytes, threads, group_objects);
    options.settings(settings, slots)
}

/// Settings of a pool of groups without its engine's; the engine's choices, for objects of that
/// size; and the slots of its index.
fn groups_of(
    choices: ForgeOptions,
    cache_bytes: u64,
    object_bytes: u32,
    threads: u16,
    group_objects: u32,
) -> (PoolSettings, ForgeOptions, u64) {
    let chunk_bytes = fair_chunk_bytes(cache_bytes, object_bytes, threads, group_objects);
    let options = ForgeOptions { object_bytes_mean: object_bytes + OVERHEAD_BYTES, ..choices };
    let slots = 2 * cache_bytes / u64::from(options.object_bytes_mean);
    let settings = PoolSettings {
        chunk_bytes,
        // No chunk has more records than units of sixteen bytes.
        group_objects_max: group_objects.min(chunk_bytes / 16),
        clients_max: clients_max(threads),
        ..PoolSettings::for_capacity(cache_bytes)
    };
    (settings, options, slots)
}

/// What a load asks for altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Different keys.
    pub objects: u64,
    /// Bytes of their keys and values, each as it was asked for last.
    pub bytes: u64,
}

impl Footprint {
    /// That of all requests of a load, of which a scan counts as its first key.
    pub fn of(load: &dyn Load) -> Self {
        let mut sizes = RapidHashMap::default();
        for request in load.stream(0, 1) {
            sizes.insert(request.key, u64::from(request.key_bytes.max(8)) + u64::from(request.value_bytes));
        }
        Self { objects: sizes.len() as u64, bytes: sizes.values().sum() }
    }

    /// Bytes of an object in the mean.
    pub fn object_bytes(&self) -> u32 {
        (self.bytes / self.objects.max(1)).min(u64::from(u32::MAX)) as u32
    }
}
