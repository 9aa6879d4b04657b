//! Replies as values of Lua, and values of Lua as replies.
//!
//! | Lua | reply |
//! |---|---|
//! | string | bulk |
//! | number | integer: its fraction is cut off |
//! | true | 1 |
//! | false, nil | nothing |
//! | table with `ok` or `err` | status, error |
//! | other table | array of its elements up to the first nil |

use crate::redis::resp::Reply;
use memchr::memchr;
use mlua::{Error, Lua, Result, Table, Value};
use std::borrow::Cow;

/// The deepest array of arrays.
const DEPTH_MAX: usize = 64;

/// The text of an error, without the list of the functions that were running.
pub(super) fn said(error: &Error) -> Cow<'_, str> {
    let text: Cow<'_, str> = match error {
        Error::SyntaxError { message, .. } | Error::RuntimeError(message) => Cow::Borrowed(message),
        Error::MemoryError(_) => Cow::Borrowed("not enough memory"),
        Error::CallbackError { cause, .. } => return Cow::Owned(said(cause).into_owned()),
        other => Cow::Owned(other.to_string()),
    };
    match text.split_once("\nstack traceback:") {
        Some((first, _)) => Cow::Owned(first.to_owned()),
        None => text,
    }
}

/// The text of a field of a table.
fn field(table: &Table, name: &str) -> Option<String> {
    match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    }
}

/// The error table of a text.
pub(super) fn error_table(lua: &Lua, text: &str) -> Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    Ok(Value::Table(table))
}

/// What a script raised, as a reply says it. `digest` names the script. Where a function ends in
/// `return redis.call(...)`, Lua does not know the line any more: then it is the `only_line`.
pub(super) fn raised(value: &Value, digest: &str, only_line: Option<usize>) -> String {
    let (text, place) = match value {
        Value::Table(table) => {
            (field(table, "err").unwrap_or_else(|| "ERR unknown error".to_owned()), field(table, "place"))
        }
        Value::String(text) => (format!("ERR {}", text.to_string_lossy()), Some(text.to_string_lossy())),
        Value::Error(error) => (format!("ERR {}", said(error)), None),
        _ => ("ERR unknown error".to_owned(), None),
    };
    let line = place.and_then(|place| match (place.is_empty(), only_line) {
        (true, Some(line)) => Some(line.to_string()),
        _ => Some(place.strip_prefix("user_script:")?.split_once(':')?.0.to_owned()),
    });
    match line {
        Some(line) => format!("{text} script: {digest}, on @user_script:{line}."),
        None => format!("{text} script: {digest}"),
    }
}

/// Replies with what a script returned.
pub(super) fn write(reply: &mut Reply<'_>, value: &Value) -> Result<()> {
    write_at(reply, value, 0)
}

fn write_at(reply: &mut Reply<'_>, value: &Value, depth: usize) -> Result<()> {
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(*number as i64),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(_) if depth >= DEPTH_MAX => reply.error("ERR reached lua stack limit"),
        Value::Table(table) => match (field(table, "err"), field(table, "ok")) {
            (Some(error), _) => reply.error(error),
            (None, Some(status)) => reply.simple(&status.replace(['\r', '\n'], " ")),
            (None, None) => {
                let elements = (1..).map(|index| table.raw_get::<Value>(index));
                let elements = elements.take_while(|element| !matches!(element, Ok(Value::Nil)));
                let elements = elements.collect::<Result<Vec<_>>>()?;
                reply.array(elements.len());
                for element in &elements {
                    write_at(reply, element, depth + 1)?;
                }
            }
        },
        _ => reply.null(),
    }
    Ok(())
}

/// The value of a reply in RESP2, which this server wrote.
pub(super) fn read(lua: &Lua, reply: &[u8]) -> Result<Value> {
    Ok(read_one(lua, reply)?.0)
}

/// The value that a reply begins with, and the bytes behind it.
fn read_one<'r>(lua: &Lua, reply: &'r [u8]) -> Result<(Value, &'r [u8])> {
    let end = memchr(b'\n', reply).expect("a reply has a line");
    let (line, rest) = (&reply[1..end - 1], &reply[end + 1..]);
    let number = || std::str::from_utf8(line).ok().and_then(|line| line.parse::<i64>().ok()).expect("a number");
    let named = |name: &str| {
        let table = lua.create_table()?;
        table.raw_set(name, lua.create_string(line)?)?;
        Ok::<_, Error>(Value::Table(table))
    };
    Ok(match reply[0] {
        b':' => (Value::Number(number() as f64), rest),
        b'+' => (named("ok")?, rest),
        b'-' => (named("err")?, rest),
        b'$' if number() >= 0 => {
            let length = number() as usize;
            (Value::String(lua.create_string(&rest[..length])?), &rest[length + 2..])
        }
        b'*' if number() >= 0 => {
            let (table, mut rest) = (lua.create_table()?, rest);
            for index in 1..=number() {
                let (value, behind) = read_one(lua, rest)?;
                table.raw_set(index, value)?;
                rest = behind;
            }
            (Value::Table(table), rest)
        }
        _ => (Value::Boolean(false), rest),
    })
}
