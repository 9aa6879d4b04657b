//! `get` and `gets`: the keys of requests that follow each other are looked up together. `gat` and
//! `gats` change each of their keys.
//!
//! Each lookup takes effect between the arrival of the first request and the reply of the last. A
//! line of keys that is too much for one batch runs in parts: the state of the connection
//! says what the rest of the line asks for.

use super::change::{if_item, is_item};
use super::flags::{Flags, KEY_BYTES_MAX};
use super::request::{Asked, Id, Request, words};
use super::time::{self, expiry};
use super::{Inner, State, fail, notify, stored};
use crate::redis::database::Database;
use crate::redis::events::Class;
use crate::redis::isolation::Batch;
use crate::serve::Output;
use crate::serve::counters::SAMPLE_EVERY;
use crate::serve::protocol::{Client, OUTPUT_BYTES_MAX};
use crate::serve::{memory, upload};
use arrayvec::ArrayVec;
use atoll_cache::{CacheError, Engine, Got, Meta, Value};
use std::pin::pin;

/// Keys that are looked up at a time.
const KEYS_MAX: usize = 32;
/// Parsed requests, and where each ends in the input. They lie in the worker's memory: a connection
/// would keep room for them while it is idle.
pub(super) type Ahead<'a> = Vec<(Request<'a>, usize)>;

/// The memory of requests that have run, for requests of other bytes.
pub(super) fn emptied<'a>(mut ahead: Ahead<'_>) -> Ahead<'a> {
    ahead.clear();
    // Nothing is moved; the standard library collects into the same memory.
    ahead.into_iter().map(|_| unreachable!("it is empty")).collect()
}

/// What they run with.
pub(super) struct With<'a, 'b> {
    pub(super) inner: &'a Inner,
    pub(super) batch: &'a mut Batch<'b>,
    pub(super) state: &'a mut State,
    pub(super) value: &'a mut Value,
    pub(super) database: Database,
}

/// A key that is looked up.
struct Wanted {
    /// Which of the requests it belongs to.
    request: usize,
    asked: Asked,
    /// Whether it is the last one of its request.
    is_last: bool,
    /// Where it ends in the input.
    end: usize,
}

/// Where a key ends in the input that it is a part of.
fn end_of(key: &[u8], input: &[u8]) -> usize {
    let end = (key.as_ptr() as usize + key.len()).wrapping_sub(input.as_ptr() as usize);
    assert!(end <= input.len(), "a key lies in the input");
    end
}

/// Writes what is before a value.
fn push_head(output: &mut Output, key: &[u8], meta: Meta, with_cas: bool) {
    let mut digits = itoa::Buffer::new();
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

/// Writes a value, with what is before and behind it.
fn push(output: &mut Output, key: &[u8], value: &mut Value, with_cas: bool) {
    push_head(output, key, value.meta(), with_cas);
    output.push_value(value);
    output.push(b"\r\n");
}

/// Looks up one key, whose value may come open. Gives what the other lookups give to `found`.
async fn look_up_one<G: Engine>(
    client: Client<'_, G>,
    (key, stored): (&[u8], &[u8]),
    (value, with_cas): (&mut Value, bool),
    output: &mut Output,
) -> Result<bool, CacheError> {
    match client.cache.get_or_open(stored, value, upload::BYTES_MIN).await? {
        Got::Value if is_item(&value.meta()) => push(output, key, value, with_cas),
        Got::Open(reading) if is_item(&reading.meta()) => {
            push_head(output, key, reading.meta(), with_cas);
            output.push_open(reading);
            output.push(b"\r\n");
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The keys of requests that are about to run, for the cache to prefetch: but for those of `get`,
/// which are looked up together.
pub(super) fn expected<'a>(ahead: &[(Request<'a>, usize)]) -> ArrayVec<&'a [u8], { super::REQUESTS_MAX }> {
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

/// Runs the requests from `index` on that ask for values. Returns how many have run entirely; the
/// state says whether the next one has run in part, and `start` where the rest of it begins.
pub(super) async fn run<'a, G: Engine>(
    with: With<'_, '_>,
    (ahead, index): (&[(Request<'a>, usize)], usize),
    client: Client<'_, G>,
    input: &'a [u8],
    start: &mut usize,
    output: &mut Output,
) -> usize {
    if let (Request::Get { keys, asked: Asked { exptime: Some(exptime), with_cas } }, end) = ahead[index] {
        return pin!(touch(with, (keys, end), (exptime, with_cas), client, input, start, output)).await;
    }
    let With { batch, state, value, database, .. } = with;
    let mut done = 0;
    // Where the rest of the first request's keys begins.
    let mut rest: Option<&[u8]> = None;
    loop {
        let mut keys: ArrayVec<&[u8], KEYS_MAX> = ArrayVec::new();
        let mut wanted: ArrayVec<Wanted, KEYS_MAX> = ArrayVec::new();
        for (request, (parsed, _)) in ahead.iter().enumerate().skip(index + done) {
            let Request::Get { keys: of_request, asked: asked @ Asked { exptime: None, .. } } = *parsed else { break };
            let of_request = rest.take().unwrap_or(of_request);
            let mut found = words(of_request).peekable();
            while let Some(key) = found.next() {
                if keys.try_push(key).is_err() {
                    break;
                }
                wanted.push(Wanted { request, asked, is_last: found.peek().is_none(), end: end_of(key, input) });
            }
            if keys.is_full() {
                break;
            }
        }
        if keys.is_empty() {
            return done;
        }
        let began = client.tally.borrow().begin_many(keys.len());
        let (mut replied, mut missed) = (0, ArrayVec::<usize, KEYS_MAX>::new());
        let found = |key: usize, value: Option<&mut Value>| {
            // What would be too much to send is looked up again.
            if output.len() >= OUTPUT_BYTES_MAX || key > replied {
                return;
            }
            match value.filter(|value| is_item(&value.meta())) {
                Some(value) => push(output, keys[key], value, wanted[key].asked.with_cas),
                None => missed.push(key),
            }
            if wanted[key].is_last {
                output.push(b"END\r\n");
            }
            replied += 1;
        };
        debug_assert!(keys.iter().all(|key| key.len() <= KEY_BYTES_MAX));
        let mut looked = Ok(());
        if keys.len() > 1 {
            let together = async |keys: &[&[u8]]| client.cache.get_many_within(keys, OUTPUT_BYTES_MAX, found).await;
            looked = batch.passing(pin!(database.with_stored(&keys, together))).await;
        }
        // A key that is alone, or whose value is too large to be looked up with others.
        if replied == 0 && looked.is_ok() {
            let (stored, with_cas) = (database.stored(keys[0]), wanted[0].asked.with_cas);
            let one = look_up_one(client, (keys[0], &stored), (&mut *value, with_cas), output);
            let is_there = batch.passing(pin!(one)).await;
            memory::shrink_beyond(value, super::NEW_BYTES_KEPT);
            looked = is_there.map(|is_there| {
                if !is_there {
                    missed.push(0);
                }
                if wanted[0].is_last {
                    output.push(b"END\r\n");
                }
                replied = 1;
            });
        }
        {
            let mut tally = client.tally.borrow_mut();
            let place = |wanted: &Wanted| client.first_command + wanted.asked.id() as usize;
            wanted[..replied].iter().for_each(|wanted| tally.calls[place(wanted)] += 1);
            missed.iter().for_each(|key| tally.missed[place(&wanted[*key])] += 1);
            tally.keys_found += (replied - missed.len()) as u64;
            tally.keys_missed += missed.len() as u64;
            tally.end_many(client.first_command + Id::Get as usize, replied, began);
        }
        if let (Err(error), Some(failed)) = (looked, wanted.get(replied)) {
            // The reply of the request that failed is this error.
            fail(client, output, &error);
            *start = ahead[failed.request].1;
            state.rest = None;
            return failed.request + 1 - index;
        }
        let Some(last) = replied.checked_sub(1).map(|last| &wanted[last]) else { return done };
        done = last.request + usize::from(last.is_last) - index;
        state.rest = if last.is_last { None } else { Some(last.asked) };
        *start = if last.is_last { ahead[last.request].1 } else { last.end };
        if output.len() >= OUTPUT_BYTES_MAX || batch.has_had_its_turn(client.cache.engine()) {
            return done;
        }
        if !last.is_last {
            let end = ahead[last.request].1;
            let line = &input[last.end..end - 1];
            rest = Some(line.strip_suffix(b"\r").unwrap_or(line));
        }
    }
}

/// Runs one `gat`, or a part of it.
async fn touch<G: Engine>(
    With { inner, batch, state, value, database }: With<'_, '_>,
    (keys, end): (&[u8], usize),
    (exptime, with_cas): (i32, bool),
    client: Client<'_, G>,
    input: &[u8],
    start: &mut usize,
    output: &mut Output,
) -> usize {
    let asked = Asked { exptime: Some(exptime), with_cas };
    let place = client.first_command + asked.id() as usize;
    (*start, state.rest) = (end, None);
    let mut keys = words(keys).peekable();
    while let Some(key) = keys.next() {
        let began = client.tally.borrow_mut().begin();
        let stored = stored(database, key, false);
        let found = batch.passing(pin!(client.cache.get_and_expire(&stored, expiry(exptime), value))).await;
        let is_there = match if_item(found) {
            Ok(is_there) => is_there,
            Err(error) => {
                fail(client, output, &error);
                return 1;
            }
        };
        if is_there {
            push(output, key, value, with_cas);
            notify(inner, client, database, (Class::GENERIC, time::event(exptime)), &stored);
        }
        memory::shrink_beyond(value, super::NEW_BYTES_KEPT);
        {
            let mut tally = client.tally.borrow_mut();
            tally.calls[place] += 1;
            tally.missed[place] += u64::from(!is_there);
            tally.looked(is_there);
            if let Some(took) = began.map(|began| began.elapsed()) {
                tally.timed(place, took, SAMPLE_EVERY);
            }
        }
        let is_enough = output.len() >= OUTPUT_BYTES_MAX || batch.has_had_its_turn(client.cache.engine());
        if is_enough && keys.peek().is_some() {
            (*start, state.rest) = (end_of(key, input), Some(asked));
            return 0;
        }
    }
    output.push(b"END\r\n");
    1
}
