//! Switches of the clients' engines, for experiments. A point sets them after its threads have
//! joined; no pool keeps them.

use super::setup::Setup;
use atoll_baselines::ditto_ablations::{self, AblatedDitto};
use atoll_baselines::forge_ablations::{self, AblatedForge};
use atoll_baselines::glcache::GlCacheDm;
use atoll_cache::forge::Forge;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Address, Kind};
use atoll_pool::PoolError;
use std::any::Any;

/// Where ablations have what they need besides the pool.
const BESIDE: Address = Address::new(0, 1, 0);
/// Where they have what they need of the NIC's own memory.
const DEVICE: Address = Address::new(0, 2, 0);

/// The switches of an engine.
pub trait Tuning: Send + Sync {
    /// Whether clients are of the ablated form of the pool's engine.
    fn is_ablated(&self) -> bool {
        false
    }

    /// The regions that clients need in the home beside the pool of a point: bytes, and the kind of
    /// memory.
    fn regions(&self, point: &Setup) -> Result<Vec<(u64, Kind)>, PoolError> {
        let _ = point;
        Ok(Vec::new())
    }

    /// Tells it to a client of that engine on the simulated network of a point.
    fn apply(&self, point: &Setup, client: &mut dyn Any);
}

/// The switches of clients of `forge`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForgeTuning {
    /// Memory of each thread's address cache; 0 switches it off.
    pub address_cache_bytes: usize,
}

impl Tuning for ForgeTuning {
    fn apply(&self, _point: &Setup, client: &mut dyn Any) {
        of_engine::<Forge<CaseEndpoint>>(client).set_address_cache(self.address_cache_bytes);
    }
}

/// Clients of `glcache-dm` have no address cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct GlCacheTuning;

impl Tuning for GlCacheTuning {
    fn apply(&self, _point: &Setup, client: &mut dyn Any) {
        of_engine::<GlCacheDm<CaseEndpoint>>(client).set_address_cache(0);
    }
}

/// FORGE without these techniques, and without an address cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForgeAblation {
    /// What it does without.
    pub without: forge_ablations::Variant,
    /// Whether clients have the paper's verbs: see [`forge_ablations`]. Counters are in the NIC's
    /// own memory, if it has enough.
    pub paper_verbs: bool,
}

impl ForgeAblation {
    /// The bytes of the NIC's own memory that clients use; `None` if they use none.
    fn device_bytes(&self, point: &Setup) -> Result<Option<u64>, PoolError> {
        let bytes = forge_ablations::Variant::device_bytes(&point.pool)?;
        Ok(Some(bytes).filter(|bytes| self.paper_verbs && *bytes <= point.profile.device_bytes_max))
    }
}

impl Tuning for ForgeAblation {
    fn is_ablated(&self) -> bool {
        true
    }

    fn regions(&self, point: &Setup) -> Result<Vec<(u64, Kind)>, PoolError> {
        let device = self.device_bytes(point)?.map(|bytes| (bytes, Kind::Device));
        Ok([(forge_ablations::Variant::area_bytes(&point.pool)?, Kind::Host)].into_iter().chain(device).collect())
    }

    fn apply(&self, point: &Setup, client: &mut dyn Any) {
        let client: &mut AblatedForge<CaseEndpoint> = of_engine(client);
        client.set_address_cache(0);
        client.technique_mut().set(self.without, BESIDE);
        if self.paper_verbs {
            let device = self.device_bytes(point).map(|bytes| bytes.map(|_| DEVICE));
            let followed = device.and_then(|device| client.technique_mut().follow_paper(&point.pool, device));
            followed.expect("the pool was made with these settings");
        }
    }
}

/// Ditto without these techniques.
#[derive(Clone, Copy, Debug)]
pub struct DittoAblation(pub ditto_ablations::Variant);

impl Tuning for DittoAblation {
    fn is_ablated(&self) -> bool {
        true
    }

    fn regions(&self, point: &Setup) -> Result<Vec<(u64, Kind)>, PoolError> {
        Ok(vec![(ditto_ablations::Variant::area_bytes(&point.pool)?, Kind::Host)])
    }

    fn apply(&self, point: &Setup, client: &mut dyn Any) {
        let ablated = ditto_ablations::Ablated::new(self.0, &point.pool, BESIDE);
        let ablated = ablated.expect("the pool was made with these settings");
        let client: &mut AblatedDitto<CaseEndpoint> = of_engine(client);
        client.replacement().expect("it has just joined").set_technique(ablated);
    }
}

fn of_engine<G: 'static>(client: &mut dyn Any) -> &mut G {
    client.downcast_mut().expect("a setup's tuning is of its engine")
}
