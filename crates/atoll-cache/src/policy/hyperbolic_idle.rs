//! Hyperbolic over idle time: the object with the fewest accesses per time since its last one
//! leaves.
//!
//! Hyperbolic caching (`hyperbolic`) divides by the time in the cache, so that an object which was
//! popular long ago keeps its worth for as long again. Divided by the idle time, worth falls as
//! soon as accesses cease, and frequency and recency weigh the same. Accesses count up to
//! [`FREQUENCY_MAX`]. Sizes are not looked at.

use super::{Object, Policy, Priority};

const FREQUENCY_MAX: u64 = 30;

/// The policy.
#[derive(Debug)]
pub(super) struct HyperbolicIdle;

impl Policy for HyperbolicIdle {
    fn name(&self) -> &'static str {
        "hyperbolic-idle"
    }

    fn priority(&self, now_us: u64, object: &Object, _global: u64, _extension: &[u64]) -> Priority {
        let idle_us = now_us.saturating_sub(object.accessed_us).max(1) as f64;
        Priority::real(-idle_us / object.frequency.clamp(1, FREQUENCY_MAX) as f64)
    }
}
