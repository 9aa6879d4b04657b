//! The bytes of a HyperLogLog, as Redis stores them: an estimate of how many different elements a
//! set has had, in at most 12 304 bytes.
//!
//! ```text
//! value    "HYLL" encoding zero zero zero cardinality registers
//! encoding 0: dense, 1: sparse
//! cardinality  8 bytes, the low ones first; the highest bit: it is not known
//! dense    16384 registers of 6 bits, the low bits first
//! sparse   runs of equal registers:
//!          00nnnnnn           n + 1 registers of 0
//!          01nnnnnn nnnnnnnn  n + 1 registers of 0
//!          1vvvvvnn           n + 1 registers of v + 1
//! ```
//!
//! A change reads all registers and encodes them anew: sparse, while that takes at most
//! [`SPARSE_BYTES_MAX`] and no register is above 32, else dense. A dense value stays dense. The
//! cardinality is never stored here, and computed by each PFCOUNT: a lookup changes nothing.
//!
//! An element is hashed by MurmurHash64A. The low 14 bits choose the register, which keeps the
//! greatest position of the lowest bit that is set in the others. The estimate is that of O. Ertl,
//! "New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6.

/// The most bytes of a sparse value: `hll-sparse-max-bytes` of Redis, as it is by default.
pub const SPARSE_BYTES_MAX: usize = 3000;

const MAGIC: &[u8] = b"HYLL";
const HEAD_BYTES: usize = 16;
const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
const REGISTER_BITS: usize = 6;
const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS * REGISTER_BITS / 8;
/// Bits of a hash that choose no register, and so the greatest register but for one.
const RANK_BITS: usize = 64 - INDEX_BITS as usize;
const SPARSE_VALUE_MAX: u8 = 32;
const SEED: u64 = 0xadc8_3b19;

/// Why bytes are no HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRead {
    /// They are something else.
    Other,
    /// Their runs are not those of as many registers as there are.
    Corrupted,
}

/// The registers of a HyperLogLog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    all: Box<[u8; REGISTERS]>,
    /// Whether they are encoded so in any case.
    is_dense: bool,
}

impl Default for Registers {
    /// Those of an empty set.
    fn default() -> Self {
        Self { all: Box::new([0; REGISTERS]), is_dense: false }
    }
}

impl Registers {
    /// The registers that `bytes` encode.
    pub fn read(bytes: &[u8]) -> Result<Self, NotRead> {
        let (head, body) = bytes.split_at_checked(HEAD_BYTES).ok_or(NotRead::Other)?;
        if !head.starts_with(MAGIC) {
            return Err(NotRead::Other);
        }
        let mut registers = Self::default();
        match head[MAGIC.len()] {
            0 if bytes.len() == DENSE_BYTES => registers.read_dense(body),
            1 => registers.read_sparse(body).ok_or(NotRead::Corrupted)?,
            _ => return Err(NotRead::Other),
        }
        Ok(registers)
    }

    fn read_dense(&mut self, body: &[u8]) {
        self.is_dense = true;
        // Four registers are three bytes.
        for (four, three) in self.all.chunks_exact_mut(4).zip(body.chunks_exact(3)) {
            let bits = u32::from_le_bytes([three[0], three[1], three[2], 0]);
            for (register, shift) in four.iter_mut().zip([0, 6, 12, 18]) {
                *register = (bits >> shift) as u8 & 0x3f;
            }
        }
    }

    fn read_sparse(&mut self, body: &[u8]) -> Option<()> {
        let (mut rest, mut next) = (body, 0);
        while let [first, behind @ ..] = rest {
            let (count, value);
            (count, value, rest) = match first {
                0x80.. => (usize::from(first & 3) + 1, (first >> 2 & 0x1f) + 1, behind),
                0x40.. => {
                    let (low, behind) = behind.split_first()?;
                    ((usize::from(first & 0x3f) << 8 | usize::from(*low)) + 1, 0, behind)
                }
                _ => (usize::from(*first) + 1, 0, behind),
            };
            self.all.get_mut(next..next + count)?.fill(value);
            next += count;
        }
        (next == REGISTERS).then_some(())
    }

    /// Adds an element; returns whether a register changed.
    pub fn add(&mut self, element: &[u8]) -> bool {
        let hash = hash(element);
        let rank = ((hash >> INDEX_BITS) | 1 << RANK_BITS).trailing_zeros() as u8 + 1;
        let register = &mut self.all[hash as usize % REGISTERS];
        let is_greater = rank > *register;
        *register = rank.max(*register);
        is_greater
    }

    /// Makes these the registers of the union of both sets.
    pub fn merge(&mut self, other: &Self) {
        self.is_dense |= other.is_dense;
        self.all.iter_mut().zip(&*other.all).for_each(|(one, other)| *one = (*one).max(*other));
    }

    /// About how many different elements were added.
    pub fn estimate(&self) -> u64 {
        let mut counts = [0_u32; RANK_BITS + 2];
        // A damaged register is as good as the greatest one.
        self.all.iter().for_each(|register| counts[usize::from(*register).min(RANK_BITS + 1)] += 1);
        let (all, share) = (REGISTERS as f64, |count: u32| f64::from(count) / REGISTERS as f64);
        let mut sum = all * tau(1.0 - share(counts[RANK_BITS + 1]));
        for count in counts[1..=RANK_BITS].iter().rev() {
            sum = (sum + f64::from(*count)) * 0.5;
        }
        sum += all * sigma(share(counts[0]));
        let alpha = 0.5 / std::f64::consts::LN_2;
        (alpha * all * all / sum).round() as u64
    }

    /// Appends the bytes of these registers to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(MAGIC);
        // Sparse, and a cardinality that is not known.
        bytes.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]);
        if self.is_dense || !self.encode_sparse(bytes, start + SPARSE_BYTES_MAX) {
            bytes.truncate(start + HEAD_BYTES);
            bytes[start + MAGIC.len()] = 0;
            self.encode_dense(bytes);
        }
    }

    fn encode_dense(&self, bytes: &mut Vec<u8>) {
        for four in self.all.chunks_exact(4) {
            let bits = four.iter().rev().fold(0_u32, |bits, register| bits << 6 | u32::from(*register));
            bytes.extend_from_slice(&bits.to_le_bytes()[..3]);
        }
    }

    /// Whether the sparse form ends within so many bytes.
    fn encode_sparse(&self, bytes: &mut Vec<u8>, end: usize) -> bool {
        for run in self.all.chunk_by(|one, other| one == other) {
            match run[0] {
                0 => match run.len() - 1 {
                    less @ 0..64 => bytes.push(less as u8),
                    less => bytes.extend_from_slice(&[0x40 | (less >> 8) as u8, less as u8]),
                },
                value @ 1..=SPARSE_VALUE_MAX => {
                    let pieces = run.chunks(4).map(|piece| 0x80 | (value - 1) << 2 | (piece.len() - 1) as u8);
                    bytes.extend(pieces);
                }
                _ => return false,
            }
            if bytes.len() > end {
                return false;
            }
        }
        true
    }
}

/// x + the sum of x^(2^k) * 2^(k - 1) for k = 1, 2, ...
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut weight) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// A third of 1 - x - the sum of (1 - x^(2^-k))^2 * 2^-k for k = 1, 2, ...
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut rest, mut weight) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = rest;
        weight *= 0.5;
        rest -= (1.0 - x).powi(2) * weight;
        if rest == before {
            return rest / 3.0;
        }
    }
}

/// MurmurHash64A.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mix = |word: u64| {
        let word = word.wrapping_mul(FACTOR);
        (word ^ word >> SHIFT).wrapping_mul(FACTOR)
    };
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ mix(u64::from_le_bytes(*word))).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(count: u32) -> Registers {
        let mut registers = Registers::default();
        for number in 0..count {
            registers.add(&number.to_le_bytes());
        }
        registers
    }

    fn encoded(registers: &Registers) -> Vec<u8> {
        let mut bytes = Vec::new();
        registers.encode(&mut bytes);
        bytes
    }

    #[test]
    fn an_estimate_is_within_three_percent_and_few_elements_are_counted_exactly() {
        assert_eq!([0, 1, 2, 10].map(|count| of(count).estimate()), [0, 1, 2, 10]);
        for count in [1_000, 10_000, 100_000, 1_000_000] {
            let off = of(count).estimate() as f64 / f64::from(count) - 1.0;
            assert!(off.abs() < 0.03, "{count} elements: {off}");
        }
    }

    #[test]
    fn a_union_counts_what_is_in_both_once() {
        let (mut one, mut other) = (of(3_000), Registers::default());
        for number in 2_000..4_000_u32 {
            other.add(&number.to_le_bytes());
        }
        one.merge(&other);
        assert_eq!(one.all, of(4_000).all);
    }

    #[test]
    fn few_elements_take_few_bytes_and_many_never_more_than_the_registers() {
        assert_eq!(encoded(&Registers::default()).len(), HEAD_BYTES + 2);
        let bytes = encoded(&of(100));
        assert!(bytes.len() < 350, "{}", bytes.len());
        let mut lengths: Vec<usize> = (0..3_000).step_by(50).map(|count| encoded(&of(count)).len()).collect();
        lengths.dedup_by(|one, other| *one == DENSE_BYTES && *other == DENSE_BYTES);
        let (dense, sparse) = lengths.split_last().unwrap();
        assert_eq!(*dense, DENSE_BYTES);
        assert!(sparse.iter().all(|bytes| (HEAD_BYTES..=SPARSE_BYTES_MAX).contains(bytes)), "{sparse:?}");
    }

    #[test]
    fn a_dense_value_stays_dense() {
        let mut registers = of(5_000);
        assert_eq!(encoded(&registers).len(), DENSE_BYTES);
        registers = Registers::read(&encoded(&registers)).unwrap();
        registers.all.fill(0);
        assert_eq!(encoded(&registers).len(), DENSE_BYTES);
    }

    proptest! {
        #[test]
        fn registers_are_read_as_they_were_written(runs in prop::collection::vec((0..=51_u8, 1..2_000_usize), 0..200)) {
            let mut registers = Registers::default();
            let values = runs.iter().flat_map(|(value, count)| std::iter::repeat_n(*value, *count));
            registers.all.iter_mut().zip(values).for_each(|(register, value)| *register = value);
            let read = Registers::read(&encoded(&registers)).unwrap();
            prop_assert_eq!(&read.all, &registers.all);
            prop_assert!(read.estimate() < u64::MAX);
        }

        #[test]
        fn any_bytes_are_registers_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..100), is_ours: bool) {
            if is_ours && bytes.len() > MAGIC.len() {
                bytes[..MAGIC.len()].copy_from_slice(MAGIC);
                bytes[MAGIC.len()] %= 3;
            }
            if let Ok(registers) = Registers::read(&bytes) {
                let again = Registers::read(&encoded(&registers)).unwrap();
                prop_assert_eq!(again.all, registers.all);
            }
        }
    }
}
