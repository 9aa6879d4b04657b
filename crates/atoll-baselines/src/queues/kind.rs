//! What is said of the engines with queues where users choose an engine.

use super::{ENGINE_QUEUES, QueueOptions, QueuePolicy, Queued};
use atoll_cache::engines::{EngineChoices, EngineIdentity, EngineKind, PoolSize};
use atoll_cache::table::TablePool;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// [`queues`](super).
#[derive(Clone, Copy, Debug)]
pub struct QueuesKind;

impl EngineKind for QueuesKind {
    type Options = QueueOptions;
    type Shared = TablePool;
    type Client<E: Endpoint> = Queued<E>;
}

impl EngineChoices for QueueOptions {
    const ENGINE: EngineIdentity = EngineIdentity {
        name: "queues",
        names: "shard-lru, lru-dm, sieve-dm (with :LISTS if not 32), s3fifo-dm",
        number: ENGINE_QUEUES,
    };

    fn named(name: &str) -> Option<Result<Self, String>> {
        let policy = name.split(':').next();
        let is_known = QueuePolicy::ALL.into_iter().any(|known| policy == Some(known.name()));
        is_known.then(|| name.parse())
    }

    fn name(&self) -> String {
        self.to_string()
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        self.objects().of_size(size)
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.objects().for_objects(objects_max, clients_max, record_bytes)
    }
}
