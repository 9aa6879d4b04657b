//! The descriptor of `ditto`.

use super::{Ditto, DittoOptions, DittoSettings, ENGINE_DITTO};
use crate::engines::{EngineKind, object_bytes_mean};
use crate::experts::ExpertSet;
use crate::pooled::EnginePool;
use crate::table::TablePool;
use crate::table::settings::TableOptions;
use atoll_fabric::Endpoint;
use atoll_pool::{Pool, PoolError, PoolSettings};
use std::sync::Arc;

/// [`ditto`](super).
#[derive(Clone, Copy, Debug)]
pub struct DittoKind;

impl EngineKind for DittoKind {
    const NAME: &'static str = "ditto";
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
        let options = options.objects();
        let object_bytes_mean = object_bytes_mean(body_bytes_mean, options.object_bytes_mean);
        TableOptions { object_bytes_mean, ..options }.for_growth(capacity_bytes, growth_bytes_max)
    }

    fn opened(pool: Pool) -> Result<Arc<TablePool>, PoolError> {
        let shared = TablePool::opened(pool)?;
        DittoSettings::decode(shared.settings())?;
        Ok(shared)
    }

    fn experts(shared: &TablePool) -> Option<ExpertSet> {
        DittoSettings::decode(shared.settings()).ok().map(|settings| settings.experts)
    }

    fn experts_of(options: &DittoOptions) -> Option<ExpertSet> {
        Some(options.experts)
    }
}
