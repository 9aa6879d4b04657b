//! Exported regions that processes of the host follow: they read their words without a verb.
//!
//! Behind an exported region is a mark, which is set before any endpoint is told that the region is
//! gone (`export`). A word that was loaded before the mark was seen unset is therefore one that
//! other endpoints still reached. So a process may follow the region of another one, which may be
//! killed at any moment.

use super::endpoint::ShmEndpoint;
use super::region::ShmRegion;
use crate::{Address, FabricError, Region, RegionAttributes};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A region that an endpoint follows.
pub(super) struct Following {
    at: Address,
    region: Arc<ShmRegion>,
}

impl ShmEndpoint {
    /// See [`Endpoint::follow`](crate::Endpoint::follow).
    pub(super) fn follow_export(&self, at: Address) -> Result<(), FabricError> {
        let refused = |why| {
            let wanted: RegionAttributes = self.regions[0].attributes();
            Err(FabricError::NoExport { wanted, why })
        };
        let Some(node) = at.compute_node() else { return refused("it is a memory node's region") };
        let owns = self.exports.node.get() == Some(node);
        if !owns && self.reach_exported(at).is_err() {
            return refused("its owner has ended");
        }
        let Some(region) = self.exports.region(node, at.region()) else {
            return refused("its owner exports no such region");
        };
        let at = Address::on_compute(node, at.region(), 0);
        let mut following = self.following.borrow_mut();
        following.retain(|following| following.at != at && !following.region.has_ended());
        following.push(Following { at, region });
        Ok(())
    }

    /// See [`Endpoint::own_word`](crate::Endpoint::own_word).
    #[inline]
    pub(super) fn followed_word(&self, at: Address) -> Option<u64> {
        let following = self.following.borrow();
        let Following { region, .. } = following.iter().find(|following| following.at.is_in_region_of(at))?;
        let word = region.word_at(at.offset())?.load(Ordering::Acquire);
        let is_told = !region.has_ended() && !self.is_fork();
        is_told.then_some(word)
    }
}
