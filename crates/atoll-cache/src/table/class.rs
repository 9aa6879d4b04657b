//! Size classes of blocks: a chunk is cut into blocks of one class.
//!
//! The classes are multiples of 64 bytes up to 512, then four classes to a doubling. So a block
//! exceeds its record by less than 64 bytes, or by at most a quarter.

/// Bytes of the smallest class.
const STEP: u64 = 64;
/// Classes that are multiples of [`STEP`].
const LINEAR: u8 = 8;
/// The number of classes; the largest has 32 KiB, half of the largest chunk.
pub const CLASSES: usize = 32;

/// A size class, by its number from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// The smallest class whose blocks have room for `bytes`; `None` if there is none.
    pub fn of(bytes: u64) -> Option<Self> {
        let steps = bytes.div_ceil(STEP).max(1);
        if steps <= u64::from(LINEAR) {
            return Some(Self(steps as u8));
        }
        // steps lies in (2^octave, 2^(octave + 1)]; each octave has four classes.
        let octave = 63 - (steps - 1).leading_zeros() as u64;
        let quarter = (steps - (1 << octave)).div_ceil(1 << (octave - 2));
        Self::from_code(u8::try_from(u64::from(LINEAR) + (octave - 3) * 4 + quarter).ok()?)
    }

    /// The class with this number, if there is one.
    #[inline]
    pub fn from_code(code: u8) -> Option<Self> {
        (1..=CLASSES as u8).contains(&code).then_some(Self(code))
    }

    /// All classes, the smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=CLASSES as u8).map(Self)
    }

    /// Its number, from 1 on.
    #[inline]
    pub fn code(self) -> u8 {
        self.0
    }

    /// Its number, from 0 on.
    pub fn index(self) -> usize {
        usize::from(self.0) - 1
    }

    /// Bytes of a block.
    #[inline]
    pub fn bytes(self) -> u64 {
        if self.0 <= LINEAR {
            return u64::from(self.0) * STEP;
        }
        let (octave, quarter) = ((self.0 - LINEAR - 1) / 4 + 3, (self.0 - LINEAR - 1) % 4 + 1);
        ((1 << octave) + (u64::from(quarter) << (octave - 2))) * STEP
    }

    /// Whether its blocks take records of `wanted` without much waste: the same class, or a class
    /// that is smaller by at most a fifth.
    pub fn fits(self, wanted: Self) -> bool {
        self == wanted || self > wanted && self.bytes() <= wanted.bytes() * 5 / 4
    }

    /// Blocks of a chunk.
    pub fn blocks(self, chunk_bytes: u64) -> u64 {
        chunk_bytes / self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_room_for_its_record_and_little_more() {
        for bytes in 1..=(32u64 << 10) {
            let class = Class::of(bytes).unwrap();
            assert!(class.bytes() >= bytes && class.bytes() <= (bytes + STEP - 1).max(bytes * 5 / 4 + 1), "{bytes}");
            assert_eq!(Class::of(class.bytes()), Some(class));
        }
        assert_eq!(Class::of((32 << 10) + 1), None);
        assert_eq!((Class::of(0), Class::from_code(0), Class::from_code(33)), (Class::from_code(1), None, None));
    }

    #[test]
    fn classes_grow() {
        for code in 2..=CLASSES as u8 {
            let (class, before) = (Class::from_code(code).unwrap(), Class::from_code(code - 1).unwrap());
            assert!(class.bytes() > before.bytes());
        }
    }
}
