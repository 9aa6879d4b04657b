//! When the clients of an experiment end: after so many operations of all of them together, or at a
//! virtual time.

use crate::SimEndpoint;
use std::cell::Cell;
use std::rc::Rc;

/// Tells clients whether to begin another operation; clones share their count.
///
/// ```no_run
/// # async fn client(endpoint: atoll_sim::SimEndpoint, stop: atoll_sim::network::Stop) {
/// while stop.begins(&endpoint) {
///     // One operation.
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Stop {
    left: Rc<Cell<u64>>,
    at_ns: u64,
}

impl Stop {
    /// After this many operations of all clients.
    pub fn after_operations(operations: u64) -> Self {
        Self { left: Rc::new(Cell::new(operations)), at_ns: u64::MAX }
    }

    /// At a virtual time, [`SimEndpoint::virtual_ns`].
    pub fn at_ns(ns: u64) -> Self {
        Self { left: Rc::new(Cell::new(u64::MAX)), at_ns: ns }
    }

    /// Whether the client behind `endpoint` is to do one more operation, which is counted as begun.
    #[inline]
    pub fn begins(&self, endpoint: &SimEndpoint) -> bool {
        let left = self.left.get();
        if left == 0 || self.at_ns != u64::MAX && endpoint.virtual_ns() >= self.at_ns {
            return false;
        }
        self.left.set(left - 1);
        true
    }
}
