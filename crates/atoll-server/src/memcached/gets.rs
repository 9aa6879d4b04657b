//! `get` and `gets`: the keys of requests that follow each other are looked up together.
//!
//! Each lookup takes effect between the arrival of the first request and the reply of the last.

use super::change::is_item;
use super::flags::{Flags, KEY_BYTES_MAX};
use super::request::{Id, Request, words};
use super::{State, fail};
use crate::redis::database::Database;
use crate::serve::Output;
use crate::serve::protocol::{Client, OUTPUT_BYTES_MAX};
use arrayvec::ArrayVec;
use atoll_cache::{Engine, Value};

/// Keys that are looked up at a time.
const KEYS_MAX: usize = 32;
/// Parsed requests, and where each ends in the input.
pub(super) type Ahead<'a> = ArrayVec<(Request<'a>, usize), { super::REQUESTS_MAX }>;

/// A key that is looked up.
struct Wanted {
    /// Which of the requests it belongs to.
    request: usize,
    with_cas: bool,
    /// Whether it is the last one of its request.
    is_last: bool,
    /// Where it ends in the input.
    end: usize,
}

/// Writes the head of a value.
pub(super) fn push_head(output: &mut Output, key: &[u8], value: &Value, with_cas: bool) {
    let (meta, mut digits) = (value.meta(), itoa::Buffer::new());
    output.push(b"VALUE ");
    output.push(key);
    output.push(b" ");
    output.push(digits.format(meta.attributes.flags).as_bytes());
    output.push(b" ");
    output.push(digits.format(meta.value_bytes).as_bytes());
    if with_cas {
        output.push(b" ");
        output.push(digits.format(meta.token).as_bytes());
    }
    output.push(b"\r\n");
}

/// The keys of requests that are about to run, for the cache to prefetch: but for those of `get`,
/// which are looked up together.
pub(super) fn expected<'a>(ahead: &Ahead<'a>) -> ArrayVec<&'a [u8], { super::REQUESTS_MAX }> {
    let plain = |flags: &Flags<'_>| !flags.is_binary;
    let key = |(request, _): &(Request<'a>, usize)| match request {
        Request::Store(store) => Some(store.key).filter(|_| store.meta.as_ref().is_none_or(plain)),
        Request::Delete { key, .. } | Request::Count { key, .. } | Request::Touch { key, .. } => Some(*key),
        Request::MetaGet { key, flags } | Request::MetaDelete { key, flags } | Request::MetaCount { key, flags } => {
            Some(*key).filter(|_| plain(flags))
        }
        _ => None,
    };
    let keys: ArrayVec<_, { super::REQUESTS_MAX }> = ahead.iter().filter_map(key).collect();
    if keys.len() < 2 { ArrayVec::new() } else { keys }
}

/// Runs the requests from `index` on that are `get`s. Returns how many have run entirely; the state
/// says whether the next one has run in part, and `start` where the rest of it begins.
pub(super) async fn run<'a, G: Engine>(
    (state, database): (&mut State, Database),
    (ahead, index): (&Ahead<'a>, usize),
    client: Client<'_, G>,
    input: &'a [u8],
    start: &mut usize,
    output: &mut Output,
) -> usize {
    let mut done = 0;
    // Where the rest of the first request's keys begins.
    let mut rest: Option<&[u8]> = None;
    loop {
        let mut keys: ArrayVec<&[u8], KEYS_MAX> = ArrayVec::new();
        let mut wanted: ArrayVec<Wanted, KEYS_MAX> = ArrayVec::new();
        for (request, (parsed, _)) in ahead.iter().enumerate().skip(index + done) {
            let Request::Get { keys: of_request, with_cas } = *parsed else { break };
            let of_request = rest.take().unwrap_or(of_request);
            let mut found = words(of_request).peekable();
            while let Some(key) = found.next() {
                if keys.try_push(key).is_err() {
                    break;
                }
                let end = key.as_ptr() as usize + key.len() - input.as_ptr() as usize;
                wanted.push(Wanted { request, with_cas, is_last: found.peek().is_none(), end });
            }
            if keys.is_full() {
                break;
            }
        }
        if keys.is_empty() {
            return done;
        }
        let began = client.tally.borrow().begin_many(keys.len());
        let mut replied = 0;
        let found = |key: usize, value: Option<&mut Value>| {
            // What would be too much to send is looked up again.
            if output.len() >= OUTPUT_BYTES_MAX || key > replied {
                return;
            }
            if let Some(value) = value.filter(|value| is_item(&value.meta())) {
                push_head(output, keys[key], value, wanted[key].with_cas);
                output.push_value(value);
                output.push(b"\r\n");
            }
            if wanted[key].is_last {
                output.push(b"END\r\n");
            }
            replied += 1;
        };
        debug_assert!(keys.iter().all(|key| key.len() <= KEY_BYTES_MAX));
        let looked = database.with_stored(&keys, async |keys| client.cache.get_many(keys, found).await);
        let looked = std::pin::pin!(looked).await;
        let last = replied.checked_sub(1).map(|last| &wanted[last]);
        {
            let mut tally = client.tally.borrow_mut();
            for wanted in &wanted[..replied] {
                let id = if wanted.with_cas { Id::Gets } else { Id::Get };
                tally.calls[client.first_command + id as usize] += 1;
            }
            tally.end_many(client.first_command + Id::Get as usize, replied, began);
        }
        if let Err(error) = looked {
            // The reply of the request that failed is this error.
            let failed = &wanted[replied];
            fail(client, output, &error);
            *start = ahead[failed.request].1;
            state.rest = None;
            return failed.request + 1 - index;
        }
        let Some(last) = last else { return done };
        done = last.request + usize::from(last.is_last) - index;
        state.rest = if last.is_last { None } else { Some(last.with_cas) };
        *start = if last.is_last { ahead[last.request].1 } else { last.end };
        if output.len() >= OUTPUT_BYTES_MAX {
            return done;
        }
        if !last.is_last {
            let end = ahead[last.request].1;
            let line = &input[last.end..end - 1];
            rest = Some(line.strip_suffix(b"\r").unwrap_or(line));
        }
    }
}
