//! LRFU: every access counts less the longer it is ago, half after [`HALF_LIFE_US`], and the object
//! with the least sum leaves (Lee et al., "LRFU: a spectrum of policies that subsumes the least
//! recently used and least frequently used policies", IEEE TC 2001).
//!
//! The sum C (the paper's CRF) is kept as it was at the last access, in the extension word, as the
//! bits of a float. C then falls by the same factor for all objects, so that the order of two
//! untouched objects never changes; their logarithms are compared, which do not vanish however old
//! an object is.

use super::{Access, Object, Policy, Priority};

/// When an access counts half. The paper's lambda is one over this; it counts time in requests, the
/// pool has a clock.
const HALF_LIFE_US: f64 = 10e6;

/// The policy.
#[derive(Debug)]
pub(super) struct Lrfu;

/// The sum at the last access, at least the one of that access.
fn sum(word: u64) -> f64 {
    let sum = f64::from_bits(word);
    if sum.is_finite() { sum.max(1.0) } else { 1.0 }
}

impl Policy for Lrfu {
    fn name(&self) -> &'static str {
        "lrfu"
    }

    fn extension_words(&self) -> usize {
        1
    }

    fn accessed(&self, access: &Access<'_>, _global: u64, extension: &mut [u64]) {
        let earlier = access.before.map_or(0.0, |before| {
            let idle_us = access.now_us.saturating_sub(before.accessed_us) as f64;
            sum(extension[0]) * libm::exp2(-idle_us / HALF_LIFE_US)
        });
        extension[0] = (1.0 + earlier).to_bits();
    }

    fn priority(&self, now_us: u64, object: &Object, _global: u64, extension: &[u64]) -> Priority {
        let idle_us = now_us.saturating_sub(object.accessed_us) as f64;
        Priority::real(libm::log2(sum(extension[0])) - idle_us / HALF_LIFE_US)
    }
}
