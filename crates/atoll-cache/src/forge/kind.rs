//! The descriptor of the engine `forge`: name, number, options, constructor.

use super::settings::ENGINE_FORGE;
use super::{Forge, ForgeOptions, ForgePool};
use crate::engines::EngineKind;
use crate::record::HEADER_BYTES;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// A name, and the choices that it stands for.
type Named = (&'static str, fn() -> ForgeOptions);

/// The choices that have a name of their own.
const NAMED: [Named; 2] = [("forge", ForgeOptions::default), ("forge-paper", ForgeOptions::paper)];

/// [`forge`](super).
#[derive(Clone, Copy, Debug)]
pub struct ForgeKind;

impl EngineKind for ForgeKind {
    const NAME: &'static str = "forge";
    const NAMES: &'static str = "forge, forge-paper";
    const NUMBER: u64 = ENGINE_FORGE;
    type Options = ForgeOptions;
    type Shared = ForgePool;
    type Client<E: Endpoint> = Forge<E>;

    fn for_growth(
        options: &ForgeOptions,
        body_bytes_mean: Option<u32>,
        capacity_bytes: u64,
        growth_bytes_max: u64,
    ) -> PoolSettings {
        let mut options = options.clone();
        if let Some(bytes) = body_bytes_mean {
            options.object_bytes_mean = bytes.saturating_add(HEADER_BYTES as u32);
        }
        options.for_growth(capacity_bytes, growth_bytes_max)
    }

    fn named(name: &str) -> Option<Result<ForgeOptions, String>> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, options)| Ok(options()))
    }

    fn name_of(options: &ForgeOptions) -> String {
        let found = NAMED.iter().find(|(_, known)| known() == *options);
        found.map_or(Self::NAME, |(name, _)| name).to_owned()
    }

    fn for_objects(options: &ForgeOptions, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        options.for_objects(objects_max, clients_max, record_bytes)
    }
}
