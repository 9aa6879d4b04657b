//! SIZE: evicts the largest object, among equals the least recently used (Williams et al., "Removal
//! policies in network caches for World-Wide Web documents", SIGCOMM 1996).

use super::{Formula, Policy, Priority};

pub(super) const SIZE: Policy = Policy {
    name: "size",
    formula: Formula::Plain(|_now_us, object| Priority::reversed(object.bytes).then(object.accessed_us)),
};
