//! The descriptor of `forge`.

use super::settings::ENGINE_FORGE;
use super::{Forge, ForgeOptions, ForgePool};
use crate::engines::{EngineKind, object_bytes_mean};
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
        let object_bytes_mean = object_bytes_mean(body_bytes_mean, options.object_bytes_mean);
        ForgeOptions { object_bytes_mean, ..options.clone() }.for_growth(capacity_bytes, growth_bytes_max)
    }
}
