//! Replies as values of Lua, and values of Lua as replies.
//!
//! | Lua | reply |
//! |---|---|
//! | string | bulk |
//! | number | integer: its fraction is cut off |
//! | true | 1; after `redis.setresp(3)` a boolean |
//! | false | nothing; after `redis.setresp(3)` a boolean |
//! | nil | nothing |
//! | table with `err`, `ok` | error, status |
//! | table with `double`, `big_number`, `verbatim_string`, `map`, `set` | that of RESP3 |
//! | other table | array of its elements up to the first nil |
//!
//! Replies of commands come in the form that the script has chosen (`redis.setresp`). Those of
//! RESP3 become the same tables, true and false; what is nothing becomes false in RESP2 and nil in
//! RESP3.

use super::number;
use crate::redis::resp::{Protocol, Reply};
use memchr::memchr;
use mlua::{Error, Lua, Result, Table, Value};
use std::borrow::Cow;
use std::fmt::Display;

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
        Ok(Value::Integer(number)) => Some(number.to_string()),
        Ok(Value::Number(number)) => Some(number::general(number, 14)),
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
/// `return redis.call(...)`, or raised a value that is no text, Lua does not know the line any
/// more: then it is the `only_line`.
pub(super) fn raised(value: &Value, digest: &str, only_line: Option<usize>) -> String {
    let unknown = || "ERR unknown error".to_owned();
    let (text, place) = match value {
        Value::Table(table) => (field(table, "err").unwrap_or_else(unknown), field(table, "place")),
        Value::String(text) => (format!("ERR {}", text.to_string_lossy()), Some(text.to_string_lossy())),
        Value::Error(error) => (format!("ERR {}", said(error)), None),
        Value::Nil => ("ERR nil".to_owned(), None),
        Value::Boolean(_) | Value::Integer(_) | Value::Number(_) => {
            (value.to_string().map_or_else(|_| unknown(), |text| format!("ERR {text}")), None)
        }
        _ => (unknown(), None),
    };
    // A function that the script called behind `return` does not know the line either.
    let unknown_place = "ERR user_script:?: ";
    let text = match (text.strip_prefix(unknown_place), only_line) {
        (Some(rest), Some(line)) => format!("ERR user_script:{line}: {rest}"),
        (Some(rest), None) => format!("ERR {rest}"),
        (None, _) => text,
    };
    let place = place.filter(|place| !place.starts_with("user_script:?"));
    let named = place.and_then(|place| Some(place.strip_prefix("user_script:")?.split_once(':')?.0.to_owned()));
    at(&text, digest, named.or_else(|| only_line.map(|line| line.to_string())))
}

/// An error with the script that it is of, and with its line if that is known.
pub(super) fn at(text: &str, digest: &str, line: Option<impl Display>) -> String {
    match line {
        Some(line) => format!("{text} script: {digest}, on @user_script:{line}."),
        None => format!("{text} script: {digest}"),
    }
}

/// Replies with what a script returned that has chosen this form of replies.
pub(super) fn write(reply: &mut Reply<'_>, value: &Value, chosen: Protocol) -> Result<()> {
    write_at(reply, value, (chosen, 0))
}

fn write_at(reply: &mut Reply<'_>, value: &Value, (chosen, depth): (Protocol, usize)) -> Result<()> {
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(number::cut(*number)),
        Value::Boolean(yes) if chosen == Protocol::Resp3 => boolean(reply, *yes),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(_) if depth >= DEPTH_MAX => reply.error("ERR reached lua stack limit"),
        Value::Table(table) => write_table(reply, table, (chosen, depth + 1))?,
        _ => reply.null(),
    }
    Ok(())
}

fn write_table(reply: &mut Reply<'_>, table: &Table, within_it: (Protocol, usize)) -> Result<()> {
    let text = |table: &Table, name: &str| match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text),
        _ => None,
    };
    let within = |name: &str| match table.raw_get(name) {
        Ok(Value::Table(within)) => Some(within),
        _ => None,
    };
    if let Some(error) = text(table, "err") {
        line(reply, b'-', &error.as_bytes());
    } else if let Some(status) = text(table, "ok") {
        line(reply, b'+', &status.as_bytes());
    } else if let Ok(Some(double)) = number(table.raw_get("double")) {
        in_resp3(reply, b',', number::shortest(double).as_bytes());
    } else if let Some(number) = text(table, "big_number") {
        in_resp3(reply, b'(', &number.as_bytes());
    } else if let Some((format, text)) =
        within("verbatim_string").and_then(|within| Some((text(&within, "format")?, text(&within, "string")?)))
    {
        let (format, text) = (format.as_bytes(), text.as_bytes());
        verbatim(reply, &format, &text);
    } else if let Some(map) = within("map") {
        reply.map(map.pairs::<Value, Value>().count());
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            write_at(reply, &key, within_it)?;
            write_at(reply, &value, within_it)?;
        }
    } else if let Some(set) = within("set") {
        reply.set(set.pairs::<Value, Value>().count());
        for pair in set.pairs::<Value, Value>() {
            write_at(reply, &pair?.0, within_it)?;
        }
    } else {
        // Looked at twice, since only some thousand values can be held at once.
        let mut length = 0;
        while !table.raw_get::<Value>(length + 1)?.is_nil() {
            length += 1;
        }
        reply.array(length);
        for index in 1..=length {
            write_at(reply, &table.raw_get(index)?, within_it)?;
        }
    }
    Ok(())
}

/// The number that a field has. A text is none.
fn number(field: Result<Value>) -> Result<Option<f64>> {
    Ok(match field? {
        Value::Integer(number) => Some(number as f64),
        Value::Number(number) => Some(number),
        _ => None,
    })
}

/// A line. Line breaks become blanks, so that a text cannot forge a reply.
fn line(reply: &mut Reply<'_>, kind: u8, text: &[u8]) {
    let mut line = Vec::with_capacity(text.len() + 3);
    line.push(kind);
    line.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    line.extend_from_slice(b"\r\n");
    reply.output().push(&line);
}

/// What is a line of its own kind in RESP3, and a text in RESP2.
fn in_resp3(reply: &mut Reply<'_>, kind: u8, text: &[u8]) {
    match reply.protocol() {
        Protocol::Resp3 => line(reply, kind, text),
        Protocol::Resp2 => {
            let text: Vec<u8> = text.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }).collect();
            reply.bulk(&text);
        }
    }
}

/// A boolean, which is a number in RESP2.
fn boolean(reply: &mut Reply<'_>, yes: bool) {
    match reply.protocol() {
        Protocol::Resp3 => reply.output().push(if yes { b"#t\r\n" } else { b"#f\r\n" }),
        Protocol::Resp2 => reply.integer(yes.into()),
    }
}

/// A text with a format of three bytes.
fn verbatim(reply: &mut Reply<'_>, format: &[u8], text: &[u8]) {
    match reply.protocol() {
        Protocol::Resp2 => reply.bulk(text),
        Protocol::Resp3 => {
            let mut three = *b"   ";
            three.iter_mut().zip(format).for_each(|(byte, given)| *byte = *given);
            reply.output().push(format!("={}\r\n", text.len() + 4).as_bytes());
            for part in [&three[..], b":", text, b"\r\n"] {
                reply.output().push(part);
            }
        }
    }
}

/// The value of a reply that this server wrote, in either form of the protocol.
pub(super) fn read(lua: &Lua, reply: &[u8]) -> Result<Value> {
    Ok(read_one(lua, reply)?.0)
}

/// The value that a reply begins with, and the bytes behind it.
fn read_one<'r>(lua: &Lua, reply: &'r [u8]) -> Result<(Value, &'r [u8])> {
    let end = memchr(b'\n', reply).expect("a reply has a line");
    let (line, rest) = (&reply[1..end - 1], &reply[end + 1..]);
    let number = || std::str::from_utf8(line).ok().and_then(|line| line.parse::<i64>().ok()).expect("a number");
    let named = |name: &str, value: Value| {
        let table = lua.create_table()?;
        table.raw_set(name, value)?;
        Ok::<_, Error>(Value::Table(table))
    };
    let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    Ok(match reply[0] {
        b':' => (Value::Number(number() as f64), rest),
        b'+' => (named("ok", text(line)?)?, rest),
        b'-' => (named("err", text(line)?)?, rest),
        b'$' if number() >= 0 => {
            let length = number() as usize;
            (text(&rest[..length])?, &rest[length + 2..])
        }
        b'=' => {
            let (length, table) = (number() as usize, lua.create_table()?);
            table.raw_set("format", text(&rest[..3])?)?;
            table.raw_set("string", text(&rest[4..length])?)?;
            (named("verbatim_string", Value::Table(table))?, &rest[length + 2..])
        }
        b',' => {
            let double = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).expect("a double");
            (named("double", Value::Number(double))?, rest)
        }
        b'(' => (named("big_number", text(line)?)?, rest),
        b'#' => (Value::Boolean(line == b"t"), rest),
        b'_' => (Value::Nil, rest),
        kind @ (b'%' | b'~') => {
            let (table, mut rest) = (lua.create_table()?, rest);
            for _ in 0..number() {
                let (key, behind) = read_one(lua, rest)?;
                let (value, behind) =
                    if kind == b'%' { read_one(lua, behind)? } else { (Value::Boolean(true), behind) };
                table.raw_set(key, value)?;
                rest = behind;
            }
            (named(if kind == b'%' { "map" } else { "set" }, Value::Table(table))?, rest)
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
