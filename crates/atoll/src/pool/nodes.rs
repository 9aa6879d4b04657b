//! The regions of a pool's memory nodes, and how one is added.
//!
//! The home has the pool's name. The name of node `n` is that name and `+n`
//! (`Fabric::region_address`). One process at a time creates a node. In a new pool it is the
//! process that created the home; in a growing pool it is the holder of the claim
//! ([`nodes::claim`]). So a region under the node's name was left by a process that died. The
//! creator removes it.

use super::users::Users;
use super::{Pool, UpkeepError};
use crate::fabric::{EndpointOf, PoolFabric};
use atoll_cache::CacheError;
use atoll_fabric::{CostClass, Fabric, FabricError, Hold, Reach, Region, Sharing, block_on};
use atoll_pool::chunks::Descriptor;
use atoll_pool::nodes::{self, MemberWords};
use atoll_pool::{ChunkState, Client, PoolError};

impl From<FabricError> for UpkeepError {
    fn from(error: FabricError) -> Self {
        Self::Open(error.into())
    }
}

impl From<PoolError> for UpkeepError {
    fn from(error: PoolError) -> Self {
        Self::Open(error.into())
    }
}

/// A memory node of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its number; 0 is the pool's home.
    pub number: u8,
    /// The name of its region; `None` for a pool of this process alone.
    pub region: Option<String>,
    /// Bytes of its region.
    pub bytes: u64,
    /// Its chunks.
    pub chunks: u64,
    /// Its free chunks.
    pub chunks_free: u64,
    /// Whether its region is gone. Until there is an agent at its address again, its keys miss.
    pub is_absent: bool,
}

/// Whose regions of further memory nodes may be removed.
///
/// | the region's name | `Any` | `Pool` | `Nobody` |
/// |---|---|---|---|
/// | begins with the pool's | all | all | all |
/// | is an agent's, with a number: it may be of any pool | those that no process has open | this pool's; without a header those that no process has open | without a header those that no process has open |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of a pool that is not known.
    Any,
    /// Of the pool with this id.
    Pool(u64),
    /// Of no pool. A creator that died leaves regions without a header.
    Nobody,
}

impl Whose {
    /// Of the pool with this id, if it is known.
    pub(super) fn pool(id: Option<u64>) -> Self {
        id.map_or(Self::Nobody, Self::Pool)
    }
}

/// What a region is that may be removed.
pub(super) enum Found<H> {
    /// There is none.
    Nothing,
    /// It is not this pool's.
    NotOurs,
    /// It is this pool's, or may be.
    Region {
        /// Excludes other processes.
        lock: H,
        /// Its size.
        bytes: u64,
        /// Whether it is this pool's for sure.
        is_ours: bool,
    },
}

/// What became of a region that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// There was none.
    Nothing,
    /// It had so many bytes.
    Removed(u64),
    /// It stays: processes have it open.
    InUse(Users),
    /// It stays, and is not this pool's.
    NotOurs,
}

/// Creates the region of a node. No other process may create it meanwhile. A region that a dead
/// creator left is removed first. Memory of the first `there` bytes is provided.
pub(super) fn make_node<F: Fabric>(
    fabric: &F,
    (node, whose): (u8, Whose),
    bytes: u64,
    there: u64,
) -> Result<F::Region, FabricError> {
    match remove_node(fabric, (node, whose), false)? {
        Left::Nothing | Left::Removed(_) => fabric.create(node, bytes, there),
        Left::InUse(_) | Left::NotOurs => Err(FabricError::Exists(fabric.region_address(node).unwrap_or_default())),
    }
}

/// Looks at the region of a node.
pub(super) fn find_node<F: Fabric>(fabric: &F, node: u8, whose: Whose) -> Result<Found<F::Hold>, FabricError> {
    let lock = match fabric.hold(node, Sharing::Alone) {
        Err(FabricError::Absent(_)) => return Ok(Found::Nothing),
        lock => lock?,
    };
    let is_named = fabric.cost_class() != CostClass::Network;
    // A region whose creator died before it set the size has no words.
    let (words, bytes) = fabric.beginning(node)?;
    Ok(match MemberWords::of(&words) {
        MemberWords::Empty => Found::Region { lock, bytes, is_ours: is_named },
        MemberWords::OfPool(id) if is_named || whose == Whose::Pool(id) => Found::Region { lock, bytes, is_ours: true },
        MemberWords::OfPool(_) if whose == Whose::Any => Found::Region { lock, bytes, is_ours: false },
        MemberWords::OfPool(_) | MemberWords::Other => Found::NotOurs,
    })
}

/// Removes the region of a node, if it may be removed and no process has it open. `by_force` also
/// removes one that is in use and this pool's for sure.
pub(super) fn remove_node<F: Fabric>(
    fabric: &F,
    (node, whose): (u8, Whose),
    by_force: bool,
) -> Result<Left, FabricError> {
    Ok(match find_node(fabric, node, whose)? {
        Found::Nothing => Left::Nothing,
        Found::NotOurs => Left::NotOurs,
        Found::Region { lock, is_ours, .. } if lock.is_in_use()? && !(by_force && is_ours) => {
            Left::InUse(Users::of(&lock.peers()))
        }
        Found::Region { bytes, .. } => {
            fabric.remove(node)?;
            Left::Removed(bytes)
        }
    })
}

impl<F: PoolFabric> Pool<F> {
    /// Adds a memory node of at most this many bytes while other clients use the pool; returns the
    /// node. Other clients use it after they next look for room, within a tenth of a second. If the
    /// process dies meanwhile, the pool either is unchanged or has the node. The next call, or the
    /// pool's removal, removes a region that was left.
    pub fn grow(&self, bytes: u64) -> Result<NodeInfo, UpkeepError> {
        let opened = self.opened_now();
        let client = opened.join()?;
        let endpoint = &client.client().endpoint;
        // A client that died while it added a node keeps its claim until it is known to be dead.
        block_on(endpoint, client.repair())?;
        let (pool, me) = (opened.chosen.pool(), client.client().me());
        let claim = match block_on(endpoint, nodes::claim(endpoint, pool, me, bytes)) {
            Ok(claim) => claim,
            Err(refused) => {
                block_on(endpoint, client.leave())?;
                return Err(refused.into());
            }
        };
        let added = self.add_node(client.client(), &claim);
        if added.is_err() {
            block_on(endpoint, claim.release(endpoint, pool)).map_err(PoolError::Verb)?;
        }
        block_on(endpoint, client.leave())?;
        added?;
        let number = claim.node;
        let region = opened.fabric.region_address(number);
        let chunks = claim.chunks.into();
        Ok(NodeInfo { number, region, bytes: claim.bytes, chunks, chunks_free: chunks, is_absent: false })
    }

    fn add_node(&self, client: &Client<EndpointOf<F>>, claim: &nodes::Claim) -> Result<(), UpkeepError> {
        let opened = self.opened_now();
        let (fabric, reach, pool) = (&opened.fabric, &opened.reach, opened.chosen.pool());
        let region = make_node(fabric, (claim.node, Whose::Pool(pool.id)), claim.bytes, claim.bytes)?;
        let prepared = || -> Result<u32, UpkeepError> {
            // A separate endpoint has only this region. So if this fails, the process keeps no
            // mapping of a region that is not in the pool.
            let apart = reach.apart();
            assert!(apart.admit(claim.node, region.clone()), "it has no further node yet");
            let endpoint = apart.endpoint();
            let identity = block_on(&endpoint, claim.prepare(&endpoint, pool))?;
            // On a disk, the node is written before the home names it.
            region.sync()?;
            Ok(identity)
        };
        let identity = prepared().inspect_err(|_| drop(fabric.remove(claim.node)))?;
        // Threads of this process that learn of the node find it mapped.
        let _ = reach.admit(claim.node, region);
        block_on(&client.endpoint, client.publish_node(claim, identity))?;
        reach.home().sync()?;
        Ok(())
    }

    /// Memory nodes whose regions are gone: see [`NodeInfo::is_absent`]. While the home does not
    /// answer, it is the one.
    pub fn nodes_absent(&self) -> u64 {
        self.absent_nodes().map_or(1, |absent| absent.len() as u64)
    }

    fn absent_nodes(&self) -> Result<Vec<u8>, CacheError> {
        let opened = self.opened_now();
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool());
        Ok(block_on(&endpoint, atoll_pool::loss::absent(&endpoint, pool))?)
    }

    pub(super) fn nodes(&self, descriptors: &[Descriptor]) -> Result<Vec<NodeInfo>, CacheError> {
        let absent = self.absent_nodes()?;
        let opened = self.opened_now();
        let layout = &opened.chosen.pool().layout;
        let is_free = |descriptor: &&Descriptor| descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Free);
        let node = |number: u8| {
            let chunks = layout.chunks_of(number)?;
            let of_node = descriptors.get(chunks.start as usize..chunks.end as usize)?;
            let is_absent = absent.contains(&number);
            let (region, bytes) = match opened.reach.region(number).filter(|_| !is_absent) {
                Some(region) => (region.name().map(str::to_owned), region.attributes().bytes),
                None => (opened.fabric.region_address(number), layout.member_end(number, chunks.len() as u32)),
            };
            let chunks_free = of_node.iter().filter(is_free).count() as u64;
            Some(NodeInfo { number, region, bytes, chunks: chunks.len() as u64, chunks_free, is_absent })
        };
        Ok((0..layout.nodes_known()).filter_map(node).collect())
    }
}
