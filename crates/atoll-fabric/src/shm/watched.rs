//! Exported regions of an agent whose changes a follower is told of: see
//! [`Watch`](crate::tcp::agent::watch::Watch).
//!
//! Invariants:
//! - A verb on an exported region is executed under the region's lock ([`Watched`]), and its change
//!   is recorded under the same lock. So the record has all changes since the watch began, in the
//!   order in which they took effect.
//! - A region is watched once. Once its watch is over, no verb reaches it any more.

use super::endpoint::ShmEndpoint;
use super::region::ShmRegion;
use super::words::Words;
use crate::Address;
use crate::tcp::agent::watch::Watch;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The watch of a region, from its beginning on. Its lock is held while a verb is executed.
pub(super) type Watched = Mutex<Option<Arc<Watch>>>;

impl ShmRegion {
    pub(super) fn watched(&self) -> MutexGuard<'_, Option<Arc<Watch>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the watch that `make` makes for this many words; `None` if the region was watched
    /// before.
    pub(crate) fn begin_watch(&self, make: impl FnOnce(usize) -> Watch) -> Option<Arc<Watch>> {
        let mut watched = self.watched();
        if watched.is_some() {
            return None;
        }
        let watch = Arc::new(make((self.mapping.bytes() / 8) as usize));
        *watched = Some(watch.clone());
        Some(watch)
    }

    /// Whether its process followed it, and is not told of its changes any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.watched().as_ref().is_some_and(|watch| watch.is_over())
    }

    /// Loads words of a region without a name, whose pages were reserved when it was made.
    ///
    /// # Panics
    /// If they are not all words of the region.
    pub(crate) fn load_words(&self, first: usize, into: &mut [u64]) {
        let end = 8 * (first + into.len()) as u64;
        assert!(end <= self.mapping.bytes(), "words of the region");
        // SAFETY: the span lies in the mapping, which lives as long as `self`; its first byte is
        // that of a word; every access to a mapping in this crate goes through `Words`.
        unsafe { Words::new(self.mapping.base().add(8 * first), into.len()) }.load_into(into);
    }
}

impl ShmEndpoint {
    /// The region of an address, if compute nodes export it.
    pub(super) fn exported_region(&self, at: Address) -> Option<Arc<ShmRegion>> {
        self.exports.region(at.compute_node()?, at.region())
    }

    /// The region of an address that this endpoint itself exports.
    pub(crate) fn own_export(&self, at: Address) -> Option<Arc<ShmRegion>> {
        self.exported_region(at).filter(|_| self.exports.node.get() == at.compute_node())
    }
}
