//! The control plane: regions by their address, and what endpoints of this process reach.
//!
//! A [`Fabric`] is an address that a user wrote, such as `shm:/NAME`. It names the region of every
//! memory node of one pool: the home is node 0. It holds nothing open. What a process has open is
//! a [`Reach`]: the home's region and those of further nodes. Endpoints are made from a reach.
//!
//! | of | a caller asks |
//! |---|---|
//! | a fabric | create, open and remove a region; keep others from a region for a time |
//! | a region | its attributes, its peers, whether it outlives a restart of its agent |
//! | a reach | endpoints, further memory nodes, which compute nodes there are |
//! | an [`Endpoint`] | its identity, the boot and the clock of the region's agent, who is dead |
//!
//! The calls may take long, and block. A region never changes its size: a pool grows by the region
//! of a further memory node, which is created, prepared, and then [admitted](Reach::admit).
//!
//! A fabric that was asked for and is not there is an error. No call chooses another one instead.

use crate::{Endpoint, FabricError, Peers, Region};

/// What a round trip to the regions of a fabric costs. Protocols ask for it and do not conclude it
/// from a fabric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostClass {
    /// No more than a look at memory of one's own: see [`Endpoint::is_near`].
    Memory,
    /// A round trip on a network.
    Network,
}

/// Who else may look at a region while a process [holds](Fabric::hold) it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Others that only look, too.
    Shared,
    /// No other process.
    Alone,
}

/// The first words of a region, which say what it is.
pub const BEGINNING_WORDS: usize = 32;

/// Where the regions of one pool are. See the module.
pub trait Fabric {
    /// An open region. A clone is the same region.
    type Region: Region + Clone;
    /// What this process has open of it.
    type Reach: Reach<Region = Self::Region>;
    /// What keeps others from a region, until it is dropped.
    type Hold: Hold;

    /// The fabric's name as users write it: `shm`, `tcp`, `verbs`, `sim`.
    fn name(&self) -> &'static str;

    /// What a round trip costs, declared by the fabric.
    fn cost_class(&self) -> CostClass;

    /// The address by which another process finds the same pool; `None` if no other one can.
    fn address(&self) -> Option<&str>;

    /// The same of the region of one memory node.
    fn region_address(&self, node: u8) -> Option<String>;

    /// An error if the agents have no room for so many bytes in all.
    fn check_room(&self, bytes: u64) -> Result<(), FabricError>;

    /// The error of a region of so many bytes for which no memory is left, with what limits it.
    fn no_room(&self, bytes: u64) -> FabricError;

    /// Creates the region of a memory node, all zero bytes. The agent has memory for the first
    /// `there` bytes. For the others the endpoints ask ([`Endpoint::provide`]).
    ///
    /// # Errors
    /// [`FabricError::Exists`] if the node has a region.
    fn create(&self, node: u8, bytes: u64, there: u64) -> Result<Self::Region, FabricError>;

    /// Opens the region of a memory node, once no process has it [alone](Fabric::open_alone).
    fn open(&self, node: u8) -> Result<Self::Region, FabricError>;

    /// Opens a region that no other process has open, and keeps others from opening it until it is
    /// [shared](Region::share). `None` if one has it open.
    fn open_alone(&self, node: u8) -> Result<Option<Self::Region>, FabricError>;

    /// Waits until no other process holds the region of a memory node in a way that excludes this.
    /// Holding it opens nothing.
    fn hold(&self, node: u8, sharing: Sharing) -> Result<Self::Hold, FabricError>;

    /// The first words under a region's name, zero behind the end, and how many bytes there are.
    /// They need not be a region's.
    fn beginning(&self, node: u8) -> Result<([u64; BEGINNING_WORDS], u64), FabricError>;

    /// Removes the region of a memory node. Processes that have it open keep its memory until they
    /// close it.
    fn remove(&self, node: u8) -> Result<(), FabricError>;

    /// Makes endpoints possible, which reach this region as that of node 0.
    fn reach(&self, home: Self::Region) -> Self::Reach;
}

/// What endpoints of this process reach. A clone is the same.
pub trait Reach: Clone {
    /// One thread's access.
    type Endpoint: Endpoint + 'static;
    /// An open region.
    type Region: Region + Clone;

    /// A new endpoint.
    fn endpoint(&self) -> Self::Endpoint;

    /// As [`Endpoint::wait`] for all endpoints of this reach: for a future that owns its endpoint.
    fn wait(&self) {
        std::thread::yield_now();
    }

    /// The home's region.
    fn home(&self) -> &Self::Region;

    /// A reach of the home alone, whose further nodes are its own.
    fn apart(&self) -> Self;

    /// From now on all endpoints reach the region of a further memory node, which this process
    /// created. `false` if they reach one already.
    fn admit(&self, node: u8, region: Self::Region) -> bool;

    /// The region of a memory node, if endpoints reach it.
    fn region(&self, node: u8) -> Option<Self::Region>;

    /// The memory nodes that endpoints reach, the home first.
    fn memory_nodes(&self) -> Vec<u8>;

    /// The compute nodes that live: endpoints of all processes that have exported a region. They
    /// are numbered apart from memory nodes, and in order here.
    fn compute_nodes(&self) -> Vec<u16>;
}

/// What keeps others from a region while it is there.
pub trait Hold {
    /// Whether a process has the region open, this one included.
    fn is_in_use(&self) -> Result<bool, FabricError>;

    /// The processes that have the region open, as far as this one sees them.
    fn peers(&self) -> Peers;
}
