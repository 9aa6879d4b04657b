//! Exported regions that their own process follows: its endpoints read their words without a verb.
//!
//! All endpoints of the process share a mark for each region that is followed. The endpoint that
//! exported the region sets the mark before it gives its number back. A word that was loaded before
//! the mark was seen unset is therefore one that other endpoints still reached.

use super::endpoint::ShmEndpoint;
use super::names::Place;
use crate::{Address, FabricError, Region, RegionAttributes};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Which process, which pool of it, and which compute node and region of that. A fork is another
/// process, and the marks that it has from its parent are never set.
type Followed = (u64, PoolKey, Place);

#[derive(Clone, PartialEq, Eq, Hash)]
enum PoolKey {
    Named(String),
    Anonymous(usize),
}

/// Of each region that is followed, whether it has ended.
static ENDED: LazyLock<Mutex<HashMap<Followed, Weak<AtomicBool>>>> = LazyLock::new(Mutex::default);

/// A region that an endpoint follows.
pub(super) struct Following {
    at: Address,
    has_ended: Arc<AtomicBool>,
}

impl ShmEndpoint {
    fn pool_key(&self) -> PoolKey {
        match &self.regions[0].name {
            Some(name) => PoolKey::Named(name.clone()),
            None => PoolKey::Anonymous(Arc::as_ptr(&self.regions[0]) as usize),
        }
    }

    /// See [`Endpoint::follow`](crate::Endpoint::follow).
    pub(super) fn follow_export(&self, at: Address) -> Result<(), FabricError> {
        let refused = |wanted, why| Err(FabricError::NoExport { wanted, why });
        let attributes: RegionAttributes = self.regions[0].attributes();
        let Some(node) = at.compute_node() else { return refused(attributes, "it is a memory node's region") };
        let place = (node, at.region());
        // The owner begins. The other endpoints of the process find its mark. They find none if the
        // region is of another process, or has ended.
        let owns = self.exports.node.get() == Some(node);
        if !owns && self.reach_exported(at).is_err() {
            return refused(attributes, "its owner has ended");
        }
        if self.exports.region(node, at.region()).is_none() {
            return refused(attributes, "its owner exports no such region");
        }
        let key = (self.process, self.pool_key(), place);
        let mut ended = ENDED.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|_, mark| mark.strong_count() > 0);
        // A number may be lent again: its former owner's mark says nothing of the new one.
        let known = ended.get(&key).and_then(Weak::upgrade).filter(|mark| !mark.load(Ordering::Acquire));
        let has_ended = match known {
            Some(mark) => mark,
            None if owns => {
                let mark = Arc::new(AtomicBool::new(false));
                ended.insert(key, Arc::downgrade(&mark));
                mark
            }
            None => return refused(attributes, "its owner is another process, or does not follow it"),
        };
        let at = Address::on_compute(node, at.region(), 0);
        let mut following = self.following.borrow_mut();
        following.retain(|following| following.at != at);
        following.push(Following { at, has_ended });
        Ok(())
    }

    /// See [`Endpoint::own_word`](crate::Endpoint::own_word).
    #[inline]
    pub(super) fn followed_word(&self, at: Address) -> Option<u64> {
        let following = self.following.borrow();
        let found = following.iter().find(|following| following.at.is_in_region_of(at))?;
        let word = self.words(at, 8)?.word().load(Ordering::Acquire);
        let is_told = !found.has_ended.load(Ordering::Acquire) && !self.is_fork();
        is_told.then_some(word)
    }

    /// The process follows the regions of this endpoint no longer. It still has its number.
    pub(super) fn end_following(&self) {
        let Some(node) = self.exports.node.get() else { return };
        for following in self.following.borrow().iter().filter(|following| following.at.compute_node() == Some(node)) {
            following.has_ended.store(true, Ordering::SeqCst);
        }
    }
}
