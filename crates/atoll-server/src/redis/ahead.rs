//! Commands that have been parsed and wait to run.
//!
//! Several commands of a pipeline are parsed before the first of them runs. So the cache learns all
//! their keys early, and their memory is fetched while earlier commands run.
//!
//! Invariants: the commands are contiguous in the input; an inline command is the last one, because
//! its arguments lie in the parser.

use crate::redis::command::{Id, SPECS, table};
use crate::redis::resp::parser::Span;
use crate::redis::resp::{Args, Parser, ProtocolError};
use arrayvec::ArrayVec;
use atoll_cache::KEY_BYTES_MAX;

/// Commands parsed at a time: with their keys' buckets and records they fit into a first-level
/// cache.
const COMMANDS_MAX: usize = 16;
/// Arguments after which no further command is parsed.
const ARGS_MAX: usize = 1024;
/// The most keys that the cache prefetches at a time.
const KEYS_MAX: usize = 32;

/// A command: where it lies in the input, and where its arguments are in [`Ahead::spans`].
#[derive(Clone, Copy, Debug)]
struct Parsed {
    id: Option<Id>,
    start: usize,
    end: usize,
    first_span: usize,
    end_span: usize,
    inline: bool,
}

/// Why no further command was parsed.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// More must arrive.
    Drained,
    /// These are enough.
    Enough,
    /// The bytes behind are no command.
    Invalid(ProtocolError),
}

/// The next commands of one connection. Reused, it allocates nothing in steady state.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// At most [`COMMANDS_MAX`].
    commands: Vec<Parsed>,
    spans: Vec<Span>,
}

impl Ahead {
    /// Parses the next commands of `input` from `start` on, in the place of what was there.
    pub(crate) fn parse(&mut self, parser: &mut Parser, input: &[u8], mut start: usize) -> Stopped {
        self.commands.clear();
        self.spans.clear();
        self.spans.shrink_to(2 * ARGS_MAX);
        // The command that gives the password decides what the next one may be.
        let commands_max = if parser.is_for_stranger() { 1 } else { COMMANDS_MAX };
        while self.commands.len() < commands_max && self.spans.len() < ARGS_MAX {
            let bytes = &input[start..];
            match parser.parse(bytes) {
                Ok(Some(taken)) => {
                    let (args, first_span) = (parser.args(bytes), self.spans.len());
                    let id = if args.len() > 0 { table::find(args.get(0)) } else { None };
                    self.spans.extend_from_slice(args.spans());
                    let (end, end_span, inline) = (start + taken, self.spans.len(), parser.is_inline());
                    self.commands.push(Parsed { id, start, end, first_span, end_span, inline });
                    start = end;
                    if inline {
                        return Stopped::Enough;
                    }
                }
                Ok(None) => return Stopped::Drained,
                Err(error) => return Stopped::Invalid(error),
            }
        }
        Stopped::Enough
    }

    /// Forgets all commands but the first; returns whether there were others.
    pub(crate) fn keep_first(&mut self) -> bool {
        let has_others = self.commands.len() > 1;
        self.commands.truncate(1);
        has_others
    }

    /// How many commands there are.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Command `index`: what it is in the table, its arguments (none, if it is an empty one), and
    /// where it ends in the input.
    #[inline]
    pub(crate) fn command<'a>(
        &'a self,
        index: usize,
        parser: &'a Parser,
        input: &'a [u8],
    ) -> (Option<Id>, Args<'a>, usize) {
        let parsed = &self.commands[index];
        let bytes = &input[parsed.start..];
        let args = match parsed.inline {
            true => parser.args(bytes),
            false => Args::new(bytes, &self.spans[parsed.first_span..parsed.end_span]),
        };
        (parsed.id, args, parsed.end)
    }

    /// The keys of the GETs that follow each other from command `index` on.
    #[inline]
    pub(crate) fn gets<'a>(
        &'a self,
        index: usize,
        parser: &'a Parser,
        input: &'a [u8],
    ) -> ArrayVec<&'a [u8], COMMANDS_MAX> {
        let key = |index| match self.command(index, parser, input) {
            (Some(Id::Get), args, _) if args.len() == 2 && args.get(1).len() <= KEY_BYTES_MAX => Some(args.get(1)),
            _ => None,
        };
        (index..self.commands.len()).map_while(key).collect()
    }

    fn is_get(&self, index: usize) -> bool {
        self.commands.get(index).is_some_and(|command| command.id == Some(Id::Get))
    }

    /// Whether at least two GETs follow each other from command `index` on.
    #[inline]
    pub(crate) fn has_gets(&self, index: usize) -> bool {
        self.is_get(index) && self.is_get(index + 1)
    }

    /// Whether a command before or behind this GET is a GET too.
    fn is_in_a_row(&self, index: usize) -> bool {
        self.is_get(index + 1) || self.is_get(index.wrapping_sub(1))
    }

    /// The keys of the commands that do not fetch them by themselves, the first of them if they are
    /// many. None if there is but one, which nothing can be gained for.
    pub(crate) fn keys<'a>(&'a self, parser: &'a Parser, input: &'a [u8]) -> ArrayVec<&'a [u8], KEYS_MAX> {
        let mut keys = ArrayVec::new();
        for index in 0..self.commands.len() {
            let (Some(id), args, _) = self.command(index, parser, input) else { continue };
            if id == Id::Mget || id == Id::Get && self.is_in_a_row(index) {
                continue;
            }
            let (first, last, step) = SPECS[id as usize].keys;
            if first > 0 {
                let last = if last < 0 { args.len() as i64 + i64::from(last) } else { i64::from(last) };
                let places = (first as usize..args.len().min(last as usize + 1)).step_by(step as usize);
                let usable = places.map(|place| args.get(place)).filter(|key| key.len() <= KEY_BYTES_MAX);
                keys.extend(usable.take(keys.remaining_capacity()));
            }
        }
        if keys.len() < 2 {
            keys.clear();
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands of `input` as windows show them, and how many windows there were.
    fn windows(input: &[u8]) -> (Vec<Vec<Vec<u8>>>, usize, Stopped) {
        let (mut parser, mut ahead, mut start, mut commands, mut count) =
            (Parser::new(), Ahead::default(), 0, Vec::new(), 0);
        loop {
            let stopped = ahead.parse(&mut parser, input, start);
            count += 1;
            for index in 0..ahead.len() {
                let (id, args, end) = ahead.command(index, &parser, input);
                assert!(end > start && id == args.from(0).next().and_then(table::find));
                commands.push(args.from(0).map(<[u8]>::to_vec).collect());
                start = end;
            }
            if !matches!(stopped, Stopped::Enough) {
                return (commands, count, stopped);
            }
        }
    }

    #[test]
    fn a_window_shows_what_the_parser_finds_one_by_one() {
        let pattern = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\nset a 'b c'\r\n*1\r\n$4\r\nPING\r\n\r\n".as_slice();
        let mut input = pattern.repeat(10);
        input.extend_from_slice(b"*1\r\n$4\r\nPI");
        let (mut parser, mut start, mut expected) = (Parser::new(), 0, Vec::new());
        while let Some(taken) = parser.parse(&input[start..]).unwrap() {
            expected.push(parser.args(&input[start..]).from(0).map(<[u8]>::to_vec).collect::<Vec<_>>());
            start += taken;
        }
        let (found, count, stopped) = windows(&input);
        assert_eq!(found, expected);
        // Each inline command ends a window; what is behind the last one has not arrived entirely.
        assert_eq!(count, 2 * 10 + 1);
        assert!(matches!(stopped, Stopped::Drained));
    }

    #[test]
    fn what_came_before_invalid_bytes_is_shown() {
        let (found, _, stopped) =
            windows(&[b"*1\r\n$4\r\nPING\r\n".repeat(COMMANDS_MAX + 3), b"*x\r\n".to_vec()].concat());
        assert_eq!(found.len(), COMMANDS_MAX + 3);
        assert!(matches!(stopped, Stopped::Invalid(ProtocolError::InvalidCount)));
    }

    #[test]
    fn the_cache_is_told_of_keys_and_of_nothing_else() {
        let command = |args: &[&str]| {
            let head = format!("*{}\r\n", args.len());
            args.iter().fold(head, |all, arg| all + &format!("${}\r\n{arg}\r\n", arg.len()))
        };
        let keys = |commands: &[&[&str]]| {
            let input: String = commands.iter().map(|args| command(args)).collect();
            let (mut parser, mut ahead) = (Parser::new(), Ahead::default());
            ahead.parse(&mut parser, input.as_bytes(), 0);
            let keys = ahead.keys(&parser, input.as_bytes());
            keys.iter().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&[&["GET", "a"], &["set", "b", "x"], &["PING"], &["nothing", "y"]]), ["a", "b"]);
        assert_eq!(
            keys(&[&["MSET", "a", "x", "b", "y"], &["GET"], &["DEL", "c", "d"], &["SCAN", "0"]]),
            ["a", "b", "c", "d"]
        );
        assert!(keys(&[&["GET", "a"]]).is_empty(), "nothing can overlap");
        let many: Vec<String> = std::iter::once("DEL".to_owned()).chain((0..100).map(|key| key.to_string())).collect();
        assert_eq!(keys(&[&many.iter().map(String::as_str).collect::<Vec<_>>()]).len(), KEYS_MAX);
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        assert!(keys(&[&["STRLEN", &long], &["STRLEN", "a"]]).is_empty(), "too long a key is none");
        assert!(keys(&[&["GET", "a"], &["GET", "b"], &["MGET", "c", "d"]]).is_empty(), "these fetch by themselves");
    }
}
