//! Which clients have which region open.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Who has the region of a node open, and who holds it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Users {
    pub(crate) open: u32,
    /// Whether the one that has it open has it alone.
    pub(crate) is_alone: bool,
    pub(crate) holds: u32,
    /// Whether the one that holds it excludes others.
    pub(crate) is_held_alone: bool,
}

/// The users of all nodes' regions.
#[derive(Default)]
pub(crate) struct Presence(RefCell<BTreeMap<u8, Users>>);

impl Presence {
    pub(crate) fn change<T>(&self, node: u8, change: impl FnOnce(&mut Users) -> T) -> T {
        change(self.0.borrow_mut().entry(node).or_default())
    }
}
