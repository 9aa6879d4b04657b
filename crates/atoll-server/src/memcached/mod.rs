//! The memcached protocol: classic text and meta commands, over the keys of the Redis protocol's
//! database 0.
//!
//! | module | concept |
//! |---|---|
//! | `parser` | requests in the bytes of a connection |
//! | `request` | what a line says |
//! | `flags` | the flags of meta commands |
//! | `number`, `time` | numbers and expiries as memcached reads them |
//! | `gets` | `get`s that follow each other, looked up together; `gat` |
//! | `classic` | the classic commands |
//! | `meta` | the meta commands |
//! | `change` | changes that the cache has no operation for; stale items |
//! | `upload` | requests whose data is stored while it arrives |
//! | `flush` | `flush_all` |
//! | `stats` | `stats` |
//!
//! Semantics and texts are those of memcached 1.6.18. The unique number of `cas` is the object's
//! token. Differences from memcached:
//!
//! - A line of more than 2048 bytes gets `CLIENT_ERROR line too long` and ends the connection. A
//!   line of keys (`get`, `gets`, `gat`, `gats`) may have 1 MiB.
//! - A byte 0 does not end a line.
//! - The binary protocol, which memcached calls deprecated, is not spoken: its first byte gets a
//!   `CLIENT_ERROR` that says so, and ends the connection.
//! - A value may have as many bytes as the pool takes.
//! - Tokens have no order: `ms` with `I` takes every token other than the present one for an older
//!   one. To win an item gives it a new token, which the winner reads.
//! - An opaque token that is too long is refused before anything is done. A `get` of a key that is
//!   too long leaves the replies to the requests before it.
//! - A key is shown in base64 if the request has it so, however it was stored.
//! - `forge` notes no time of an access: `l` gives -1, and `me` shows none. It forgets that an
//!   object was hit (`h`) when it moves it. A hit in a near cache counts later, or not at all.
//! - `stats` has what has a meaning here (see `stats`); `stats reset` is `CONFIG RESETSTAT`.
//!   Commands that steer memcached's memory (`slabs`, `lru`, `lru_crawler`, `cache_memlimit`) and
//!   `watch` are unknown.
//! - A hash of Redis is a miss for a command that reads a value or changes a part of one. `add`
//!   finds the key taken. A command that replaces or removes a whole value, or sets its expiry, is
//!   done.
//! - There is no password: only peers on this host are served in protected mode. `CLIENT PAUSE`,
//!   `CLIENT LIST` and `MONITOR` concern the Redis protocol alone.

mod change;
mod classic;
mod flags;
mod flush;
mod gets;
mod meta;
mod number;
pub mod parser;
mod request;
mod stats;
mod time;
mod upload;

use crate::redis::Redis;
use crate::redis::database::Database;
use crate::redis::events::Class;
use crate::redis::instance::Instance;
use crate::redis::isolation::Batch;
use crate::serve::Output;
use crate::serve::counters::{SAMPLE_EVERY, Tally};
use crate::serve::handle::Handle;
use crate::serve::memory;
use crate::serve::protocol::{Client, Ended, Listener, OUTPUT_BYTES_MAX, Peer, Protocol};
use crate::serve::upload::{BYTES_MIN, Upload};
use atoll_cache::{CacheError, Engine, Value};
use flags::Decoded;
use flush::Flush;
use gets::Ahead;
use parser::Parsed;
use request::{Asked, Id, NAMES, Request};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use upload::Arriving;

/// The version whose semantics these are.
const VERSION: &str = "1.6.18";
/// Requests parsed at a time: with their keys' buckets and records they fit into a first-level
/// cache.
const REQUESTS_MAX: usize = 16;
/// Memory of a new value that is kept for the next one.
const NEW_BYTES_KEPT: usize = 1 << 20;

/// The memcached protocol, as one server speaks it.
#[derive(Clone)]
pub struct Memcached(Arc<Inner>);

/// What the connections of one server have in common.
struct Inner {
    redis: Arc<Instance>,
    flush: Flush,
    connections: Mutex<BTreeMap<u64, Arc<Handle>>>,
}

impl Memcached {
    /// Over the keys of database 0 of `redis`, whether that is served or not.
    pub fn new(redis: &Redis) -> Self {
        let (redis, flush) = (redis.instance().clone(), Flush::default());
        Self(Arc::new(Inner { redis, flush, connections: Mutex::default() }))
    }
}

impl Inner {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Handle>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn database(&self) -> Database {
        self.redis.databases.get(0)
    }
}

/// A connection that speaks it.
pub struct State {
    handle: Arc<Handle>,
    /// Within a line of keys: what it asks for.
    rest: Option<Asked>,
    /// Bytes that are not read.
    swallow: usize,
    /// Bytes in which no line ends, of those that are there.
    scanned: usize,
    /// Bytes that the request has, at the least, of which a part has arrived.
    expected: usize,
    /// The request whose data is stored while it arrives.
    arriving: Option<Box<Arriving>>,
    /// Dropped with the connection.
    _listed: Listed,
}

/// A connection is among those of its server until this is dropped.
struct Listed(Arc<Inner>, u64);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.connections().remove(&self.1);
    }
}

/// Memory of a batch.
#[derive(Default)]
pub struct Scratch {
    /// Where lookups put what they find.
    value: Value,
    /// Where changes make new values.
    new: Vec<u8>,
    /// Memory for requests that have been parsed.
    requests: Ahead<'static>,
}

/// What a request has to run with.
struct Context<'a, G: Engine> {
    client: Client<'a, G>,
    batch: &'a Batch<'a>,
    inner: &'a Inner,
    database: Database,
    value: &'a mut Value,
    new: &'a mut Vec<u8>,
    /// The data of the request, if it was stored while it arrived.
    upload: Option<Upload>,
    output: &'a mut Output,
}

impl<G: Engine> Context<'_, G> {
    /// Appends a line to the reply, unless the peer wants none.
    fn say(&mut self, line: &str, noreply: bool) {
        if !noreply {
            self.output.push(line.as_bytes());
            self.output.push(b"\r\n");
        }
    }

    /// Tells the peers that listen for it what happened to a key, which is as the cache knows it.
    fn notify(&self, class: Class, event: &str, stored: &[u8]) {
        notify(self.inner, self.client, self.database, (class, event), stored);
    }

    /// Tells that a value was put, and before it whether the key is new.
    fn notify_put(&self, is_new: bool, event: &str, stored: &[u8]) {
        if is_new {
            self.notify(Class::NEW, "new", stored);
        }
        self.notify(Class::STRING, event, stored);
    }

    /// Tells that the expiry of a key was set, if it was, as a peer's number says it.
    fn notify_expiry(&self, exptime: Option<i32>, stored: &[u8]) {
        if let Some(exptime) = exptime {
            self.notify(Class::GENERIC, time::event(exptime), stored);
        }
    }

    /// Counts a command that did not find its key.
    fn missed(&self, id: Id) {
        self.client.tally.borrow_mut().missed[self.client.first_command + id as usize] += 1;
    }
}

/// Tells the peers that listen for it what happened to a key, which is as the cache knows it.
fn notify<G: Engine>(
    inner: &Inner,
    client: Client<'_, G>,
    database: Database,
    (class, event): (Class, &str),
    stored: &[u8],
) {
    if let Some(key) = database.key(stored) {
        inner.redis.notify(client.shared, class, event, key, 0);
    }
}

/// The key of a request, as the cache knows it.
fn stored(database: Database, key: &[u8], is_binary: bool) -> Cow<'_, [u8]> {
    match is_binary {
        false => database.stored(key),
        true => {
            let decoded: Decoded = flags::decode(key).expect("the parser has decoded it");
            Cow::Owned(database.stored(&decoded).into_owned())
        }
    }
}

/// The keys of requests, as the cache knows them.
#[cold]
fn keys_of<'a>(ahead: &[(Request<'a>, usize)], database: Database) -> Vec<Cow<'a, [u8]>> {
    let mut keys = Vec::new();
    for (request, _) in ahead {
        let (key, is_binary) = match request {
            Request::Get { keys: line, .. } => {
                keys.extend(request::words(line).map(|key| stored(database, key, false)));
                continue;
            }
            Request::Store(store) => (store.key, store.meta.as_ref().is_some_and(|flags| flags.is_binary)),
            Request::Delete { key, .. } | Request::Count { key, .. } | Request::Touch { key, .. } => (*key, false),
            Request::MetaGet { key, flags }
            | Request::MetaDelete { key, flags }
            | Request::MetaCount { key, flags } => (*key, flags.is_binary),
            Request::MetaDebug { key, is_binary } => (*key, *is_binary),
            Request::Refuse { forget: Some((key, is_binary)), .. } => (*key, *is_binary),
            Request::Refuse { forget: None, .. }
            | Request::FlushAll { .. }
            | Request::Stats { .. }
            | Request::Version
            | Request::Verbosity { .. }
            | Request::Quit
            | Request::MetaNoop => continue,
        };
        keys.push(stored(database, key, is_binary));
    }
    keys
}

/// The error of the cache as a line.
fn error_line(error: &CacheError) -> String {
    match error {
        CacheError::OutOfMemory => request::NO_ROOM.to_owned(),
        CacheError::ValueTooLarge { .. } => request::TOO_LARGE.to_owned(),
        error => format!("SERVER_ERROR {error}"),
    }
}

/// Counts a request that ended in this line, whether its peer is told or not.
#[cold]
fn count_error(tally: &mut Tally, line: &str) {
    tally.error(line.split(' ').next().unwrap_or_default());
    match line {
        request::TOO_LARGE => tally.stores_too_large += 1,
        request::NO_ROOM => tally.stores_without_room += 1,
        _ => {}
    }
}

/// Replies with an error of the cache.
#[cold]
fn fail<G: Engine>(client: Client<'_, G>, output: &mut Output, error: &CacheError) {
    let line = error_line(error);
    count_error(&mut client.tally.borrow_mut(), &line);
    output.push(line.as_bytes());
    output.push(b"\r\n");
}

/// Why no further request was parsed.
enum Stopped {
    /// These are enough.
    Enough,
    /// More must arrive: so many bytes of the request at least. In so many no line ends.
    Drained { expected: usize, scanned: usize },
    /// The bytes behind are no request.
    Invalid(Option<&'static str>),
}

/// Parses the next requests into `ahead`.
fn parse_ahead<'a>(
    state: &State,
    input: &'a [u8],
    mut start: usize,
    data_bytes_max: usize,
    ahead: &mut Ahead<'a>,
) -> Stopped {
    ahead.clear();
    let (mut scanned, mut rest) = (state.scanned, state.rest);
    while ahead.len() < REQUESTS_MAX {
        let bytes = &input[start..];
        match parser::parse(bytes, std::mem::take(&mut scanned), rest.take(), data_bytes_max) {
            Parsed::Request(request, taken) => {
                start += taken;
                ahead.push((request, start));
                // What is behind depends on this request.
                if matches!(request, Request::Quit | Request::Refuse { swallow: 1.., .. }) {
                    break;
                }
            }
            Parsed::Partial(expected) => {
                let scanned = if expected == bytes.len() + 1 { bytes.len() } else { 0 };
                let scanned = if memchr::memchr(b'\n', &bytes[..scanned]).is_some() { 0 } else { scanned };
                return Stopped::Drained { expected, scanned };
            }
            Parsed::Invalid(error) => return Stopped::Invalid(error),
        }
    }
    Stopped::Enough
}

impl Protocol for Memcached {
    type State = State;
    type Scratch = Scratch;

    fn commands() -> Vec<&'static str> {
        NAMES.to_vec()
    }

    fn too_many(_: Listener) -> &'static [u8] {
        b"ERROR Too many open connections\r\n"
    }

    fn connect(&self, handle: &Arc<Handle>) -> State {
        self.0.connections().insert(handle.id, handle.clone());
        let _listed = Listed(self.0.clone(), handle.id);
        State { handle: handle.clone(), rest: None, swallow: 0, scanned: 0, expected: 0, arriving: None, _listed }
    }

    fn refuses(&self, _: Listener, peer: Peer) -> Option<Cow<'static, [u8]>> {
        let why = b"ERROR This server serves the memcached protocol to its own host only (protected mode): it has no \
password. To serve other hosts, start it with --protected-mode no where everybody in the network may read and \
change the cache.\r\n";
        (!self.0.redis.is_open() && !peer.is_trusted()).then_some(Cow::Borrowed(why))
    }

    async fn tend<G: Engine>(&self, client: Client<'_, G>) {
        self.0.flush.tend(&self.0.redis, client).await;
    }

    #[inline]
    fn bytes_expected(state: &State) -> usize {
        state.arriving.as_ref().map_or(state.expected, |arriving| arriving.bytes_expected())
    }

    #[inline]
    async fn run<G: Engine>(
        &self,
        state: &mut State,
        scratch: &mut Scratch,
        client: Client<'_, G>,
        input: &[u8],
        start: &mut usize,
        output: &mut Output,
    ) -> Ended {
        let inner = &*self.0;
        let mut batch = inner.redis.isolation.enter(client.worker).await;
        let mut ahead = gets::emptied(std::mem::take(&mut scratch.requests));
        let ended =
            pin!(run_batch((inner, &mut batch), (state, scratch, &mut ahead), client, input, start, output)).await;
        scratch.requests = gets::emptied(ahead);
        inner.redis.tell_lost(client.cache, client.shared);
        ended
    }
}

#[inline]
async fn run_batch<'a, G: Engine>(
    (inner, batch): (&Inner, &mut Batch<'_>),
    (state, scratch, ahead): (&mut State, &mut Scratch, &mut Ahead<'a>),
    client: Client<'_, G>,
    input: &'a [u8],
    start: &mut usize,
    output: &mut Output,
) -> Ended {
    let data_bytes_max = client.cache.value_bytes_max();
    if state.arriving.is_some() {
        let memory = (&mut *state, &mut scratch.value, &mut scratch.new);
        let taken = Box::pin(upload::take((inner, batch), memory, client, input, start, output));
        if let Some(ended) = taken.await {
            return ended;
        }
    }
    loop {
        let skipped = state.swallow.min(input.len() - *start);
        (*start, state.swallow, state.expected) = (*start + skipped, state.swallow - skipped, 0);
        if state.swallow > 0 {
            return Ended::Drained;
        }
        let stopped = parse_ahead(state, input, *start, data_bytes_max, ahead);
        state.scanned = 0;
        let keys = gets::expected(ahead);
        if !keys.is_empty() {
            inner.database().with_stored(&keys, async |keys| client.cache.expect(keys).await).await;
        }
        let mut index = 0;
        while index < ahead.len() {
            // Whatever waits below lets others run, and SWAPDB is one of them.
            let database = inner.database();
            if inner.redis.isolation.has_locked_keys() {
                let keys = keys_of(&ahead[index..], database);
                let is_locked = inner.redis.isolation.is_locked(keys.iter());
                if is_locked && !output.is_empty() {
                    // The replies so far do not wait with it.
                    return Ended::Full;
                }
                if is_locked {
                    Box::pin(batch.until_unlocked(&keys)).await;
                    continue;
                }
            }
            let (request, end) = ahead[index];
            if let Request::Get { .. } = request {
                let with =
                    gets::With { inner, batch: &mut *batch, state: &mut *state, value: &mut scratch.value, database };
                index += pin!(gets::run(with, (&*ahead, index), client, input, start, output)).await;
            } else {
                let Scratch { value, new, .. } = &mut *scratch;
                let (batch, output) = (&*batch, &mut *output);
                let context = Context { client, batch, inner, database, value, new, upload: None, output };
                batch.passing(pin!(run_one(context, request))).await;
                if let Request::Refuse { swallow, .. } = request {
                    state.swallow = swallow;
                }
                (*start, index) = (end, index + 1);
            }
            if matches!(request, Request::Quit) || state.handle.is_ending() {
                return Ended::Closing;
            }
            let is_over = ahead.len() > 1 && batch.has_had_its_turn(client.cache.engine());
            if output.len() >= OUTPUT_BYTES_MAX || is_over || state.rest.is_some() {
                return Ended::Full;
            }
        }
        match stopped {
            Stopped::Enough => {}
            Stopped::Drained { expected, .. }
                if expected >= BYTES_MIN
                    && let Some(head) = upload::begin(inner, state, client, &input[*start..]) =>
            {
                *start += head;
                return Ended::Full;
            }
            Stopped::Drained { expected, scanned } => {
                (state.expected, state.scanned) = (expected, scanned);
                return Ended::Drained;
            }
            Stopped::Invalid(error) => {
                if let Some(error) = error {
                    client.tally.borrow_mut().error("CLIENT_ERROR");
                    output.push(error.as_bytes());
                    output.push(b"\r\n");
                }
                return Ended::Closing;
            }
        }
    }
}

/// The command that a request is.
fn id(request: &Request<'_>) -> Id {
    match request {
        Request::Get { asked, .. } => asked.id(),
        Request::Store(store) => store.id,
        Request::Delete { .. } => Id::Delete,
        Request::Count { down, .. } => [Id::Incr, Id::Decr][usize::from(*down)],
        Request::Touch { .. } => Id::Touch,
        Request::FlushAll { .. } => Id::FlushAll,
        Request::Stats { .. } => Id::Stats,
        Request::Version => Id::Version,
        Request::Verbosity { .. } => Id::Verbosity,
        Request::Quit => Id::Quit,
        Request::MetaGet { .. } => Id::MetaGet,
        Request::MetaDelete { .. } => Id::MetaDelete,
        Request::MetaCount { .. } => Id::MetaArithmetic,
        Request::MetaNoop => Id::MetaNoop,
        Request::MetaDebug { .. } => Id::MetaDebug,
        Request::Refuse { .. } => Id::Refused,
    }
}

/// Runs one request and counts it.
#[inline]
async fn run_one<G: Engine>(mut context: Context<'_, G>, request: Request<'_>) {
    let client = context.client;
    let place = client.first_command + id(&request) as usize;
    let began = {
        let mut tally = client.tally.borrow_mut();
        tally.calls[place] += 1;
        tally.begin()
    };
    let done = pin!(call(&mut context, request)).await;
    memory::shrink_beyond(context.value, NEW_BYTES_KEPT);
    context.new.clear();
    context.new.shrink_to(NEW_BYTES_KEPT);
    if let Err((error, noreply)) = done {
        client.tally.borrow_mut().failed[place] += 1;
        match noreply {
            true => count_error(&mut client.tally.borrow_mut(), &error_line(&error)),
            false => fail(client, context.output, &error),
        }
    }
    if let Some(began) = began {
        client.tally.borrow_mut().timed(place, began.elapsed(), SAMPLE_EVERY);
    }
}

/// An error of the cache, and whether the peer is not told.
type Failed = (CacheError, bool);

async fn call<G: Engine>(c: &mut Context<'_, G>, request: Request<'_>) -> Result<(), Failed> {
    match request {
        Request::Get { .. } => unreachable!("these are looked up together"),
        Request::Store(store) if store.meta.is_some() => {
            pin!(meta::store(c, &store)).await.map_err(|error| (error, false))
        }
        Request::Store(store) => pin!(classic::set(c, &store)).await.map_err(|error| (error, store.noreply)),
        Request::Delete { key, noreply } => {
            pin!(classic::delete(c, key, noreply)).await.map_err(|error| (error, noreply))
        }
        Request::Count { key, by, down, noreply } => {
            pin!(classic::count(c, key, (by, down), noreply)).await.map_err(|error| (error, noreply))
        }
        Request::Touch { key, exptime, noreply } => {
            pin!(classic::touch(c, key, exptime, noreply)).await.map_err(|error| (error, noreply))
        }
        Request::FlushAll { exptime, noreply } => {
            let flushed = pin!(c.inner.flush.request(&c.inner.redis, exptime, c.batch, c.client)).await;
            flushed.map_err(|error| (error, noreply))?;
            c.say("OK", noreply);
            Ok(())
        }
        Request::Stats { what } => pin!(stats::run(c, what)).await.map_err(|error| (error, false)),
        Request::Version => {
            c.say(&format!("VERSION {VERSION}"), false);
            Ok(())
        }
        Request::Verbosity { noreply } => {
            c.say("OK", noreply);
            Ok(())
        }
        Request::Quit => Ok(()),
        Request::MetaGet { key, flags } => pin!(meta::get(c, key, &flags)).await.map_err(|error| (error, false)),
        Request::MetaDelete { key, flags } => pin!(meta::delete(c, key, &flags)).await.map_err(|error| (error, false)),
        Request::MetaCount { key, flags } => pin!(meta::count(c, key, &flags)).await.map_err(|error| (error, false)),
        Request::MetaNoop => {
            c.say("MN", false);
            Ok(())
        }
        Request::MetaDebug { key, is_binary } => {
            pin!(meta::debug(c, key, is_binary)).await.map_err(|error| (error, false))
        }
        Request::Refuse { error, noreply, forget, .. } => {
            if let Some((key, is_binary)) = forget {
                let key = stored(c.database, key, is_binary);
                c.client.cache.delete(&key).await.map_err(|error| (error, noreply))?;
            }
            count_error(&mut c.client.tally.borrow_mut(), error);
            c.say(error, noreply);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisOptions;

    #[test]
    fn values_that_are_not_stored_are_counted_by_the_reason() {
        let mut tally = Tally::new(0);
        count_error(&mut tally, &error_line(&CacheError::OutOfMemory));
        (0..2).for_each(|_| count_error(&mut tally, request::TOO_LARGE));
        count_error(&mut tally, "CLIENT_ERROR bad data chunk");
        assert_eq!((tally.stores_without_room, tally.stores_too_large, tally.errors), (1, 2, 4));
        assert_eq!(tally.errors_by_code["SERVER_ERROR"], 3);
    }

    #[test]
    fn peers_on_other_hosts_are_refused_unless_the_server_is_open() {
        for (password, is_open) in [(None, false), (Some(b"secret".to_vec()), false), (None, true)] {
            let memcached = Memcached::new(&Redis::new(RedisOptions { password, is_open }));
            let refuses = |address: &str| {
                let peer = Peer::Tcp(address.parse().unwrap());
                memcached.refuses(Listener::Second, peer).is_some_and(|why| why.starts_with(b"ERROR "))
            };
            assert_eq!((refuses("192.0.2.1"), refuses("2001:db8::1")), (!is_open, !is_open));
            assert!(!refuses("127.0.0.1") && !refuses("::1") && !refuses("::ffff:127.0.0.1"));
        }
    }
}
