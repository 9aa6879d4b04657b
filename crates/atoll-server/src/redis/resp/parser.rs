//! Parses commands from the bytes that a peer sent.
//!
//! ```text
//! *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n   a multibulk: the count, then each argument after its length
//! GET key\r\n                        an inline command: anything that does not begin with '*'
//! ```
//!
//! Invariants:
//! - The parser copies no argument of a multibulk. It keeps the position of each, counted from the
//!   first byte of the command. (It unquotes the arguments of an inline command into its own
//!   buffer.)
//! - It remembers its progress, so that a command in many pieces is not parsed from its start with
//!   each piece.
//! - Its result does not depend on where the input was cut. So it is stricter than Redis in one
//!   case: it refuses a line that is too long also if its end has already arrived.
//! - It allocates memory for arguments that have arrived, never for announced ones.
//!
//! Lengths are bounded as in Redis. As in Redis, it does not check the byte after a `\r` and the
//! two bytes after an argument.

use super::inline;
use memchr::memchr;

/// Most arguments of one command.
pub const ARGS_MAX: usize = 1024 * 1024;
/// Most bytes of one argument.
pub const BULK_BYTES_MAX: usize = 512 << 20;
/// Most bytes of an inline command, and of the line that holds a count or a length.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a command that has not arrived entirely, as Redis' `client-query-buffer-limit`.
pub const COMMAND_BYTES_MAX: usize = 1 << 30;

/// Most arguments of a command before the password.
pub const STRANGER_ARGS_MAX: usize = 10;
/// Most bytes of an argument before the password.
pub const STRANGER_BULK_BYTES_MAX: usize = 16 << 10;

/// Arguments that the parser keeps room for between commands.
const ARGS_KEPT: usize = 1024;

/// Why the bytes are no command. The connection cannot go on: it is unknown where the next command
/// begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The line with the count of arguments does not end.
    #[error("too big mbulk count string")]
    CountLineTooLong,
    /// The count of arguments is not a number, or more than [`ARGS_MAX`].
    #[error("invalid multibulk length")]
    InvalidCount,
    /// The line with the length of an argument does not end.
    #[error("too big bulk count string")]
    LengthLineTooLong,
    /// An argument does not begin with its length.
    #[error("expected '$', got '{}'", *.0 as char)]
    ExpectedLength(u8),
    /// The length of an argument is not a number, or more than [`BULK_BYTES_MAX`].
    #[error("invalid bulk length")]
    InvalidLength,
    /// An inline command does not end.
    #[error("too big inline request")]
    InlineTooLong,
    /// An inline command has a quote that is not closed, or is closed within a word.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
    /// A peer that has not given the password sends more than [`STRANGER_ARGS_MAX`] arguments.
    #[error("unauthenticated multibulk length")]
    StrangerCount,
    /// A peer that has not given the password sends more than [`STRANGER_BULK_BYTES_MAX`] bytes.
    #[error("unauthenticated bulk length")]
    StrangerLength,
    /// The command has more than [`COMMAND_BYTES_MAX`] bytes.
    #[error("too big request")]
    CommandTooLong,
    /// An argument behind a large value is longer than any option of its command.
    #[error("too big argument behind a value")]
    OptionTooLong,
}

/// Where an argument lies: from `start` to `end`, which fit because a command is shorter than 4
/// GiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// The arguments of a command, its name being the first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The arguments that lie at `spans` of a command that `bytes` begins with.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    /// Where they lie, counted from the command's first byte.
    #[inline]
    pub(crate) fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// How many there are.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // A command has a name at least.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Argument `index`; 0 is the command's name.
    ///
    /// # Panics
    /// If there are not as many: the table of commands has checked it.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let span = self.spans[index];
        &self.bytes[span.start as usize..span.end as usize]
    }

    /// The command that begins at argument `index` of this one.
    pub(crate) fn command_at(self, index: usize) -> Self {
        Self { spans: &self.spans[index..], ..self }
    }

    /// The arguments from `index` on.
    #[inline]
    pub fn from(self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.spans[index..].iter().map(move |span| &self.bytes[span.start as usize..span.end as usize])
    }
}

/// A command up to an argument that was announced and has not arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced<'a> {
    /// The arguments before it.
    pub(crate) args: Args<'a>,
    /// How many arguments are to come: at least this one.
    pub(crate) left: usize,
    /// Where it begins, counted from the command's first byte.
    pub(crate) at: usize,
    /// How long it is.
    pub(crate) bytes: usize,
}

/// The parser of one connection.
#[derive(Debug, Default)]
pub struct Parser {
    /// The arguments that have been found.
    spans: Vec<Span>,
    /// The arguments of an inline command, without their quotes.
    unquoted: Vec<u8>,
    /// Bytes of the command, from its first, that need not be looked at again.
    at: usize,
    state: State,
    /// Whether the peer has not given the password that it needs.
    is_for_stranger: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing of the next command has been parsed.
    #[default]
    Start,
    /// So many arguments of a multibulk are to come; `length` is that of the first of them, if its
    /// line has been read.
    Multibulk { remaining: usize, length: Option<usize> },
    /// The last call gave a command, which [`Parser::args`] shows.
    Done { inline: bool },
}

impl Parser {
    /// A parser at the beginning of a command.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether the peer still has to give a password: then a command has little room.
    #[inline]
    pub(crate) fn set_stranger(&mut self, is_for_stranger: bool) {
        self.is_for_stranger = is_for_stranger;
    }

    /// Whether the peer still has to give a password.
    pub(crate) fn is_for_stranger(&self) -> bool {
        self.is_for_stranger
    }

    /// Parses the command that `bytes` begins with. `None` if it has not arrived entirely: call
    /// again with the same bytes and more. Else how many bytes it took: go on behind them. An empty
    /// command has no arguments and is to be passed over.
    ///
    /// After an error the parser is of no use any more.
    #[inline]
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if let State::Done { .. } = self.state {
            self.reset();
        }
        if self.state == State::Start {
            match bytes.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(bytes),
            }
            let (too_long, invalid) = (ProtocolError::CountLineTooLong, ProtocolError::InvalidCount);
            let Some((count, next)) = number_line(bytes, 0, too_long, invalid)? else { return Ok(None) };
            let remaining = usize::try_from(count).unwrap_or(0);
            if remaining > ARGS_MAX {
                return Err(ProtocolError::InvalidCount);
            }
            if self.is_for_stranger && remaining > STRANGER_ARGS_MAX {
                return Err(ProtocolError::StrangerCount);
            }
            self.at = next;
            self.state = State::Multibulk { remaining, length: None };
        }
        self.parse_bulks(bytes)
    }

    #[inline]
    fn parse_bulks(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let State::Multibulk { mut remaining, length: mut known } = self.state else {
            unreachable!("parse has set the state")
        };
        let mut at = self.at;
        while remaining > 0 {
            let length = match known {
                Some(length) => length,
                None => match bulk_length(bytes, at)? {
                    Some((length, next)) => {
                        at = next;
                        length
                    }
                    None => break,
                },
            };
            if self.is_for_stranger && length > STRANGER_BULK_BYTES_MAX {
                return Err(ProtocolError::StrangerLength);
            }
            let end = at + length;
            if end > COMMAND_BYTES_MAX {
                return Err(ProtocolError::CommandTooLong);
            }
            if bytes.len() < end + 2 {
                known = Some(length);
                break;
            }
            self.spans.push(Span { start: at as u32, end: end as u32 });
            (at, known) = (end + 2, None);
            remaining -= 1;
        }
        self.at = at;
        if remaining > 0 {
            self.state = State::Multibulk { remaining, length: known };
            return Ok(None);
        }
        self.state = State::Done { inline: false };
        Ok(Some(at))
    }

    fn parse_inline(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let searched = &bytes[..bytes.len().min(LINE_BYTES_MAX + 1)];
        let Some(end) = memchr(b'\n', searched) else {
            let too_long = searched.len() > LINE_BYTES_MAX;
            return if too_long { Err(ProtocolError::InlineTooLong) } else { Ok(None) };
        };
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split(line, &mut self.unquoted, &mut self.spans)?;
        self.state = State::Done { inline: true };
        Ok(Some(end + 1))
    }

    /// The arguments of the command that [`Parser::parse`] found in `bytes`, which must be the ones
    /// that it was called with.
    #[inline]
    pub fn args<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        let bytes = if self.is_inline() { &self.unquoted } else { bytes };
        Args { bytes, spans: &self.spans }
    }

    /// Whether the command that was found is an inline one, whose arguments only the parser has.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.state == State::Done { inline: true }
    }

    /// Goes back to the beginning of a command: the next call is with bytes that have been parsed
    /// before.
    pub(crate) fn restart(&mut self) {
        self.reset();
    }

    /// What is known of a command that has not arrived entirely, if the length of its next argument
    /// is: `bytes` must be the ones that [`Parser::parse`] was called with.
    pub(crate) fn announced<'a>(&'a self, bytes: &'a [u8]) -> Option<Announced<'a>> {
        match self.state {
            State::Multibulk { remaining, length: Some(length) } => {
                let args = Args { bytes, spans: &self.spans };
                Some(Announced { args, left: remaining, at: self.at, bytes: length })
            }
            _ => None,
        }
    }

    /// Goes on within a command: its last `left` arguments come next.
    pub(crate) fn go_on_with(&mut self, left: usize) {
        self.reset();
        self.state = State::Multibulk { remaining: left, length: None };
    }

    /// The least bytes that the present command will have, counted from its first: what to make
    /// room for. As large as an argument that has been announced, so make it in steps.
    pub fn bytes_expected(&self) -> usize {
        match self.state {
            State::Multibulk { length: Some(length), .. } => self.at + length + 2,
            _ => 0,
        }
    }

    fn reset(&mut self) {
        self.spans.clear();
        self.unquoted.clear();
        if self.spans.capacity() > ARGS_KEPT {
            self.spans = Vec::new();
        }
        self.at = 0;
        self.state = State::Start;
    }
}

/// The length of the argument whose `$` stands at `at`, and where the argument begins.
#[inline]
fn bulk_length(bytes: &[u8], at: usize) -> Result<Option<(usize, usize)>, ProtocolError> {
    let (too_long, invalid) = (ProtocolError::LengthLineTooLong, ProtocolError::InvalidLength);
    // A line with another first byte is judged once it has ended, like one with a bad number.
    let invalid = match bytes.get(at) {
        None | Some(b'$') => invalid,
        Some(&other) => ProtocolError::ExpectedLength(other),
    };
    let Some((length, next)) = number_line(bytes, at, too_long, invalid)? else { return Ok(None) };
    match usize::try_from(length) {
        _ if bytes[at] != b'$' => Err(invalid),
        Ok(length) if length <= BULK_BYTES_MAX => Ok(Some((length, next))),
        _ => Err(invalid),
    }
}

/// The number behind the byte at `at`, and where the next line begins; `None` if the line has not
/// ended.
#[inline]
fn number_line(
    bytes: &[u8],
    at: usize,
    too_long: ProtocolError,
    invalid: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    // Nearly all numbers have few digits: no search for the line's end, no second pass over it.
    let mut number = 0;
    for digits in 0..6 {
        match bytes.get(at + 1 + digits) {
            Some(&digit @ b'0'..=b'9') if digits == 0 || number > 0 => number = number * 10 + i64::from(digit - b'0'),
            Some(b'\r') if digits > 0 && at + digits + 2 < bytes.len() => return Ok(Some((number, at + digits + 3))),
            _ => break,
        }
    }
    let line = bytes.get(at..).unwrap_or(&[]);
    let searched = &line[..line.len().min(LINE_BYTES_MAX + 1)];
    match memchr(b'\r', searched) {
        None if searched.len() > LINE_BYTES_MAX => Err(too_long),
        None => Ok(None),
        Some(end) if end + 1 >= line.len() => Ok(None),
        Some(0) => Err(invalid),
        Some(end) => {
            let number = atoll_cache::cache::parse_integer(&line[1..end]).ok_or(invalid)?;
            Ok(Some((number, at + end + 2)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(mut bytes: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut parser, mut commands) = (Parser::new(), Vec::new());
        while let Some(taken) = parser.parse(bytes)? {
            commands.push(parser.args(bytes).from(0).map(<[u8]>::to_vec).collect());
            bytes = &bytes[taken..];
        }
        Ok(commands)
    }

    fn texts(commands: &[Vec<Vec<u8>>]) -> Vec<Vec<&str>> {
        commands.iter().map(|args| args.iter().map(|arg| std::str::from_utf8(arg).unwrap()).collect()).collect()
    }

    #[test]
    fn a_pipeline_of_both_forms_is_taken_apart() {
        let bytes =
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n$0\r\n\r\n*0\r\n*-1\r\n\r\nset a 'b c'\n*1\r\n$4\r\nPI";
        let found = commands(bytes).unwrap();
        let none: [&str; 0] = [];
        let expected: [&[&str]; 7] = [&["GET", "k"], &["PING"], &[""], &none, &none, &none, &["set", "a", "b c"]];
        assert_eq!(texts(&found), expected.map(<[&str]>::to_vec));
    }

    #[test]
    fn bad_lengths_are_refused_with_the_text_of_redis() {
        let long = [b"*".as_slice(), &[b'1'; LINE_BYTES_MAX + 1]].concat();
        let long_length = [b"*1\r\n$".as_slice(), &[b'1'; LINE_BYTES_MAX + 1]].concat();
        for (bytes, text) in [
            (b"*a\r\n".as_slice(), "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*01\r\n", "invalid multibulk length"),
            (b"*\r\n", "invalid multibulk length"),
            (b"*1\r\n:3\r\n", "expected '$', got ':'"),
            (b"*1\r\n\r\n", "expected '$', got '\r'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"*1\r\n$+1\r\n", "invalid bulk length"),
            (&long, "too big mbulk count string"),
            (&long_length, "too big bulk count string"),
            (&[b'a'; LINE_BYTES_MAX + 1], "too big inline request"),
            (b"get \"a\r\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(commands(bytes).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn an_announced_argument_takes_no_memory_before_it_arrives() {
        let mut parser = Parser::new();
        assert_eq!(parser.parse(b"*1048576\r\n$536870912\r\n"), Ok(None));
        assert_eq!(parser.spans.capacity(), 0);
        assert!(parser.bytes_expected() > 512 << 20);
    }

    #[test]
    fn a_command_beyond_a_gibibyte_is_refused() {
        let (mut parser, length) = (Parser::new(), BULK_BYTES_MAX);
        parser.at = COMMAND_BYTES_MAX - length + 1;
        parser.state = State::Multibulk { remaining: 2, length: Some(length) };
        assert_eq!(parser.parse(&[]), Err(ProtocolError::CommandTooLong));
    }
}
