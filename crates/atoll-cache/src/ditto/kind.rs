//! `ditto` as one of the engines that users choose from.

use super::{Ditto, DittoOptions, ENGINE_DITTO};
use crate::engines::{EngineChoices, EngineIdentity, EngineKind, PoolSize};
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

impl EngineChoices for DittoOptions {
    const ENGINE: EngineIdentity = EngineIdentity {
        name: "ditto",
        names: "ditto, ditto:POLICY+POLICY, ditto-paper:POLICY+POLICY",
        number: ENGINE_DITTO,
    };

    fn named(name: &str) -> Option<Result<Self, String>> {
        let (form, experts) = name.split_once(':').map_or((name, None), |(form, experts)| (form, Some(experts)));
        let experts = |default: &str| -> Result<ExpertSet, String> {
            experts.unwrap_or(default).parse().map_err(|error: ExpertSetError| error.to_string())
        };
        match form {
            "ditto" => Some(experts(DEFAULT_SET).map(Self::adaptive)),
            "ditto-paper" => Some(experts("lru+lfu").map(Self::paper)),
            _ => None,
        }
    }

    fn name(&self) -> String {
        let experts = self.experts;
        if *self == Self::paper(experts) {
            return format!("ditto-paper:{experts}");
        }
        if experts.to_string() == DEFAULT_SET { Self::ENGINE.name.to_owned() } else { format!("ditto:{experts}") }
    }

    fn experts(&self) -> Option<ExpertSet> {
        Some(self.experts)
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        self.objects().of_size(size)
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.objects().for_objects(objects_max, clients_max, record_bytes)
    }
}
