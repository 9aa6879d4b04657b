//! The processor of the memory node, for systems that need one: how many cores it has, and what
//! messages cost them.
//!
//! A core receives and answers a message at the cost that the profile has for a client: finding a
//! completion, preparing a work request, ringing a doorbell. The server's own work was measured on
//! this code: `cargo bench -p atoll-lab --bench cliquemap_server`. Access information costs by the
//! access, since merging it is what keeps the core busy (Ditto, section 5.3). The paper prints none
//! of these costs.
//!
//! Cores share one queue of messages and never wait for each other. Locks between cores are not in
//! the model.

use atoll_baselines::cliquemap::wire::{self, Payload};
use atoll_baselines::cliquemap::{CliqueMapPool, Policy, Server};
use atoll_cases::ServerSpawner;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_sim::network::{Profile, Service};
use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// What the server of CliqueMap does for a message, in nanoseconds of one core, without receiving
/// and answering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCosts {
    /// A change of a key.
    pub change_ns: u64,
    /// Merging an access into the order of eviction.
    pub access_ns: u64,
}

impl ServerCosts {
    /// What was measured on 300,000 keys as skewed as YCSB's, with room for all: the median of
    /// three runs, on a virtual machine with two cores of an AMD EPYC and much other work going on.
    /// They were between 1652 and 2007 ns for a change and 120 and 182 for an access with LRU, 2360
    /// and 2766, and 727 and 866, with LFU.
    pub const fn measured(policy: Policy) -> Self {
        match policy {
            Policy::Lru => Self { change_ns: 1870, access_ns: 130 },
            Policy::Lfu => Self { change_ns: 2710, access_ns: 800 },
        }
    }
}

/// A memory node's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its cores.
    pub cores: usize,
    /// What messages cost them.
    pub costs: ServerCosts,
}

impl Processor {
    /// Its service to messages, on a network.
    fn service(self, profile: &Profile) -> Service {
        let client = profile.client;
        let passed_ns = (client.completion_ps + client.verb_ps + client.batch_ps) / 1000;
        let Self { cores, costs } = self;
        Service::by_message(cores, move |message| {
            passed_ns
                + match wire::decode(message) {
                    Some((_, Payload::Change(..))) => costs.change_ns,
                    Some((_, Payload::Accesses(accesses))) => accesses.iter().len() as u64 * costs.access_ns,
                    _ => 0,
                }
        })
    }
}

/// Serves the pool on the memory node's processor while threads are at work.
pub(crate) fn attendant(processor: Processor, profile: &Profile, shared: &dyn Any) -> ServerSpawner {
    let shared: Arc<CliqueMapPool> = shared.downcast_ref().cloned().expect("of all engines it alone has a server");
    let (place, service) = (Rc::new(Cell::new(None)), processor.service(profile));
    Box::new(move |sim, clients| {
        let (shared, place, server) = (shared.clone(), place.clone(), place.take());
        let server: Result<Server<CaseEndpoint>, CaseEndpoint> =
            server.ok_or_else(|| CaseEndpoint::new(sim.endpoint_at("server", 0, service.clone())));
        sim.spawn("server", async move {
            let server = match server {
                Ok(server) => Ok(server),
                Err(endpoint) => Server::start(&shared, endpoint).await,
            };
            let mut server = server.expect("nothing fails in a timed run");
            server.serve(|| clients.strong_count() > 0).await.expect("nothing fails in a timed run");
            place.set(Some(server));
        });
    })
}
