//! Writes replies in the protocol version that the peer chose with `HELLO`.
//!
//! | | RESP2 | RESP3 |
//! |---|---|---|
//! | nothing | `$-1` or `*-1` | `_` |
//! | map of n pairs | `*2n` | `%n` |
//! | set of n | `*n` | `~n` |
//! | push of n | `*n` | `>n` |
//! | text | `$n` | `=n` with `txt:` before it |
//! | double | `$n` | `,` |

use crate::serve::Output;
use crate::serve::protocol::OUTPUT_BYTES_MAX;
use atoll_cache::{Reading, Value};
use std::fmt::{self, Write};

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What a connection begins with.
    #[default]
    Resp2,
    /// What `HELLO 3` asks for.
    Resp3,
}

/// Where a command puts its reply. It must put exactly one, counting an array with its elements as
/// one.
#[derive(Debug)]
pub struct Reply<'a> {
    output: &'a mut Output,
    protocol: Protocol,
}

impl<'a> Reply<'a> {
    /// Replies in the form of `protocol`, put into `output`.
    #[inline]
    pub fn new(output: &'a mut Output, protocol: Protocol) -> Self {
        Self { output, protocol }
    }

    /// Another writer of replies into the same output.
    pub fn again(&mut self) -> Reply<'_> {
        Reply { output: &mut *self.output, protocol: self.protocol }
    }

    /// Changes the form, from the next reply on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    #[inline]
    fn header(&mut self, kind: u8, number: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let mut line = [0; 24];
        line[0] = kind;
        line[1..=digits.len()].copy_from_slice(digits);
        line[digits.len() + 1] = b'\r';
        line[digits.len() + 2] = b'\n';
        self.output.push(&line[..digits.len() + 3]);
    }

    /// `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.output.push(b"+OK\r\n");
    }

    /// A short text without line breaks.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']));
        self.output.push(b"+");
        self.output.push(text.as_bytes());
        self.output.push(b"\r\n");
    }

    /// An error, its code first. Line breaks become blanks, so that what a peer sent cannot forge a
    /// reply.
    pub fn error(&mut self, error: impl fmt::Display) {
        struct OneLine<'o>(&'o mut Output);
        impl Write for OneLine<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for byte in text.bytes() {
                    self.0.push(&[if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }]);
                }
                Ok(())
            }
        }
        self.output.push(b"-");
        write!(OneLine(self.output), "{error}").expect("memory takes what is written");
        self.output.push(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// A count or length.
    #[inline]
    pub fn count(&mut self, number: usize) {
        self.integer(number as i64);
    }

    /// Yes or no, as Redis commands have said it since RESP2.
    #[inline]
    pub fn yes(&mut self, yes: bool) {
        self.output.push(if yes { b":1\r\n" } else { b":0\r\n" });
    }

    /// Some bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as i64);
        self.output.push(bytes);
        self.output.push(b"\r\n");
    }

    /// A value that a lookup found. A large one is taken, not copied, which leaves unspecified
    /// bytes in `value`.
    #[inline]
    pub fn value(&mut self, value: &mut Value) {
        self.header(b'$', value.bytes().len() as i64);
        self.output.push_value(value);
        self.output.push(b"\r\n");
    }

    /// A value that is read while it is sent.
    pub fn open(&mut self, reading: Box<Reading>) {
        self.header(b'$', reading.missing_bytes() as i64);
        self.output.push_open(reading);
        self.output.push(b"\r\n");
    }

    /// Whether the replies so far are long enough to be sent.
    pub fn is_enough(&self) -> bool {
        self.output.len() >= OUTPUT_BYTES_MAX
    }

    /// Nothing.
    #[inline]
    pub fn null(&mut self) {
        self.output.push(if self.protocol == Protocol::Resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Nothing, where an array could be.
    pub fn null_array(&mut self) {
        self.output.push(if self.protocol == Protocol::Resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The head of an array, whose `length` elements follow.
    pub fn array(&mut self, length: usize) {
        self.header(b'*', length as i64);
    }

    /// The head of a map, whose `pairs` keys and values follow in turn.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(pairs * 2),
            Protocol::Resp3 => self.header(b'%', pairs as i64),
        }
    }

    /// The head of a set, whose `length` elements follow.
    pub fn set(&mut self, length: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, length as i64);
    }

    /// The head of a push, whose `length` elements follow: no reply, in RESP3.
    pub fn push(&mut self, length: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, length as i64);
    }

    /// The form of the next reply.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Where replies go.
    pub(crate) fn output(&mut self) -> &mut Output {
        self.output
    }

    /// A text for people.
    pub fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.output.push(b"txt:");
                self.output.push(text.as_bytes());
                self.output.push(b"\r\n");
            }
        }
    }

    /// A floating-point number.
    pub fn double(&mut self, number: f64) {
        let text = match number {
            f64::INFINITY => "inf".to_owned(),
            f64::NEG_INFINITY => "-inf".to_owned(),
            number if number.is_nan() => "nan".to_owned(),
            number => number.to_string(),
        };
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.output.push(b",");
                self.output.push(text.as_bytes());
                self.output.push(b"\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(protocol: Protocol, say: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut output = Output::default();
        say(&mut Reply::new(&mut output, protocol));
        String::from_utf8(output.small().to_vec()).unwrap()
    }

    #[test]
    fn each_kind_has_its_form_in_both_versions() {
        type Say = fn(&mut Reply<'_>);
        let cases: [(Say, &str, &str); 12] = [
            (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
            (|r| r.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|r| r.bulk(b"a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.array(2), "*2\r\n", "*2\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(3), "*3\r\n", "~3\r\n"),
            (|r| r.push(3), "*3\r\n", ">3\r\n"),
            (|r| r.text("hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.error("ERR a\r\n+b"), "-ERR a  +b\r\n", "-ERR a  +b\r\n"),
        ];
        for (say, resp2, resp3) in cases {
            assert_eq!(said(Protocol::Resp2, say), resp2);
            assert_eq!(said(Protocol::Resp3, say), resp3);
        }
    }
}
