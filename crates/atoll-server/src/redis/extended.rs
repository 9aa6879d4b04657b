//! The floating-point numbers of Redis' counters: the 80-bit format of x87 (`long double`), with 64
//! bits of mantissa.
//!
//! ```text
//! value = mantissa * 2^exponent,   2^63 <= |mantissa| < 2^64, or 0
//! ```
//!
//! `INCRBYFLOAT` reads decimal text to the nearest such number, adds (to the nearest, ties to even)
//! and prints 17 digits after the point, without trailing zeros. Each step uses exact integers and
//! one rounding. Text above or below the format's range is no number.

use num_bigint::{BigInt, BigUint, Sign};
use std::fmt;

const MANTISSA_BITS: u64 = 64;
/// Beyond `2^EXPONENT_MAX` a number is infinite.
const EXPONENT_MAX: i64 = 16384;
/// Below `2^EXPONENT_MIN` a number would be nothing.
const EXPONENT_MIN: i64 = -16445;
/// The longest text that Redis reads a number from.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Digits behind the point.
const DIGITS: u32 = 17;
/// Decimal exponents further from 0 than this are infinite, or nothing.
const DECIMAL_EXPONENT_MAX: i64 = 20_000;

/// A number, or an infinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Finite { mantissa: BigInt, exponent: i64 },
    Infinite,
}

/// A sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sum {
    /// It is a number.
    Finite(Extended),
    /// It is infinite, or not a number.
    NotFinite,
}

impl Extended {
    /// The number that `text` stands for: decimal, with a point and an exponent if it likes, or
    /// hexadecimal behind `0x`, or `inf`. `None` for anything else, NaN too, and for what is too
    /// large or too close to 0.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(Self(Kind::Infinite));
        }
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        match digits {
            [b'0', b'x' | b'X', rest @ ..] => {
                let (digits, behind, exponent) = split(rest, 16, b'p')?;
                let number = BigUint::parse_bytes(&digits, 16)?;
                let exponent = exponent.clamp(-DECIMAL_EXPONENT_MAX * 4, DECIMAL_EXPONENT_MAX * 4) - 4 * behind;
                Self::rounded(BigInt::from_biguint(sign, number), exponent, false).in_range()
            }
            _ => {
                let (digits, behind, exponent) = split(digits, 10, b'e')?;
                let number = BigInt::from_biguint(sign, BigUint::parse_bytes(&digits, 10)?);
                let exponent = exponent.clamp(-DECIMAL_EXPONENT_MAX, DECIMAL_EXPONENT_MAX) - behind;
                Self::from_decimal(number, exponent).in_range()
            }
        }
    }

    /// Whether it is a number, and no infinity.
    pub fn is_finite(&self) -> bool {
        self.0 != Kind::Infinite
    }

    /// Itself, if it is a number that the format holds.
    fn in_range(self) -> Option<Self> {
        match &self.0 {
            Kind::Infinite => None,
            Kind::Finite { mantissa, .. } if mantissa.sign() == Sign::NoSign => Some(self),
            Kind::Finite { mantissa, exponent } => (mantissa.bits() as i64 + exponent > EXPONENT_MIN).then_some(self),
        }
    }

    /// The number nearest to `number * 10^exponent`.
    fn from_decimal(number: BigInt, exponent: i64) -> Self {
        let power = BigInt::from(10).pow(exponent.unsigned_abs() as u32);
        if exponent >= 0 {
            return Self::rounded(number * power, 0, false);
        }
        // So many bits that the quotient has more than a mantissa's; what is left over decides
        // ties.
        let shift = (power.bits() + MANTISSA_BITS + 2).saturating_sub(number.bits());
        let shifted = number << shift;
        let quotient = &shifted / &power;
        let inexact = &quotient * &power != shifted;
        Self::rounded(quotient, -(shift as i64), inexact)
    }

    /// The number nearest to `mantissa * 2^exponent`, where `inexact` says that the truth is a
    /// little further from 0.
    fn rounded(mantissa: BigInt, exponent: i64, inexact: bool) -> Self {
        let extra = mantissa.bits().saturating_sub(MANTISSA_BITS);
        if extra == 0 {
            return Self::bounded(mantissa, exponent);
        }
        let (sign, magnitude) = mantissa.into_parts();
        let mut kept = &magnitude >> extra;
        let left = &magnitude - (&kept << extra);
        let half = BigUint::from(1_u8) << (extra - 1);
        let up = left > half || left == half && (inexact || kept.bit(0));
        if up {
            kept += 1_u8;
        }
        Self::bounded(BigInt::from_biguint(sign, kept), exponent + extra as i64)
    }

    fn bounded(mantissa: BigInt, exponent: i64) -> Self {
        if mantissa.bits() as i64 + exponent > EXPONENT_MAX {
            return Self(Kind::Infinite);
        }
        Self(Kind::Finite { mantissa, exponent })
    }

    /// The sum, rounded.
    pub fn add(&self, other: &Self) -> Sum {
        let (Kind::Finite { mantissa: a, exponent: at }, Kind::Finite { mantissa: b, exponent: by }) =
            (&self.0, &other.0)
        else {
            return Sum::NotFinite;
        };
        let low = *at.min(by);
        let sum = (a << (at - low) as u64) + (b << (by - low) as u64);
        match Self::rounded(sum, low, false) {
            Self(Kind::Infinite) => Sum::NotFinite,
            finite => Sum::Finite(finite),
        }
    }
}

/// Takes `12.5e3` apart: its digits without the point, how many of them stood behind it, and the
/// exponent.
fn split(text: &[u8], radix: u32, exponent_letter: u8) -> Option<(Vec<u8>, i64, i64)> {
    let is_digit = |byte: &u8| (*byte as char).is_digit(radix);
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    let (mut digits, mut rest, mut behind) = (text[..whole].to_vec(), &text[whole..], 0);
    if let [b'.', fraction @ ..] = rest {
        behind = fraction.iter().take_while(|byte| is_digit(byte)).count();
        digits.extend_from_slice(&fraction[..behind]);
        rest = &fraction[behind..];
    }
    if digits.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [letter, exponent @ ..] if letter.eq_ignore_ascii_case(&exponent_letter) => {
            let (negative, exponent) = match exponent {
                [b'-', rest @ ..] => (true, rest),
                [b'+', rest @ ..] => (false, rest),
                rest => (false, rest),
            };
            if exponent.is_empty() || !exponent.iter().all(u8::is_ascii_digit) {
                return None;
            }
            let number = std::str::from_utf8(exponent).ok()?.parse::<i64>().unwrap_or(i64::MAX);
            if negative { -number } else { number }
        }
        _ => return None,
    };
    Some((digits, behind as i64, exponent))
}

impl fmt::Display for Extended {
    /// As Redis prints it: `%.17Lf` without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind::Finite { mantissa, exponent } = &self.0 else { return f.write_str("inf") };
        let (sign, magnitude) = (mantissa.sign(), mantissa.magnitude());
        let scaled = magnitude * BigUint::from(10_u8).pow(DIGITS);
        let scaled = if *exponent >= 0 {
            scaled << *exponent as u64
        } else {
            let shift = exponent.unsigned_abs();
            let kept = &scaled >> shift;
            let left = scaled - (&kept << shift);
            let half = BigUint::from(1_u8) << (shift - 1);
            if left > half || left == half && kept.bit(0) { kept + 1_u8 } else { kept }
        };
        let digits = format!("{scaled:0>width$}", scaled = scaled.to_string(), width = DIGITS as usize + 1);
        let (whole, fraction) = digits.split_at(digits.len() - DIGITS as usize);
        let fraction = fraction.trim_end_matches('0');
        let zero = whole == "0" && fraction.is_empty();
        let minus = if sign == Sign::Minus && !zero { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{minus}{whole}{point}{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        match Extended::parse(a.as_bytes())?.add(&Extended::parse(b.as_bytes())?) {
            Sum::Finite(sum) => Some(sum.to_string()),
            Sum::NotFinite => Some("not finite".to_owned()),
        }
    }

    #[test]
    fn sums_are_those_of_redis() {
        // Each line is what redis-server 7.0.15 replied.
        for (a, b, expected) in [
            ("0.1", "0.2", Some("0.3")),
            ("3.0e3", "200", Some("3200")),
            ("10.50", "0.1", Some("10.6")),
            ("5.0e3", "-5000", Some("0")),
            ("0x10", "1", Some("17")),
            ("1", "-1.5", Some("-0.5")),
            (".5", "5.", Some("5.5")),
            ("inf", "1", Some("not finite")),
            ("1e4932", "1e4932", Some("not finite")),
            ("1e5000", "1", None),
            ("1e-5000", "1", None),
            ("", "1", None),
            (" 1", "1", None),
            ("1 ", "1", None),
            ("nan", "1", None),
            ("1e", "1", None),
            ("e5", "1", None),
        ] {
            assert_eq!(sum(a, b).as_deref(), expected, "{a} + {b}");
        }
    }

    #[test]
    fn a_hostile_exponent_costs_no_memory() {
        assert_eq!(sum("1e999999999999999999999", "1"), None);
        assert_eq!(sum("1e-999999999999999999999", "1"), None);
        assert_eq!(sum("0e999999999", "1").as_deref(), Some("1"));
    }
}
