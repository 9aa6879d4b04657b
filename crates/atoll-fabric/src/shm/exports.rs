//! The regions that one endpoint exports, and the exports of other endpoints that it reaches.

use super::names::Place;
use super::region::ShmRegion;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// What one endpoint exports, and what it reaches of others' exports.
#[derive(Default)]
pub(super) struct Exports {
    /// Its number, from its first export on.
    pub(super) node: Cell<Option<u16>>,
    /// How many regions it has exported.
    pub(super) count: Cell<u8>,
    /// Its own regions and those that it was told to reach. A region is replaced by
    /// `ShmEndpoint::reach_exported` alone, between verbs.
    pub(super) reached: RefCell<HashMap<Place, Arc<ShmRegion>>>,
}

impl Exports {
    /// The region at a place, if it is reached.
    pub(super) fn region(&self, node: u16, region: u8) -> Option<Arc<ShmRegion>> {
        self.reached.borrow().get(&(node, region)).cloned()
    }
}
