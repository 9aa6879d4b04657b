//! The systems that a point can run on: every engine whose cache lives in a pool.
//!
//! A system takes part in the experiments by implementing `Subject` here, and by having a line in
//! [`System`], in `on_system` and a constructor of [`Setup`].

use super::setup::Setup;
use crate::LabError;
use atoll_baselines::cliquemap::{CliqueMap, CliqueMapPool, Server};
use atoll_baselines::kvs::Kvs;
use atoll_baselines::queues::Queued;
use atoll_cache::Pooled;
use atoll_cache::ditto::{self, Ditto};
use atoll_cache::forge::{Forge, Variant};
use atoll_cases::ServerSpawner;
use atoll_fabric::Address;
use atoll_pool::PoolError;
use atoll_sim::SimEndpoint;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Which engine a point runs on. Its choices are in the settings of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum System {
    /// FORGE, and what is a choice of its pool: GLCache-DM.
    #[default]
    Forge,
    /// Ditto.
    Ditto,
    /// A table of objects that tracks nothing and evicts at random.
    Kvs,
    /// A table of objects with queues in the pool, which the pool's settings name.
    Queues,
    /// CliqueMap, whose memory node has a processor.
    CliqueMap,
}

/// An engine on the simulated network.
pub(super) trait Subject: Pooled<SimEndpoint> + 'static {
    /// Bytes of the region that it wants in the home beside the pool; 0 for none.
    fn beside_bytes(setup: &Setup) -> Result<u64, PoolError> {
        let _ = setup;
        Ok(0)
    }

    /// Whoever has to be there while threads are at work.
    fn attendant(shared: &Arc<Self::Shared>, setup: &Setup) -> Option<ServerSpawner> {
        let _ = (shared, setup);
        None
    }

    /// The weights of its experts, as this thread knows them; none if nothing is learnt.
    fn weights(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Makes a thread's own choices, after it has joined.
    fn prepare(&mut self, setup: &Setup) {
        let _ = setup;
    }
}

/// Where variants have what they need besides the pool.
const VARIANT_AREA: Address = Address::new(0, 1, 0);

impl Subject for Forge<SimEndpoint> {
    fn beside_bytes(setup: &Setup) -> Result<u64, PoolError> {
        if setup.variant == Variant::default() { Ok(0) } else { Variant::area_bytes(&setup.pool) }
    }

    fn prepare(&mut self, setup: &Setup) {
        self.set_address_cache(setup.address_cache_bytes);
        self.set_variant(setup.variant, VARIANT_AREA);
    }
}

impl Subject for Ditto<SimEndpoint> {
    fn beside_bytes(setup: &Setup) -> Result<u64, PoolError> {
        let is_whole = setup.ditto_variant == ditto::Variant::default();
        if is_whole { Ok(0) } else { ditto::Variant::area_bytes(&setup.pool) }
    }

    fn weights(&self) -> Vec<f64> {
        self.replacement().map_or_else(Vec::new, |replacement| replacement.weights().to_vec())
    }

    fn prepare(&mut self, setup: &Setup) {
        self.set_variant(setup.ditto_variant, VARIANT_AREA);
    }
}

impl Subject for Kvs<SimEndpoint> {}

impl Subject for Queued<SimEndpoint> {}
impl Subject for CliqueMap<SimEndpoint> {
    fn attendant(shared: &Arc<CliqueMapPool>, setup: &Setup) -> Option<ServerSpawner> {
        let (shared, place, service) =
            (shared.clone(), Rc::new(Cell::new(None)), setup.processor.service(&setup.profile));
        Some(Box::new(move |sim, clients| {
            let (shared, place, server) = (shared.clone(), place.clone(), place.take());
            let server: Result<Server<SimEndpoint>, SimEndpoint> =
                server.ok_or_else(|| sim.endpoint_at("server", 0, service.clone()));
            sim.spawn("server", async move {
                let server = match server {
                    Ok(server) => Ok(server),
                    Err(endpoint) => Server::start(&shared, endpoint).await,
                };
                let mut server = server.expect("nothing fails in a timed run");
                server.serve(|| clients.strong_count() > 0).await.expect("nothing fails in a timed run");
                place.set(Some(server));
            });
        }))
    }
}

/// Something to do with whatever system a point runs on.
pub(super) trait Work {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<G: Subject>(self) -> Result<Self::Output, LabError>;
}

/// Does `work` with the engine of that system.
pub(super) fn on_system<W: Work>(system: System, work: W) -> Result<W::Output, LabError> {
    match system {
        System::Forge => work.run::<Forge<SimEndpoint>>(),
        System::Ditto => work.run::<Ditto<SimEndpoint>>(),
        System::Kvs => work.run::<Kvs<SimEndpoint>>(),
        System::Queues => work.run::<Queued<SimEndpoint>>(),
        System::CliqueMap => work.run::<CliqueMap<SimEndpoint>>(),
    }
}
