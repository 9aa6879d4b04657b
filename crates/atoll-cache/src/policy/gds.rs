//! GDS, GreedyDual-Size: H = L + cost / size, with the same cost for every object (Cao and Irani,
//! "Cost-aware WWW proxy caching algorithms", USITS 1997: GD-Size(1), which looks at the hit
//! ratio).

use super::{Access, Object, Policy, Priority, ageing};

/// The policy.
#[derive(Debug)]
pub(super) struct Gds;

impl Policy for Gds {
    fn name(&self) -> &'static str {
        "gds"
    }

    fn extension_words(&self) -> usize {
        1
    }

    fn accessed(&self, access: &Access<'_>, global: u64, extension: &mut [u64]) {
        ageing::accessed(global, 1.0 / ageing::bytes(access.after), extension);
    }

    fn priority(&self, _now_us: u64, object: &Object, _global: u64, extension: &[u64]) -> Priority {
        ageing::priority(object, extension)
    }

    fn evicted(&self, _now_us: u64, _victim: &Object, global: u64, extension: &[u64]) -> u64 {
        ageing::evicted(global, extension)
    }

    fn has_global(&self) -> bool {
        true
    }
}
