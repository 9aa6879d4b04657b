//! The regions of a pool's memory nodes, and how one is added.
//!
//! The home has the pool's name; node `n` has the same with `+n` behind it ([`ShmNodes::name`]).
//! Whoever makes a node is alone at it: of a new pool because it made the home, of one that grows
//! because it holds the claim ([`nodes::claim`]). So what it finds under the node's name was left
//! there by one that died, and goes.

use super::{OpenError, Pool};
use atoll_cache::CacheError;
use atoll_fabric::region::Region;
use atoll_fabric::shm::{RegionLock, ShmEndpoint, ShmError, ShmNodes, ShmRegion};
use atoll_fabric::{Clock, run_ready};
use atoll_pool::chunks::Descriptor;
use atoll_pool::{ChunkState, Client, PoolError, nodes};
use std::sync::Arc;

/// Why a pool could not be given more memory. It is what it was.
#[derive(Debug, thiserror::Error)]
pub enum GrowError {
    /// No client could be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What clients that died left behind could not be looked after first.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl From<ShmError> for GrowError {
    fn from(error: ShmError) -> Self {
        Self::Open(error.into())
    }
}

impl From<PoolError> for GrowError {
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

pub(super) fn endpoint(home: &Arc<ShmRegion>, nodes: &Arc<ShmNodes>, clock: &Clock) -> ShmEndpoint {
    ShmEndpoint::with_regions(vec![home.clone()], clock.clone()).with_nodes(nodes.clone())
}

/// The nodes of a pool whose home is `name`, none of them mapped yet.
pub(super) fn nodes_of(name: Option<&str>) -> Arc<ShmNodes> {
    Arc::new(match name {
        Some(name) => ShmNodes::named(name),
        None => ShmNodes::new(|_| Err(ShmError::Absent("a memory node of another process".to_owned()))),
    })
}

/// The region of a node that this process makes, and which nobody else may be making. What another
/// left there that died at it goes. The first `there` bytes of it have their memory.
pub(super) fn make_node(home: Option<&str>, node: u8, bytes: u64, there: u64) -> Result<ShmRegion, ShmError> {
    let Some(home) = home else { return ShmRegion::anonymous_sparse(bytes, there) };
    let name = ShmNodes::name(home, node);
    remove_node(&name, false)?;
    ShmRegion::create_sparse(&name, bytes, there)
}

/// Removes the region of a node, if that is what has this name, and no process has it open (or
/// `by_force`); how many bytes it had.
pub(super) fn remove_node(name: &str, by_force: bool) -> Result<Option<u64>, ShmError> {
    let lock = match RegionLock::alone(name) {
        Err(ShmError::Absent(_)) => return Ok(None),
        lock => lock?,
    };
    // One whose maker had not come to giving it a size has no words.
    let (words, bytes) = ShmRegion::beginning(name)?;
    if !nodes::is_member_or_empty(words[0]) || lock.is_in_use()? && !by_force {
        return Err(ShmError::Exists(name.to_owned()));
    }
    ShmRegion::remove(name).map(|()| Some(bytes))
}

impl Pool {
    /// Adds a memory node of at most so many bytes, while others use the pool; gives the node. They
    /// begin to use it as they come to look for room, within a tenth of a second. Dies the process
    /// meanwhile, the pool is what it was, or has the node; what is left of a region goes with the
    /// next call, or with the pool.
    pub fn grow(&self, bytes: u64) -> Result<NodeInfo, GrowError> {
        let client = self.0.join()?;
        // One that died while it added a node still has its claim until it is known to be dead.
        run_ready(client.repair())?;
        let (pool, me) = (self.0.chosen.pool(), client.client().me());
        let claim = run_ready(nodes::claim(&client.client().endpoint, pool, me, bytes))?;
        if let Err(error) = self.add_node(client.client(), &claim) {
            run_ready(claim.release(&client.client().endpoint, pool)).map_err(PoolError::Verb)?;
            return Err(error);
        }
        run_ready(client.leave())?;
        let number = claim.node;
        let region = self.name().map(|home| ShmNodes::name(home, number));
        let chunks = claim.chunks.into();
        Ok(NodeInfo { number, region, bytes: claim.bytes, chunks, chunks_free: chunks })
    }

    fn add_node(&self, client: &Client<ShmEndpoint>, claim: &nodes::Claim) -> Result<(), GrowError> {
        let (home, pool) = (self.name(), self.0.chosen.pool());
        let region = Arc::new(make_node(home, claim.node, claim.bytes, claim.bytes)?);
        let prepared = || -> Result<u32, GrowError> {
            // By an endpoint that has this region alone: should this fail, the process has no
            // mapping of a region that nobody has.
            let alone = nodes_of(None);
            alone.insert(claim.node, region.clone()).expect("it has no node yet");
            let identity = run_ready(claim.prepare(&endpoint(&self.0.region, &alone, &self.0.clock), pool))?;
            // On a disk, what the home names is there before the home names it.
            region.sync()?;
            Ok(identity)
        };
        let identity = prepared().inspect_err(|_| {
            if let Some(home) = home {
                let _ = ShmRegion::remove(&ShmNodes::name(home, claim.node));
            }
        })?;
        // Threads of this process that learn of the node find it mapped.
        let _ = self.0.nodes.insert(claim.node, region.clone());
        run_ready(client.publish_node(claim, identity))?;
        self.0.region.sync()?;
        Ok(())
    }

    pub(super) fn nodes(&self, descriptors: &[Descriptor]) -> Vec<NodeInfo> {
        let layout = &self.0.chosen.pool().layout;
        let is_free = |descriptor: &&Descriptor| descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Free);
        let node = |number: u8| {
            let chunks = layout.chunks_of(number)?;
            let of_node = descriptors.get(chunks.start as usize..chunks.end as usize)?;
            let region = if number == 0 { &self.0.region } else { self.0.nodes.region(number)? };
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
