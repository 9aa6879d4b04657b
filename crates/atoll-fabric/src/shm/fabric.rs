//! The control plane of one host: regions are files by their names, and the agent is the kernel.
//!
//! | address | regions |
//! |---|---|
//! | `shm:/NAME` | files under `/dev/shm`; node `n` has `+n` behind the name ([`ShmNodes::name`]) |
//! | a path | files; node `n` has `+n` behind the path |
//! | none | anonymous memory of this process: for tests, and for a cache of one process |

use super::host::Room;
use super::lock::RegionLock;
use super::{ShmEndpoint, ShmNodes, ShmRegion};
use crate::fabric::BEGINNING_WORDS;
use crate::{Clock, CostClass, Fabric, FabricError, Reach, Sharing};
use std::sync::Arc;
use std::time::Duration;

/// Schemes of addresses that are of another fabric, whatever follows.
const OTHER_SCHEMES: [&str; 3] = ["tcp", "verbs", "sim"];

/// How long a thread sleeps that waits for any endpoint.
const WAIT: Duration = Duration::from_micros(20);

/// The regions of one pool on this host.
#[derive(Clone, Debug)]
pub struct ShmFabric {
    /// `None` for anonymous memory.
    home: Option<String>,
    clock: Clock,
}

impl ShmFabric {
    /// Anonymous memory of this process alone.
    pub fn anonymous() -> Self {
        Self { home: None, clock: Clock::host() }
    }

    /// The regions of the pool with this address. None of them need be there.
    ///
    /// # Errors
    /// [`FabricError::NoFabric`] if the address is of another fabric, [`FabricError::BadName`] if
    /// it is none.
    pub fn named(address: &str) -> Result<Self, FabricError> {
        if let Some((scheme, _)) = address.split_once(':').filter(|(scheme, _)| OTHER_SCHEMES.contains(scheme)) {
            return Err(FabricError::NoFabric { address: address.to_owned(), scheme: scheme.to_owned() });
        }
        super::names::path_of(address)?;
        Ok(Self { home: Some(address.to_owned()), clock: Clock::host() })
    }

    /// The name of a node's region. Anonymous memory has none that another process made.
    fn name_of(&self, node: u8) -> Result<String, FabricError> {
        self.region_address(node).ok_or_else(|| FabricError::Absent("a memory node of another process".to_owned()))
    }
}

impl Fabric for ShmFabric {
    type Region = Arc<ShmRegion>;
    type Reach = ShmReach;
    type Hold = RegionLock;

    fn name(&self) -> &'static str {
        "shm"
    }

    fn cost_class(&self) -> CostClass {
        CostClass::Memory
    }

    fn address(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn region_address(&self, node: u8) -> Option<String> {
        let home = self.home.as_deref()?;
        Some(if node == 0 { home.to_owned() } else { ShmNodes::name(home, node) })
    }

    fn check_room(&self, bytes: u64) -> Result<(), FabricError> {
        match Room::of_region(self.address()) {
            Some(room) if room.usable_bytes() < bytes => Err(self.no_room(bytes)),
            _ => Ok(()),
        }
    }

    fn no_room(&self, bytes: u64) -> FabricError {
        let room = Room::of_region(self.address());
        let why = room.map_or_else(|| "the host has no memory left".to_owned(), |room| room.to_string());
        FabricError::NoRoom { name: self.address().unwrap_or("a pool of this process").to_owned(), bytes, why }
    }

    fn create(&self, node: u8, bytes: u64, there: u64) -> Result<Self::Region, FabricError> {
        let Some(name) = self.region_address(node) else {
            return ShmRegion::anonymous_sparse(bytes, there).map(Arc::new);
        };
        // A home that has the name of a further node would be taken for one.
        if node == 0 && name.starts_with("shm:") && name.contains('+') {
            return Err(FabricError::BadName(name));
        }
        ShmRegion::create_sparse(&name, bytes, there).map(Arc::new)
    }

    fn open(&self, node: u8) -> Result<Self::Region, FabricError> {
        ShmRegion::open_sparse(&self.name_of(node)?).map(Arc::new)
    }

    fn open_alone(&self, node: u8) -> Result<Option<Self::Region>, FabricError> {
        Ok(ShmRegion::open_alone(&self.name_of(node)?)?.map(Arc::new))
    }

    fn hold(&self, node: u8, sharing: Sharing) -> Result<RegionLock, FabricError> {
        RegionLock::take(&self.name_of(node)?, sharing)
    }

    fn beginning(&self, node: u8) -> Result<([u64; BEGINNING_WORDS], u64), FabricError> {
        ShmRegion::beginning(&self.name_of(node)?)
    }

    fn remove(&self, node: u8) -> Result<(), FabricError> {
        let name = self.name_of(node)?;
        if node == 0 {
            super::export::remove_all_names(&name)?;
        }
        ShmRegion::remove(&name)
    }

    fn reach(&self, home: Self::Region) -> ShmReach {
        let nodes = match &self.home {
            Some(name) => ShmNodes::named(name),
            None => ShmNodes::none(),
        };
        ShmReach { home, nodes: Arc::new(nodes), clock: self.clock.clone() }
    }
}

/// What this process has mapped of a pool.
#[derive(Clone, Debug)]
pub struct ShmReach {
    home: Arc<ShmRegion>,
    nodes: Arc<ShmNodes>,
    clock: Clock,
}

impl Reach for ShmReach {
    type Endpoint = ShmEndpoint;
    type Region = Arc<ShmRegion>;

    fn endpoint(&self) -> ShmEndpoint {
        ShmEndpoint::with_regions(vec![self.home.clone()], self.clock.clone()).with_nodes(self.nodes.clone())
    }

    /// Nothing but a message is ever waited for, and which mailbox is not known here.
    fn wait(&self) {
        std::thread::sleep(WAIT);
    }

    fn home(&self) -> &Self::Region {
        &self.home
    }

    fn apart(&self) -> Self {
        Self { nodes: Arc::new(ShmNodes::none()), ..self.clone() }
    }

    fn admit(&self, node: u8, region: Self::Region) -> bool {
        node != 0 && self.nodes.insert(node, region).is_ok()
    }

    fn region(&self, node: u8) -> Option<Self::Region> {
        if node == 0 { Some(self.home.clone()) } else { self.nodes.region(node).cloned() }
    }

    fn memory_nodes(&self) -> Vec<u8> {
        std::iter::once(0).chain(self.nodes.mapped().map(|(node, _)| node)).collect()
    }

    fn compute_nodes(&self) -> Vec<u16> {
        self.home.presence.living_nodes()
    }
}
