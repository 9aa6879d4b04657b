//! `forge` as one of the engines that users choose from.

use super::settings::ENGINE_FORGE;
use super::{Forge, ForgeOptions, ForgePool};
use crate::engines::EngineKind;
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

    fn object_bytes_mean(options: &mut ForgeOptions) -> &mut u32 {
        &mut options.object_bytes_mean
    }

    fn for_growth(options: &ForgeOptions, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings {
        options.for_growth(capacity_bytes, growth_bytes_max)
    }
}
