//! Switches of the clients' engines, for experiments. A point sets them after its threads have
//! joined; no pool keeps them.

use atoll_baselines::ditto_ablations::{self, AblatedDitto};
use atoll_baselines::forge_ablations::{self, AblatedForge};
use atoll_baselines::glcache::GlCacheDm;
use atoll_cache::forge::Forge;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::Address;
use atoll_pool::{PoolError, PoolSettings};
use std::any::Any;

/// Where ablations have what they need besides the pool.
const BESIDE: Address = Address::new(0, 1, 0);

/// Bytes of the region beside a pool with these settings.
pub type BesideBytes = fn(&PoolSettings) -> Result<u64, PoolError>;

/// The switches of an engine.
pub trait Tuning: Send + Sync {
    /// The bytes that the ablated form of the pool's engine needs in the home beside the pool;
    /// `None` where the clients are of no ablated form.
    fn beside_bytes(&self) -> Option<BesideBytes> {
        None
    }

    /// Tells it to a client of that engine on the simulated network.
    fn apply(&self, client: &mut dyn Any);
}

/// The switches of clients of `forge`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForgeTuning {
    /// Memory of each thread's address cache; 0 switches it off.
    pub address_cache_bytes: usize,
}

impl Tuning for ForgeTuning {
    fn apply(&self, client: &mut dyn Any) {
        of_engine::<Forge<CaseEndpoint>>(client).set_address_cache(self.address_cache_bytes);
    }
}

/// Clients of `glcache-dm` have no address cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct GlCacheTuning;

impl Tuning for GlCacheTuning {
    fn apply(&self, client: &mut dyn Any) {
        of_engine::<GlCacheDm<CaseEndpoint>>(client).set_address_cache(0);
    }
}

/// FORGE without these techniques, and without an address cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForgeAblation(pub forge_ablations::Variant);

impl Tuning for ForgeAblation {
    fn beside_bytes(&self) -> Option<BesideBytes> {
        Some(forge_ablations::Variant::area_bytes)
    }

    fn apply(&self, client: &mut dyn Any) {
        let client: &mut AblatedForge<CaseEndpoint> = of_engine(client);
        client.set_address_cache(0);
        client.technique_mut().set(self.0, BESIDE);
    }
}

/// Ditto without these techniques.
#[derive(Clone, Debug)]
pub struct DittoAblation {
    /// What it does without.
    pub without: ditto_ablations::Variant,
    /// The pool that it is for.
    pub pool: PoolSettings,
}

impl Tuning for DittoAblation {
    fn beside_bytes(&self) -> Option<BesideBytes> {
        Some(ditto_ablations::Variant::area_bytes)
    }

    fn apply(&self, client: &mut dyn Any) {
        let ablated = ditto_ablations::Ablated::new(self.without, &self.pool, BESIDE);
        let ablated = ablated.expect("the pool was made with these settings");
        let client: &mut AblatedDitto<CaseEndpoint> = of_engine(client);
        client.replacement().expect("it has just joined").set_technique(ablated);
    }
}

fn of_engine<G: 'static>(client: &mut dyn Any) -> &mut G {
    client.downcast_mut().expect("a setup's tuning is of its engine")
}
