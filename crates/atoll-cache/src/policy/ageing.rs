//! The common base of GDS, GDSF and LFUDA. An object gets the value H = L + worth when it is
//! accessed, and L becomes the H of each victim. So objects that are not accessed fall behind.
//!
//! H is computed at the access and kept in the object's one extension word. If every candidate's
//! priority had the present L added, all would gain the same, and no object would age. L is the
//! policy's shared number. Both are kept as the bits of a float that is not negative. The order of
//! such bits is the order of the numbers, so the larger word is the larger number.

use super::{Object, Priority};

/// The float of a word of the pool. A word that H or L could not have counts as zero.
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

/// The new L: the victim's H.
pub(super) fn evicted(global: u64, value: u64) -> u64 {
    real(value).max(real(global)).to_bits()
}
