//! What GDS, GDSF and LFUDA have in common: a value H = L + worth is given to an object when it is
//! accessed, and L becomes the H of each victim, so that objects which are not accessed fall
//! behind.
//!
//! H is baked in at the access and kept in the object's one extension word. A priority that adds
//! the present L to every candidate would add the same to all of them, and nothing would age. L is
//! the policy's shared number. Both are kept as the bits of a float that is not negative, whose
//! order is that of the numbers, so that the larger word is the larger number.

use super::{Object, Priority};

/// The float of a word of the pool; what is no number that H or L could have counts as zero.
fn real(word: u64) -> f64 {
    let real = f64::from_bits(word);
    if real.is_finite() && real > 0.0 { real } else { 0.0 }
}

/// An object's new value: H = L + worth, `worth` being positive.
pub(super) fn value(global: u64, worth: f64) -> u64 {
    (real(global) + worth).to_bits()
}

/// By H, among equals the least recently used first, as in the heaps of the exact forms.
pub(super) fn priority(object: &Object, value: u64) -> Priority {
    Priority::real(real(value)).then(object.accessed_us)
}

/// The new L: what the victim was worth.
pub(super) fn evicted(global: u64, value: u64) -> u64 {
    real(value).max(real(global)).to_bits()
}
