//! LFU: the object that was accessed least often since its insertion leaves, among equals the least
//! recently used one (in-cache LFU; Coffman and Denning, "Operating systems theory", 1973, section
//! 6.2).

use super::{Object, Policy, Priority};

/// The policy.
#[derive(Debug)]
pub(super) struct Lfu;

impl Policy for Lfu {
    fn name(&self) -> &'static str {
        "lfu"
    }

    fn priority(&self, _now_us: u64, object: &Object, _global: u64, _extension: &[u64]) -> Priority {
        Priority::new(object.frequency).then(object.accessed_us)
    }
}
