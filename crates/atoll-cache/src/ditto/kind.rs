//! `ditto` as one of the engines that users choose from.

use super::{Ditto, DittoOptions};
use crate::engines::EngineKind;
use crate::experts::ExpertSet;
use crate::pooled::EnginePool;
use crate::table::TablePool;
use atoll_fabric::Endpoint;
use atoll_pool::{Pool, PoolError};
use std::sync::Arc;

/// [`ditto`](super).
pub enum DittoKind {}

impl EngineKind for DittoKind {
    type Options = DittoOptions;
    type Shared = TablePool;
    type Client<E: Endpoint> = Ditto<E>;

    fn opened(pool: Pool) -> Result<Arc<TablePool>, PoolError> {
        let shared = TablePool::opened(pool)?;
        DittoOptions::decode(shared.settings())?;
        Ok(shared)
    }

    fn experts(shared: &TablePool) -> Option<ExpertSet> {
        DittoOptions::decode(shared.settings()).ok().map(|settings| settings.experts)
    }
}
