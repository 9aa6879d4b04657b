//! The regions of a pool's memory nodes, and how one is added.
//!
//! The home has the pool's name; node `n` has the same with `+n` behind it
//! (`Fabric::region_address`). One process at a time makes a node: of a new pool the process that
//! made the home, of a growing pool the holder of the claim ([`nodes::claim`]). So a region that it
//! finds under the node's name was left by a process that died, and is removed.

use super::{Pool, UpkeepError};
use crate::fabric::{EndpointOf, PoolFabric};
use atoll_fabric::{Fabric, FabricError, Hold, Reach, Region, Sharing, block_on};
use atoll_pool::chunks::Descriptor;
use atoll_pool::{ChunkState, Client, PoolError, nodes};

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
    /// Those of them that are free.
    pub chunks_free: u64,
}

/// The region of a node that this process makes, and which nobody else may be making. What another
/// left there that died at it goes. The first `there` bytes of it have their memory.
pub(super) fn make_node<F: Fabric>(fabric: &F, node: u8, bytes: u64, there: u64) -> Result<F::Region, FabricError> {
    remove_node(fabric, node, false)?;
    fabric.create(node, bytes, there)
}

/// Removes the region of a node, if that is what has this name, and no process has it open (or
/// `by_force`); how many bytes it had.
pub(super) fn remove_node<F: Fabric>(fabric: &F, node: u8, by_force: bool) -> Result<Option<u64>, FabricError> {
    let lock = match fabric.hold(node, Sharing::Alone) {
        Err(FabricError::Absent(_)) => return Ok(None),
        lock => lock?,
    };
    // One whose maker had not come to giving it a size has no words.
    let (words, bytes) = fabric.beginning(node)?;
    if !nodes::is_member_or_empty(words[0]) || lock.is_in_use()? && !by_force {
        return Err(FabricError::Exists(fabric.region_address(node).unwrap_or_default()));
    }
    fabric.remove(node).map(|()| Some(bytes))
}

impl<F: PoolFabric> Pool<F> {
    /// Adds a memory node of at most so many bytes, while others use the pool; gives the node. They
    /// begin to use it as they come to look for room, within a tenth of a second. Dies the process
    /// meanwhile, the pool is what it was, or has the node; what is left of a region goes with the
    /// next call, or with the pool.
    pub fn grow(&self, bytes: u64) -> Result<NodeInfo, UpkeepError> {
        let client = self.0.join()?;
        let endpoint = &client.client().endpoint;
        // One that died while it added a node still has its claim until it is known to be dead.
        block_on(endpoint, client.repair())?;
        let (pool, me) = (self.0.chosen.pool(), client.client().me());
        let claim = block_on(endpoint, nodes::claim(endpoint, pool, me, bytes))?;
        if let Err(error) = self.add_node(client.client(), &claim) {
            block_on(endpoint, claim.release(endpoint, pool)).map_err(PoolError::Verb)?;
            return Err(error);
        }
        block_on(endpoint, client.leave())?;
        let number = claim.node;
        let region = self.0.fabric.region_address(number);
        let chunks = claim.chunks.into();
        Ok(NodeInfo { number, region, bytes: claim.bytes, chunks, chunks_free: chunks })
    }

    fn add_node(&self, client: &Client<EndpointOf<F>>, claim: &nodes::Claim) -> Result<(), UpkeepError> {
        let (fabric, reach, pool) = (&self.0.fabric, &self.0.reach, self.0.chosen.pool());
        let region = make_node(fabric, claim.node, claim.bytes, claim.bytes)?;
        let prepared = || -> Result<u32, UpkeepError> {
            // By an endpoint that has this region alone: should this fail, the process has no
            // mapping of a region that nobody has.
            let apart = reach.apart();
            assert!(apart.admit(claim.node, region.clone()), "it has no further node yet");
            let endpoint = apart.endpoint();
            let identity = block_on(&endpoint, claim.prepare(&endpoint, pool))?;
            // On a disk, what the home names is there before the home names it.
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

    pub(super) fn nodes(&self, descriptors: &[Descriptor]) -> Vec<NodeInfo> {
        let layout = &self.0.chosen.pool().layout;
        let is_free = |descriptor: &&Descriptor| descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Free);
        let node = |number: u8| {
            let chunks = layout.chunks_of(number)?;
            let of_node = descriptors.get(chunks.start as usize..chunks.end as usize)?;
            let region = self.0.reach.region(number)?;
            Some(NodeInfo {
                number,
                region: region.name().map(str::to_owned),
                bytes: region.attributes().bytes,
                chunks: chunks.len() as u64,
                chunks_free: of_node.iter().filter(is_free).count() as u64,
            })
        };
        (0..layout.nodes_known()).filter_map(node).collect()
    }
}
