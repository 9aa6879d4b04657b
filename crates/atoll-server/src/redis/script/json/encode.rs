//! A value of Lua as JSON.
//!
//! | table | JSON |
//! |---|---|
//! | empty, or with a key that is no positive integer | object |
//! | its keys are positive integers | array, with null for each integer that is no key |
//! | the same, with too few keys | error, or object |

use super::{DEPTH_MAX, Fault, MEMORY_BYTES_MAX, Steps, null};
use crate::redis::script::number;
use mlua::{Function, LuaString, Table, Value};
use std::mem;

type Encoded<T> = Result<T, Fault>;

/// What becomes of NaN and infinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    Refused,
    Written,
    Null,
}

/// How to encode.
pub(super) struct Settings {
    pub(super) depth_max: usize,
    /// Digits of a number.
    pub(super) digits: usize,
    /// Whether an array with too few keys becomes an object.
    pub(super) converts_sparse: bool,
    /// How many elements for each key are too many; 0 for no limit.
    pub(super) ratio: usize,
    /// The length up to which no array has too few keys.
    pub(super) safe: usize,
    pub(super) invalid: Invalid,
}

/// A table that is being written.
enum Frame {
    /// The next element is behind `index`.
    Array { table: Table, index: usize, length: usize },
    /// The next key is behind `key`, nil at first.
    Object { table: Table, key: Value },
}

struct Encoder<'s> {
    settings: Settings,
    text: Vec<u8>,
    frames: Vec<Frame>,
    steps: Steps<'s>,
}

/// The JSON of a value. `next` is Lua's function.
pub(super) fn encode(value: Value, settings: Settings, next: &Function, steps: Steps<'_>) -> Encoded<Vec<u8>> {
    let mut encoder = Encoder { settings, text: Vec::new(), frames: Vec::new(), steps };
    encoder.value(value)?;
    while let Some(frame) = encoder.frames.last_mut() {
        encoder.steps.take(0)?;
        if encoder.text.len() > MEMORY_BYTES_MAX {
            return Err("not enough memory".into());
        }
        let value = match frame {
            Frame::Array { index, length, .. } if index == length => {
                encoder.text.push(b']');
                encoder.frames.pop();
                continue;
            }
            Frame::Array { table, index, .. } => {
                if *index > 0 {
                    encoder.text.push(b',');
                }
                *index += 1;
                table.raw_get(*index)?
            }
            Frame::Object { table, key } => {
                let is_first = key.is_nil();
                let (found, value) = next.call::<(Value, Value)>((&*table, mem::replace(key, Value::Nil)))?;
                if found.is_nil() {
                    encoder.text.push(b'}');
                    encoder.frames.pop();
                    continue;
                }
                *key = found.clone();
                if !is_first {
                    encoder.text.push(b',');
                }
                encoder.key(&found)?;
                value
            }
        };
        encoder.value(value)?;
    }
    Ok(encoder.text)
}

impl Encoder<'_> {
    /// Writes a value, or begins to write a table.
    fn value(&mut self, value: Value) -> Encoded<()> {
        match value {
            Value::Nil => self.text.extend_from_slice(b"null"),
            Value::LightUserData(data) if data == null() => self.text.extend_from_slice(b"null"),
            Value::Boolean(true) => self.text.extend_from_slice(b"true"),
            Value::Boolean(false) => self.text.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(number as f64)?,
            Value::Number(number) => self.number(number)?,
            Value::String(text) => self.string(&text)?,
            Value::Table(table) => self.open(table)?,
            other => {
                return Err(Fault::Words(format!("Cannot serialise {}: type not supported", type_of(&other))));
            }
        }
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Encoded<()> {
        match key {
            Value::String(text) => self.string(text)?,
            Value::Integer(_) | Value::Number(_) => {
                self.text.push(b'"');
                self.value(key.clone())?;
                self.text.push(b'"');
            }
            other => {
                let kind = type_of(other);
                let why = format!("Cannot serialise {kind}: table key must be a number or string");
                return Err(Fault::Words(why));
            }
        }
        self.text.push(b':');
        Ok(())
    }

    fn open(&mut self, table: Table) -> Encoded<()> {
        let depth = self.frames.len() + 1;
        if depth > self.settings.depth_max.min(DEPTH_MAX) {
            return Err(Fault::Words(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        let length = self.length(&table)?;
        self.frames.push(match length {
            Some(length) => {
                self.text.push(b'[');
                Frame::Array { table, index: 0, length }
            }
            None => {
                self.text.push(b'{');
                Frame::Object { table, key: Value::Nil }
            }
        });
        Ok(())
    }

    /// The length of the array that a table is; `None` for an object.
    fn length(&mut self, table: &Table) -> Encoded<Option<usize>> {
        let (mut length, mut keys) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            self.steps.take(0)?;
            match pair?.0 {
                Value::Integer(key) if (1..=i64::from(i32::MAX)).contains(&key) => length = length.max(key as usize),
                _ => return Ok(None),
            }
            keys += 1;
        }
        let Settings { ratio, safe, converts_sparse, .. } = self.settings;
        let is_sparse = ratio > 0 && length > keys * ratio && length > safe;
        match is_sparse {
            true if converts_sparse => Ok(None),
            true => Err("Cannot serialise table: excessively sparse array".into()),
            false => Ok(Some(length).filter(|length| *length > 0)),
        }
    }

    fn number(&mut self, number: f64) -> Encoded<()> {
        let digits = self.settings.digits;
        let is_short = |integer: i64| integer.unsigned_abs() < 10_u64.pow(digits as u32);
        match self.settings.invalid {
            Invalid::Refused if !number.is_finite() => {
                return Err("Cannot serialise number: must not be NaN or Inf".into());
            }
            Invalid::Null if !number.is_finite() => self.text.extend_from_slice(b"null"),
            // It has no sign here.
            Invalid::Written if number.is_nan() => self.text.extend_from_slice(b"nan"),
            _ if number.to_bits() == (number as i64 as f64).to_bits() && is_short(number as i64) => {
                self.text.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
            }
            _ => self.text.extend_from_slice(number::general(number, digits).as_bytes()),
        }
        Ok(())
    }

    fn string(&mut self, text: &LuaString) -> Encoded<()> {
        let bytes = text.as_bytes();
        if self.text.len() + bytes.len() > MEMORY_BYTES_MAX {
            return Err("not enough memory".into());
        }
        self.steps.take(bytes.len())?;
        self.text.push(b'"');
        let mut rest = &bytes[..];
        while let Some(at) = rest.iter().position(|byte| IS_ESCAPED[usize::from(*byte)]) {
            self.text.extend_from_slice(&rest[..at]);
            match rest[at] {
                b'\x08' => self.text.extend_from_slice(b"\\b"),
                b'\t' => self.text.extend_from_slice(b"\\t"),
                b'\n' => self.text.extend_from_slice(b"\\n"),
                b'\x0c' => self.text.extend_from_slice(b"\\f"),
                b'\r' => self.text.extend_from_slice(b"\\r"),
                byte @ (b'"' | b'/' | b'\\') => self.text.extend_from_slice(&[b'\\', byte]),
                byte => {
                    let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                    self.text.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
                }
            }
            rest = &rest[at + 1..];
        }
        self.text.extend_from_slice(rest);
        self.text.push(b'"');
        Ok(())
    }
}

/// Whether a byte of a text is written with a backslash.
static IS_ESCAPED: [bool; 256] = {
    let (mut is_escaped, mut byte) = ([false; 256], 0);
    while byte < 256 {
        is_escaped[byte] = matches!(byte as u8, 0..=31 | b'"' | b'/' | b'\\' | 127);
        byte += 1;
    }
    is_escaped
};

/// The type of a value in the words of Lua.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}
