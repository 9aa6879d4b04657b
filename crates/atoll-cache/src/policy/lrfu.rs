//! LRFU: every access counts less the longer ago it is: half after [`HALF_LIFE_US`]. The object
//! with the least sum is evicted. After Lee et al., "LRFU: a spectrum of policies that subsumes the
//! least recently used and least frequently used policies", IEEE TC 2001.
//!
//! The extension word has the sum C (the paper's CRF) as of the last access, as the bits of a
//! float. C then falls by the same factor for all objects. So the order of two untouched objects
//! never changes. The policy compares logarithms, which do not vanish for very old objects.

use super::{Formula, GHOSTS_ALL, Policy, Priority};

/// The time after which an access counts half. The paper's lambda is one over this. The paper
/// counts time in requests; the pool has a clock.
const HALF_LIFE_US: f64 = 10e6;

pub(super) const LRFU: Policy = Policy {
    name: "lrfu",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Word {
        accessed: |access, word| {
            let faded = |before: &super::Object| sum(word) * libm::exp2(-half_lives(before.idle_us(access.now_us)));
            (1.0 + access.before.map_or(0.0, faded)).to_bits()
        },
        priority: |now_us, object, word| Priority::real(libm::log2(sum(word)) - half_lives(object.idle_us(now_us))),
    },
};

/// The sum at the last access, which is at least the 1 of that access.
fn sum(word: u64) -> f64 {
    let sum = f64::from_bits(word);
    if sum.is_finite() { sum.max(1.0) } else { 1.0 }
}

/// A time in half-lives.
fn half_lives(idle_us: u64) -> f64 {
    idle_us as f64 / HALF_LIFE_US
}
