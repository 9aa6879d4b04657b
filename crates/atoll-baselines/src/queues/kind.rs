//! The descriptors of the engines with queues among the engines that users choose from.

use super::{ENGINE_QUEUES, QueueOptions, QueuePolicy, Queued};
use atoll_cache::EngineKind;
use atoll_cache::table::TablePool;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// [`queues`](super).
#[derive(Clone, Copy, Debug)]
pub struct QueuesKind;

impl EngineKind for QueuesKind {
    const NAME: &'static str = "queues";
    const NAMES: &'static str = "shard-lru, lru-dm, sieve-dm (with :LISTS if not 32), s3fifo-dm";
    const NUMBER: u64 = ENGINE_QUEUES;
    type Options = QueueOptions;
    type Shared = TablePool;
    type Client<E: Endpoint> = Queued<E>;

    fn for_growth(
        options: &QueueOptions,
        body_bytes_mean: Option<u32>,
        capacity_bytes: u64,
        growth_bytes_max: u64,
    ) -> PoolSettings {
        options.objects().expecting(body_bytes_mean).for_growth(capacity_bytes, growth_bytes_max)
    }

    fn named(name: &str) -> Option<Result<QueueOptions, String>> {
        let policy = name.split(':').next();
        let is_known = QueuePolicy::ALL.into_iter().any(|known| policy == Some(known.name()));
        is_known.then(|| name.parse())
    }

    fn name_of(options: &QueueOptions) -> String {
        options.to_string()
    }

    fn for_objects(options: &QueueOptions, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        options.objects().for_objects(objects_max, clients_max, record_bytes)
    }
}
