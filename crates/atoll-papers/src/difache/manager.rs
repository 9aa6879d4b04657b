//! The manager of CMCache: its machine, its cores, and what a request costs them.
//!
//! | number | value | source |
//! |---|---|---|
//! | machine | one of its own, behind a NIC | DiFache, section 7: a reserved compute node |
//! | cores | 16 | DiFache, sections 1 and 2.3: all 16 cores of that node |
//! | a request | 10.2 us of a core | **derived**: the least latency of a miss that section 7.2 prints, 14.8 us, less the 4.6 us that the messages and the READ of an object take here |
//! | a further message of a write | what a client's processor takes to find a completion | **assumed** |
//!
//! So the least latency of a miss is not foretold; all else is. Cores share one queue. They do not
//! wait for what they post: the paper does not say whether its manager does.

use super::point::Point;
use atoll_fabric::{Kind, Messenger};
use atoll_lab::LabError;
use atoll_near::{Counts, Directory, Manager, NearError, Protocol, central};
use atoll_sim::network::{Network, Profile, Service};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimEndpoint, SimOptions};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

const CORES: usize = 16;
/// What a request takes of a core, in nanoseconds.
pub(super) const REQUEST_NS: u64 = 10_200;
/// The node of the simulation behind whose NIC the manager is. It has no objects.
pub(super) const NODE: u8 = 1;

/// The manager of a point's directory, if its protocol has one.
#[derive(Clone, Default)]
pub(super) struct Central(Rc<RefCell<Option<Manager<SimEndpoint>>>>);

impl Central {
    /// Starts it.
    pub(super) fn start(point: &Point, sim: &Sim, directory: &Directory) -> Result<Self, LabError> {
        let central = Self::default();
        if point.protocol == Protocol::CmCache {
            let later_ns = point.profile.client.completion_ps / 1000;
            let message_ns = move |message: &[u8]| if central::begins_request(message) { REQUEST_NS } else { later_ns };
            let service = Service::by_message(CORES, message_ns);
            let (endpoint, directory) = (sim.endpoint_at("manager", NODE, service), directory.clone());
            let started = sim.block_on(async move { Manager::start(endpoint, directory).await });
            let started = started.map_err(|error| LabError::Failed(error.to_string()))?;
            central.0.replace(Some(started.map_err(failed)?));
        }
        Ok(central)
    }

    /// Serves while clients are present.
    pub(super) fn spawn(&self, sim: &Sim, present: Weak<()>) {
        if let Some(manager) = self.0.take() {
            let place = self.0.clone();
            sim.spawn("manager", async move {
                manager.serve(|| present.strong_count() > 0).await.expect("nothing fails in a timed run");
                place.replace(Some(manager));
            });
        }
    }

    /// What it has counted.
    pub(super) fn counts(&self) -> Counts {
        self.0.borrow().as_ref().map_or(Counts::default(), Manager::counts)
    }
}

/// What a request and its answer take without a queue, work or bytes, in nanoseconds.
pub(super) fn exchange_ns(profile: Profile) -> Result<u64, LabError> {
    let nodes = vec![vec![region(4096, Kind::Host)]; usize::from(NODE) + 1];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profile, 1)));
    let (client, server) = (sim.endpoint("client"), sim.endpoint_at("server", NODE, Service::new(1, 0)));
    let to = server.mailbox();
    sim.spawn("server", async move {
        let request = server.receive().await;
        server.send(request.from, &request.bytes).expect("nothing fails in a timed run");
    });
    let taken = sim.block_on(async move {
        let begun_ns = client.virtual_ns();
        client.send(to, &[0; 64]).expect("nothing fails in a timed run");
        client.receive().await;
        client.virtual_ns() - begun_ns
    });
    taken.map_err(|error| LabError::Failed(error.to_string()))
}

fn failed(error: NearError) -> LabError {
    LabError::Failed(error.to_string())
}
