//! Which clients have which region open.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// How many clients use a region in one way, and whether the last of them excludes others.
#[derive(Clone, Copy, Default)]
pub(crate) struct Uses {
    pub(crate) count: u32,
    pub(crate) is_alone: bool,
}

/// The clients that have the region of a node open, and those that hold it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Users {
    pub(crate) open: Uses,
    pub(crate) held: Uses,
}

/// The users of all nodes' regions.
#[derive(Default)]
pub(crate) struct Presence(RefCell<BTreeMap<u8, Users>>);

impl Presence {
    pub(crate) fn change<T>(&self, node: u8, change: impl FnOnce(&mut Users) -> T) -> T {
        change(self.0.borrow_mut().entry(node).or_default())
    }
}
