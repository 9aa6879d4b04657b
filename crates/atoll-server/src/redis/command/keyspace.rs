//! Commands on all keys.
//!
//! The cache may evict keys at any time. SCAN shows every key that is present throughout. A SCAN
//! that asks for some keys reads so many of all databases. DBSIZE counts the keys one by one. If
//! there are more than ten thousand, and a sample finds none of another database, it says how many
//! keys there are in all.
//!
//! A flush has ended when its reply is sent, with or without ASYNC. It is no single step: other
//! connections run in between, unless it is within a transaction or a script. Keys that they set
//! meanwhile may be removed or stay.

use super::arguments::{integer, is};
use super::{CommandError, Context, Outcome};
use crate::redis::census;
use crate::redis::database::{DATABASES, Database};
use crate::redis::glob;
use crate::redis::isolation::Turn;
use crate::redis::kind::Kind;
use atoll_cache::cache::parse_integer;
use atoll_cache::{Cache, CacheError, Engine};

/// Keys that one step reads of a command that reads all: in less than a [`Turn`] where memory is
/// near, with what the command does with them.
const STEP: usize = 256;
/// How often RANDOMKEY looks for a key of its database among all keys.
const RANDOM_TRIES: usize = 64;
/// The most keys that one SCAN reads: more would keep other connections waiting.
const SCAN_COUNT_MAX: usize = 1 << 20;

/// `DBSIZE`
pub async fn dbsize<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (database, mut keys) = (c.database(), 0);
    if let Some(keys) = census::all_of_large(c.cache, database, c.turn()).await? {
        c.reply.count(keys as usize);
        return Ok(());
    }
    each_key(c, |stored| keys += usize::from(database.key(stored).is_some())).await?;
    c.reply.count(keys);
    Ok(())
}

/// Goes through all keys in steps, each of which returns where the next one begins. Other
/// connections run between steps, unless the command runs alone.
async fn in_steps(
    mut turn: Turn<'_>,
    mut step: impl AsyncFnMut(u64) -> Result<u64, CacheError>,
) -> Result<(), CacheError> {
    let mut cursor = 0;
    loop {
        cursor = step(cursor).await?;
        if cursor == 0 {
            return Ok(());
        }
        turn.yield_if_over().await;
    }
}

/// Shows every stored key of all databases.
async fn each_key<G: Engine>(c: &Context<'_, G>, mut each: impl FnMut(&[u8])) -> Result<(), CommandError> {
    Ok(in_steps(c.turn(), async |cursor| c.cache.scan(cursor, STEP, &mut each).await).await?)
}

fn flush_options<G: Engine>(c: &Context<'_, G>) -> Outcome {
    match c.args.len() {
        1 => Ok(()),
        2 if is(c.args.get(1), "async") || is(c.args.get(1), "sync") => Ok(()),
        _ => Err(CommandError::Syntax),
    }
}

/// `FLUSHALL [ASYNC | SYNC]`
pub async fn flushall<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    flush_options(c)?;
    c.turn().until_all_unlocked().await;
    in_steps(c.turn(), async |cursor| Ok(c.cache.flush_from(cursor).await?.next)).await?;
    c.instance.tell_all_changed(c.shared);
    c.reply.ok();
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`
pub async fn flushdb<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    flush_options(c)?;
    flush(c.cache, c.database(), c.turn()).await?;
    c.instance.tell_all_changed(c.shared);
    c.reply.ok();
    Ok(())
}

/// Removes every key that is in this database when it begins.
pub(crate) async fn flush<G: Engine>(cache: &Cache<G>, database: Database, turn: Turn<'_>) -> Result<(), CacheError> {
    turn.until_all_unlocked().await;
    in_steps(turn, async |cursor| {
        let mut found = Found::default();
        let each = |stored: &[u8]| {
            if database.key(stored).is_some() {
                found.push(stored);
            }
        };
        let next = cache.scan(cursor, STEP, each).await?;
        for stored in found.keys() {
            cache.delete(stored).await?;
        }
        Ok(next)
    })
    .await
}

/// A number as that of a database.
fn present(number: i64) -> Result<u8, CommandError> {
    u8::try_from(number).ok().filter(|number| *number < DATABASES).ok_or_else(|| "ERR DB index is out of range".into())
}

/// The number of a database, as an argument has it.
pub(super) fn database_number(arg: &[u8]) -> Result<u8, CommandError> {
    let number = integer(arg)?;
    match i32::try_from(number) {
        Ok(_) => present(number),
        Err(_) => Err("ERR value is out of range, value must between -2147483648 and 2147483647".into()),
    }
}

/// `SWAPDB database database`
pub async fn swapdb<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let number = |index| parse_integer(c.args.get(index)).filter(|number| i32::try_from(*number).is_ok());
    let one = number(1).ok_or("ERR invalid first DB index")?;
    let other = number(2).ok_or("ERR invalid second DB index")?;
    c.instance.databases.swap(present(one)?, present(other)?);
    c.instance.tell_all_changed(c.shared);
    c.reply.ok();
    Ok(())
}

/// `RANDOMKEY`
pub async fn randomkey<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let database = c.database();
    for _ in 0..RANDOM_TRIES {
        let Some(stored) = c.cache.random_key().await? else { break };
        if let Some(key) = database.key(&stored) {
            c.reply.bulk(key);
            return Ok(());
        }
    }
    // The database has few keys of all, or none.
    let mut some = None;
    each_key(c, |stored| some = some.take().or_else(|| database.key(stored).map(<[u8]>::to_vec))).await?;
    match some {
        Some(key) => c.reply.bulk(&key),
        None => c.reply.null(),
    }
    Ok(())
}

/// Keys one behind another, until their number is known.
#[derive(Default)]
struct Found {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Found {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    fn reply<G: Engine>(&self, c: &mut Context<'_, G>) {
        c.reply.array(self.ends.len());
        self.keys().for_each(|key| c.reply.bulk(key));
    }
}

/// `KEYS pattern`
pub async fn keys<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (pattern, database, mut found) = (c.args.get(1), c.database(), Found::default());
    let each = |stored: &[u8]| {
        if let Some(key) = database.key(stored).filter(|key| glob::matches(pattern, key)) {
            found.push(key);
        }
    };
    each_key(c, each).await?;
    found.reply(c);
    Ok(())
}

/// A cursor as Redis takes it, which is with `strtoul`: -1 is the largest.
pub(super) fn cursor(text: &[u8]) -> Result<u64, CommandError> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        // As in Redis no number is the beginning.
        [] => return Ok(0),
        rest => (false, rest),
    };
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number).and_then(|digits| digits.parse::<u64>().ok());
    let number = number.ok_or("ERR invalid cursor")?;
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// What the options of SCAN and HSCAN say.
#[derive(Clone, Copy)]
pub(super) struct ScanOptions<'a> {
    pub(super) pattern: &'a [u8],
    count: usize,
    /// The name of a kind, which SCAN alone takes.
    kind: Option<&'a [u8]>,
    /// Whether fields are wanted without their values, which HSCAN alone takes.
    pub(super) no_values: bool,
}

impl Default for ScanOptions<'_> {
    fn default() -> Self {
        Self { pattern: b"*", count: 10, kind: None, no_values: false }
    }
}

/// Reads the options from argument `index` on.
pub(super) fn scan_options<'a, G: Engine>(
    c: &Context<'a, G>,
    index: usize,
    takes_kind: bool,
) -> Result<ScanOptions<'a>, CommandError> {
    let (mut options, mut rest) = (ScanOptions::default(), c.args.from(index));
    while let Some(word) = rest.next() {
        if !takes_kind && is(word, "novalues") {
            options.no_values = true;
            continue;
        }
        let Some(option) = rest.next() else { return Err(CommandError::Syntax) };
        match () {
            () if is(word, "match") => options.pattern = option,
            () if takes_kind && is(word, "type") => options.kind = Some(option),
            () if is(word, "count") => match parse_integer(option) {
                None => return Err(CommandError::NotAnInteger),
                Some(number) if number < 1 => return Err(CommandError::Syntax),
                Some(number) => options.count = usize::try_from(number).unwrap_or(usize::MAX).min(SCAN_COUNT_MAX),
            },
            () => return Err(CommandError::Syntax),
        }
    }
    Ok(options)
}

/// Shows so many keys from a cursor on, or some more. Returns where to go on. Other connections run
/// in between.
async fn scan_from<G: Engine>(
    c: &Context<'_, G>,
    mut cursor: u64,
    count: usize,
    mut each: impl FnMut(&[u8]),
) -> Result<u64, CacheError> {
    let (mut turn, mut left) = (c.turn(), count);
    loop {
        let step = left.min(STEP);
        cursor = c.cache.scan(cursor, step, &mut each).await?;
        left -= step;
        if cursor == 0 || left == 0 {
            return Ok(cursor);
        }
        turn.yield_if_over().await;
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub async fn scan<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let cursor = cursor(c.args.get(1))?;
    let options = scan_options(c, 2, true)?;
    let (database, mut found) = (c.database(), Found::default());
    let each = |stored: &[u8]| {
        if let Some(key) = database.key(stored).filter(|key| glob::matches(options.pattern, key)) {
            found.push(key);
        }
    };
    let next = scan_from(c, cursor, options.count, each).await?;
    if let Some(kind) = options.kind {
        found = of_kind(c, &found, kind).await?;
    }
    c.reply.array(2);
    c.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    found.reply(c);
    Ok(())
}

/// Those of the keys whose values are of a kind with this name. Other connections run in between.
async fn of_kind<G: Engine>(c: &Context<'_, G>, found: &Found, name: &[u8]) -> Result<Found, CommandError> {
    let (database, mut right, mut turn) = (c.database(), Found::default(), c.turn());
    for key in found.keys() {
        let meta = c.cache.peek(&database.stored(key)).await?;
        c.looked(key, meta.is_some());
        if meta.is_some_and(|meta| is(name, Kind::of(meta).name())) {
            right.push(key);
        }
        turn.yield_if_over().await;
    }
    Ok(right)
}
