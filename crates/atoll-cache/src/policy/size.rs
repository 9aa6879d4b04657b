//! SIZE: the largest object leaves, among equals the least recently used one (Williams et al.,
//! "Removal policies in network caches for World-Wide Web documents", SIGCOMM 1996).

use super::{Object, Policy, Priority};

/// The policy.
#[derive(Debug)]
pub(super) struct Size;

impl Policy for Size {
    fn name(&self) -> &'static str {
        "size"
    }

    fn priority(&self, _now_us: u64, object: &Object, _global: u64, _extension: &[u64]) -> Priority {
        Priority::reversed(object.bytes).then(object.accessed_us)
    }
}
