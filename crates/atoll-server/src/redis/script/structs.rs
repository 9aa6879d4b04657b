//! The library `struct` of scripts: numbers and texts as the bytes of structures of C.
//!
//! | a format has | for |
//! |---|---|
//! | `>` `<` | the order of bytes from here on: big, little |
//! | `!` and a power of two | the alignment of what follows, at most; 8 without a number |
//! | `b` `h` `l` `T`; `B` `H` `L` | integers of 1, 2, 8 and 8 bytes; capital without a sign |
//! | `i` `I` | integers of 4 bytes, or of as many as the number behind says |
//! | `f` `d` | floats of 32 and 64 bits |
//! | `s` | a text that a zero byte ends |
//! | `c` and a number | so many bytes of a text; 1 without a number, all or those counted for 0 |
//! | `x` | a zero byte |
//!
//! The functions return whether they succeeded, and the outcomes or the reason of the failure.

use super::interpreter::MEMORY_BYTES_MAX;
use super::json::{Fault, Steps};
use super::msgpack::{Outcome, told};
use mlua::{Lua, LuaString, Result, Table, Value, Variadic};

/// The most bytes of an integer.
const INTEGER_BYTES_MAX: usize = 32;
/// The longest format: a longer one would take milliseconds.
const FORMAT_BYTES_MAX: usize = 64 << 10;
/// The longest text that is taken for a number.
const NUMBER_BYTES_MAX: usize = 400;
/// Values that one call returns at most: Lua has no room for more.
const VALUES_MAX: usize = 7000;

/// The functions. `look` looks at the time.
pub(super) fn library(lua: &Lua, look: impl Fn() -> Result<()> + Clone + 'static) -> Result<Table> {
    let library = lua.create_table()?;
    let looked = look.clone();
    let packing = move |lua: &Lua, (format, values): (LuaString, Variadic<Value>)| {
        looked()?;
        let packed = pack(&format.as_bytes(), &values, &mut Steps::new(&looked));
        told(lua, packed.and_then(|bytes| Ok(vec![Value::String(lua.create_string(bytes)?)])))
    };
    library.set("pack", lua.create_function(packing)?)?;
    let unpacking = move |lua: &Lua, (format, text, position): (LuaString, LuaString, f64)| {
        look()?;
        told(lua, unpack(lua, &format.as_bytes(), &text.as_bytes(), position))
    };
    library.set("unpack", lua.create_function(unpacking)?)?;
    let sizing = |lua: &Lua, format: LuaString| told(lua, size(&format.as_bytes()));
    library.set("size", lua.create_function(sizing)?)?;
    Ok(library)
}

/// What one letter of a format asks for.
enum Item {
    Integer {
        bytes: usize,
        is_signed: bool,
    },
    Float,
    Double,
    /// A text that a zero byte ends.
    Ended,
    /// So many bytes of a text.
    Text(usize),
    Zero,
}

/// Reads a format.
struct Format<'f> {
    /// The function, as errors call it.
    function: &'static str,
    rest: &'f [u8],
    is_big: bool,
    alignment_max: usize,
    /// Where the next value would begin, without its alignment.
    place: usize,
}

impl<'f> Format<'f> {
    fn new(function: &'static str, rest: &'f [u8], place: usize) -> Outcome<Self> {
        if rest.len() > FORMAT_BYTES_MAX {
            return Err("the format is too long".into());
        }
        Ok(Self { function, rest, is_big: cfg!(target_endian = "big"), alignment_max: 1, place })
    }

    /// The number in front of the rest.
    fn number(&mut self, otherwise: usize) -> Outcome<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if digits.is_empty() {
            return Ok(otherwise);
        }
        let number = digits.iter().try_fold(0_usize, |number, digit| {
            number.checked_mul(10)?.checked_add(usize::from(digit - b'0')).filter(|number| *number <= i32::MAX as usize)
        });
        number.ok_or_else(|| Fault::from("integral size overflow"))
    }

    fn integer_bytes(&mut self) -> Outcome<usize> {
        match self.number(4)? {
            bytes if bytes > INTEGER_BYTES_MAX => {
                Err(Fault::Words(format!("integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}")))
            }
            bytes => Ok(bytes),
        }
    }

    /// The next letter that asks for bytes, and how many stand before them for their alignment.
    fn next(&mut self) -> Outcome<Option<(Item, usize)>> {
        while let Some((letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let signed = |bytes, is_signed| Item::Integer { bytes, is_signed };
            let (item, bytes) = match letter {
                b' ' => continue,
                b'>' | b'<' => {
                    self.is_big = *letter == b'>';
                    continue;
                }
                b'!' => {
                    self.alignment_max = self.number(8)?;
                    if !self.alignment_max.is_power_of_two() {
                        return Err(Fault::Words(format!("alignment {} is not a power of 2", self.alignment_max)));
                    }
                    continue;
                }
                b'b' | b'B' => (signed(1, *letter == b'b'), 1),
                b'h' | b'H' => (signed(2, *letter == b'h'), 2),
                b'l' | b'L' => (signed(8, *letter == b'l'), 8),
                b'T' => (signed(8, false), 8),
                b'i' | b'I' => {
                    let bytes = self.integer_bytes()?;
                    (signed(bytes, *letter == b'i'), bytes)
                }
                b'f' => (Item::Float, 4),
                b'd' => (Item::Double, 8),
                b's' => (Item::Ended, 0),
                b'x' => (Item::Zero, 1),
                b'c' => {
                    let bytes = self.number(1)?;
                    (Item::Text(bytes), bytes)
                }
                other => {
                    let (name, other) = (self.function, char::from(*other));
                    let words = format!("bad argument #1 to '{name}' (invalid format option '{other}')");
                    return Err(Fault::Words(words));
                }
            };
            // Texts and padding are not aligned.
            let is_aligned = matches!(item, Item::Integer { .. } | Item::Float | Item::Double);
            let alignment = if is_aligned { bytes.min(self.alignment_max) } else { 1 };
            let before = match alignment {
                0 | 1 => 0,
                // As in Redis by the bits of the number, whatever it is.
                alignment => (alignment - (self.place & (alignment - 1))) & (alignment - 1),
            };
            self.place = self.place.saturating_add(before + bytes);
            return Ok(Some((item, before)));
        }
        Ok(None)
    }
}

fn size(format: &[u8]) -> Outcome<Vec<Value>> {
    let mut format = Format::new("size", format, 0)?;
    while let Some((item, _)) = format.next()? {
        match item {
            Item::Ended => return Err("bad argument #1 to 'size' (option 's' has no fixed size)".into()),
            Item::Text(0) => return Err("bad argument #1 to 'size' (option 'c0' has no fixed size)".into()),
            _ if format.place > i32::MAX as usize => {
                return Err("bad argument #1 to 'size' (integral size overflow)".into());
            }
            _ => {}
        }
    }
    Ok(vec![Value::Number(format.place as f64)])
}

/// A number of Lua as Lua's own functions take it.
fn number(values: &[Value], index: usize) -> Outcome<f64> {
    let value = values.get(index);
    let text = |text: &LuaString| {
        let is_short = text.as_bytes().len() <= NUMBER_BYTES_MAX;
        text.to_str().ok().filter(|_| is_short).and_then(|text| text.trim().parse().ok())
    };
    let number = match value {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Number(number)) => Some(*number),
        Some(Value::String(digits)) => text(digits),
        _ => None,
    };
    if let Some(number) = number {
        return Ok(number);
    }
    let got = value.map_or("no value", |value| value.type_name());
    Err(Fault::Words(format!("bad argument #{} to 'pack' (number expected, got {got})", index + 2)))
}

fn pack(format: &[u8], values: &[Value], steps: &mut Steps<'_>) -> Outcome<Vec<u8>> {
    let (mut format, mut bytes, mut index) = (Format::new("pack", format, 0)?, Vec::new(), 0);
    while let Some((item, before)) = format.next()? {
        if bytes.len() + before > MEMORY_BYTES_MAX {
            return Err("not enough memory".into());
        }
        let begun = bytes.len();
        bytes.resize(begun + before, 0);
        match item {
            Item::Zero => {
                bytes.push(0);
                continue;
            }
            Item::Integer { bytes: length, .. } => {
                let number = number(values, index)?;
                let word = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let low = (0..length).map(|place| if place < 8 { (word >> (8 * place)) as u8 } else { 0 });
                let from = bytes.len();
                bytes.extend(low);
                if format.is_big {
                    bytes[from..].reverse();
                }
            }
            Item::Float => {
                let number = number(values, index)? as f32;
                bytes.extend(if format.is_big { number.to_be_bytes() } else { number.to_le_bytes() });
            }
            Item::Double => {
                let number = number(values, index)?;
                bytes.extend(if format.is_big { number.to_be_bytes() } else { number.to_le_bytes() });
            }
            Item::Ended | Item::Text(_) => {
                let (borrowed, digits);
                let text: &[u8] = match values.get(index) {
                    Some(Value::String(text)) => {
                        borrowed = text.as_bytes();
                        &borrowed
                    }
                    Some(Value::Integer(number)) => {
                        digits = number.to_string();
                        digits.as_bytes()
                    }
                    other => {
                        let got = other.map_or("no value", |value| value.type_name());
                        let place = index + 2;
                        let words = format!("bad argument #{place} to 'pack' (string expected, got {got})");
                        return Err(Fault::Words(words));
                    }
                };
                let length = match item {
                    Item::Text(length @ 1..) if text.len() < length => {
                        return Err(Fault::Words(format!("bad argument #{} to 'pack' (string too short)", index + 3)));
                    }
                    Item::Text(length @ 1..) => length,
                    _ => {
                        format.place += text.len() + usize::from(matches!(item, Item::Ended));
                        text.len()
                    }
                };
                bytes.extend_from_slice(&text[..length]);
                if matches!(item, Item::Ended) {
                    bytes.push(0);
                }
            }
        }
        steps.take(bytes.len() - begun)?;
        index += 1;
    }
    Ok(bytes)
}

fn unpack(lua: &Lua, format: &[u8], text: &[u8], position: f64) -> Outcome<Vec<Value>> {
    if position.is_nan() || position < 1.0 {
        return Err("bad argument #3 to 'unpack' (offset must be 1 or greater)".into());
    }
    let from = position as usize - 1;
    let (mut format, mut values) = (Format::new("unpack", format, from)?, Vec::<Value>::new());
    while let Some((item, _)) = format.next()? {
        let length = match item {
            Item::Integer { bytes, .. } | Item::Text(bytes) => bytes,
            Item::Float => 4,
            Item::Double => 8,
            Item::Zero => 1,
            Item::Ended => 0,
        };
        let start = format.place - length;
        let short = || Fault::from("bad argument #2 to 'unpack' (data string too short)");
        let bytes = text.get(start..start + length).ok_or_else(short)?;
        if values.len() == VALUES_MAX {
            return Err("stack overflow (too many results)".into());
        }
        let ordered = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if format.is_big {
                bytes.reverse();
            }
            bytes
        };
        match item {
            Item::Zero => {}
            Item::Integer { bytes: length, is_signed } => {
                let low = ordered(bytes);
                let word = low.iter().take(8).rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
                values.push(Value::Number(match is_signed {
                    false => word as f64,
                    // As in Redis the sign is that of a number of at most eight bytes.
                    true if length == 0 || length > 8 => word as i64 as f64,
                    true => ((word << (64 - 8 * length)) as i64 >> (64 - 8 * length)) as f64,
                }));
            }
            Item::Float => {
                let bytes = ordered(bytes).try_into().expect("four bytes");
                values.push(Value::Number(f32::from_le_bytes(bytes).into()));
            }
            Item::Double => {
                let bytes = ordered(bytes).try_into().expect("eight bytes");
                values.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            Item::Text(0) => {
                let count = match values.pop() {
                    Some(Value::Number(count)) if count >= 0.0 => count as usize,
                    _ => return Err("format 'c0' needs a previous size".into()),
                };
                let bytes = start.checked_add(count).and_then(|end| text.get(start..end)).ok_or_else(short)?;
                format.place = start + count;
                values.push(Value::String(lua.create_string(bytes)?));
            }
            Item::Text(_) => values.push(Value::String(lua.create_string(bytes)?)),
            Item::Ended => {
                let rest = text.get(start..).ok_or_else(short)?;
                let unfinished = "unfinished string in data";
                let end = memchr::memchr(0, rest).ok_or(unfinished)?;
                values.push(Value::String(lua.create_string(&rest[..end])?));
                format.place = start + end + 1;
            }
        }
    }
    values.push(Value::Number(format.place as f64 + 1.0));
    Ok(values)
}
