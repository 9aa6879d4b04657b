//! Fields that share a word. Each width is declared once; packing and unpacking follow from it.

/// The widths of a word's fields in bits, from bit 0 up.
#[derive(Clone, Copy, Debug)]
pub struct Fields<const N: usize>([u32; N]);

impl<const N: usize> Fields<N> {
    /// Fields of these widths, which fit into a word. For constants: what does not fit fails to
    /// compile.
    pub const fn new(bits: [u32; N]) -> Self {
        let (mut sum, mut field) = (0, 0);
        while field < N {
            assert!(bits[field] > 0);
            sum += bits[field];
            field += 1;
        }
        assert!(sum <= u64::BITS);
        Self(bits)
    }

    /// The largest value of a field.
    pub const fn max(self, field: usize) -> u64 {
        u64::MAX >> (u64::BITS - self.0[field])
    }

    /// A word with these values.
    ///
    /// # Panics
    /// If a value is too large for its field.
    pub fn pack(self, values: [u64; N]) -> u64 {
        let mut shift = 0;
        (0..N).fold(0, |word, field| {
            assert!(values[field] <= self.max(field), "{} in {} bits", values[field], self.0[field]);
            let packed = word | values[field] << shift;
            shift += self.0[field];
            packed
        })
    }

    /// A word with these values, each at most its field's largest.
    pub fn pack_most(self, values: [u64; N]) -> u64 {
        self.pack(std::array::from_fn(|field| values[field].min(self.max(field))))
    }

    /// The values in a word. Bits above the last field are not looked at.
    pub fn unpack(self, word: u64) -> [u64; N] {
        let mut shift = 0;
        std::array::from_fn(|field| {
            let value = word >> shift & self.max(field);
            shift += self.0[field];
            value
        })
    }
}

/// The values that a field may have, each with its number in the word.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<T, const N: usize>(pub [(u64, T); N]);

impl<T: Copy + PartialEq, const N: usize> Numbers<T, N> {
    /// The value with a number, if there is one.
    pub fn value(&self, number: u64) -> Option<T> {
        self.0.iter().find(|known| known.0 == number).map(|known| known.1)
    }

    /// The number of a value.
    ///
    /// # Panics
    /// If the table lacks the value.
    pub fn number(&self, value: T) -> u64 {
        self.0.iter().find(|known| known.1 == value).expect("the table has every value").0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_what_does_not_fit_is_refused() {
        const FIELDS: Fields<3> = Fields::new([32, 8, 24]);
        for values in [[0, 0, 0], [1, 2, 3], [u32::MAX.into(), 255, (1 << 24) - 1]] {
            assert_eq!(FIELDS.unpack(FIELDS.pack(values)), values);
        }
        assert_eq!(FIELDS.pack([7, 1, 1]), 7 | 1 << 32 | 1 << 40);
        assert_eq!(Fields::new([64]).unpack(u64::MAX), [u64::MAX]);
        assert!(std::panic::catch_unwind(|| FIELDS.pack([0, 256, 0])).is_err());
    }

    #[test]
    fn a_value_has_its_number_and_an_unknown_number_has_none() {
        const ANSWERS: Numbers<bool, 2> = Numbers([(1, true), (7, false)]);
        assert_eq!([true, false].map(|answer| ANSWERS.number(answer)), [1, 7]);
        assert_eq!([0, 1, 7].map(|number| ANSWERS.value(number)), [None, Some(true), Some(false)]);
    }
}
