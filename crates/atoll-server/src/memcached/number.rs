//! Numbers as memcached reads them, which are C's: blanks and a sign may come first, and the number
//! ends at a blank or with the text.

/// C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Whether there is a minus sign, and the digits as a number; `None` if there are none, something
/// other than a blank follows, or the number has more than 64 bits.
fn magnitude(text: &[u8]) -> Option<(bool, u64)> {
    let first = text.iter().position(|byte| !is_blank(*byte))?;
    let (is_negative, digits) = match &text[first..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || digits.get(count).is_some_and(|byte| !is_blank(*byte)) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    Some((is_negative, digits[..count].iter().try_fold(0, add)?))
}

/// A number of 64 bits without a sign. As in C a negative one wraps, unless the result has the
/// highest bit.
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    let (is_negative, number) = magnitude(text)?;
    let wrapped = if is_negative { number.wrapping_neg() } else { number };
    if is_negative && wrapped >> 63 == 1 { None } else { Some(wrapped) }
}

/// A number of 64 bits with a sign, of which memcached keeps the lower 32.
pub(crate) fn signed(text: &[u8]) -> Option<i32> {
    let (is_negative, number) = magnitude(text)?;
    let number = if is_negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() };
    number.map(|number| number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_memcached_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            (" +7", Some(7)),
            ("7\tx", Some(7)),
            ("007", Some(7)),
            ("-0", Some(0)),
            ("-1", None),
            ("7x", None),
            ("", None),
            (" ", None),
            ("-", None),
            ("+-1", None),
        ] {
            assert_eq!(unsigned(text.as_bytes()), number, "{text:?}");
        }
        for (text, number) in [
            ("-1", Some(-1)),
            ("2147483648", Some(i32::MIN)),
            ("99999999999", Some(99_999_999_999_u64 as i32)),
            ("-9223372036854775808", Some(0)),
            ("9223372036854775808", None),
            ("1.5", None),
        ] {
            assert_eq!(signed(text.as_bytes()), number, "{text:?}");
        }
    }
}
