//! Commands on all keys.
//!
//! The cache may evict keys at any time. SCAN shows every key that is present throughout. DBSIZE
//! counts expired keys until a client finds them. A flush has ended when its reply is sent, with or
//! without ASYNC.

use super::arguments::is;
use super::{CommandError, Context, Outcome};
use crate::redis::glob;
use atoll_cache::Engine;
use atoll_cache::cache::parse_integer;

/// Keys that one step of KEYS reads.
const KEYS_STEP: usize = 1000;
/// The most keys that one SCAN reads: more would keep other connections waiting.
const SCAN_COUNT_MAX: usize = 1 << 20;

/// `DBSIZE`
pub async fn dbsize<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let objects = c.cache.objects().await?;
    c.reply.integer(objects as i64);
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]` and `FLUSHDB [ASYNC | SYNC]`
pub async fn flush<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match c.args.len() {
        1 => {}
        2 if is(c.args.get(1), "async") || is(c.args.get(1), "sync") => {}
        _ => return Err(CommandError::Syntax),
    }
    c.cache.flush().await?;
    c.reply.ok();
    Ok(())
}

/// `RANDOMKEY`
pub async fn randomkey<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match c.cache.random_key().await? {
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

    fn reply<G: Engine>(&self, c: &mut Context<'_, G>) {
        c.reply.array(self.ends.len());
        let mut start = 0;
        for &end in &self.ends {
            c.reply.bulk(&self.bytes[start..end]);
            start = end;
        }
    }
}

/// `KEYS pattern`
pub async fn keys<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let pattern = c.args.get(1);
    let (mut found, mut cursor) = (Found::default(), 0);
    loop {
        let each = |key: &[u8]| {
            if glob::matches(pattern, key) {
                found.push(key);
            }
        };
        cursor = c.cache.scan(cursor, KEYS_STEP, each).await?;
        if cursor == 0 {
            break;
        }
    }
    found.reply(c);
    Ok(())
}

/// A cursor as Redis takes it, which is with `strtoul`: -1 is the largest.
fn cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub async fn scan<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let cursor = cursor(c.args.get(1)).ok_or("ERR invalid cursor")?;
    let (mut pattern, mut count, mut strings) = (&b"*"[..], 10, true);
    let mut rest = c.args.from(2);
    while let Some(word) = rest.next() {
        let Some(option) = rest.next() else { return Err(CommandError::Syntax) };
        match () {
            () if is(word, "match") => pattern = option,
            () if is(word, "type") => strings = is(option, "string"),
            () if is(word, "count") => match parse_integer(option) {
                None => return Err(CommandError::NotAnInteger),
                Some(number) if number < 1 => return Err(CommandError::Syntax),
                Some(number) => count = usize::try_from(number).unwrap_or(usize::MAX).min(SCAN_COUNT_MAX),
            },
            () => return Err(CommandError::Syntax),
        }
    }
    let mut found = Found::default();
    let each = |key: &[u8]| {
        if strings && glob::matches(pattern, key) {
            found.push(key);
        }
    };
    let next = c.cache.scan(cursor, count, each).await?;
    c.reply.array(2);
    c.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    found.reply(c);
    Ok(())
}
