//! FIFO: the object that was inserted first is evicted (Belady, "A study of replacement algorithms
//! for a virtual-storage computer", 1966).

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const FIFO: Policy = Policy {
    name: "fifo",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|_now_us, object| Priority::new(object.inserted_us)),
};
