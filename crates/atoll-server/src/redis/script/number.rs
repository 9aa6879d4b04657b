//! Numbers of Lua as texts, and as integers, as C has them.

/// The most digits that tell two numbers apart.
const DIGITS_MAX: usize = 17;
/// Numbers that are not greater may be exact integers for Redis.
const INTEGER_MAX: f64 = (1_u64 << 62) as f64;

/// The text of a number with so many digits, as C's `%.*g` writes it.
pub(super) fn general(number: f64, digits: usize) -> String {
    match finite(number) {
        Ok(()) => laid_out(&format!("{number:.*e}", digits - 1), digits),
        Err(text) => text.to_owned(),
    }
}

/// The shortest text that means this number.
pub(super) fn shortest(number: f64) -> String {
    match finite(number) {
        Ok(()) => laid_out(&format!("{number:e}"), DIGITS_MAX),
        Err("-nan") => "nan".to_owned(),
        Err(text) => text.to_owned(),
    }
}

/// The text of an argument of a command: an integer is exact.
pub(super) fn argument(number: f64) -> String {
    match number.fract() == 0.0 && number.abs() <= INTEGER_MAX {
        true => (number as i64).to_string(),
        false => general(number, DIGITS_MAX),
    }
}

/// An integer without the fraction, as a conversion in C cuts it off on this architecture.
pub(super) fn cut(number: f64) -> i64 {
    let is_in_range = number >= i64::MIN as f64 && number < -(i64::MIN as f64);
    if is_in_range { number as i64 } else { i64::MIN }
}

/// A number that is finite, or else its text.
fn finite(number: f64) -> Result<(), &'static str> {
    match (number.is_finite(), number.is_nan(), number.is_sign_negative()) {
        (true, ..) => Ok(()),
        (_, true, true) => Err("-nan"),
        (_, true, false) => Err("nan"),
        (_, false, true) => Err("-inf"),
        (_, false, false) => Err("inf"),
    }
}

/// Writes `-1.2300e-5` as C's `%g` does: without zeros at its end, and without an exponent if that
/// is small.
fn laid_out(scientific: &str, digits: usize) -> String {
    let (mantissa, exponent) = scientific.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0') } else { mantissa };
    let all: String = mantissa.chars().filter(|digit| *digit != '.').collect();
    match exponent {
        0.. if exponent < digits as i32 => {
            let whole = exponent as usize + 1;
            match all.len() > whole {
                true => format!("{sign}{}.{}", &all[..whole], &all[whole..]),
                false => format!("{sign}{all:0<whole$}"),
            }
        }
        -4..0 => format!("{sign}0.{}{all}", "0".repeat((-exponent - 1) as usize)),
        _ => {
            let direction = if exponent < 0 { '-' } else { '+' };
            format!("{sign}{}e{direction}{:02}", mantissa.trim_end_matches('.'), exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::{Lua, LuaOptions, StdLib};
    use proptest::strategy::Strategy;
    use proptest::test_runner::{Config, TestRunner};

    #[test]
    fn random_numbers_have_the_texts_of_c() {
        let lua = Lua::new_with(StdLib::STRING, LuaOptions::new()).unwrap();
        let format: mlua::Function = lua.load("return string.format").call(()).unwrap();
        let number = proptest::prop_oneof![
            proptest::num::f64::ANY,
            -1e6..1e6,
            (-1_000_000_i64..1_000_000).prop_map(|number| number as f64 / 100.0),
            (-20..20).prop_map(|exponent| 10_f64.powi(exponent)),
        ];
        let mut runner = TestRunner::new(Config { cases: 20_000, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&(number, 1_usize..18), |(number, digits)| {
            let expected: String = format.call((format!("%.{digits}g"), number)).unwrap();
            proptest::prop_assert_eq!(general(number, digits), expected);
            let read: f64 = shortest(number).parse().unwrap();
            proptest::prop_assert!(read == number || number.is_nan() && read.is_nan());
            Ok(())
        });
        outcome.unwrap();
    }

    #[test]
    fn an_argument_is_exact_if_it_is_an_integer() {
        for (number, text) in [
            (3.0, "3"),
            (-0.0, "0"),
            (1e17, "100000000000000000"),
            (123_456_789_012_345_680.0, "123456789012345680"),
            (-4_611_686_018_427_387_904.0, "-4611686018427387904"),
            (9_223_372_036_854_775_808.0, "9.2233720368547758e+18"),
            (1e20, "1e+20"),
            (0.1, "0.10000000000000001"),
            (f64::INFINITY, "inf"),
            (-f64::NAN, "-nan"),
        ] {
            assert_eq!(argument(number), text);
        }
    }

    #[test]
    fn what_is_no_integer_of_64_bits_is_the_least_one() {
        for (number, integer) in [(2.9, 2), (-2.9, -2), (1e20, i64::MIN), (-1e20, i64::MIN), (f64::NAN, i64::MIN)] {
            assert_eq!(cut(number), integer, "{number}");
        }
    }
}
