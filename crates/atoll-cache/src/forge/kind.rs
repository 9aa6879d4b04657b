//! The descriptor of the engine `forge`: name, number, options, constructor.

use super::settings::ENGINE_FORGE;
use super::{Forge, ForgeOptions, ForgePool};
use crate::engines::{EngineChoices, EngineIdentity, EngineKind, PoolSize};
use crate::record::HEADER_BYTES;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// The choices that have a name of their own.
const NAMED: [(&str, fn() -> ForgeOptions); 2] =
    [("forge", ForgeOptions::default), ("forge-paper", ForgeOptions::paper)];

/// [`forge`](super).
#[derive(Clone, Copy, Debug)]
pub struct ForgeKind;

impl EngineKind for ForgeKind {
    type Options = ForgeOptions;
    type Shared = ForgePool;
    type Client<E: Endpoint> = Forge<E>;
}

impl EngineChoices for ForgeOptions {
    const ENGINE: EngineIdentity = EngineIdentity { name: "forge", names: "forge, forge-paper", number: ENGINE_FORGE };

    fn named(name: &str) -> Option<Result<Self, String>> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, options)| Ok(options()))
    }

    fn name(&self) -> String {
        let found = NAMED.iter().find(|(_, known)| known() == *self);
        found.map_or(Self::ENGINE.name, |(name, _)| name).to_owned()
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        let mut options = self.clone();
        if let Some(bytes) = size.body_bytes_mean {
            options.object_bytes_mean = bytes.saturating_add(HEADER_BYTES as u32);
        }
        options.for_growth(size.capacity_bytes, size.growth_bytes_max)
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.for_objects(objects_max, clients_max, record_bytes)
    }
}
