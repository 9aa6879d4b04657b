//! The library `cmsgpack` of scripts: values of Lua as MessagePack.
//!
//! | a value of Lua | MessagePack |
//! |---|---|
//! | a number that is an integer | an integer, as short as it can be |
//! | another number | a float of 32 bits if that is the same number, else of 64 |
//! | a table whose keys are 1 to its length | an array |
//! | another table | a map |
//! | a table within [`DEPTH_MAX`] others, and what no MessagePack is | nil |
//!
//! As in Redis 7.0 bytes that are no text (`bin`) and extensions are not unpacked.
//!
//! The functions return whether they succeeded, and the outcomes or the reason of the failure, as
//! those of `cjson` do.

use super::interpreter::MEMORY_BYTES_MAX;
use super::json::{Fault, Steps};
use mlua::{Lua, LuaString, MultiValue, Result, Table, Value, Variadic};

/// Tables within each other that are packed, as in Redis.
const DEPTH_MAX: usize = 16;
/// Tables within each other that are unpacked: each takes a part of the stack.
const UNPACKED_DEPTH_MAX: usize = 128;
/// Values that one call returns at most: Lua has no room for more.
const VALUES_MAX: usize = 7000;

const MISSING: &str = "Missing bytes in input.";
const BAD: &str = "Bad data format in input.";

pub(super) type Outcome<T> = std::result::Result<T, Fault>;

/// What a function returns.
pub(super) fn told(lua: &Lua, outcome: Outcome<Vec<Value>>) -> Result<MultiValue> {
    let mut values = match outcome {
        Ok(values) => values,
        Err(Fault::Words(words)) => {
            let words = Value::String(lua.create_string(words)?);
            return Ok(MultiValue::from_vec(vec![Value::Boolean(false), words]));
        }
        Err(Fault::Lua(error)) => return Err(error),
    };
    values.insert(0, Value::Boolean(true));
    Ok(MultiValue::from_vec(values))
}

/// The functions. `look` looks at the time.
pub(super) fn library(lua: &Lua, look: impl Fn() -> Result<()> + Clone + 'static) -> Result<Table> {
    let library = lua.create_table()?;
    let looks = look.clone();
    let pack = move |lua: &Lua, values: Variadic<Value>| {
        let mut packer = Packer { bytes: Vec::new(), steps: Steps::new(&looks) };
        let packed = values.iter().try_for_each(|value| packer.value(value, 0));
        let text = packed.and_then(|()| Ok(vec![Value::String(lua.create_string(&packer.bytes)?)]));
        told(lua, text)
    };
    library.set("pack", lua.create_function(pack)?)?;
    // Without a limit: all values, and not where the next one begins.
    let unpack = move |lua: &Lua, (text, limit, offset): (LuaString, Option<f64>, Option<f64>)| {
        let bytes = text.as_bytes();
        told(lua, unpack(lua, &bytes, limit, offset.unwrap_or(0.0), Steps::new(&look)))
    };
    library.set("unpack", lua.create_function(unpack)?)?;
    Ok(library)
}

struct Packer<'l> {
    bytes: Vec<u8>,
    steps: Steps<'l>,
}

impl Packer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Outcome<()> {
        if self.bytes.len() > MEMORY_BYTES_MAX {
            return Err("not enough memory".into());
        }
        self.steps.take(0)?;
        match value {
            Value::Boolean(is_so) => self.bytes.push(0xc2 + u8::from(*is_so)),
            Value::Integer(number) => self.integer(*number as f64),
            Value::Number(number) => self.number(*number),
            Value::String(text) => {
                let bytes = text.as_bytes();
                self.steps.take(bytes.len())?;
                match bytes.len() {
                    length @ 0..32 => self.bytes.push(0xa0 | length as u8),
                    length => self.head(length, &[0xd9, 0xda, 0xdb]),
                }
                self.bytes.extend_from_slice(&bytes);
            }
            Value::Table(table) if depth < DEPTH_MAX => self.table(table, depth)?,
            _ => self.bytes.push(0xc0),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) {
        if number.is_finite() && number.floor() == number && number.abs() < 9_223_372_036_854_775_808.0 {
            return self.integer(number);
        }
        match f64::from(number as f32) == number {
            true => {
                self.bytes.push(0xca);
                self.bytes.extend((number as f32).to_be_bytes());
            }
            false => {
                self.bytes.push(0xcb);
                self.bytes.extend(number.to_be_bytes());
            }
        }
    }

    /// A number without a fraction.
    fn integer(&mut self, number: f64) {
        let number = number as i64;
        let shortest =
            |lengths: [(bool, u8); 4]| lengths.into_iter().find(|(fits, _)| *fits).map_or(0, |(_, kind)| kind);
        let kind = match number {
            -32..128 => return self.bytes.push(number as u8),
            128.. => shortest([
                (number <= 0xff, 0xcc),
                (number <= 0xffff, 0xcd),
                (number <= 0xffff_ffff, 0xce),
                (true, 0xcf),
            ]),
            _ => shortest([
                (i8::try_from(number).is_ok(), 0xd0),
                (i16::try_from(number).is_ok(), 0xd1),
                (i32::try_from(number).is_ok(), 0xd2),
                (true, 0xd3),
            ]),
        };
        self.bytes.push(kind);
        let length = 1 << (kind & 3);
        self.bytes.extend_from_slice(&number.to_be_bytes()[8 - length..]);
    }

    /// The head of so many bytes or elements, of the first of these kinds whose length fits. Two
    /// kinds have two bytes and four, three have one byte too.
    fn head(&mut self, length: usize, kinds: &[u8]) {
        let sizes = &[1, 2, 4][3 - kinds.len()..];
        let fits = |size: usize| length < 1 << (8 * size);
        let (kind, size) = kinds.iter().zip(sizes).find(|(_, size)| fits(**size)).expect("memory is bounded");
        self.bytes.push(*kind);
        self.bytes.extend_from_slice(&(length as u32).to_be_bytes()[4 - size..]);
    }

    fn table(&mut self, table: &Table, depth: usize) -> Outcome<()> {
        let (mut count, mut largest, mut is_array) = (0_usize, 0.0_f64, true);
        table.for_each(|key: Value, _: Value| {
            count += 1;
            let key = match key {
                Value::Integer(key) => key as f64,
                Value::Number(key) => key,
                _ => 0.0,
            };
            is_array &= key >= 1.0 && key.floor() == key;
            largest = largest.max(key);
            self.steps.take(0)
        })?;
        if is_array && largest == count as f64 {
            match count {
                0..16 => self.bytes.push(0x90 | count as u8),
                _ => self.head(count, &[0xdc, 0xdd]),
            }
            for index in 1..=count {
                self.value(&table.raw_get(index)?, depth + 1)?;
            }
            return Ok(());
        }
        match count {
            0..16 => self.bytes.push(0x80 | count as u8),
            _ => self.head(count, &[0xde, 0xdf]),
        }
        let mut fault = None;
        table.for_each(|key: Value, value: Value| {
            if fault.is_none() {
                fault = self.value(&key, depth + 1).and_then(|()| self.value(&value, depth + 1)).err();
            }
            Ok(())
        })?;
        fault.map_or(Ok(()), Err)
    }
}

fn unpack(lua: &Lua, bytes: &[u8], limit: Option<f64>, offset: f64, steps: Steps<'_>) -> Outcome<Vec<Value>> {
    let most = limit.unwrap_or(0.0);
    if offset < 0.0 || most < 0.0 {
        let words = format!("Invalid request to unpack with offset of {offset} and limit of {}.", bytes.len());
        return Err(Fault::Words(words));
    }
    if offset > bytes.len() as f64 {
        let words = format!("Start offset {offset} greater than input length {}.", bytes.len());
        return Err(Fault::Words(words));
    }
    // As in Redis no limit at the beginning means all.
    let takes_all = most == 0.0 && offset == 0.0;
    let most = if takes_all { usize::MAX } else { most as usize };
    let mut unpacker = Unpacker { lua, rest: &bytes[offset as usize..], steps };
    let mut values = Vec::new();
    while !unpacker.rest.is_empty() && values.len() < most {
        if values.len() == VALUES_MAX {
            return Err("stack overflow (in function mp_unpack_full)".into());
        }
        values.push(unpacker.value(0)?);
    }
    if !takes_all {
        let next = if unpacker.rest.is_empty() { -1.0 } else { (bytes.len() - unpacker.rest.len()) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(values)
}

struct Unpacker<'b, 'l> {
    lua: &'b Lua,
    rest: &'b [u8],
    steps: Steps<'l>,
}

impl<'b> Unpacker<'b, '_> {
    fn take(&mut self, bytes: usize) -> Outcome<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(MISSING)?;
        self.rest = rest;
        self.steps.take(bytes)?;
        Ok(taken)
    }

    /// A number of so many bytes.
    fn unsigned(&mut self, bytes: usize) -> Outcome<u64> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn value(&mut self, depth: usize) -> Outcome<Value> {
        let kind = self.take(1)?[0];
        // Of those with one, two, four or eight bytes behind.
        let size = 1 << (kind & 3);
        Ok(match kind {
            0..0x80 => Value::Number(kind.into()),
            0xe0.. => Value::Number((kind as i8).into()),
            0x80..0x90 => self.table(usize::from(kind & 0xf), true, depth)?,
            0x90..0xa0 => self.table(usize::from(kind & 0xf), false, depth)?,
            0xa0..0xc0 => self.text(usize::from(kind & 0x1f))?,
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(kind == 0xc3),
            0xca => Value::Number(f32::from_bits(self.unsigned(4)? as u32).into()),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..0xd0 => Value::Number(self.unsigned(size)? as f64),
            0xd0..0xd4 => {
                let unused = 64 - 8 * size as u32;
                Value::Number(((self.unsigned(size)? << unused) as i64 >> unused) as f64)
            }
            0xd9..0xdc => {
                let length = self.unsigned(1 << (kind - 0xd9))? as usize;
                self.text(length)?
            }
            0xdc..0xe0 => {
                let length = self.unsigned(if kind & 1 == 0 { 2 } else { 4 })? as usize;
                self.table(length, kind >= 0xde, depth)?
            }
            0xc1 | 0xc4..0xca | 0xd4..0xd9 => return Err(BAD.into()),
        })
    }

    fn text(&mut self, length: usize) -> Outcome<Value> {
        Ok(Value::String(self.lua.create_string(self.take(length)?)?))
    }

    fn table(&mut self, length: usize, is_map: bool, depth: usize) -> Outcome<Value> {
        if depth == UNPACKED_DEPTH_MAX {
            return Err("too many tables within each other in input.".into());
        }
        let table = self.lua.create_table()?;
        for index in 1..=length {
            let key = if is_map { self.value(depth + 1)? } else { Value::Number(index as f64) };
            let value = self.value(depth + 1)?;
            match key {
                Value::Nil => return Err("table index is nil".into()),
                Value::Number(number) if number.is_nan() => return Err("table index is NaN".into()),
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}
