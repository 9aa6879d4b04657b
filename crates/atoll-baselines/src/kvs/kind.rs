//! The descriptor of `kvs`.

use super::{ENGINE_KVS, Kvs, options};
use atoll_cache::EngineKind;
use atoll_cache::engines::object_bytes_mean;
use atoll_cache::table::TablePool;
use atoll_cache::table::settings::TableOptions;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// [`kvs`](super).
#[derive(Clone, Copy, Debug)]
pub struct KvsKind;

impl EngineKind for KvsKind {
    const NAME: &'static str = "kvs";
    const NUMBER: u64 = ENGINE_KVS;
    type Options = ();
    type Shared = TablePool;
    type Client<E: Endpoint> = Kvs<E>;

    fn for_growth(
        _options: &(),
        body_bytes_mean: Option<u32>,
        capacity_bytes: u64,
        growth_bytes_max: u64,
    ) -> PoolSettings {
        let options = options();
        let object_bytes_mean = object_bytes_mean(body_bytes_mean, options.object_bytes_mean);
        TableOptions { object_bytes_mean, ..options }.for_growth(capacity_bytes, growth_bytes_max)
    }
}
