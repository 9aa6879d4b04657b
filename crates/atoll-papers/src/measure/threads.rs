//! Loads over a fabric, each client a thread of this process.

use super::load::{self, Done, Load, Network, REGION_BYTES, Window};
use atoll::fabric::PoolFabric;
use atoll_fabric::{Fabric, FabricError, Reach, block_on};
use atoll_lab::LabError;
use std::sync::Barrier;

/// A fabric with a region of its own for the measurement, which is removed at the end.
pub(crate) struct Threads<'f, F: PoolFabric> {
    reach: F::Reach,
    window: Window,
    _region: Removed<'f, F>,
}

/// Removes the region of node 0 when it is dropped.
struct Removed<'f, F: Fabric>(&'f F);

impl<F: Fabric> Drop for Removed<'_, F> {
    fn drop(&mut self) {
        if let Err(error) = self.0.remove(0) {
            eprintln!("the region of the measurement is still there: {error}");
        }
    }
}

impl<'f, F: PoolFabric> Threads<'f, F> {
    /// Creates the region.
    ///
    /// # Errors
    /// If there is a region under the address: a pool's region is never touched.
    pub(crate) fn new(fabric: &'f F, window: Window) -> Result<Self, LabError> {
        let home = match fabric.create(0, REGION_BYTES, REGION_BYTES) {
            Err(FabricError::Exists(name)) => {
                let why = format!("{name} has a region, which may be a pool: measure at an address that has none");
                return Err(LabError::Options(why));
            }
            home => home?,
        };
        let region = Removed(fabric);
        Ok(Self { reach: fabric.reach(home), window, _region: region })
    }
}

impl<F: PoolFabric> Network for Threads<'_, F> {
    fn run(&mut self, load: &Load) -> Result<Done, LabError> {
        let (barrier, reach, window) = (&Barrier::new(load.clients.into()), &self.reach, self.window);
        let client = move || {
            let endpoint = reach.endpoint();
            barrier.wait();
            block_on(&endpoint, load::post(&endpoint, load, window))
        };
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..load.clients).map(|_| scope.spawn(client)).collect();
            let mut all = Done::default();
            for client in clients {
                let done = client.join().expect("a measurement has a bug");
                all.add(&done.map_err(|error| LabError::Failed(error.to_string()))?);
            }
            Ok(all)
        })
    }
}
