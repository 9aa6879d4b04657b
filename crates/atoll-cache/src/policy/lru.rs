//! LRU: the object whose last access is longest ago leaves (Mattson et al., "Evaluation techniques
//! for storage hierarchies", 1970).

use super::{Object, Policy, Priority};

/// The policy.
#[derive(Debug)]
pub(super) struct Lru;

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn priority(&self, _now_us: u64, object: &Object, _global: u64, _extension: &[u64]) -> Priority {
        Priority::new(object.accessed_us)
    }
}
