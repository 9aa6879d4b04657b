//! LRU: evicts the object whose last access is longest ago (Mattson et al., "Evaluation techniques
//! for storage hierarchies", 1970).

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const LRU: Policy = Policy {
    name: "lru",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|_now_us, object| Priority::new(object.accessed_us)),
};
