//! What the threads of a point tell their engines after they have joined: switches for experiments
//! that no pool keeps.

use atoll_cache::ditto::{self, Ditto};
use atoll_cache::forge::{Forge, Variant};
use atoll_fabric::Address;
use atoll_pool::{PoolError, PoolSettings};
use atoll_sim::SimEndpoint;
use std::any::Any;

/// Where variants have what they need besides the pool.
const VARIANT_AREA: Address = Address::new(0, 1, 0);

/// What an engine is told.
pub trait Tuning: Send + Sync {
    /// Bytes of the region that it needs in the home beside the pool; 0 for none.
    fn beside_bytes(&self, pool: &PoolSettings) -> Result<u64, PoolError>;

    /// Tells it to a client of that engine on the simulated network.
    fn apply(&self, client: &mut dyn Any);
}

/// What clients of `forge` are told.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForgeTuning {
    /// Memory of each thread's address cache; 0 switches it off.
    pub address_cache_bytes: usize,
    /// What all threads' engines do without.
    pub variant: Variant,
}

impl Tuning for ForgeTuning {
    fn beside_bytes(&self, pool: &PoolSettings) -> Result<u64, PoolError> {
        if self.variant == Variant::default() { Ok(0) } else { Variant::area_bytes(pool) }
    }

    fn apply(&self, client: &mut dyn Any) {
        let client: &mut Forge<SimEndpoint> = of_engine(client);
        client.set_address_cache(self.address_cache_bytes);
        client.set_variant(self.variant, VARIANT_AREA);
    }
}

/// What clients of `ditto` are told.
#[derive(Clone, Copy, Debug, Default)]
pub struct DittoTuning {
    /// What all threads' engines do without.
    pub variant: ditto::Variant,
}

impl Tuning for DittoTuning {
    fn beside_bytes(&self, pool: &PoolSettings) -> Result<u64, PoolError> {
        if self.variant == ditto::Variant::default() { Ok(0) } else { ditto::Variant::area_bytes(pool) }
    }

    fn apply(&self, client: &mut dyn Any) {
        of_engine::<Ditto<SimEndpoint>>(client).set_variant(self.variant, VARIANT_AREA);
    }
}

fn of_engine<G: 'static>(client: &mut dyn Any) -> &mut G {
    client.downcast_mut().expect("a setup's tuning is of its engine")
}
