//! The descriptor of `kvs` among the engines that users choose from.

use super::{ENGINE_KVS, Kvs, options};
use atoll_cache::EngineKind;
use atoll_cache::table::TablePool;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// [`kvs`](super).
#[derive(Clone, Copy, Debug)]
pub struct KvsKind;

impl EngineKind for KvsKind {
    const NAME: &'static str = "kvs";
    const NAMES: &'static str = "kvs";
    const NUMBER: u64 = ENGINE_KVS;
    /// It has no choices.
    type Options = ();
    type Shared = TablePool;
    type Client<E: Endpoint> = Kvs<E>;

    fn for_growth((): &(), body_bytes_mean: Option<u32>, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings {
        options().expecting(body_bytes_mean).for_growth(capacity_bytes, growth_bytes_max)
    }

    fn named(name: &str) -> Option<Result<(), String>> {
        (name == Self::NAME).then_some(Ok(()))
    }

    fn name_of((): &()) -> String {
        Self::NAME.to_owned()
    }

    fn for_objects((): &(), objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        options().for_objects(objects_max, clients_max, record_bytes)
    }
}
