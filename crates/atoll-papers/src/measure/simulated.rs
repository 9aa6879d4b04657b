//! Loads on a simulated network, in virtual time.

use super::load::{self, Done, Load, Network, REGION_BYTES, Window};
use atoll_fabric::Kind;
use atoll_lab::LabError;
use atoll_sim::network::{Network as SimNetwork, Profile};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::cell::RefCell;
use std::rc::Rc;

/// Compute nodes that clients are spread over: so many that the memory node's NIC is the limit.
const COMPUTE_NODES: u16 = 8;

/// A network with one memory node.
pub(crate) struct Simulated {
    /// What it costs.
    pub(crate) profile: Profile,
    /// Where the region is. The NIC's own memory is so small that only loads on one word fit.
    pub(crate) memory: Kind,
    /// How long a load runs.
    pub(crate) window: Window,
}

impl Network for Simulated {
    fn run(&mut self, load: &Load) -> Result<Done, LabError> {
        let network = SimNetwork::new(self.profile, COMPUTE_NODES);
        let bytes = if self.memory == Kind::Device { self.profile.device_bytes_max } else { REGION_BYTES };
        let sim = Sim::new(SimOptions::timed(1, vec![vec![region(bytes, self.memory)]], network));
        let (load, window) = (Rc::new(load.clone()), self.window);
        let all = Rc::new(RefCell::new(Ok(Done::default())));
        for client in 0..load.clients {
            let endpoint = sim.endpoint_on("client", client % COMPUTE_NODES);
            let (load, all) = (load.clone(), all.clone());
            sim.spawn("client", async move {
                let done = load::post(&endpoint, &load, window).await;
                let mut all = all.borrow_mut();
                match (&mut *all, done) {
                    (Ok(all), Ok(done)) => all.add(&done),
                    (Ok(_), Err(error)) => *all = Err(error),
                    (Err(_), _) => {}
                }
            });
        }
        sim.run().map_err(|error| LabError::Failed(error.to_string()))?;
        drop(sim);
        let all = Rc::into_inner(all).expect("all clients have ended").into_inner();
        all.map_err(|error| LabError::Failed(error.to_string()))
    }
}
