//! A span of memory that endpoints reach, and its attributes.
//!
//! Memory nodes, compute nodes and replicas export regions alike. A region never moves and never
//! changes its size.

use crate::{FabricError, Identity, PeerState, Peers, RegionAttributes};
use std::sync::Arc;

/// A region that this process has open.
pub trait Region {
    /// What was fixed when it was created.
    fn attributes(&self) -> RegionAttributes;

    /// The name under which another process opens it, if it has one.
    fn name(&self) -> Option<&str>;

    /// Whether its bytes are gone after a restart of its agent.
    fn is_volatile(&self) -> bool;

    /// Writes the region to its disk, if it is on one.
    fn sync(&self) -> Result<(), FabricError>;

    /// Lets other processes open a region that was opened [alone](crate::Fabric::open_alone).
    fn share(&self) -> Result<(), FabricError>;

    /// The processes that have the region open, as far as this one can see them.
    fn peers(&self) -> Peers;

    /// The state of the process behind an endpoint of this region.
    fn peer_state(&self, who: Identity, peers: &Peers) -> PeerState;

    /// Kills the process behind an endpoint of this region, if it is another process and visible
    /// here. Returns whether a signal was sent. It is for an operator who wants the memory of a
    /// paused client.
    fn kill(&self, who: Identity, peers: &Peers) -> bool;
}

impl<R: Region + ?Sized> Region for Arc<R> {
    fn attributes(&self) -> RegionAttributes {
        (**self).attributes()
    }

    fn name(&self) -> Option<&str> {
        (**self).name()
    }

    fn is_volatile(&self) -> bool {
        (**self).is_volatile()
    }

    fn sync(&self) -> Result<(), FabricError> {
        (**self).sync()
    }

    fn share(&self) -> Result<(), FabricError> {
        (**self).share()
    }

    fn peers(&self) -> Peers {
        (**self).peers()
    }

    fn peer_state(&self, who: Identity, peers: &Peers) -> PeerState {
        (**self).peer_state(who, peers)
    }

    fn kill(&self, who: Identity, peers: &Peers) -> bool {
        (**self).kill(who, peers)
    }
}
