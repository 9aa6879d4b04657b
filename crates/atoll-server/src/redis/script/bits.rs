//! The library `bit` of scripts: operations on integers of 32 bits.

use mlua::{Lua, Result, Table, Variadic};

type Fold = fn(i32, i32) -> i32;
type Shift = fn(i32, u32) -> i32;

/// A number as 32 bits: modulo 2^32, rounded to the nearest integer.
fn word(number: f64) -> i32 {
    number.round_ties_even().rem_euclid(4_294_967_296.0) as u32 as i32
}

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let bit = lua.create_table()?;
    let folds: [(&str, Fold); 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, fold) in folds {
        let folded = move |_: &Lua, (first, more): (f64, Variadic<f64>)| {
            Ok(more.iter().fold(word(first), |all, next| fold(all, word(*next))))
        };
        bit.set(name, lua.create_function(folded)?)?;
    }
    let shifts: [(&str, Shift); 5] = [
        ("lshift", |number, by| number << by),
        ("rshift", |number, by| ((number as u32) >> by) as i32),
        ("arshift", |number, by| number >> by),
        ("rol", |number, by| number.rotate_left(by)),
        ("ror", |number, by| number.rotate_right(by)),
    ];
    for (name, shift) in shifts {
        let shifted = move |_: &Lua, (number, by): (f64, f64)| Ok(shift(word(number), word(by) as u32 & 31));
        bit.set(name, lua.create_function(shifted)?)?;
    }
    bit.set("tobit", lua.create_function(|_, number: f64| Ok(word(number)))?)?;
    bit.set("bnot", lua.create_function(|_, number: f64| Ok(!word(number)))?)?;
    bit.set("bswap", lua.create_function(|_, number: f64| Ok(word(number).swap_bytes()))?)?;
    let hex = |_: &Lua, (number, digits): (f64, Option<i32>)| {
        let digits = digits.unwrap_or(8);
        let shown = match digits < 0 {
            true => format!("{:08X}", word(number)),
            false => format!("{:08x}", word(number)),
        };
        Ok(shown[8 - digits.unsigned_abs().min(8) as usize..].to_owned())
    };
    bit.set("tohex", lua.create_function(hex)?)?;
    Ok(bit)
}
