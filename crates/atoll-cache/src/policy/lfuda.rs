//! LFUDA, LFU with dynamic ageing: H = L + frequency (Arlitt, Cherkasova, Dilley, Friedrich and
//! Jin, "Evaluating content management techniques for web proxy caches", 1999).

use super::{Access, Object, Policy, Priority, ageing};

/// The policy.
#[derive(Debug)]
pub(super) struct Lfuda;

impl Policy for Lfuda {
    fn name(&self) -> &'static str {
        "lfuda"
    }

    fn extension_words(&self) -> usize {
        1
    }

    fn accessed(&self, access: &Access<'_>, global: u64, extension: &mut [u64]) {
        ageing::accessed(global, access.after.frequency as f64, extension);
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
