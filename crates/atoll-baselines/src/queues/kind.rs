//! The descriptor of the engines with queues in the pool, of which a pool's choices name one.

use super::{ENGINE_QUEUES, QueueOptions, Queued};
use atoll_cache::EngineKind;
use atoll_cache::engines::object_bytes_mean;
use atoll_cache::table::TablePool;
use atoll_cache::table::settings::TableOptions;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// [`queues`](super).
#[derive(Clone, Copy, Debug)]
pub struct QueuesKind;

impl EngineKind for QueuesKind {
    const NAME: &'static str = "queues";
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
        let options = options.objects();
        let object_bytes_mean = object_bytes_mean(body_bytes_mean, options.object_bytes_mean);
        TableOptions { object_bytes_mean, ..options }.for_growth(capacity_bytes, growth_bytes_max)
    }
}
