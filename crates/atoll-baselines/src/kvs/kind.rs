//! The descriptor of `kvs` among the engines that users choose from.

use super::{ENGINE_KVS, Kvs, options};
use atoll_cache::engines::{Described, EngineChoices, EngineIdentity, EngineKind, PoolSize};
use atoll_cache::table::TablePool;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// A pool of `kvs` has no choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvsOptions;

impl EngineChoices for KvsOptions {
    const ENGINE: EngineIdentity = EngineIdentity {
        name: "kvs",
        forms: &[Described { name: "kvs", what: "A table of objects that tracks nothing and evicts at random" }],
        options: &[],
        number: ENGINE_KVS,
    };

    fn named(name: &str) -> Option<Result<Self, String>> {
        (name == Self::ENGINE.name).then_some(Ok(Self))
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        options().of_size(size)
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        options().for_objects(objects_max, clients_max, record_bytes)
    }
}

/// [`kvs`](super).
pub enum KvsKind {}

impl EngineKind for KvsKind {
    type Options = KvsOptions;
    type Shared = TablePool;
    type Client<E: Endpoint> = Kvs<E>;
}
