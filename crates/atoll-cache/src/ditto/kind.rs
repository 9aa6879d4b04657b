//! `ditto` as one of the engines that users choose from.

use super::{Ditto, DittoOptions, ENGINE_DITTO};
use crate::engines::EngineKind;
use crate::experts::{DEFAULT_SET, ExpertSet, ExpertSetError};
use crate::pooled::EnginePool;
use crate::table::TablePool;
use atoll_fabric::Endpoint;
use atoll_pool::{Pool, PoolError, PoolSettings};
use std::sync::Arc;

/// [`ditto`](super).
#[derive(Clone, Copy, Debug)]
pub struct DittoKind;

impl EngineKind for DittoKind {
    const NAME: &'static str = "ditto";
    const NAMES: &'static str = "ditto, ditto:POLICY+POLICY, ditto-paper:POLICY+POLICY";
    const NUMBER: u64 = ENGINE_DITTO;
    type Options = DittoOptions;
    type Shared = TablePool;
    type Client<E: Endpoint> = Ditto<E>;

    fn for_growth(
        options: &DittoOptions,
        body_bytes_mean: Option<u32>,
        capacity_bytes: u64,
        growth_bytes_max: u64,
    ) -> PoolSettings {
        options.objects().expecting(body_bytes_mean).for_growth(capacity_bytes, growth_bytes_max)
    }

    fn opened(pool: Pool) -> Result<Arc<TablePool>, PoolError> {
        let shared = TablePool::opened(pool)?;
        DittoOptions::decode(shared.settings())?;
        Ok(shared)
    }

    fn experts(shared: &TablePool) -> Option<ExpertSet> {
        DittoOptions::decode(shared.settings()).ok().map(|settings| settings.experts)
    }

    fn experts_of(options: &DittoOptions) -> Option<ExpertSet> {
        Some(options.experts)
    }

    fn named(name: &str) -> Option<Result<DittoOptions, String>> {
        let (form, experts) = name.split_once(':').map_or((name, None), |(form, experts)| (form, Some(experts)));
        let experts = |default: &str| -> Result<ExpertSet, String> {
            experts.unwrap_or(default).parse().map_err(|error: ExpertSetError| error.to_string())
        };
        match form {
            "ditto" => Some(experts(DEFAULT_SET).map(DittoOptions::adaptive)),
            "ditto-paper" => Some(experts("lru+lfu").map(DittoOptions::paper)),
            _ => None,
        }
    }

    fn name_of(options: &DittoOptions) -> String {
        let experts = options.experts;
        if *options == DittoOptions::paper(experts) {
            return format!("ditto-paper:{experts}");
        }
        if experts.to_string() == DEFAULT_SET { Self::NAME.to_owned() } else { format!("ditto:{experts}") }
    }

    fn for_objects(options: &DittoOptions, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        options.objects().for_objects(objects_max, clients_max, record_bytes)
    }
}
