//! A sample: a group's features at one moment, and the group's utility from then on.
//!
//! ```text
//! 32 B    word 0..3   seven features f32, the logarithm of the utility f32       data; hints
//! ```
//!
//! The pool keeps samples in a ring. A writer takes its sample's number by a fetch-and-add, and the
//! last writer of a place wins. A torn or lost sample does little harm among many.

use super::features::{FEATURES, Features, sound};

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The features.
    pub features: Features,
    /// The logarithm of 1 + the utility.
    pub utility_log: f32,
}

impl Sample {
    /// Bytes in the pool.
    pub const BYTES: u64 = 32;
    /// Words in the pool.
    pub const WORDS: usize = Self::BYTES as usize / 8;

    /// The sample as words.
    pub fn words(&self) -> [u64; Self::WORDS] {
        let mut numbers = [0; FEATURES + 1];
        numbers[..FEATURES].copy_from_slice(&self.features.0.map(f32::to_bits));
        numbers[FEATURES] = self.utility_log.to_bits();
        std::array::from_fn(|word| u64::from(numbers[2 * word]) | u64::from(numbers[2 * word + 1]) << 32)
    }

    /// Decodes a sample from words that were READ, if a client may have written it.
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let number = |nth: usize| Some(f32::from_bits((words.get(nth / 2)? >> (32 * (nth % 2))) as u32));
        let mut features = [0.0; FEATURES];
        for (nth, feature) in features.iter_mut().enumerate() {
            *feature = number(nth)?;
        }
        let utility_log = number(FEATURES)?;
        // The age is at least one. A place that was never written has age zero.
        let is_sound = features.iter().chain([&utility_log]).all(|number| sound(*number) == *number);
        let features = Features(features);
        (is_sound && features.age() >= 1.0).then_some(Self { features, utility_log })
    }
}

const _: () = assert!((FEATURES + 1) * 4 == Sample::BYTES as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_reads_back_and_what_is_none_is_left_out() {
        let features = Features([1.0, 2.0, 0.5, 256.0, 3.0, 9.0, 4.0]);
        let sample = Sample { features, utility_log: 1.5 };
        assert_eq!(Sample::from_words(&sample.words()), Some(sample));
        assert_eq!(Sample::from_words(&[0; 4]), None);
        assert_eq!(Sample::from_words(&[u64::MAX; 4]), None);
        assert_eq!(Sample::from_words(&sample.words()[..3]), None);
        for nth in 0..4 {
            let mut words = sample.words();
            words[nth] = 0x7fc0_0000_7fc0_0000;
            assert_eq!(Sample::from_words(&words), None);
        }
    }
}
