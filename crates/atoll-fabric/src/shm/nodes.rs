//! The regions of further memory nodes, as one process has them mapped.
//!
//! Node 0 is the region that an endpoint is made over. The others are found by their numbers: the
//! control plane maps them, once for all endpoints of the process, and verbs look them up without a
//! lock. A node that was mapped stays mapped.

use super::ShmRegion;
use crate::{FabricError, Region, VerbError};
use std::sync::{Arc, OnceLock};

/// Most memory nodes that an [`Address`](crate::Address) can tell apart.
pub const NODES_MAX: usize = 64;

/// How the region of a node is found, by the node's number.
type Opener = Box<dyn Fn(u8) -> Result<ShmRegion, FabricError> + Send + Sync>;

/// The memory nodes besides node 0 that endpoints of this process reach.
pub struct ShmNodes {
    /// By number; a place is filled once and never again.
    regions: [OnceLock<Arc<ShmRegion>>; NODES_MAX],
    opener: Opener,
}

impl ShmNodes {
    /// None yet; `opener` maps the region of a node once an endpoint is to
    /// [reach](crate::Endpoint::reach) it.
    pub fn new(opener: impl Fn(u8) -> Result<ShmRegion, FabricError> + Send + Sync + 'static) -> Self {
        Self { regions: [const { OnceLock::new() }; NODES_MAX], opener: Box::new(opener) }
    }

    /// Those alone that this process [inserts](ShmNodes::insert).
    pub fn none() -> Self {
        Self::new(|_| Err(FabricError::Absent("a memory node of another process".to_owned())))
    }

    /// Those of a pool whose home has this name: node `n` is the region [`ShmNodes::name`]`(home,
    /// n)`.
    pub fn named(home: &str) -> Self {
        let home = home.to_owned();
        Self::new(move |node| ShmRegion::open_sparse(&Self::name(&home, node)))
    }

    /// The name of a node's region, if the home's is `home`.
    ///
    /// `shm:/NAME` and `+` cannot be a user's name, so that no other region is ever taken for one
    /// of a pool.
    pub fn name(home: &str, node: u8) -> String {
        format!("{home}+{node}")
    }

    /// Adds a region that this process made itself. Gives it back as an error if the node has one
    /// already.
    pub fn insert(&self, node: u8, region: Arc<ShmRegion>) -> Result<(), Arc<ShmRegion>> {
        match self.regions.get(usize::from(node)) {
            Some(place) => place.set(region),
            None => Err(region),
        }
    }

    /// The region of a node, if it is mapped.
    #[inline]
    pub fn region(&self, node: u8) -> Option<&Arc<ShmRegion>> {
        self.regions.get(usize::from(node))?.get()
    }

    /// All regions that are mapped, with their nodes' numbers.
    pub fn mapped(&self) -> impl Iterator<Item = (u8, &Arc<ShmRegion>)> {
        self.regions.iter().enumerate().filter_map(|(node, place)| Some((node as u8, place.get()?)))
    }

    /// Maps the region of a node, unless it is.
    pub fn reach(&self, node: u8) -> Result<(), VerbError> {
        if self.region(node).is_some() {
            return Ok(());
        }
        let absent = |why: String| VerbError::node_absent(node, why);
        let region = (self.opener)(node).map_err(|error| absent(format!("{error}; put its region back")))?;
        let place = self.regions.get(usize::from(node)).ok_or_else(|| absent("there is no such node".to_owned()))?;
        // Another thread may have been faster; its mapping is of the same file.
        place.get_or_init(|| Arc::new(region));
        Ok(())
    }
}

impl std::fmt::Debug for ShmNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.mapped().map(|(node, region)| (node, region.attributes().bytes))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::ShmEndpoint;
    use crate::{Address, Batch, Clock, Endpoint, run_ready};

    fn anonymous() -> Arc<ShmRegion> {
        Arc::new(ShmRegion::anonymous(1 << 16).unwrap())
    }

    fn add(endpoint: &ShmEndpoint, at: Address) -> Result<u64, VerbError> {
        let mut batch = Batch::new();
        let found = batch.fetch_and_add(at, 1);
        run_ready(endpoint.post(&mut batch)).map(|()| batch.word(found))
    }

    #[test]
    fn every_node_has_words_of_its_own_and_one_that_is_not_there_is_an_error() {
        let nodes = Arc::new(ShmNodes::new(|node| ShmRegion::open(&format!("shm:/nobody-made-{node}"))));
        nodes.insert(2, anonymous()).unwrap();
        assert!(nodes.insert(2, anonymous()).is_err(), "a node is mapped once");
        let endpoint = ShmEndpoint::with_regions(vec![anonymous()], Clock::host()).with_nodes(nodes);
        for (node, before) in [(0, 0), (2, 0), (0, 1), (2, 1)] {
            assert_eq!(add(&endpoint, Address::new(node, 0, 64)), Ok(before), "node {node}");
        }
        assert!(matches!(add(&endpoint, Address::new(1, 0, 64)), Err(VerbError::Unreachable(_))));
        assert!(matches!(add(&endpoint, Address::new(2, 1, 64)), Err(VerbError::Unreachable(_))));
        assert!(matches!(add(&endpoint, Address::new(2, 0, 1 << 16)), Err(VerbError::Unreachable(_))));
        assert_eq!(run_ready(endpoint.reach(2)), Ok(()));
        let absent = run_ready(endpoint.reach(1)).unwrap_err();
        assert!(absent.to_string().contains("shm:/nobody-made-1 does not exist"), "{absent}");
    }

    #[test]
    fn a_node_that_comes_later_is_reached_by_every_endpoint_of_the_process() {
        let home = format!("shm:/atoll-later-{}", std::process::id());
        let nodes = Arc::new(ShmNodes::named(&home));
        let endpoints =
            [(); 2].map(|()| ShmEndpoint::with_regions(vec![anonymous()], Clock::host()).with_nodes(nodes.clone()));
        let name = ShmNodes::name(&home, 1);
        assert!(run_ready(endpoints[0].reach(1)).is_err());
        ShmRegion::create(&name, 1 << 16).unwrap();
        let reached = run_ready(endpoints[0].reach(1));
        ShmRegion::remove(&name).unwrap();
        assert_eq!(reached, Ok(()));
        for (before, endpoint) in endpoints.iter().enumerate() {
            assert_eq!(add(endpoint, Address::new(1, 0, 8)), Ok(before as u64));
        }
        assert_eq!(nodes.mapped().count(), 1);
    }
}
