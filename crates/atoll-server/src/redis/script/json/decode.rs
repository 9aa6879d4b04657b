//! JSON as a value of Lua.
//!
//! The text ends at its first zero byte. A byte within quotes stands for itself, whatever it is. An
//! error names the token that was found, and where it begins.

use super::{DEPTH_MAX, Fault, Steps, null};
use mlua::{Lua, Table, Value};

type Decoded<T> = Result<T, Fault>;

#[derive(Debug)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// Words that say what it is.
    Bad(&'static str),
}

/// A token, and where it begins.
struct Token {
    kind: Kind,
    at: usize,
}

impl Token {
    /// This token is not `expected`.
    fn unexpected(&self, expected: &str) -> Fault {
        let found = match self.kind {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::Text(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Bad(words) => words,
        };
        Fault::Words(format!("Expected {expected} but found {found} at character {}", self.at + 1))
    }
}

/// A table that is being filled.
enum Frame {
    /// It has so many elements.
    Array(Table, usize),
    /// The next value belongs to this key.
    Object(Table, Vec<u8>),
}

struct Decoder<'t> {
    lua: &'t Lua,
    text: &'t [u8],
    /// What is read next.
    at: usize,
    /// Whether numbers may be written as JSON does not: `nan`, `0x10`, `+1`.
    takes_invalid: bool,
    depth_max: usize,
    frames: Vec<Frame>,
    steps: Steps<'t>,
}

/// The value of a text. It may be nested so deeply.
pub(super) fn decode(
    lua: &Lua,
    text: &[u8],
    (depth_max, takes_invalid): (usize, bool),
    steps: Steps<'_>,
) -> Decoded<Value> {
    if text.len() >= 2 && text[..2].contains(&0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
    let depth_max = depth_max.min(DEPTH_MAX);
    Decoder { lua, text, at: 0, takes_invalid, depth_max, frames: Vec::new(), steps }.run()
}

impl Decoder<'_> {
    fn run(mut self) -> Decoded<Value> {
        let mut token = self.token()?;
        loop {
            let mut value = match token.kind {
                Kind::Text(text) => Value::String(self.lua.create_string(text)?),
                Kind::Number(number) => Value::Number(number),
                Kind::Boolean(truth) => Value::Boolean(truth),
                Kind::Null => Value::LightUserData(null()),
                Kind::ArrayBegin => {
                    let table = self.descend()?;
                    token = self.token()?;
                    if !matches!(token.kind, Kind::ArrayEnd) {
                        self.frames.push(Frame::Array(table, 0));
                        continue;
                    }
                    Value::Table(table)
                }
                Kind::ObjectBegin => {
                    let table = self.descend()?;
                    token = self.token()?;
                    if !matches!(token.kind, Kind::ObjectEnd) {
                        let key = self.key(token)?;
                        self.frames.push(Frame::Object(table, key));
                        token = self.token()?;
                        continue;
                    }
                    Value::Table(table)
                }
                _ => return Err(token.unexpected("value")),
            };
            // The value goes where it belongs. If it was the last one there, so does its table.
            loop {
                let Some(frame) = self.frames.pop() else {
                    let end = self.token()?;
                    return if matches!(end.kind, Kind::End) { Ok(value) } else { Err(end.unexpected("the end")) };
                };
                let behind = self.token()?;
                match (frame, &behind.kind) {
                    (Frame::Array(table, count), Kind::ArrayEnd) => {
                        table.raw_set(count + 1, value)?;
                        value = Value::Table(table);
                    }
                    (Frame::Array(table, count), Kind::Comma) => {
                        table.raw_set(count + 1, value)?;
                        self.frames.push(Frame::Array(table, count + 1));
                        break;
                    }
                    (Frame::Object(table, key), Kind::ObjectEnd) => {
                        table.raw_set(self.lua.create_string(key)?, value)?;
                        value = Value::Table(table);
                    }
                    (Frame::Object(table, key), Kind::Comma) => {
                        table.raw_set(self.lua.create_string(key)?, value)?;
                        let next = self.token()?;
                        let key = self.key(next)?;
                        self.frames.push(Frame::Object(table, key));
                        break;
                    }
                    (Frame::Array(..), _) => return Err(behind.unexpected("comma or array end")),
                    (Frame::Object(..), _) => return Err(behind.unexpected("comma or object end")),
                }
            }
            token = self.token()?;
        }
    }

    /// A table within those that are being filled.
    fn descend(&self) -> Decoded<Table> {
        let depth = self.frames.len() + 1;
        if depth > self.depth_max {
            let why = format!("Found too many nested data structures ({depth}) at character {}", self.at);
            return Err(Fault::Words(why));
        }
        Ok(self.lua.create_table()?)
    }

    /// The key that a token is, which a colon must follow.
    fn key(&mut self, token: Token) -> Decoded<Vec<u8>> {
        let Kind::Text(key) = token.kind else { return Err(token.unexpected("object key string")) };
        let colon = self.token()?;
        if matches!(colon.kind, Kind::Colon) { Ok(key) } else { Err(colon.unexpected("colon")) }
    }

    /// The next token.
    fn token(&mut self) -> Decoded<Token> {
        let begun = self.at;
        let blanks = self.text[begun..].iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        let at = begun + blanks;
        let rest = &self.text[at..];
        self.at = at + 1;
        let kind = match rest.first() {
            None => {
                self.at = at;
                Kind::End
            }
            Some(b'{') => Kind::ObjectBegin,
            Some(b'}') => Kind::ObjectEnd,
            Some(b'[') => Kind::ArrayBegin,
            Some(b']') => Kind::ArrayEnd,
            Some(b',') => Kind::Comma,
            Some(b':') => Kind::Colon,
            Some(b'"') => match self.string() {
                Ok(text) => Kind::Text(text),
                Err((words, at)) => return Ok(Token { kind: Kind::Bad(words), at }),
            },
            Some(b'-' | b'0'..=b'9') if !self.takes_invalid && is_invalid(rest) => Kind::Bad("invalid number"),
            Some(b'-' | b'0'..=b'9') => self.number(rest, at),
            _ if rest.starts_with(b"true") => self.word(at, 4, Kind::Boolean(true)),
            _ if rest.starts_with(b"false") => self.word(at, 5, Kind::Boolean(false)),
            _ if rest.starts_with(b"null") => self.word(at, 4, Kind::Null),
            _ if self.takes_invalid && is_invalid(rest) => self.number(rest, at),
            _ => Kind::Bad("invalid token"),
        };
        self.steps.take(self.at - begun)?;
        Ok(Token { kind, at })
    }

    fn word(&mut self, at: usize, length: usize, kind: Kind) -> Kind {
        self.at = at + length;
        kind
    }

    fn number(&mut self, rest: &[u8], at: usize) -> Kind {
        match number(rest) {
            Some((number, length)) => self.word(at, length, Kind::Number(number)),
            None => Kind::Bad("invalid number"),
        }
    }

    /// The text up to the next quote; or else what is wrong, and where.
    fn string(&mut self) -> Result<Vec<u8>, (&'static str, usize)> {
        let mut text = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(("unexpected end of string", self.text.len()));
            };
            text.extend_from_slice(&rest[..plain]);
            let at = self.at + plain;
            let rest = &rest[plain..];
            if rest[0] == b'"' {
                self.at = at + 1;
                return Ok(text);
            }
            self.at = at + 2;
            text.push(match rest.get(1) {
                Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
                Some(b'b') => b'\x08',
                Some(b'f') => b'\x0c',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'u') => {
                    let (letter, length) = letter(rest).ok_or(("invalid unicode escape code", at))?;
                    text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at = at + length;
                    continue;
                }
                _ => return Err(("invalid escape code", at)),
            });
        }
    }
}

/// The letter of `\uXXXX`, which may be two of these, and the bytes of that.
fn letter(rest: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| -> Option<u32> {
        let digits = rest.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    };
    let first = unit(0)?;
    if let Some(letter) = char::from_u32(first) {
        return Some((letter, 6));
    }
    let second = unit(6).filter(|second| first < 0xDC00 && (0xDC00..0xE000).contains(second))?;
    let letter = char::from_u32(0x10000 + ((first & 0x3FF) << 10 | second & 0x3FF))?;
    Some((letter, 12))
}

/// Whether a text begins with a number that C reads, and that is none of JSON.
fn is_invalid(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text {
        [b'0', behind, ..] => behind.is_ascii_digit() || matches!(behind, b'x' | b'X'),
        _ => has_word(text, b"inf") || has_word(text, b"nan"),
    }
}

/// Whether a text begins with a word, in large or small letters.
fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word))
}

/// The number that a text begins with, as C's `strtod` reads it, and its length.
fn number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = text.first().filter(|byte| b"+-".contains(byte));
    let start = usize::from(sign.is_some());
    let (number, length) = magnitude(&text[start..])?;
    Some((if sign == Some(&b'-') { -number } else { number }, start + length))
}

fn magnitude(text: &[u8]) -> Option<(f64, usize)> {
    // Most numbers are a few digits.
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if (1..16).contains(&digits) && !text.get(digits).is_some_and(|byte| b".eExX".contains(byte)) {
        let number = text[..digits].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        return Some((number as f64, digits));
    }
    if has_word(text, b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if has_word(text, b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if has_word(text, b"nan") {
        let name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let named = text[3..].strip_prefix(b"(").map(|behind| (behind, behind.iter().take_while(name).count()));
        let named = named.filter(|(behind, length)| behind.get(*length) == Some(&b')'));
        return Some((f64::NAN, 3 + named.map_or(0, |(_, length)| length + 2)));
    }
    let is_hexadecimal = has_word(text, b"0x");
    let found = is_hexadecimal.then(|| hexadecimal(&text[2..])).flatten();
    if let Some((number, length)) = found {
        return Some((number, 2 + length));
    }
    let length = extent(text, |byte| byte.is_ascii_digit(), b'e')?;
    let written = std::str::from_utf8(&text[..length]).ok()?;
    Some((written.parse().ok()?, length))
}

/// The length of digits with a point and an exponent.
fn extent(text: &[u8], is_digit: impl Fn(&u8) -> bool, exponent: u8) -> Option<usize> {
    let digits = |from: usize, is_digit: &dyn Fn(&u8) -> bool| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| is_digit(byte)).count()
    };
    let whole = digits(0, &is_digit);
    let mut length = whole;
    let mut count = whole;
    if text.get(length) == Some(&b'.') {
        let fraction = digits(length + 1, &is_digit);
        count += fraction;
        length += 1 + fraction;
    }
    if count == 0 {
        return None;
    }
    if text.get(length).is_some_and(|byte| byte.eq_ignore_ascii_case(&exponent)) {
        let sign = usize::from(text.get(length + 1).is_some_and(|byte| b"+-".contains(byte)));
        let power = digits(length + 1 + sign, &|byte| byte.is_ascii_digit());
        if power > 0 {
            length += 1 + sign + power;
        }
    }
    Some(length)
}

/// A number in hexadecimal digits behind `0x`, and its length.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let length = extent(text, |byte| byte.is_ascii_hexdigit(), b'p')?;
    let written = std::str::from_utf8(&text[..length]).ok()?;
    let (digits, power) = written.split_once(['p', 'P']).unwrap_or((written, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut power = power.parse::<i64>().unwrap_or(if power.starts_with('-') { i64::MIN } else { i64::MAX });
    let mut number = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        number = number * 16.0 + f64::from(digit.to_digit(16)?);
    }
    power = power.saturating_sub(4 * fraction.len() as i64);
    // Two factors, since one of them may be too small alone.
    let half = power.clamp(-3000, 3000) as i32 / 2;
    Some((number * 2_f64.powi(half) * 2_f64.powi(power.clamp(-3000, 3000) as i32 - half), length))
}
