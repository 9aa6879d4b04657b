//! LFU: evicts the object that was accessed least often since its insertion, among equals the least
//! recently used. It is in-cache LFU (Coffman and Denning, "Operating systems theory", 1973,
//! section 6.2).

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const LFU: Policy = Policy {
    name: "lfu",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|_now_us, object| Priority::new(object.frequency).then(object.accessed_us)),
};
