//! Seeded randomness: wyrand, one multiplication a word.

/// A stream of random words that a seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`; different seeds, even neighbours, give unrelated streams.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x9e37_79b9_7f4a_7c15);
        random.word();
        random.0 ^= random.word();
        random
    }

    /// The stream number `index` of `seed`, unrelated to its other streams.
    pub fn stream(seed: u64, index: u64) -> Self {
        Self::new(Self::new(seed).word() ^ Self::new(!index).word())
    }

    /// The next word.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }

    /// A number below `end`, which is not 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        debug_assert!(end > 0);
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// True with a chance of `chance` in 1024.
    #[inline]
    pub fn chance(&mut self, chance: u32) -> bool {
        ((self.word() >> 54) as u32) < chance
    }

    /// One of `choices`.
    #[inline]
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// One of `chances`; 0 if it is not `taken`. It draws in either case.
    #[inline]
    pub(crate) fn pick_if(&mut self, taken: bool, chances: &[u32]) -> u32 {
        let chance = self.pick(chances);
        if taken { chance } else { 0 }
    }

    /// A number from 1 to `2^bits_max`, small ones as likely as large ones: uniform in the
    /// logarithm.
    #[inline]
    pub fn spread(&mut self, bits_max: u32) -> u64 {
        let bits = self.below(u64::from(bits_max) + 1);
        1 + self.below(1 << bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_stream_and_streams_differ() {
        let words = |mut random: Random| -> Vec<u64> { (0..100).map(|_| random.word()).collect() };
        assert_eq!(words(Random::new(7)), words(Random::new(7)));
        assert_ne!(words(Random::new(7)), words(Random::new(8)));
        assert_ne!(words(Random::stream(7, 0)), words(Random::stream(7, 1)));
    }

    #[test]
    fn chances_come_true_as_often_as_they_say() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(128)).count();
        assert!((11_500..13_500).contains(&hits), "{hits} of 100000 at one in eight");
        assert!((0..1000).all(|_| !random.chance(0)) && (0..1000).all(|_| random.chance(1024)));
    }
}
