//! The random words of an endpoint.

use std::cell::Cell;

/// Vigna's xorshift64*: a seed that is not zero walks all words but zero.
#[derive(Debug)]
pub(crate) struct Random(Cell<u64>);

impl Random {
    /// The words that a seed determines.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed | 1))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
