//! `ditto` as one of the engines that users choose from.

use super::{Ditto, DittoOptions, ENGINE_DITTO};
use crate::engines::EngineKind;
use crate::experts::ExpertSet;
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
    const NUMBER: u64 = ENGINE_DITTO;
    type Options = DittoOptions;
    type Shared = TablePool;
    type Client<E: Endpoint> = Ditto<E>;

    fn object_bytes_mean(options: &mut DittoOptions) -> &mut u32 {
        &mut options.object_bytes_mean
    }

    fn for_growth(options: &DittoOptions, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings {
        options.objects().for_growth(capacity_bytes, growth_bytes_max)
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
}
