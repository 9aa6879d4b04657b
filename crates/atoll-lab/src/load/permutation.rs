//! A random bijection of the numbers below any bound, in constant memory.
//!
//! A Feistel network permutes the numbers of as many bits as the bound needs. A result outside the
//! bound is permuted again until it is inside (cycle walking: Black and Rogaway, "Ciphers with
//! arbitrary finite domains", CT-RSA 2002). The network has fewer than twice as many numbers as the
//! bound, so that takes fewer than two rounds on average.

use atoll_deployment::random::mix;

/// Passes over either half; four make the network a pseudorandom permutation (Luby and Rackoff,
/// 1988).
const PASSES: u64 = 4;

/// A bijection of the numbers below a bound.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    bound: u64,
    bits_low: u32,
    bits_high: u32,
    seed: u64,
}

impl Permutation {
    /// The bijection of the numbers below `bound` that `seed` determines.
    ///
    /// # Panics
    /// If `bound` is 0 or above 2^62.
    pub fn new(bound: u64, seed: u64) -> Self {
        assert!((1..=1 << 62).contains(&bound));
        let bits = (64 - (bound - 1).leading_zeros()).max(2);
        Self { bound, bits_low: bits / 2, bits_high: bits - bits / 2, seed: mix(seed) }
    }

    /// The image of `number`.
    ///
    /// # Panics
    /// If `number` is not below the bound.
    #[inline]
    pub fn apply(&self, number: u64) -> u64 {
        assert!(number < self.bound);
        let mut number = self.network(number);
        while number >= self.bound {
            number = self.network(number);
        }
        number
    }

    #[inline]
    fn network(&self, number: u64) -> u64 {
        let mut low = number & ((1 << self.bits_low) - 1);
        let mut high = number >> self.bits_low;
        for pass in 0..PASSES {
            let word = self.seed.wrapping_add(pass << 1);
            high ^= mix(word ^ (low << 8)) >> (64 - self.bits_high);
            low ^= mix(!word ^ (high << 8)) >> (64 - self.bits_low);
        }
        (high << self.bits_low) | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_hit_once_whatever_the_bound() {
        for bound in (1..200).chain([1023, 1024, 1025, 100_003]) {
            let permutation = Permutation::new(bound, 7);
            let mut hit = vec![false; bound as usize];
            for number in 0..bound {
                let to = permutation.apply(number) as usize;
                assert!(!std::mem::replace(&mut hit[to], true), "{to} of {bound} is hit twice");
            }
        }
    }

    #[test]
    fn neighbours_land_anywhere() {
        // Each of 16 parts gets its share of the first sixteenth, within four standard deviations.
        let permutation = Permutation::new(1_600_000, 3);
        let mut parts = [0_u32; 16];
        (0..100_000).for_each(|number| parts[(permutation.apply(number) / 100_000) as usize] += 1);
        assert!(parts.iter().all(|&count| (count as f64 - 6250.0).abs() < 4.0 * 6250_f64.sqrt()), "{parts:?}");
        assert_ne!(permutation.apply(1), Permutation::new(1_600_000, 4).apply(1));
    }
}
