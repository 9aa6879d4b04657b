//! The regions that one endpoint exports, and the exports of other endpoints that it reaches.

use super::names::Place;
use super::region::ShmRegion;
use crate::batch::Verb;
use crate::{Address, Batch};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What one endpoint exports, and what it reaches of others' exports.
#[derive(Default)]
pub(super) struct Exports {
    /// Its number, from its first export on.
    pub(super) node: Cell<Option<u16>>,
    /// How many regions it has exported.
    pub(super) count: Cell<u8>,
    /// Its own regions and those that it was told to reach. A region is replaced by
    /// `ShmEndpoint::reach_exported` alone, between verbs.
    reached: RefCell<HashMap<Place, Arc<ShmRegion>>>,
    /// The region that a verb used last: most clients use that of their own node.
    latest: Cell<Option<Latest>>,
}

/// A region of [`Exports::reached`], for the next verb.
#[derive(Clone, Copy)]
struct Latest {
    /// Any address of the region.
    at: Address,
    base: NonNull<u8>,
    /// How many of its bytes are present.
    there: u64,
    /// Set once it has ended.
    mark: NonNull<AtomicU64>,
}

impl Exports {
    /// From now on the region is reached, instead of the one that was reached at the place.
    pub(super) fn insert(&self, place: Place, region: Arc<ShmRegion>) {
        self.latest.set(None);
        self.reached.borrow_mut().insert(place, region);
    }

    /// From now on no region is reached at the place.
    pub(super) fn remove(&self, place: Place) {
        self.latest.set(None);
        self.reached.borrow_mut().remove(&place);
    }

    /// The start of the region of `at`, if it was used last and its bytes up to `end` are present.
    pub(super) fn latest(&self, at: Address, end: u64) -> Option<NonNull<u8>> {
        self.latest
            .get()
            .filter(|latest| latest.at.is_in_region_of(at) && end <= latest.there)
            .map(|latest| latest.base)
    }

    /// The start of the region that was used last, if all verbs of the batch are for words of it
    /// that are present.
    pub(super) fn latest_of(&self, batch: &Batch) -> Option<NonNull<u8>> {
        let latest = self.latest.get()?;
        let is_there = |verb: &Verb| {
            let (offset, bytes) = (verb.at.offset(), verb.len().next_multiple_of(8));
            let is_inside = offset.is_multiple_of(8) && offset.saturating_add(bytes) <= latest.there;
            is_inside && latest.at.is_in_region_of(verb.at)
        };
        batch.verbs().iter().all(is_there).then_some(latest.base)
    }

    /// Notes that a region of `reached` is used.
    pub(super) fn note(&self, at: Address, region: &ShmRegion) {
        let (base, there, mark) = (region.mapping.base(), region.pages.there(), region.mark().into());
        self.latest.set(Some(Latest { at, base, there, mark }));
    }

    /// Whether the region of `at` has ended, if it is an exported one. It is called after the
    /// loads: if it returns false, the loaded words were still those that all endpoints reach.
    #[inline]
    pub(super) fn has_ended(&self, at: Address) -> bool {
        let Some(node) = at.compute_node() else { return false };
        fence(Ordering::Acquire);
        match self.latest.get().filter(|latest| latest.at.is_in_region_of(at)) {
            // SAFETY: the mark is mapped with its region, which stays reached until `latest` is
            // forgotten, and is only accessed atomically.
            Some(Latest { mark, .. }) => unsafe { mark.as_ref() }.load(Ordering::Acquire) != 0,
            None => self.region(node, at.region()).is_some_and(|region| region.has_ended()),
        }
    }

    /// The region at a place, if it is reached.
    pub(super) fn region(&self, node: u16, region: u8) -> Option<Arc<ShmRegion>> {
        self.reached.borrow().get(&(node, region)).cloned()
    }
}
