//! Finds requests in the bytes of a connection.
//!
//! ```text
//! line \n                             most requests
//! line \n data \r\n                   requests to store: the line says how much data there is
//! line \n data that is not read       requests to store too much
//! ```
//!
//! A line may end with `\r\n` or `\n`. Parsing changes nothing: what a request means for the bytes
//! behind it takes effect when the request runs.

use super::request::{self, Asked, Line, Request, Store, TOO_LARGE};

/// The first byte of a request in the binary protocol, and of no text command.
const BINARY: u8 = 0x80;
/// The longest line, unless it is a `get`, or its like, of many keys.
pub const LINE_BYTES_MAX: usize = 2048;
/// The longest line with many keys.
pub const GET_LINE_BYTES_MAX: usize = 1 << 20;

/// What the bytes hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parsed<'a> {
    /// A request, and how many bytes it has.
    Request(Request<'a>, usize),
    /// A part of a request: it has so many bytes at least.
    Partial(usize),
    /// No request; the connection is to end with this error, or without one.
    Invalid(Option<&'static str>),
}

/// Whether a line of many keys begins like this.
fn is_get(bytes: &[u8]) -> bool {
    let (name, rest) = request::first_word(&bytes[..bytes.len().min(LINE_BYTES_MAX)]);
    matches!(name, b"get" | b"gets" | b"gat" | b"gats") && !rest.is_empty()
}

/// Parses the request that `bytes` begin with. No line ends within the first `scanned` bytes.
/// `rest` says that the bytes are the rest of a line of keys, and what that asks for. Data of more
/// than `data_bytes_max` is refused.
pub(crate) fn parse(bytes: &[u8], scanned: usize, rest: Option<Asked>, data_bytes_max: usize) -> Parsed<'_> {
    if rest.is_none() && bytes.first() == Some(&BINARY) {
        return Parsed::Invalid(Some("CLIENT_ERROR the binary protocol is not spoken here: use text or meta commands"));
    }
    let end = memchr::memchr(b'\n', &bytes[scanned.min(bytes.len())..]).map(|end| scanned + end);
    let length = end.unwrap_or(bytes.len());
    if length > LINE_BYTES_MAX && (length > GET_LINE_BYTES_MAX || rest.is_none() && !is_get(bytes)) {
        return Parsed::Invalid(Some("CLIENT_ERROR line too long"));
    }
    let Some(end) = end else { return Parsed::Partial(bytes.len() + 1) };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    if let Some(asked) = rest {
        return Parsed::Request(Request::Get { keys: line, asked }, end + 1);
    }
    match request::parse(line) {
        Line::Whole(Request::Refuse { .. }) if request::is_http(line) => Parsed::Invalid(None),
        Line::Whole(request) => Parsed::Request(request, end + 1),
        Line::WithData(store, data) => with_data(bytes, end + 1, store, data, data_bytes_max),
    }
}

fn with_data<'a>(bytes: &'a [u8], start: usize, store: Store<'a>, data: usize, data_bytes_max: usize) -> Parsed<'a> {
    let noreply = store.noreply;
    if data > data_bytes_max {
        let is_set = store.meta.is_some() || store.id == request::Id::Set;
        let forget = is_set.then_some((store.key, store.meta.is_some_and(|flags| flags.is_binary)));
        return Parsed::Request(Request::Refuse { error: TOO_LARGE, noreply, swallow: data + 2, forget }, start);
    }
    let end = start + data + 2;
    if bytes.len() < end {
        return Parsed::Partial(end);
    }
    match &bytes[start..end] {
        [data @ .., b'\r', b'\n'] => Parsed::Request(Request::Store(Store { data, ..store }), end),
        _ => Parsed::Request(request::bad_chunk(noreply), end),
    }
}

/// The line that `bytes` begin with, without its end, and where the bytes behind it begin.
pub(super) fn store_line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', &bytes[..bytes.len().min(LINE_BYTES_MAX + 1)])?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// What a connection's bytes hold, as text for each request, and how it ends: for tests of the
/// parser and its fuzzer.
#[doc(hidden)]
pub fn show(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    const DATA_BYTES_MAX: usize = 100;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(bytes.len())).chain([bytes.len()]).collect();
    cuts.sort_unstable();
    let (mut shown, mut start, mut scanned, mut swallow) = (Vec::new(), 0, 0, 0);
    for arrived in cuts {
        loop {
            let skipped = swallow.min(arrived - start);
            (start, swallow) = (start + skipped, swallow - skipped);
            if swallow > 0 {
                break;
            }
            match parse(&bytes[start..arrived], scanned, None, DATA_BYTES_MAX) {
                Parsed::Request(request, taken) => {
                    assert!(taken > 0 && taken <= arrived - start, "a request lies in the bytes");
                    shown.push(format!("{request:?}"));
                    (start, scanned) = (start + taken, 0);
                    if let Request::Refuse { swallow: bytes, .. } = request {
                        swallow = bytes;
                    }
                }
                Parsed::Partial(expected) => {
                    assert!(expected > arrived - start, "a part is shorter than the whole");
                    // A line that has ended is read again; only the search for its end is not.
                    scanned = if memchr::memchr(b'\n', &bytes[start..arrived]).is_some() { 0 } else { arrived - start };
                    break;
                }
                Parsed::Invalid(error) => {
                    shown.push(format!("{error:?}"));
                    return shown;
                }
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::request::FORMAT;

    #[test]
    fn what_is_refused_takes_the_bytes_that_memcached_takes() {
        let shown = show(b"set k 0 0 3\r\nabcd\r\nset k 0 0 x\r\nms k 1 !\r\nx\r\nset k 0 0 101\r\n", &[]);
        let has = |index: usize, text: &str| assert!(shown[index].contains(text), "{shown:?}");
        has(0, "bad data chunk");
        has(1, "\"ERROR\"");
        has(2, FORMAT);
        has(3, "invalid flag");
        has(4, TOO_LARGE);
        assert_eq!(shown.len(), 5);
    }

    #[test]
    fn only_a_line_of_keys_may_be_long() {
        let is_refused = |bytes: &[u8]| matches!(parse(bytes, 0, None, 100), Parsed::Invalid(Some(_)));
        assert!(!is_refused(&[b'x'; LINE_BYTES_MAX]));
        assert!(is_refused(&[b'x'; LINE_BYTES_MAX + 1]));
        let keys = |bytes: usize| [b"gets ".as_slice(), &vec![b'k'; bytes - 5]].concat();
        assert!(!is_refused(&keys(GET_LINE_BYTES_MAX)));
        assert!(is_refused(&keys(GET_LINE_BYTES_MAX + 1)));
    }
}
