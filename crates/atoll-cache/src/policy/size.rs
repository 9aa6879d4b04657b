//! SIZE: evicts the largest object, among equals the least recently used (Williams et al., "Removal
//! policies in network caches for World-Wide Web documents", SIGCOMM 1996).

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const SIZE: Policy = Policy {
    name: "size",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|_now_us, object| Priority::reversed(object.bytes).then(object.accessed_us)),
};
