//! MRU: evicts the object that was accessed last (Chou and DeWitt, "An evaluation of buffer
//! management strategies for relational database systems", VLDB 1985). It is right for loops that
//! are longer than the cache, and wrong for most other loads.

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const MRU: Policy = Policy {
    name: "mru",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|_now_us, object| Priority::reversed(object.accessed_us)),
};
