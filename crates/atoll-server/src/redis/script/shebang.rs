//! The first line of a script, if that begins with `#!`: it names the engine, and what the script
//! does.
//!
//! ```text
//! #!lua flags=no-writes,allow-stale
//! ```
//!
//! | flag | meaning here |
//! |---|---|
//! | `no-writes` | commands that write are refused, and EVAL_RO takes the script |
//! | `allow-oom`, `allow-stale`, `no-cluster`, `allow-cross-slot-keys` | none |

use crate::redis::command::CommandError;
use crate::redis::resp::words;
use memchr::memchr;

/// Flags without a meaning here: this server is no replica and no node of a cluster, and evicts.
const IGNORED: [&[u8]; 4] = [b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"];

/// A script without its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Script<'t> {
    /// What is compiled. It begins with the end of the first line: lines keep their numbers.
    pub(super) body: &'t [u8],
    /// Whether it says that it does not write; `None` if it says nothing.
    pub(super) is_read_only: Option<bool>,
}

impl Script<'_> {
    /// The number of its only line that is not blank.
    pub(super) fn only_line(&self) -> Option<usize> {
        let lines = self.body.split(|byte| *byte == b'\n').enumerate();
        let mut written = lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace));
        written.next().filter(|_| written.next().is_none()).map(|(index, _)| index + 1)
    }
}

/// Looks at the first line of a script.
pub(super) fn read(text: &[u8]) -> Result<Script<'_>, CommandError> {
    if !text.starts_with(b"#!") {
        return Ok(Script { body: text, is_read_only: None });
    }
    let is_whole = |end: &usize| memchr(0, &text[..*end]).is_none();
    let end = memchr(b'\n', text).filter(is_whole).ok_or("ERR Invalid script shebang")?;
    let words = words(&text[..end]).ok_or("ERR Invalid engine in script shebang")?;
    let refused = |why: &str, word: &[u8]| CommandError::Other(format!("ERR {why}: {}", String::from_utf8_lossy(word)));
    let (engine, options) = words.split_first().expect("a word begins with #!");
    if engine != b"#!lua" {
        return Err(refused("Unexpected engine in script shebang", engine));
    }
    let mut is_read_only = false;
    for option in options {
        let flags = option.strip_prefix(b"flags=").ok_or_else(|| refused("Unknown lua shebang option", option))?;
        for flag in flags.split(|byte| *byte == b',').filter(|_| !flags.is_empty()) {
            match flag {
                b"no-writes" => is_read_only = true,
                flag if IGNORED.contains(&flag) => {}
                flag => return Err(refused("Unexpected flag in script shebang", flag)),
            }
        }
    }
    Ok(Script { body: &text[end..], is_read_only: Some(is_read_only) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_line_that_is_not_blank_has_a_number() {
        for (text, line) in [("x", Some(1)), ("#!lua\n\n x\n \n", Some(3)), ("x\ny", None), ("", None)] {
            assert_eq!(read(text.as_bytes()).unwrap().only_line(), line, "{text}");
        }
    }

    #[test]
    fn the_first_line_names_engine_and_flags_and_lines_keep_their_numbers() {
        let script = |body: &'static [u8], is_read_only| Ok(Script { body, is_read_only });
        let failed = |why: &str| Err(why.to_owned());
        for (text, expected) in [
            (&b"return 1"[..], script(b"return 1", None)),
            (b"\n#!lua\n", script(b"\n#!lua\n", None)),
            (b"#!lua\nx", script(b"\nx", Some(false))),
            (b"#!lua flags=\nx", script(b"\nx", Some(false))),
            (b"#!lua\tflags=no-writes \r\nx", script(b"\nx", Some(true))),
            (b"#!lua 'flags=no-writes' flags=allow-oom\nx", script(b"\nx", Some(true))),
            (b"#!lua flags=allow-stale,no-cluster,allow-cross-slot-keys\nx", script(b"\nx", Some(false))),
            (b"#!lua", failed("ERR Invalid script shebang")),
            (b"#!lua\0\nx", failed("ERR Invalid script shebang")),
            (b"#!lua \"flags=no-writes\nx", failed("ERR Invalid engine in script shebang")),
            (b"#!python x\nx", failed("ERR Unexpected engine in script shebang: #!python")),
            (b"#!lua name=x\nx", failed("ERR Unknown lua shebang option: name=x")),
            (b"#!lua flags=no-writes,bogus\nx", failed("ERR Unexpected flag in script shebang: bogus")),
            (b"#!lua flags=no-writes,\nx", failed("ERR Unexpected flag in script shebang: ")),
        ] {
            let found = read(text).map_err(|error| error.to_string());
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
        }
    }
}
