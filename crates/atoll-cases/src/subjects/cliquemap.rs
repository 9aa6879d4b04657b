//! The engine `cliquemap` under test, with the server on its memory node.

use crate::endpoint::CaseEndpoint;
use crate::subject::{ServerSpawner, Subject};
use atoll_baselines::cliquemap::{self, CliqueMap, CliqueMapOptions, CliqueMapPool, Policy, Server};
use atoll_pool::PoolSettings;
use atoll_sim::Random;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The engines `cliquemap-lru` and `cliquemap-lfu`.
#[derive(Clone, Debug, Default)]
pub struct CliqueMapSubject {
    /// Its options.
    pub options: CliqueMapOptions,
    /// The hole that is open in its server.
    pub server_hole: Option<cliquemap::Hole>,
}

impl Subject for CliqueMapSubject {
    const NAME: &'static str = "cliquemap";
    type Hole = cliquemap::Hole;
    type Engine = CliqueMap<CaseEndpoint>;
    const CHUNK_BYTES: [u32; 3] = [256, 512, 1024];
    const SPREADS: bool = false;
    const CLIENTS_EVICT: bool = false;
    const ENDS_WITH_FENCE: bool = false;
    const SETTLES_DOWN: bool = false;

    fn drawn(random: &mut Random, _paper: bool) -> Self {
        let policy = random.pick(&[Policy::Lru, Policy::Lfu]);
        Self { options: CliqueMapOptions { policy, ..CliqueMapOptions::default() }, server_hole: None }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.options.settings(base, slots)
    }

    fn server_spawner(&self, shared: &Arc<CliqueMapPool>) -> Option<ServerSpawner> {
        let (shared, place, hole) = (shared.clone(), Rc::new(Cell::new(None)), self.server_hole);
        Some(Box::new(move |sim, clients| {
            let (shared, place, server) = (shared.clone(), place.clone(), place.take());
            let server: Result<Server<CaseEndpoint>, CaseEndpoint> =
                server.ok_or_else(|| CaseEndpoint::new(sim.endpoint("server")));
            sim.spawn_spared("server", async move {
                let server = match server {
                    Ok(server) => Ok(server),
                    Err(endpoint) => Server::start(&shared, endpoint).await,
                };
                // The node may be lost before the server has started.
                let Ok(mut server) = server else { return };
                open_hole!(server, hole);
                // A server whose node is lost ends; its clients notice.
                if server.serve(|| clients.strong_count() > 0).await.is_ok() {
                    place.set(Some(server));
                }
            });
        }))
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        open_hole!(engine, hole);
    }
}
