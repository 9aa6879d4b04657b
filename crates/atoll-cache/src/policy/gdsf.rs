//! GDSF, GreedyDual-Size with frequency: H = L + frequency * cost / size, with the same cost for
//! every object (Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency
//! caching policy", HP Laboratories 1998).

use super::{Access, Object, Policy, Priority, ageing};

/// The policy.
#[derive(Debug)]
pub(super) struct Gdsf;

impl Policy for Gdsf {
    fn name(&self) -> &'static str {
        "gdsf"
    }

    fn extension_words(&self) -> usize {
        1
    }

    fn accessed(&self, access: &Access<'_>, global: u64, extension: &mut [u64]) {
        ageing::accessed(global, access.after.frequency as f64 / ageing::bytes(access.after), extension);
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
