//! The meta commands. A reply repeats what the flags ask for, in their order.

use super::change::{Altered, Edit, STALE, WON, if_item, is_item};
use super::classic::{self, NOT_A_NUMBER, StoreOutcome, alter};
use super::flags::Flags;
use super::request::{Id, Store, words};
use super::time::{expiry, left_s};
use super::{Context, stored};
use crate::redis::events::Class;
use crate::serve::Output;
use atoll_cache::{Accesses, Attributes, CacheError, Condition, Engine, Expiry, Meta, SetOptions};
use std::pin::pin;

fn push_number(output: &mut Output, letter: u8, number: impl itoa::Integer) {
    output.push(&[b' ', letter]);
    output.push(itoa::Buffer::new().format(number).as_bytes());
}

/// Repeats the key or the opaque token, if the word asks for that.
fn push_repeated(output: &mut Output, word: &[u8], key: &[u8], flags: &Flags<'_>) {
    match word[0] {
        b'O' => {
            output.push(b" ");
            output.push(word);
        }
        b'k' => {
            output.push(b" k");
            output.push(key);
            if flags.is_binary {
                output.push(b" b");
            }
        }
        _ => {}
    }
}

/// A reply of a status, and what the flags have repeated.
fn push_status(output: &mut Output, status: &str, key: &[u8], flags: &Flags<'_>) {
    output.push(status.as_bytes());
    words(flags.words).for_each(|word| push_repeated(output, word, key, flags));
    output.push(b"\r\n");
}

/// When an item expires, as the flags up to some word have it.
fn step(word: &[u8], flags: &Flags<'_>, is_new: bool, now_ms: u64, expiry_ms: Option<u64>) -> Option<u64> {
    let exptime = match word[0] {
        b'T' => flags.ttl,
        b'N' if is_new => flags.vivify,
        _ => None,
    };
    exptime.map_or(expiry_ms, |exptime| expiry(exptime).at_ms(now_ms, None))
}

/// `mg key flags...`
///
/// A client that is to fill the item wins: the first one that finds it stale, that finds less than
/// `R` seconds left, or for which `N` makes it. The mark that others read is set under the token
/// that was found, so that one client wins.
pub(super) async fn get<G: Engine>(c: &mut Context<'_, G>, key: &[u8], flags: &Flags<'_>) -> Result<(), CacheError> {
    let (key_of_cache, cache) = (stored(c.database, key, flags.is_binary), c.client.cache);
    let needs_clock = flags.left || flags.recache.is_some();
    let now_ms = if needs_clock { cache.now_ms().await? } else { 0 };
    // Before this request counts as one.
    let accesses = if flags.accesses { cache.accesses(&key_of_cache).await? } else { None };
    let (mut meta, is_new, is_won) = loop {
        let is_there = match flags.ttl {
            Some(ttl) => if_item(cache.get_and_expire(&key_of_cache, expiry(ttl), c.value).await)?,
            None => cache.get(&key_of_cache, c.value).await?,
        };
        if !is_there && let Some(exptime) = flags.vivify {
            let attributes = Attributes { kind: WON, flags: 0 };
            let options = SetOptions { condition: Condition::IfAbsent, expiry: new_expiry(flags, exptime), attributes };
            let outcome = cache.set(&key_of_cache, b"", &options).await?;
            if outcome.stored {
                c.notify_put(true, "set", &key_of_cache);
                break (Meta { token: outcome.token, ..Meta::default() }, true, true);
            }
            if cache.peek(&key_of_cache).await?.is_none_or(|meta| is_item(&meta)) {
                // Another client has made it.
                continue;
            }
        }
        if !is_there || !is_item(&c.value.meta()) {
            c.missed(Id::MetaGet);
            c.client.tally.borrow_mut().looked(false);
            if !flags.quiet {
                push_status(c.output, "EN", key, flags);
            }
            return Ok(());
        }
        let mut meta = c.value.meta();
        if !wins(&meta, flags, now_ms) {
            break (meta, false, false);
        }
        let (altered, token) = pin!(alter(c, &key_of_cache, Edit::Win, Some(meta.token))).await?;
        if altered.outcome == Altered::Done {
            meta.token = token;
            break (meta, false, true);
        }
    };
    c.client.tally.borrow_mut().looked(!is_new);
    c.notify_expiry(if is_new { flags.vivify.filter(|exptime| *exptime != 0) } else { flags.ttl }, &key_of_cache);
    c.output.push(if flags.value { b"VA " } else { b"HD" });
    if flags.value {
        c.output.push(itoa::Buffer::new().format(meta.value_bytes).as_bytes());
    }
    for word in words(flags.words) {
        let output = &mut *c.output;
        meta.expiry_ms = step(word, flags, is_new, now_ms, meta.expiry_ms);
        match word[0] {
            b's' => push_number(output, b's', meta.value_bytes),
            b't' => push_number(output, b't', left_s(meta.expiry_ms, now_ms)),
            b'c' => push_number(output, b'c', meta.token),
            b'f' => push_number(output, b'f', meta.attributes.flags),
            b'h' => push_number(output, b'h', u8::from(accesses.is_some_and(|accesses| accesses.hits > 0))),
            b'l' => push_number(output, b'l', if is_new { 0 } else { idle_s(accesses) }),
            _ => push_repeated(output, word, key, flags),
        }
    }
    for (is_set, mark) in
        [(meta.attributes.kind & WON != 0, b" Z"), (meta.attributes.kind & STALE != 0, b" X"), (is_won, b" W")]
    {
        if is_set {
            c.output.push(mark);
        }
    }
    c.output.push(b"\r\n");
    if flags.value {
        if !is_new {
            c.output.push_value(c.value);
        }
        c.output.push(b"\r\n");
    }
    Ok(())
}

/// Seconds since the last access; -1 if the engine notes no times.
fn idle_s(accesses: Option<Accesses>) -> i64 {
    accesses.and_then(|accesses| accesses.idle_ms).map_or(-1, |ms| (ms / 1000) as i64)
}

/// When an item expires that is made: the last of `N` and `T` says it.
fn new_expiry(flags: &Flags<'_>, vivify: i32) -> Expiry {
    let last = words(flags.words).filter_map(|word| match word[0] {
        b'T' => flags.ttl,
        b'N' => Some(vivify),
        _ => None,
    });
    expiry(last.last().unwrap_or(vivify))
}

/// Whether the client that has found an item is to fill it.
fn wins(meta: &Meta, flags: &Flags<'_>, now_ms: u64) -> bool {
    let kind = meta.attributes.kind;
    let (mut expiry_ms, mut is_late) = (meta.expiry_ms, false);
    for word in words(flags.words) {
        expiry_ms = step(word, flags, false, now_ms, expiry_ms);
        if let (b'R', Some(recache), Some(ms)) = (word[0], flags.recache, expiry_ms) {
            // In seconds, as `t` shows them.
            let limit_ms = expiry(recache).at_ms(now_ms, None);
            is_late = limit_ms.is_some() && left_s(Some(ms), now_ms) < left_s(limit_ms, now_ms);
        }
    }
    kind & WON == 0 && (is_late || kind & STALE != 0)
}

/// `ms key bytes flags...`
pub(super) async fn store<G: Engine>(c: &mut Context<'_, G>, request: &Store<'_>) -> Result<(), CacheError> {
    let Some(flags) = request.meta else { return Ok(()) };
    let done = pin!(classic::store(c, request)).await?;
    let (status, token) = match done {
        StoreOutcome::Stored(token) => ("HD", token),
        StoreOutcome::NotStored => ("NS", 0),
        StoreOutcome::Exists => ("EX", 0),
        StoreOutcome::NotFound => ("NF", 0),
    };
    if flags.quiet && status == "HD" {
        return Ok(());
    }
    c.output.push(status.as_bytes());
    for word in words(flags.words) {
        match word[0] {
            b'c' => push_number(c.output, b'c', token),
            _ => push_repeated(c.output, word, request.key, &flags),
        }
    }
    c.output.push(b"\r\n");
    Ok(())
}

/// `md key flags...`
pub(super) async fn delete<G: Engine>(c: &mut Context<'_, G>, key: &[u8], flags: &Flags<'_>) -> Result<(), CacheError> {
    let key_of_cache = stored(c.database, key, flags.is_binary);
    let outcome = match (flags.invalidates, flags.cas) {
        (false, None) => match c.client.cache.delete(&key_of_cache).await? {
            true => Altered::Done,
            false => Altered::Absent,
        },
        (false, cas) => pin!(alter(c, &key_of_cache, Edit::Remove, cas)).await?.0.outcome,
        (true, cas) => {
            let edit = Edit::Invalidate { expiry: flags.ttl.map(expiry) };
            pin!(alter(c, &key_of_cache, edit, cas)).await?.0.outcome
        }
    };
    let status = match outcome {
        Altered::Done if !flags.invalidates => {
            c.notify(Class::GENERIC, "del", &key_of_cache);
            "HD"
        }
        Altered::Done => {
            c.notify_expiry(flags.ttl, &key_of_cache);
            "HD"
        }
        Altered::Exists => "EX",
        _ => "NF",
    };
    if status != "HD" {
        c.missed(Id::MetaDelete);
    }
    if !(flags.quiet && status == "HD") {
        push_status(c.output, status, key, flags);
    }
    Ok(())
}

/// `ma key flags...`
pub(super) async fn count<G: Engine>(c: &mut Context<'_, G>, key: &[u8], flags: &Flags<'_>) -> Result<(), CacheError> {
    let (key_of_cache, cache) = (stored(c.database, key, flags.is_binary), c.client.cache);
    let now_ms = if flags.left { cache.now_ms().await? } else { 0 };
    let down = matches!(flags.mode, b'D' | b'-');
    let mut digits = itoa::Buffer::new();
    let (number, mut expiry_ms, token, is_new) = loop {
        let edit = Edit::Count { by: flags.delta, down, expiry: flags.ttl.map(expiry) };
        let (altered, token) = pin!(alter(c, &key_of_cache, edit, flags.cas)).await?;
        let status = match altered.outcome {
            Altered::Done => break (altered.number, altered.old.expiry_ms, token, false),
            Altered::NotANumber => {
                c.client.tally.borrow_mut().error("CLIENT_ERROR");
                c.say(NOT_A_NUMBER, false);
                return Ok(());
            }
            Altered::Exists => "EX",
            _ => "NF",
        };
        if let (Altered::Absent, Some(exptime)) = (altered.outcome, flags.vivify)
            && cache.peek(&key_of_cache).await?.is_none_or(|meta| is_item(&meta))
        {
            let expiry = new_expiry(flags, exptime);
            let options = SetOptions { condition: Condition::IfAbsent, expiry, ..SetOptions::default() };
            let outcome = cache.set(&key_of_cache, digits.format(flags.initial).as_bytes(), &options).await?;
            if outcome.stored {
                break (flags.initial, None, outcome.token, true);
            }
            // Another client has made it.
            continue;
        }
        c.missed(Id::MetaArithmetic);
        push_status(c.output, status, key, flags);
        return Ok(());
    };
    match is_new {
        true => c.notify_put(true, "set", &key_of_cache),
        false => c.notify(Class::STRING, if down { "decrby" } else { "incrby" }, &key_of_cache),
    }
    c.notify_expiry(if is_new { flags.vivify } else { flags.ttl }.filter(|exptime| *exptime != 0), &key_of_cache);
    // As in memcached: who makes the item is told.
    if flags.quiet && !is_new {
        return Ok(());
    }
    let number = digits.format(number);
    c.output.push(if flags.value { b"VA " } else { b"HD" });
    if flags.value {
        c.output.push(itoa::Buffer::new().format(number.len()).as_bytes());
    }
    for word in words(flags.words) {
        expiry_ms = step(word, flags, is_new, now_ms, expiry_ms);
        match word[0] {
            b't' => push_number(c.output, b't', left_s(expiry_ms, now_ms)),
            b'c' => push_number(c.output, b'c', token),
            _ => push_repeated(c.output, word, key, flags),
        }
    }
    c.output.push(b"\r\n");
    if flags.value {
        c.say(number, false);
    }
    Ok(())
}

/// `me key [b]`: what is known of an item. `exp` is how far its expiry lies in the past, so it is
/// negative, as in memcached; -1 without one.
pub(super) async fn debug<G: Engine>(c: &mut Context<'_, G>, key: &[u8], is_binary: bool) -> Result<(), CacheError> {
    let cache = c.client.cache;
    let Some(meta) = cache.peek(&stored(c.database, key, is_binary)).await?.filter(is_item) else {
        c.say("EN", false);
        return Ok(());
    };
    let left = left_s(meta.expiry_ms, cache.now_ms().await?);
    let exp = if meta.expiry_ms.is_none() { left } else { -left };
    c.output.push(b"ME ");
    c.output.push(key);
    let size = key.len() + meta.value_bytes;
    c.say(&format!(" exp={exp} cas={} size={size}", meta.token), false);
    Ok(())
}
