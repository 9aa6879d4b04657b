//! Patterns of Lua's library `string`, as Lua 5.1 defines them, within a script's time.
//!
//! Lua's own functions match without looking at the time: a short pattern may keep them busy for
//! years. This matcher looks at it every `STEPS` steps. `prelude.lua` makes `find`, `match`,
//! `gmatch` and `gsub` of it.

use memchr::memmem;
use mlua::{IntoLua, Lua, LuaString, MultiValue, Value};
use std::cell::Cell;

/// Captures of a pattern at most, as in Lua.
const CAPTURES_MAX: usize = 32;
/// Quantifiers and captures within each other at most, as in later versions of Lua.
const DEPTH_MAX: usize = 200;
/// Steps between two looks at the time.
const STEPS: u32 = 1 << 16;

/// Why a match ended without a result: words for the script.
type Fault = &'static str;
type Found<T> = Result<T, Fault>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// The capture has not ended.
    Open,
    /// It captures a position.
    Position,
    Bytes(usize),
}

/// The first match of a pattern in a text: where it begins and ends. It fails with the fault of the
/// pattern, or after so many looks at the time.
pub fn first_within(text: &[u8], pattern: &[u8], looks: u32) -> Result<Option<(usize, usize)>, &'static str> {
    let left = Cell::new(looks);
    let is_over = || match left.get() {
        0 => Some("the time is over"),
        looks => {
            left.set(looks - 1);
            None
        }
    };
    Matcher::new(text, pattern, &is_over).first(0, true)
}

/// One attempt to match after the other.
struct Matcher<'t> {
    text: &'t [u8],
    pattern: &'t [u8],
    captures: [(usize, Length); CAPTURES_MAX],
    level: usize,
    depth: usize,
    steps: u32,
    is_over: &'t dyn Fn() -> Option<Fault>,
}

impl<'t> Matcher<'t> {
    fn new(text: &'t [u8], pattern: &'t [u8], is_over: &'t dyn Fn() -> Option<Fault>) -> Self {
        // In Lua 5.1 a pattern ends at its first zero byte.
        let end = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
        let captures = [(0, Length::Open); CAPTURES_MAX];
        Self { text, pattern: &pattern[..end], captures, level: 0, depth: 0, steps: 0, is_over }
    }

    /// The first match at or behind `from`. With `has_anchor` a `^` in front of the pattern keeps
    /// the match at `from`.
    fn first(&mut self, from: usize, has_anchor: bool) -> Found<Option<(usize, usize)>> {
        let is_anchored = has_anchor && self.pattern.first() == Some(&b'^');
        let first = usize::from(is_anchored);
        for start in from..=self.text.len() {
            self.level = 0;
            if let Some(end) = self.matches(start, first)? {
                return Ok(Some((start, end)));
            }
            if is_anchored {
                break;
            }
        }
        Ok(None)
    }

    fn step(&mut self) -> Found<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) {
            return (self.is_over)().map_or(Ok(()), Err);
        }
        Ok(())
    }

    /// Matches the pattern from `p` at `s`; gives where the match ends.
    fn matches(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        if self.depth == DEPTH_MAX {
            return Err("pattern too complex");
        }
        self.depth += 1;
        let end = self.run(s, p);
        self.depth -= 1;
        end
    }

    fn run(&mut self, mut s: usize, mut p: usize) -> Found<Option<usize>> {
        loop {
            self.step()?;
            let Some(first) = self.pattern.get(p).copied() else { return Ok(Some(s)) };
            match (first, self.pattern.get(p + 1).copied()) {
                (b'(', Some(b')')) => return self.begin_capture(s, p + 2, Length::Position),
                (b'(', _) => return self.begin_capture(s, p + 1, Length::Open),
                (b')', _) => return self.end_capture(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (b'%', Some(b'b')) => {
                    let Some(end) = self.balanced(s, p + 2)? else { return Ok(None) };
                    (s, p) = (end, p + 4);
                    continue;
                }
                (b'%', Some(b'f')) => {
                    if self.pattern.get(p + 2) != Some(&b'[') {
                        return Err("missing '[' after '%f' in pattern");
                    }
                    let end = self.class_end(p + 2)?;
                    let before = s.checked_sub(1).map_or(0, |at| self.text[at]);
                    let behind = self.text.get(s).copied().unwrap_or(0);
                    if self.is_in_set(before, p + 2, end - 1) || !self.is_in_set(behind, p + 2, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                    continue;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => {
                    let captured = self.captured(digit)?.filter(|captured| self.text[s..].starts_with(captured));
                    let Some(captured) = captured else { return Ok(None) };
                    (s, p) = (s + captured.len(), p + 2);
                    continue;
                }
                _ => {}
            }
            let end = self.class_end(p)?;
            let is_one = self.is_one(s, p, end);
            match self.pattern.get(end) {
                Some(b'?') => {
                    if is_one && let Some(found) = self.matches(s + 1, end + 1)? {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.expand_most(s, p, end),
                Some(b'+') if is_one => return self.expand_most(s + 1, p, end),
                Some(b'-') => return self.expand_least(s, p, end),
                Some(b'+') => return Ok(None),
                _ if is_one => (s, p) = (s + 1, end),
                _ => return Ok(None),
            }
        }
    }

    fn expand_most(&mut self, s: usize, p: usize, end: usize) -> Found<Option<usize>> {
        let mut count = 0;
        while self.is_one(s + count, p, end) {
            self.step()?;
            count += 1;
        }
        for count in (0..=count).rev() {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn expand_least(&mut self, mut s: usize, p: usize, end: usize) -> Found<Option<usize>> {
        loop {
            match self.matches(s, end + 1)? {
                None if self.is_one(s, p, end) => s += 1,
                found => return Ok(found),
            }
        }
    }

    fn begin_capture(&mut self, s: usize, p: usize, length: Length) -> Found<Option<usize>> {
        if self.level == CAPTURES_MAX {
            return Err("too many captures");
        }
        self.captures[self.level] = (s, length);
        self.level += 1;
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        let open = self.captures[..self.level].iter().rposition(|(_, length)| *length == Length::Open);
        let open = open.ok_or("invalid pattern capture")?;
        self.captures[open].1 = Length::Bytes(s - self.captures[open].0);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[open].1 = Length::Open;
        }
        Ok(found)
    }

    /// What a capture that a `%1` names has captured. That of a position matches nothing.
    fn captured(&self, digit: u8) -> Found<Option<&'t [u8]>> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        match index.and_then(|index| self.captures[..self.level].get(index)) {
            Some((start, Length::Bytes(bytes))) => Ok(Some(&self.text[*start..start + bytes])),
            Some((_, Length::Position)) => Ok(None),
            _ => Err("invalid capture index"),
        }
    }

    /// The end of a text that begins with one byte and ends with its partner.
    fn balanced(&mut self, s: usize, p: usize) -> Found<Option<usize>> {
        let (Some(opens), Some(closes)) = (self.pattern.get(p).copied(), self.pattern.get(p + 1).copied()) else {
            return Err("unbalanced pattern");
        };
        if self.text.get(s) != Some(&opens) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            let byte = self.text[at];
            if byte == closes {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == opens {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Where the class that begins at `p` ends.
    fn class_end(&self, p: usize) -> Found<usize> {
        match self.pattern[p] {
            b'%' if p + 1 == self.pattern.len() => Err("malformed pattern (ends with '%')"),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1 + usize::from(self.pattern.get(p + 1) == Some(&b'^'));
                // The first member may be a closing bracket.
                loop {
                    let member = self.pattern.get(at).ok_or("malformed pattern (missing ']')")?;
                    at += 1;
                    if *member == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether there is a byte at `s` that is in the class between `p` and `end`.
    fn is_one(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(byte) = self.text.get(s).copied() else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[p + 1]),
            b'[' => self.is_in_set(byte, p, end - 1),
            other => other == byte,
        }
    }

    /// Whether a byte is in the set whose brackets are at `p` and `end`.
    fn is_in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let is_negated = self.pattern[p + 1] == b'^';
        let mut at = p + 1 + usize::from(is_negated);
        while at < end {
            let member = self.pattern[at];
            let is_member = if member == b'%' {
                at += 2;
                is_in_class(byte, self.pattern[at - 1])
            } else if self.pattern[at + 1] == b'-' && at + 2 < end {
                at += 3;
                (member..=self.pattern[at - 1]).contains(&byte)
            } else {
                at += 1;
                member == byte
            };
            if is_member {
                return !is_negated;
            }
        }
        is_negated
    }
}

/// Whether a byte is in the class that a letter behind `%` names; another byte names itself.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte == b' ' || (9..=13).contains(&byte),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == class,
    };
    is_in != class.is_ascii_uppercase()
}

/// The function `find(text, pattern, from, way)` of the prelude: where the first match at or behind
/// the position `from` begins and ends, and its captures; nothing if there is none; `false` and
/// words if the pattern is none, or the script's time is over.
///
/// | way | the pattern |
/// |---|---|
/// | `plain` | a text |
/// | `find` | a text if it has no special byte, else as `match` |
/// | `match` | a pattern; a `^` in front of it keeps the match at `from` |
/// | `gmatch` | a pattern, in which `^` is a byte like others |
pub(super) fn find(lua: &Lua, is_over: impl Fn() -> Option<Fault> + 'static) -> mlua::Result<mlua::Function> {
    lua.create_function(move |lua, (text, pattern, from, way): (LuaString, LuaString, usize, LuaString)| {
        let (text, pattern, way) = (text.as_bytes(), pattern.as_bytes(), way.as_bytes());
        let has_special = || pattern.iter().take_while(|byte| **byte != 0).any(|byte| b"^$*+?.([%-".contains(byte));
        if *way == *b"plain" || *way == *b"find" && !has_special() {
            let Some(at) = memmem::find(&text[from - 1..], &pattern) else { return Ok(MultiValue::new()) };
            let end = from - 1 + at + pattern.len();
            return Ok(MultiValue::from_vec(vec![(from + at).into_lua(lua)?, end.into_lua(lua)?]));
        }
        let mut matcher = Matcher::new(&text, &pattern, &is_over);
        let refused = |fault: Fault| -> mlua::Result<MultiValue> {
            Ok(MultiValue::from_vec(vec![Value::Boolean(false), fault.into_lua(lua)?]))
        };
        let (start, end) = match matcher.first(from - 1, *way != *b"gmatch") {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(MultiValue::new()),
            Err(fault) => return refused(fault),
        };
        let mut found = vec![(start + 1).into_lua(lua)?, end.into_lua(lua)?];
        for (at, length) in &matcher.captures[..matcher.level] {
            found.push(match length {
                Length::Open => return refused("unfinished capture"),
                Length::Position => (at + 1).into_lua(lua)?,
                Length::Bytes(bytes) => Value::String(lua.create_string(&text[*at..at + bytes])?),
            });
        }
        Ok(MultiValue::from_vec(found))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::{LuaOptions, StdLib};
    use proptest::test_runner::{Config, TestRunner};

    /// Lua's own functions, and those of the prelude over a clock that says so.
    fn both(is_over: bool) -> (Lua, Lua) {
        let new = || Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new()).unwrap();
        let (theirs, ours) = (new(), new());
        let native = ours.create_table().unwrap();
        native.set("find", find(&ours, move || is_over.then_some("over")).unwrap()).unwrap();
        native.set("is_over", ours.create_function(move |_, ()| Ok(is_over)).unwrap()).unwrap();
        native.set("version", "7.4.0").unwrap();
        native.set("look", ours.create_function(|_, ()| Ok(())).unwrap()).unwrap();
        for library in ["cjson", "bit"] {
            native.set(library, ours.create_table().unwrap()).unwrap();
        }
        ours.load(include_str!("prelude.lua")).call::<()>(native).unwrap();
        (theirs, ours)
    }

    /// All that the four functions say of a text and a pattern, errors too.
    const ALL: &str = r##"
        local text, pattern, with, init = ...
        local told = {}
        local function tell(...)
            for index = 1, select("#", ...) do
                local said = tostring((select(index, ...)))
                told[#told + 1] = said:match("^[^%s]*:[%d?]+: (.*)$") or said
            end
            told[#told + 1] = ";"
        end
        tell(pcall(string.find, text, pattern, init))
        tell(pcall(string.match, text, pattern, init))
        tell(pcall(string.gsub, text, pattern, with))
        tell(pcall(string.gsub, text, pattern, "<%0>", 2))
        tell(pcall(string.gsub, text, pattern, { a = "x", ab = 7, [1] = "first" }))
        tell(pcall(string.gsub, text, pattern, function(...) tell(...) if (...) == "b" then return "B" end end))
        tell(pcall(function() for a, b in string.gmatch(text, pattern) do tell(a, b) end end))
        return table.concat(told, ",")
    "##;

    fn said(lua: &Lua, texts: (&[u8], &[u8], &[u8]), init: i64) -> Vec<u8> {
        let [text, pattern, with] = [texts.0, texts.1, texts.2].map(|text| lua.create_string(text).unwrap());
        let said: LuaString = lua.load(ALL).call((text, pattern, with, init)).unwrap();
        said.as_bytes().to_vec()
    }

    #[test]
    fn random_patterns_match_as_in_lua() {
        let (theirs, ours) = both(false);
        let bytes = |of: &'static [u8], most| proptest::collection::vec(proptest::sample::select(of), 0..most);
        let drawn = (bytes(b"aab(1) \0", 12), bytes(b"ab%%aldwfb1().*+-?[]^$\0", 9), bytes(b"%012a", 5), -4_i64..8);
        let mut runner = TestRunner::new(Config { cases: 20_000, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&drawn, |(text, pattern, with, init)| {
            let texts = (&text[..], &pattern[..], &with[..]);
            let [theirs, ours] =
                [&theirs, &ours].map(|lua| String::from_utf8_lossy(&said(lua, texts, init)).into_owned());
            // Lua's gsub goes on with a capture that has not ended, until a replacement names it.
            if !theirs.contains("unfinished capture") {
                proptest::prop_assert_eq!(ours, theirs);
            }
            Ok(())
        });
        outcome.unwrap();
    }

    #[test]
    fn a_match_that_would_take_years_ends_with_the_time() {
        let (_, ours) = both(true);
        for script in [
            "string.find(('a'):rep(30000), ('a*'):rep(20) .. 'b')",
            "string.match(('a'):rep(30000), ('.-'):rep(20) .. 'b')",
            "string.gsub(('a'):rep(30000), ('a*'):rep(20) .. 'b', '')",
            "for _ in string.gmatch(('a'):rep(30000), ('a*'):rep(20) .. 'b') do end",
            "for _ in string.gfind(('a'):rep(30000), ('a*'):rep(20) .. 'b') do end",
        ] {
            let error = ours.load(script).exec().unwrap_err().to_string();
            assert!(error.contains("over"), "{script}: {error}");
        }
        let plain = "assert(not string.find(('a'):rep(3e7), ('a'):rep(15e6) .. 'b', 1, true))";
        ours.load(plain).exec().unwrap();
    }
}
