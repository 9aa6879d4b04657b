//! Commands as a person types them: words separated by blanks, in quotes if they contain blanks.
//!
//! The rules are those of Redis' `sdssplitargs`. In double quotes, `\xHH` is a byte, `\n \r \t \b
//! \a` are what they are in C, and a backslash before anything else stands for that. In single
//! quotes only `\'` is special. A closing quote ends the word. A NUL ends the line.

use super::parser::{ProtocolError, Span};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
}

/// Splits `line` into words: their bytes are put behind one another into `unquoted`, their places
/// into `spans`.
pub(super) fn split(line: &[u8], unquoted: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    let line = &line[..memchr::memchr(0, line).unwrap_or(line.len())];
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|&&byte| is_blank(byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = unquoted.len() as u32;
        rest = word(rest, unquoted)?;
        spans.push(Span { start, end: unquoted.len() as u32 });
    }
}

/// The words of `line`; `None` if a quote is not closed, or is closed within a word.
pub(crate) fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut unquoted, mut spans) = (Vec::new(), Vec::new());
    split(line, &mut unquoted, &mut spans).ok()?;
    Some(spans.iter().map(|span| unquoted[span.start as usize..span.end as usize].to_vec()).collect())
}

/// What C's `isspace` says.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Appends the word that `rest` begins with to `unquoted`; gives what is behind it.
fn word<'a>(mut rest: &'a [u8], unquoted: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    let mut quote = Quote::None;
    loop {
        let (byte, taken) = match (quote, rest) {
            (Quote::None, [] | [b' ' | b'\n' | b'\r' | b'\t', ..]) => return Ok(rest),
            (Quote::None, [b'"', ..]) => {
                (quote, rest) = (Quote::Double, &rest[1..]);
                continue;
            }
            (Quote::None, [b'\'', ..]) => {
                (quote, rest) = (Quote::Single, &rest[1..]);
                continue;
            }
            (Quote::Double, [b'\\', b'x', high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (digit(*high) << 4 | digit(*low), 4)
            }
            (Quote::Double, [b'\\', escaped, ..]) => (unescaped(*escaped), 2),
            (Quote::Single, [b'\\', b'\'', ..]) => (b'\'', 2),
            (Quote::Double, [b'"', behind @ ..]) | (Quote::Single, [b'\'', behind @ ..]) => {
                let ends = behind.first().is_none_or(|&byte| is_blank(byte));
                return if ends { Ok(behind) } else { Err(ProtocolError::UnbalancedQuotes) };
            }
            (_, []) => return Err(ProtocolError::UnbalancedQuotes),
            (_, [byte, ..]) => (*byte, 1),
        };
        unquoted.push(byte);
        rest = &rest[taken..];
    }
}

fn digit(hex: u8) -> u8 {
    (hex as char).to_digit(16).map_or(0, |digit| digit as u8)
}

fn unescaped(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unquoted_as_redis_does_it() {
        for (line, expected) in [
            (b"".as_slice(), Some(vec![])),
            (b" \t set  k\x0bv \r", Some(vec![b"set".to_vec(), b"k\x0bv".to_vec()])),
            (br#"a "b c" 'd e'"#, Some(vec![b"a".to_vec(), b"b c".to_vec(), b"d e".to_vec()])),
            (br#""\x41\n\q\"" '\'\n'"#, Some(vec![b"A\nq\"".to_vec(), b"'\\n".to_vec()])),
            (br#"a"b c" x"#, Some(vec![b"ab c".to_vec(), b"x".to_vec()])),
            (br#""""#, Some(vec![b"".to_vec()])),
            (b"a\0b c", Some(vec![b"a".to_vec()])),
            (br#""a"b"#, None),
            (br#""a"#, None),
            (br#"'a"#, None),
            (br#""a\"#, None),
        ] {
            assert_eq!(words(line), expected, "{:?}", String::from_utf8_lossy(line));
        }
    }
}
