//! The control plane of a simulation: regions that are made and removed while it runs.
//!
//! It takes no virtual time. All clients run in one thread, so a call that has to wait for another
//! process would wait for ever. Such a call is a mistake of the scenario, and panics.

use crate::SimEndpoint;
use crate::options::region;
use crate::shared::Shared;
use atoll_fabric::fabric::BEGINNING_WORDS;
use atoll_fabric::{
    Address, CostClass, Fabric, FabricError, Hold, Identity, Kind, PeerState, Peers, Reach, Region, RegionAttributes,
    Sharing,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The address under which every client of a simulation finds its regions.
const ADDRESS: &str = "sim:";

/// The regions of a simulation's memory nodes.
#[derive(Clone)]
pub struct SimFabric {
    shared: Rc<Shared>,
    compute_node: u16,
}

impl SimFabric {
    pub(crate) fn new(shared: Rc<Shared>, compute_node: u16) -> Self {
        Self { shared, compute_node }
    }

    fn name_of(node: u8) -> String {
        format!("{ADDRESS}+{node}")
    }

    /// The region of a node that has a name.
    fn find(&self, node: u8) -> Result<RegionAttributes, FabricError> {
        let attributes = self.shared.world.borrow().memory.named(node);
        attributes.ok_or_else(|| FabricError::Absent(Self::name_of(node)))
    }

    fn opened(&self, node: u8, attributes: RegionAttributes, is_alone: bool) -> SimRegion {
        self.shared.presence.change(node, |users| {
            users.open.count += 1;
            users.open.is_alone = is_alone;
        });
        SimRegion(Rc::new(Opened { shared: self.shared.clone(), node, attributes, name: Self::name_of(node) }))
    }
}

impl Fabric for SimFabric {
    type Region = SimRegion;
    type Reach = SimReach;
    type Hold = SimHold;

    fn name(&self) -> &'static str {
        "sim"
    }

    fn cost_class(&self) -> CostClass {
        CostClass::Network
    }

    fn address(&self) -> Option<&str> {
        Some(ADDRESS)
    }

    fn region_address(&self, node: u8) -> Option<String> {
        Some(Self::name_of(node))
    }

    fn check_room(&self, _: u64) -> Result<(), FabricError> {
        Ok(())
    }

    fn no_room(&self, bytes: u64) -> FabricError {
        FabricError::NoRoom { name: ADDRESS.to_owned(), bytes, why: "a simulated node has none left".to_owned() }
    }

    fn create(&self, node: u8, bytes: u64, there: u64) -> Result<SimRegion, FabricError> {
        if self.find(node).is_ok() {
            return Err(FabricError::Exists(Self::name_of(node)));
        }
        let is_open = self.shared.presence.change(node, |users| users.open.count > 0);
        assert!(!is_open, "a simulated node's removed region is created again once no client has it open");
        let attributes = region(bytes, Kind::Host);
        self.shared.world.borrow_mut().memory.create(node, attributes, there);
        Ok(self.opened(node, attributes, false))
    }

    fn open(&self, node: u8) -> Result<SimRegion, FabricError> {
        let attributes = self.find(node)?;
        let is_alone = self.shared.presence.change(node, |users| users.open.is_alone);
        assert!(!is_alone, "a region that a client has alone is opened once that client shares it");
        Ok(self.opened(node, attributes, false))
    }

    fn open_alone(&self, node: u8) -> Result<Option<SimRegion>, FabricError> {
        let attributes = self.find(node)?;
        let is_open = self.shared.presence.change(node, |users| users.open.count > 0);
        Ok((!is_open).then(|| self.opened(node, attributes, true)))
    }

    fn hold(&self, node: u8, sharing: Sharing) -> Result<SimHold, FabricError> {
        self.find(node)?;
        let is_held_alone = sharing == Sharing::Alone;
        self.shared.presence.change(node, |users| {
            let is_excluded = users.held.is_alone || is_held_alone && users.held.count > 0;
            assert!(!is_excluded, "a region is held once no client holds it that excludes this");
            users.held.count += 1;
            users.held.is_alone = is_held_alone;
        });
        Ok(SimHold { shared: self.shared.clone(), node })
    }

    fn beginning(&self, node: u8) -> Result<([u64; BEGINNING_WORDS], u64), FabricError> {
        let attributes = self.find(node)?;
        let world = self.shared.world.borrow();
        let at = Address::new(node, 0, 0);
        let found = world.memory.words(at, attributes.bytes.min(8 * BEGINNING_WORDS as u64)).unwrap_or_default();
        let words = std::array::from_fn(|index| found.get(index).copied().unwrap_or(0));
        Ok((words, attributes.bytes))
    }

    fn remove(&self, node: u8) -> Result<(), FabricError> {
        self.find(node)?;
        let is_open = self.shared.presence.change(node, |users| users.open.count > 0);
        self.shared.world.borrow_mut().memory.remove(node, is_open);
        Ok(())
    }

    fn reach(&self, home: SimRegion) -> SimReach {
        let (shared, compute_node) = (self.shared.clone(), self.compute_node);
        SimReach { shared, compute_node, home, nodes: Rc::default() }
    }
}

struct Opened {
    shared: Rc<Shared>,
    node: u8,
    attributes: RegionAttributes,
    name: String,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let is_last = self.shared.presence.change(self.node, |users| {
            users.open.count -= 1;
            users.open.is_alone = false;
            users.open.count == 0
        });
        // A simulation that is torn down has nothing left to free.
        if is_last && let Ok(mut world) = self.shared.world.try_borrow_mut() {
            world.memory.free_removed(self.node);
        }
    }
}

/// A region of a simulated memory node. A clone is the same.
#[derive(Clone)]
pub struct SimRegion(Rc<Opened>);

impl Region for SimRegion {
    fn attributes(&self) -> RegionAttributes {
        self.0.attributes
    }

    fn name(&self) -> Option<&str> {
        Some(&self.0.name)
    }

    fn is_volatile(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), FabricError> {
        Ok(())
    }

    fn share(&self) -> Result<(), FabricError> {
        self.0.shared.presence.change(self.0.node, |users| users.open.is_alone = false);
        Ok(())
    }

    /// Simulated clients have no processes.
    fn peers(&self) -> Peers {
        Peers::default()
    }

    fn peer_state(&self, who: Identity, _: &Peers) -> PeerState {
        let world = self.0.shared.world.borrow();
        let Some(number) = world.identified(who) else { return PeerState::Dead };
        let port = &world.ports[number as usize];
        match world.lanes.get(port.lane as usize) {
            _ if port.end.is_dead() => PeerState::Dead,
            Some(lane) if lane.pause.is_some() => PeerState::Stopped,
            _ => PeerState::Running,
        }
    }

    /// No operator can: a scenario kills by [`Control::kill`](crate::Control::kill).
    fn kill(&self, _: Identity, _: &Peers) -> bool {
        false
    }
}

/// What keeps other simulated clients from a region.
pub struct SimHold {
    shared: Rc<Shared>,
    node: u8,
}

impl Hold for SimHold {
    fn is_in_use(&self) -> Result<bool, FabricError> {
        Ok(self.shared.presence.change(self.node, |users| users.open.count > 0))
    }

    fn peers(&self) -> Peers {
        Peers::default()
    }
}

impl Drop for SimHold {
    fn drop(&mut self) {
        self.shared.presence.change(self.node, |users| {
            users.held.count -= 1;
            users.held.is_alone = false;
        });
    }
}

/// The regions that a simulated process has open.
#[derive(Clone)]
pub struct SimReach {
    shared: Rc<Shared>,
    compute_node: u16,
    home: SimRegion,
    nodes: Rc<RefCell<BTreeMap<u8, SimRegion>>>,
}

impl Reach for SimReach {
    type Endpoint = SimEndpoint;
    type Region = SimRegion;

    /// Every endpoint reaches every region of the simulation.
    fn endpoint(&self) -> SimEndpoint {
        let name = format!("client {}", self.shared.world.borrow().ports.len());
        SimEndpoint::new(self.shared.clone(), &name, self.compute_node)
    }

    fn home(&self) -> &SimRegion {
        &self.home
    }

    fn apart(&self) -> Self {
        Self { nodes: Rc::default(), ..self.clone() }
    }

    fn admit(&self, node: u8, region: SimRegion) -> bool {
        let is_new = node != 0 && !self.nodes.borrow().contains_key(&node);
        if is_new {
            self.nodes.borrow_mut().insert(node, region);
        }
        is_new
    }

    fn region(&self, node: u8) -> Option<SimRegion> {
        if node == 0 { Some(self.home.clone()) } else { self.nodes.borrow().get(&node).cloned() }
    }

    fn memory_nodes(&self) -> Vec<u8> {
        std::iter::once(0).chain(self.nodes.borrow().keys().copied()).collect()
    }

    fn compute_nodes(&self) -> Vec<u16> {
        let world = self.shared.world.borrow();
        let lives = |node: &u16| !world.is_exporter_gone(Address::on_compute(*node, 0, 0));
        world.memory.exporters().filter(lives).collect()
    }
}
