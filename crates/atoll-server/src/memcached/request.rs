//! A request: what a line of the protocol says, and the data that follows it.
//!
//! Lines are read as memcached 1.6.18 reads them: what it accepts is accepted here, and what it
//! refuses is refused in its words. It judges a line from its front, so the order of the checks
//! decides which error a peer reads.

use super::flags::{Flags, KEY_BYTES_MAX, WORDS_MAX};
use super::number::{signed, unsigned};
use arrayvec::ArrayVec;

macro_rules! commands {
    ($($id:ident $name:literal),*) => {
        /// A command, by its place among those that are counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Id {
            $(#[doc = concat!("`", $name, "`")] $id),*
        }

        /// The commands as the metrics name them: those of Redis have some of the names, too.
        pub(crate) const NAMES: &[&str] = &[$(concat!("memcached_", $name)),*];
    };
}

commands! {
    Get "get", Gets "gets", Gat "gat", Gats "gats", Set "set", Add "add", Replace "replace", Append "append",
    Prepend "prepend", Cas "cas", Delete "delete", Incr "incr", Decr "decr", Touch "touch", FlushAll "flush_all",
    Stats "stats", Version "version", Verbosity "verbosity", Quit "quit", MetaGet "mg", MetaSet "ms", MetaDelete "md",
    MetaArithmetic "ma", MetaNoop "mn", MetaDebug "me", Refused "refused"
}

pub(crate) const ERROR: &str = "ERROR";
pub(crate) const FORMAT: &str = "CLIENT_ERROR bad command line format";
pub(crate) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(crate) const NO_ROOM: &str = "SERVER_ERROR out of memory storing object";

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// A request to store a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store<'a> {
    pub(crate) id: Id,
    pub(crate) how: How,
    pub(crate) key: &'a [u8],
    pub(crate) client_flags: u32,
    pub(crate) exptime: i32,
    /// The token that the object must have.
    pub(crate) cas: Option<u64>,
    pub(crate) data: &'a [u8],
    pub(crate) noreply: bool,
    /// The flags, if it is `ms`.
    pub(crate) meta: Option<Flags<'a>>,
}

/// What a line of keys asks for, beside their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Their tokens.
    pub(crate) with_cas: bool,
    /// That they expire then (`gat`).
    pub(crate) exptime: Option<i32>,
}

impl Asked {
    /// The command that asks for it.
    pub(crate) fn id(self) -> Id {
        match (self.exptime, self.with_cas) {
            (None, false) => Id::Get,
            (None, true) => Id::Gets,
            (Some(_), false) => Id::Gat,
            (Some(_), true) => Id::Gats,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    /// The values of all keys in a part of a line.
    Get {
        keys: &'a [u8],
        asked: Asked,
    },
    Store(Store<'a>),
    Delete {
        key: &'a [u8],
        noreply: bool,
    },
    Count {
        key: &'a [u8],
        by: u64,
        down: bool,
        noreply: bool,
    },
    Touch {
        key: &'a [u8],
        exptime: i32,
        noreply: bool,
    },
    FlushAll {
        exptime: i32,
        noreply: bool,
    },
    Stats {
        what: &'a [u8],
    },
    Version,
    Verbosity {
        noreply: bool,
    },
    Quit,
    MetaGet {
        key: &'a [u8],
        flags: Flags<'a>,
    },
    MetaDelete {
        key: &'a [u8],
        flags: Flags<'a>,
    },
    MetaCount {
        key: &'a [u8],
        flags: Flags<'a>,
    },
    MetaNoop,
    MetaDebug {
        key: &'a [u8],
        is_binary: bool,
    },
    /// Not done, and why. `swallow` bytes behind it are not read, and a key that a larger value was
    /// meant for has none any more.
    Refuse {
        error: &'static str,
        noreply: bool,
        swallow: usize,
        forget: Option<(&'a [u8], bool)>,
    },
}

/// A line, and whether data follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line<'a> {
    Whole(Request<'a>),
    /// So many bytes of data follow, and the end of a line.
    WithData(Store<'a>, usize),
}

fn refuse<'a>(error: &'static str, noreply: bool) -> Line<'a> {
    Line::Whole(Request::Refuse { error, noreply, swallow: 0, forget: None })
}

/// The refusal of data that does not end where its line says.
pub(crate) fn bad_chunk<'a>(noreply: bool) -> Request<'a> {
    Request::Refuse { error: "CLIENT_ERROR bad data chunk", noreply, swallow: 0, forget: None }
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// The first word, and what follows it.
pub(crate) fn first_word(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line.iter().position(|byte| *byte != b' ').unwrap_or(line.len());
    let line = &line[start..];
    let end = memchr::memchr(b' ', line).unwrap_or(line.len());
    (&line[..end], &line[end..])
}

/// The first words of a classic command, and how many there are.
struct Words<'a> {
    first: ArrayVec<&'a [u8], 7>,
    count: usize,
    noreply: bool,
}

impl<'a> Words<'a> {
    fn of(line: &'a [u8]) -> Self {
        let mut found = Self { first: ArrayVec::new(), count: 0, noreply: false };
        for word in words(line) {
            let _ = found.first.try_push(word);
            found.count += 1;
            found.noreply = word == b"noreply";
        }
        found
    }
}

/// Reads a line.
pub(crate) fn parse(line: &[u8]) -> Line<'_> {
    let (name, rest) = first_word(line);
    let store = |id, how| store(id, how, line);
    let has_words = words(rest).next().is_some();
    match name {
        b"get" | b"bget" if has_words => get(rest, Asked { with_cas: false, exptime: None }),
        b"gets" if has_words => get(rest, Asked { with_cas: true, exptime: None }),
        b"gat" if has_words => get_and_touch(rest, false),
        b"gats" if has_words => get_and_touch(rest, true),
        b"set" => store(Id::Set, How::Set),
        b"add" => store(Id::Add, How::Add),
        b"replace" => store(Id::Replace, How::Replace),
        b"append" => store(Id::Append, How::Append),
        b"prepend" => store(Id::Prepend, How::Prepend),
        b"cas" => store(Id::Cas, How::Set),
        b"mg" | b"ms" | b"md" | b"ma" | b"me" => meta(name[1], rest),
        b"mn" => Line::Whole(Request::MetaNoop),
        b"version" => Line::Whole(Request::Version),
        b"quit" => Line::Whole(Request::Quit),
        b"shutdown" => refuse("ERROR: shutdown not enabled", false),
        _ => other(name, &Words::of(line)),
    }
}

/// Whether the peer speaks HTTP: then a web page may have led it here, and what it sends may hold
/// requests that a stranger wrote.
pub(crate) fn is_http(line: &[u8]) -> bool {
    words(line).nth(2).is_some_and(|word| word.starts_with(b"HTTP/"))
}

fn get(keys: &[u8], asked: Asked) -> Line<'_> {
    match words(keys).all(|key| key.len() <= KEY_BYTES_MAX) {
        true => Line::Whole(Request::Get { keys, asked }),
        false => refuse(FORMAT, false),
    }
}

fn get_and_touch(rest: &[u8], with_cas: bool) -> Line<'_> {
    let (seconds, keys) = first_word(rest);
    match signed(seconds) {
        Some(exptime) => get(keys, Asked { with_cas, exptime: Some(exptime) }),
        None => refuse("CLIENT_ERROR invalid exptime argument", false),
    }
}

/// A length of data that memcached takes for one.
fn data_length(text: &[u8]) -> Option<usize> {
    signed(text).filter(|bytes| (0..=i32::MAX - 2).contains(bytes)).map(|bytes| bytes as usize)
}

fn store(id: Id, how: How, line: &[u8]) -> Line<'_> {
    let Words { first, count, noreply } = Words::of(line);
    let least = if id == Id::Cas { 6 } else { 5 };
    if count != least && count != least + 1 {
        return refuse(ERROR, false);
    }
    let read = || {
        let key = Some(first[1]).filter(|key| key.len() <= KEY_BYTES_MAX)?;
        let (client_flags, exptime) = (unsigned(first[2])? as u32, signed(first[3])?);
        let cas = if id == Id::Cas { Some(unsigned(first[5])?) } else { None };
        let store = Store { id, how, key, client_flags, exptime, cas, data: &[], noreply, meta: None };
        Some((store, data_length(first[4])?))
    };
    read().map_or(refuse(FORMAT, noreply), |(store, bytes)| Line::WithData(store, bytes))
}

/// Commands with few words.
fn other<'a>(name: &[u8], words: &Words<'a>) -> Line<'a> {
    let Words { first, count, noreply } = words;
    let (count, noreply) = (*count, *noreply);
    let expected = match name {
        b"incr" | b"decr" | b"touch" => 3..=4,
        b"delete" => 2..=4,
        b"flush_all" => 1..=3,
        b"verbosity" => 2..=3,
        b"stats" => 1..=usize::MAX,
        _ => return refuse(ERROR, false),
    };
    if !expected.contains(&count) {
        return refuse(ERROR, false);
    }
    let key = || first[1];
    let is_key = || key().len() <= KEY_BYTES_MAX;
    Line::Whole(match name {
        b"incr" | b"decr" if is_key() => match unsigned(first[2]) {
            Some(by) => Request::Count { key: key(), by, down: name == b"decr", noreply },
            None => return refuse("CLIENT_ERROR invalid numeric delta argument", noreply),
        },
        b"touch" if is_key() => match signed(first[2]) {
            Some(exptime) => Request::Touch { key: key(), exptime, noreply },
            None => return refuse("CLIENT_ERROR invalid exptime argument", noreply),
        },
        b"delete" => {
            let is_valid = match count {
                2 => true,
                3 => noreply || first[2] == b"0",
                _ => noreply && first[2] == b"0",
            };
            // A key may be the word itself.
            let noreply = noreply && count > 2;
            match is_valid {
                false => {
                    return refuse("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]", noreply);
                }
                true if is_key() => Request::Delete { key: key(), noreply },
                true => return refuse(FORMAT, noreply),
            }
        }
        b"flush_all" => match if count == 1 + usize::from(noreply) { Some(0) } else { signed(first[1]) } {
            Some(exptime) => Request::FlushAll { exptime, noreply },
            None => return refuse("CLIENT_ERROR invalid exptime argument", noreply),
        },
        b"verbosity" => match unsigned(first[1]) {
            Some(_) => Request::Verbosity { noreply },
            None => return refuse(FORMAT, noreply),
        },
        b"stats" => Request::Stats { what: first.get(1).copied().unwrap_or_default() },
        _ => return refuse(FORMAT, noreply),
    })
}

fn meta(command: u8, rest: &[u8]) -> Line<'_> {
    let (key, rest) = first_word(rest);
    if key.is_empty() {
        return refuse(if command == b'e' { FORMAT } else { ERROR }, false);
    }
    if key.len() > KEY_BYTES_MAX {
        return refuse(FORMAT, false);
    }
    if command == b'e' {
        let is_binary = words(rest).next() == Some(b"b");
        return match is_binary && super::flags::decode(key).is_none() {
            true => refuse(FORMAT, false),
            false => Line::Whole(Request::MetaDebug { key, is_binary }),
        };
    }
    if command == b's' && words(rest).next().is_none() {
        return refuse(FORMAT, false);
    }
    if words(rest).count() + 2 > WORDS_MAX {
        let are = if command == b'g' {
            "CLIENT_ERROR options flags are too long"
        } else {
            "CLIENT_ERROR options flags too long"
        };
        return refuse(are, false);
    }
    if command == b's' {
        return meta_set(key, rest);
    }
    let flags = match Flags::parse(key, rest) {
        Ok(flags) if flags.is_opaque_too_long => return refuse("CLIENT_ERROR opaque token too long", false),
        Ok(flags) => flags,
        Err(error) if command == b'g' => return refuse(error, false),
        Err(_) => return refuse("CLIENT_ERROR invalid or duplicate flag", false),
    };
    Line::Whole(match command {
        b'g' => Request::MetaGet { key, flags },
        b'd' => Request::MetaDelete { key, flags },
        _ if !matches!(flags.mode, 0 | b'I' | b'+' | b'D' | b'-') => {
            return refuse("CLIENT_ERROR invalid mode for ma M token", false);
        }
        _ => Request::MetaCount { key, flags },
    })
}

fn meta_set<'a>(key: &'a [u8], rest: &'a [u8]) -> Line<'a> {
    let (length, rest) = first_word(rest);
    let Some(bytes) = data_length(length) else { return refuse(FORMAT, false) };
    // The length is known: what follows is data, also of a request that is refused.
    let swallow = |error| Line::Whole(Request::Refuse { error, noreply: false, swallow: bytes + 2, forget: None });
    let flags = match Flags::parse(key, rest) {
        Ok(flags) if flags.is_opaque_too_long => return swallow("CLIENT_ERROR opaque token too long"),
        Ok(flags) => flags,
        Err(error) => return swallow(error),
    };
    let how = match flags.mode {
        0 | b'S' => How::Set,
        b'E' => How::Add,
        b'A' => How::Append,
        b'P' => How::Prepend,
        b'R' => How::Replace,
        _ => return swallow("CLIENT_ERROR invalid mode for ms M token"),
    };
    let cas = flags.cas.filter(|_| how != How::Add);
    let (client_flags, exptime) = (flags.client, flags.ttl.unwrap_or(0));
    let meta = Some(flags);
    let store = Store { id: Id::MetaSet, how, key, client_flags, exptime, cas, data: &[], noreply: false, meta };
    Line::WithData(store, bytes)
}
