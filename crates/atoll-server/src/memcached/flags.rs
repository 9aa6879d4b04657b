//! The flags of meta commands: a letter each, some with an argument behind it.
//!
//! As in memcached every command accepts every flag, and ignores those that mean nothing to it.

use super::number::{signed, unsigned};
use super::request::{FORMAT, words};
use arrayvec::ArrayVec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The longest key, and the longest in base64.
pub(crate) const KEY_BYTES_MAX: usize = 250;
/// The most words of a meta command.
pub(crate) const WORDS_MAX: usize = 19;
/// The longest opaque token, with its letter.
const OPAQUE_BYTES_MAX: usize = 32;

/// A key that was in base64.
pub(crate) type Decoded = ArrayVec<u8, KEY_BYTES_MAX>;

/// Decodes a key.
pub(crate) fn decode(key: &[u8]) -> Option<Decoded> {
    let mut bytes = [0; KEY_BYTES_MAX];
    let length = STANDARD.decode_slice(key, &mut bytes).ok().filter(|length| *length > 0)?;
    let mut decoded = Decoded::from(bytes);
    decoded.truncate(length);
    Some(decoded)
}

/// The flags of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags<'a> {
    /// The words, in whose order a reply has what they ask for.
    pub(crate) words: &'a [u8],
    /// `b`: the key is in base64.
    pub(crate) is_binary: bool,
    /// `v`
    pub(crate) value: bool,
    /// `q`
    pub(crate) quiet: bool,
    /// `I`
    pub(crate) invalidates: bool,
    /// `t`
    pub(crate) left: bool,
    /// `h` or `l`
    pub(crate) accesses: bool,
    /// `N`
    pub(crate) vivify: Option<i32>,
    /// `T`
    pub(crate) ttl: Option<i32>,
    /// `R`
    pub(crate) recache: Option<i32>,
    /// `C`
    pub(crate) cas: Option<u64>,
    /// `F`
    pub(crate) client: u32,
    /// `D`, which is 1 if it is not there.
    pub(crate) delta: u64,
    /// `J`
    pub(crate) initial: u64,
    /// `M`, or 0
    pub(crate) mode: u8,
    /// Whether `O` is longer than it may be.
    pub(crate) is_opaque_too_long: bool,
}

/// An argument; without one the error is that of the command.
fn note<T>(failed: &mut Option<&'static str>, argument: Option<T>, error: &'static str) -> Option<T> {
    if argument.is_none() {
        *failed = Some(error);
    }
    argument
}

impl<'a> Flags<'a> {
    /// Parses the words behind the key. The error is a line of the protocol.
    pub(crate) fn parse(key: &[u8], words_of: &'a [u8]) -> Result<Self, &'static str> {
        const TOKEN: &str = "CLIENT_ERROR bad token in command line format";
        let mut flags = Self { words: words_of, delta: 1, ..Self::default() };
        let (mut seen, mut failed) = (0_u128, None);
        for word in words(words_of) {
            let (letter, argument) = (word[0], &word[1..]);
            if letter >= 127 || seen >> letter & 1 == 1 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= 1 << letter;
            match letter {
                b'b' => {
                    flags.is_binary = true;
                    if decode(key).is_none() {
                        failed = Some("CLIENT_ERROR error decoding key");
                    }
                }
                b'N' => flags.vivify = note(&mut failed, signed(argument), TOKEN),
                b'T' => flags.ttl = note(&mut failed, signed(argument), TOKEN),
                b'R' => flags.recache = note(&mut failed, signed(argument), TOKEN),
                b't' => flags.left = true,
                b'h' | b'l' => flags.accesses = true,
                b'v' => flags.value = true,
                b'q' => flags.quiet = true,
                b'I' => flags.invalidates = true,
                b'F' => {
                    let error = failed.unwrap_or(FORMAT);
                    flags.client = note(&mut failed, unsigned(argument), error).unwrap_or(0) as u32;
                }
                b'C' => flags.cas = note(&mut failed, unsigned(argument), TOKEN),
                b'M' if argument.len() == 1 => flags.mode = argument[0],
                b'M' => failed = Some("CLIENT_ERROR incorrect length for M token"),
                b'J' => {
                    let error = "CLIENT_ERROR invalid numeric initial value";
                    flags.initial = note(&mut failed, unsigned(argument), error).unwrap_or(0);
                }
                b'D' => {
                    let error = "CLIENT_ERROR invalid numeric delta value";
                    flags.delta = note(&mut failed, unsigned(argument), error).unwrap_or(0);
                }
                b'O' => flags.is_opaque_too_long = word.len() > OPAQUE_BYTES_MAX,
                b'P' | b'L' | b'k' | b's' | b'c' | b'f' | b'u' => {}
                _ => return Err("CLIENT_ERROR invalid flag"),
            }
        }
        failed.map_or(Ok(flags), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_wrong_is_named_in_the_words_of_memcached() {
        for (words, error) in [
            (&b"v v"[..], "CLIENT_ERROR duplicate flag"),
            (b"!", "CLIENT_ERROR invalid flag"),
            (b"Tx v", "CLIENT_ERROR bad token in command line format"),
            (b"Fx", "CLIENT_ERROR bad command line format"),
            (b"MEE", "CLIENT_ERROR incorrect length for M token"),
            (b"b", "CLIENT_ERROR error decoding key"),
            (b"D-1", "CLIENT_ERROR invalid numeric delta value"),
        ] {
            assert_eq!(Flags::parse(b"a0", words).unwrap_err(), error);
        }
        let flags = Flags::parse(b"YQ==", b"b v T-1 F4294967297 C7").unwrap();
        assert_eq!((flags.ttl, flags.client, flags.cas, flags.delta), (Some(-1), 1, Some(7), 1));
        assert_eq!(decode(b"YQ==").unwrap().as_slice(), b"a");
    }
}
