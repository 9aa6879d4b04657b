//! Why a command was refused, in the words of Redis.

use crate::redis::acl;
use crate::redis::resp::Args;
use atoll_cache::CacheError;

/// A command that was refused. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The number of arguments does not fit the command.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    /// The options make no sense.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument that must be an integer is none, or is out of range.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// An argument that must be a number is none.
    #[error("ERR value is not a valid float")]
    NotAFloat,
    /// The command is for another kind of value than the key has.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongKind,
    /// The time is not valid.
    #[error("ERR invalid expire time in '{0}' command")]
    InvalidExpire(&'static str),
    /// The value would be too long.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    TooLong,
    /// The pool has no room and no object to evict.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    /// Another reason, its code first.
    #[error("{0}")]
    Other(String),
    /// No reply, and the connection ends.
    #[error("the connection was closed")]
    Silent,
}

impl From<CacheError> for CommandError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::OutOfMemory => Self::OutOfMemory,
            CacheError::AnotherKind { .. } => Self::WrongKind,
            other => Self::Other(format!("ERR {other}")),
        }
    }
}

impl From<&'static str> for CommandError {
    fn from(text: &'static str) -> Self {
        Self::Other(text.to_owned())
    }
}

/// The most bytes of a peer's text that an error repeats.
const SHOWN_BYTES_MAX: usize = 128;

/// A peer's text as an error repeats it: up to its first NUL, and not all of a long one.
pub(super) fn shown(text: &[u8], bytes_max: usize) -> String {
    let text = &text[..text.len().min(bytes_max)];
    String::from_utf8_lossy(&text[..memchr::memchr(0, text).unwrap_or(text.len())]).into_owned()
}

/// Commands of Redis 7.4 about the time to live of single fields.
const FIELD_EXPIRY: [&str; 9] =
    ["hexpire", "hexpireat", "hexpiretime", "hpersist", "hpexpire", "hpexpireat", "hpexpiretime", "hpttl", "httl"];

/// Whether Redis has such a command, for values of a type that is not there.
fn is_of_another_type(name: &str) -> bool {
    let types = ["list", "set", "sortedset", "stream", "geo"];
    acl::categories_within(name).any(|category| types.contains(&category)) || FIELD_EXPIRY.contains(&name)
}

/// No command has this name.
pub(in crate::redis) fn unknown(args: Args<'_>) -> CommandError {
    // Something that sends HTTP has been led here by a web page: what it sends may hold commands
    // that a stranger wrote.
    if args.get(0).eq_ignore_ascii_case(b"post") || args.get(0).eq_ignore_ascii_case(b"host:") {
        return CommandError::Silent;
    }
    let name = shown(args.get(0), SHOWN_BYTES_MAX);
    if is_of_another_type(&name.to_ascii_lowercase()) {
        return CommandError::Other(format!(
            "ERR unknown command '{name}': Atoll is a cache of strings, counters, bitmaps, hashes and HyperLogLogs, \
             and has no lists, sets, sorted sets, streams, geographic indexes or times to live of single fields"
        ));
    }
    let mut beginning = String::new();
    for arg in args.from(1) {
        if beginning.len() >= SHOWN_BYTES_MAX {
            break;
        }
        beginning += &format!("'{}' ", shown(arg, SHOWN_BYTES_MAX - beginning.len()));
    }
    CommandError::Other(format!("ERR unknown command '{name}', with args beginning with: {beginning}"))
}

/// A container command has no such subcommand, or it takes another number of arguments.
pub(super) fn unknown_or_arity(container: &str, name: &[u8]) -> CommandError {
    let name = shown(name, SHOWN_BYTES_MAX);
    CommandError::Other(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
    ))
}

/// A container command has no such subcommand. `container` is its name in capitals.
pub(super) fn unknown_subcommand(container: &str, name: &[u8]) -> CommandError {
    let name = shown(name, SHOWN_BYTES_MAX);
    CommandError::Other(format!("ERR unknown subcommand '{name}'. Try {container} HELP."))
}

#[cfg(test)]
mod tests {
    use super::is_of_another_type;

    #[test]
    fn a_command_of_another_type_is_known_as_such_by_its_subcommands_too() {
        for name in ["lpush", "zadd", "xadd", "xgroup", "xinfo", "geoadd", "hexpire"] {
            assert!(is_of_another_type(name), "{name}");
        }
        for name in ["get", "nosuch", "client", "object", "memory", "bgsave"] {
            assert!(!is_of_another_type(name), "{name}");
        }
    }
}
