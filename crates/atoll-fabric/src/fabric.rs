//! The control plane: regions by their address, and what endpoints of this process reach.
//!
//! A [`Fabric`] is an address that a user wrote, such as `shm:/NAME`. It names the region of every
//! memory node of one pool; the home is node 0. It holds nothing open. A process has a [`Reach`]
//! open: the home's region and those of further nodes. A reach makes endpoints.
//!
//! | of | a caller asks |
//! |---|---|
//! | a fabric | create, open and remove a region; exclude other processes from a region for a time |
//! | a region | its attributes, its peers, whether it outlives a restart of its agent |
//! | a reach | endpoints, further memory nodes, the living compute nodes |
//! | an [`Endpoint`] | its identity, the boot and the clock of the region's agent, who is dead |
//!
//! The calls block, and may take long. A region never changes its size. A pool grows by the region
//! of a further memory node, which is created, prepared, and then [admitted](Reach::admit).
//!
//! If the requested fabric is missing, the call returns an error. No call falls back to another
//! fabric.

use crate::{Endpoint, FabricError, Peers, Region};

/// The cost of a round trip to the regions of a fabric. Protocols read it, and do not derive it
/// from a fabric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostClass {
    /// No more than an access to local memory: see [`Endpoint::is_near`].
    Memory,
    /// A round trip on a network.
    Network,
}

/// Which other processes may look at a region while a process [holds](Fabric::hold) it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Other processes that also only look.
    Shared,
    /// No other process.
    Alone,
}

/// Bytes of a region that have memory when a pool creates it; the rest is provided later.
pub const START_BYTES: u64 = 16 << 20;

/// The first words of a region. They say what the region contains.
pub const BEGINNING_WORDS: usize = 32;

/// The address of the regions of one pool. See the module.
pub trait Fabric {
    /// An open region. A clone is the same region.
    type Region: Region + Clone;
    /// What this process has open of the pool.
    type Reach: Reach<Region = Self::Region>;
    /// A hold that excludes other processes from a region until it is dropped.
    type Hold: Hold;

    /// The fabric's name as users write it: `shm`, `tcp`, `verbs`, `sim`.
    fn name(&self) -> &'static str;

    /// The cost of a round trip, which the fabric declares.
    fn cost_class(&self) -> CostClass;

    /// The address by which another process finds the same pool; `None` if none can.
    fn address(&self) -> Option<&str>;

    /// The address of the region of one memory node.
    fn region_address(&self, node: u8) -> Option<String>;

    /// How many agents have the regions. A new pool has a memory node on each.
    fn agents(&self) -> u32 {
        1
    }

    /// Whether one of the agents was asked something and is not there, or does not answer.
    fn is_unanswered(&self) -> bool {
        false
    }

    /// Bytes that the agents have left in total for regions, if they have a limit of their own.
    fn room_bytes(&self) -> Result<Option<u64>, FabricError> {
        Ok(None)
    }

    /// Returns an error if the agents have no room for this many bytes in total.
    fn check_room(&self, bytes: u64) -> Result<(), FabricError>;

    /// The error of a region of this many bytes for which no memory is left. It names the limit.
    fn no_room(&self, bytes: u64) -> FabricError;

    /// Creates the region of a memory node, all zero bytes. The agent has memory for the first
    /// `there` bytes. Endpoints request memory for the rest ([`Endpoint::provide`]).
    ///
    /// # Errors
    /// [`FabricError::Exists`] if the node has a region.
    fn create(&self, node: u8, bytes: u64, there: u64) -> Result<Self::Region, FabricError>;

    /// Opens the region of a memory node, after every process that has it
    /// [alone](Fabric::open_alone) has released it.
    fn open(&self, node: u8) -> Result<Self::Region, FabricError>;

    /// Opens a region that no other process has open. Other processes cannot open it until it is
    /// [shared](Region::share). `None` if another process has it open.
    fn open_alone(&self, node: u8) -> Result<Option<Self::Region>, FabricError>;

    /// Waits until no other process holds the region of a memory node in a conflicting way. A hold
    /// does not open the region.
    fn hold(&self, node: u8, sharing: Sharing) -> Result<Self::Hold, FabricError>;

    /// The first words under a region's name, zero beyond the end, and the length in bytes. The
    /// words need not be a region's.
    fn beginning(&self, node: u8) -> Result<([u64; BEGINNING_WORDS], u64), FabricError>;

    /// Removes the region of a memory node. Processes that have it open keep its memory until they
    /// close it.
    fn remove(&self, node: u8) -> Result<(), FabricError>;

    /// Makes a reach, whose endpoints reach this region as node 0.
    fn reach(&self, home: Self::Region) -> Self::Reach;
}

/// What endpoints of this process reach. A clone is the same reach.
pub trait Reach: Clone {
    /// The endpoint of one thread.
    type Endpoint: Endpoint + 'static;
    /// An open region.
    type Region: Region + Clone;

    /// A new endpoint.
    fn endpoint(&self) -> Self::Endpoint;

    /// As [`Endpoint::wait`], for all endpoints of this reach: for a future that owns its endpoint.
    fn wait(&self) {
        std::thread::yield_now();
    }

    /// The home's region.
    fn home(&self) -> &Self::Region;

    /// A reach of the home alone, with its own further nodes.
    fn apart(&self) -> Self;

    /// From now on all endpoints reach the region of a further memory node, which this process has
    /// created. `false` if they already reach a region of that node.
    fn admit(&self, node: u8, region: Self::Region) -> bool;

    /// The region of a memory node, if endpoints reach it.
    fn region(&self, node: u8) -> Option<Self::Region>;

    /// Closes the regions of a pool that is gone, although endpoints of it exist: its memory nodes
    /// may reuse their memory once those endpoints have failed. Where the memory is near, a process
    /// keeps it until its endpoints are dropped.
    fn let_go(&self) {}

    /// The memory nodes that endpoints reach, the home first.
    fn memory_nodes(&self) -> Vec<u8>;

    /// The living compute nodes: endpoints of all processes that have exported a region. The list
    /// is in order. Compute nodes have their own numbers, apart from memory nodes.
    fn compute_nodes(&self) -> Vec<u16>;
}

/// A hold that excludes other processes from a region while it exists.
pub trait Hold {
    /// Whether a process has the region open, this one included.
    fn is_in_use(&self) -> Result<bool, FabricError>;

    /// The processes that have the region open, as far as this one can see them.
    fn peers(&self) -> Peers;
}
