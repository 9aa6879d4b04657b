//! The descriptor of the engine `forge`: name, number, options, constructor.

use super::settings::ENGINE_FORGE;
use super::{Forge, ForgeOptions, ForgePool};
use crate::engines::EngineKind;
use crate::record::HEADER_BYTES;
use atoll_fabric::Endpoint;
use atoll_pool::PoolSettings;

/// [`forge`](super).
#[derive(Clone, Copy, Debug)]
pub struct ForgeKind;

impl EngineKind for ForgeKind {
    const NAME: &'static str = "forge";
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
}
