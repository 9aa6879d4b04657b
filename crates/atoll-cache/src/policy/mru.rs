//! MRU: the object that was accessed last leaves (Chou and DeWitt, "An evaluation of buffer
//! management strategies for relational database systems", VLDB 1985). Right for loops that are
//! longer than the cache, wrong for most else.

use super::{Object, Policy, Priority};

/// The policy.
#[derive(Debug)]
pub(super) struct Mru;

impl Policy for Mru {
    fn name(&self) -> &'static str {
        "mru"
    }

    fn priority(&self, _now_us: u64, object: &Object, _global: u64, _extension: &[u64]) -> Priority {
        Priority::reversed(object.accessed_us)
    }
}
