//! Hyperbolic: the object with the fewest accesses per time in the cache and byte leaves
//! (Blankstein, Sen and Freedman, "Hyperbolic caching: flexible caching for web applications",
//! USENIX ATC 2017, sections 2 and 3). It was made for sampling.

use super::{Object, Policy, Priority};

/// The policy.
#[derive(Debug)]
pub(super) struct Hyperbolic;

impl Policy for Hyperbolic {
    fn name(&self) -> &'static str {
        "hyperbolic"
    }

    fn priority(&self, now_us: u64, object: &Object, _global: u64, _extension: &[u64]) -> Priority {
        // An object of this very microsecond has been there for one.
        let resident_us = now_us.saturating_sub(object.inserted_us).max(1) as f64;
        Priority::real(object.frequency as f64 / resident_us / object.bytes.max(1) as f64).then(object.accessed_us)
    }
}
