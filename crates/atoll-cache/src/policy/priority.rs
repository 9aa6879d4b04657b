//! The order in which objects are evicted.

/// What an object is worth to a policy: a number, and a second number among equals. The lowest is
/// evicted first.
///
/// Both are integers. They order times to the microsecond, however large. Every pattern of bits has
/// its place in the order, so no priority is incomparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    worth: u64,
    among_equals: u64,
}

impl Priority {
    /// The lowest.
    pub const MIN: Self = Self { worth: 0, among_equals: 0 };

    /// By a count or a time: the larger stays.
    pub const fn new(worth: u64) -> Self {
        Self { worth, among_equals: 0 }
    }

    /// By a count or a time: the smaller stays.
    pub const fn reversed(worth: u64) -> Self {
        Self::new(u64::MAX - worth)
    }

    /// By a real number: the larger stays. A NaN is evicted first, since it comes from damaged
    /// words.
    pub fn real(worth: f64) -> Self {
        const SIGN: u64 = 1 << 63;
        if worth.is_nan() {
            return Self::MIN;
        }
        // Minus zero becomes zero. The bits of positive numbers are in their order, and the bits of
        // negative numbers in the reverse.
        let bits = (worth + 0.0).to_bits();
        Self::new(if bits & SIGN == 0 { bits | SIGN } else { !bits })
    }

    /// Adds the second number: among equals the object with the larger `among_equals` stays.
    pub const fn then(self, among_equals: u64) -> Self {
        Self { among_equals, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_numbers_keep_their_order_and_what_is_none_goes_first() {
        let ascending =
            [f64::NEG_INFINITY, -2.5, -f64::MIN_POSITIVE, 0.0, f64::MIN_POSITIVE, 1.0, 1e300, f64::INFINITY];
        assert!(ascending.windows(2).all(|pair| Priority::real(pair[0]) < Priority::real(pair[1])));
        assert_eq!(Priority::real(-0.0), Priority::real(0.0));
        for nan in [f64::NAN, -f64::NAN, f64::from_bits(u64::MAX)] {
            assert!(Priority::real(nan) < Priority::real(f64::NEG_INFINITY));
        }
    }

    #[test]
    fn late_times_are_told_apart_to_the_microsecond() {
        let late = u64::MAX - 1;
        assert!(Priority::new(late) < Priority::new(late + 1));
        assert!(Priority::reversed(late + 1) < Priority::reversed(late));
        assert!(Priority::new(7).then(1) < Priority::new(7).then(2) && Priority::new(7).then(2) < Priority::new(8));
    }
}
