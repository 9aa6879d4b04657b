//! Commands on whole values.
//!
//! Differences from Redis: MSET is not one atomic step. Another client may see some of the keys set
//! and others not yet. MSETNX is one step for the clients of this server. For other processes of
//! the pool it first checks whether any key is present, and then sets each key. A SET with an
//! expiry in the past removes the key at once.

use super::arguments::{Unit, integer, is};
use super::{CommandError, Context, Outcome, at_once};
use crate::redis::events::Class;
use crate::redis::kind::Kind;
use crate::serve::memory;
use atoll_cache::{CacheError, Condition, Engine, Expiry, Got, KEY_BYTES_MAX, SetOptions, SetOutcome, Value};
use std::cell::Cell;

/// `GET key`
#[inline]
pub async fn get<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match c.look_or_open(1, Kind::STRING).await? {
        Got::Absent => c.reply.null(),
        Got::Value => c.reply.value(c.value),
        Got::Open(reading) => c.reply.open(reading),
    }
    Ok(())
}

/// `MGET key...`: nothing for a value that is no string.
pub async fn mget<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    // A reply has no way back once its head stands: a key that cannot be looked up cannot be there.
    let stored = c.keys(1);
    let keys: Vec<&[u8]> = stored.iter().map(|key| &**key).collect();
    c.reply.array(keys.len());
    let (mut replied, mut found, mut missed) = (0, 0, Vec::new());
    let mut turn = c.turn();
    while replied < keys.len() {
        let keys = &keys[replied..keys.len().min(replied + MGET_STEP)];
        let usable = keys.iter().take_while(|key| key.len() <= KEY_BYTES_MAX).count();
        let reply = &mut c.reply;
        let looked = c.cache.get_many(&keys[..usable], |_, value| {
            replied += 1;
            found += u64::from(value.is_some());
            match value {
                Some(value) if Kind::of(value.meta()) == Kind::STRING => reply.value(value),
                Some(_) => reply.null(),
                None => {
                    missed.push(replied);
                    reply.null();
                }
            }
        });
        if looked.await.is_err() || usable == 0 {
            c.reply.null();
            replied += 1;
        }
        turn.yield_if_over().await;
    }
    c.tally.borrow_mut().keys_found += found;
    missed.into_iter().for_each(|index| c.looked(c.args.get(index), false));
    Ok(())
}

/// Keys that MGET looks up before other connections run.
const MGET_STEP: usize = 512;

/// What the options of SET and GETEX say.
#[derive(Default)]
struct Parsed<'a> {
    absent: bool,
    present: bool,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    expiry: Option<(Unit, &'a [u8])>,
}

/// Reads the options from argument `index` on; `set` says whether they are SET's or GETEX's.
fn options<'a, G: Engine>(c: &Context<'a, G>, index: usize, set: bool) -> Result<Parsed<'a>, CommandError> {
    let mut parsed = Parsed::default();
    let mut rest = c.args.from(index);
    while let Some(word) = rest.next() {
        let unit = match () {
            () if is(word, "ex") => Some(Unit::EX),
            () if is(word, "px") => Some(Unit::PX),
            () if is(word, "exat") => Some(Unit::EXAT),
            () if is(word, "pxat") => Some(Unit::PXAT),
            () => None,
        };
        match unit {
            Some(unit)
                if !parsed.keep_ttl && !parsed.persist && parsed.expiry.is_none_or(|(other, _)| other == unit) =>
            {
                parsed.expiry = Some((unit, rest.next().ok_or(CommandError::Syntax)?));
            }
            None if set && is(word, "nx") && !parsed.present => parsed.absent = true,
            None if set && is(word, "xx") && !parsed.absent => parsed.present = true,
            None if set && is(word, "get") => parsed.get = true,
            None if set && is(word, "keepttl") && parsed.expiry.is_none() => parsed.keep_ttl = true,
            None if !set && is(word, "persist") && parsed.expiry.is_none() => parsed.persist = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(parsed)
}

/// The moment that `amount` of `unit` is, which must be in positive time.
async fn expiry<G: Engine>(c: &mut Context<'_, G>, unit: Unit, amount: &[u8]) -> Result<Expiry, CommandError> {
    let amount = integer(amount)?;
    match unit.expiry(amount, c.cache.now_ms().await?) {
        Some(expiry) if amount > 0 => Ok(expiry),
        _ => Err(CommandError::InvalidExpire(c.spec.name)),
    }
}

/// `SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT second | PXAT millisecond |
/// KEEPTTL]`
#[inline]
pub async fn set<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.args.len() == 3 && c.session.upload.is_none() {
        let outcome = c.cache.set(&c.key(1), c.args.get(2), &SetOptions::default()).await?;
        c.notify_set(&outcome, c.args.get(1));
        c.reply.ok();
        return Ok(());
    }
    set_with_options(c).await
}

/// Sets argument 1, which is a key, to argument `value`. That may have been stored while it
/// arrived. With `returns`, the old value is in the buffer of lookups.
async fn put<G: Engine>(
    c: &mut Context<'_, G>,
    value: usize,
    options: &SetOptions,
    returns: bool,
) -> Result<SetOutcome, CacheError> {
    let (key, upload) = (c.key(1), c.session.upload.take());
    let old_value = returns.then_some(&mut *c.value);
    match upload {
        None => c.cache.set_returning(&key, c.args.get(value), options, old_value).await,
        Some(upload) => Box::pin(upload.set(c.cache, &key, options, old_value)).await,
    }
}

async fn set_with_options<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let parsed = options(c, 3, true)?;
    let condition = match (parsed.absent, parsed.present) {
        (true, _) => Condition::IfAbsent,
        (_, true) => Condition::IfPresent,
        _ => Condition::Always,
    };
    let expiry = match parsed.expiry {
        Some((unit, amount)) => expiry(c, unit, amount).await?,
        None if parsed.keep_ttl => Expiry::Keep,
        None => Expiry::Never,
    };
    let options = SetOptions { condition, expiry, ..SetOptions::default() };
    let is_stored = match parsed.get {
        true => set_returning(c, &options).await?,
        false => {
            let outcome = put(c, 2, &options, false).await?;
            c.notify_set(&outcome, c.args.get(1));
            if outcome.stored {
                c.reply.ok();
            } else {
                c.reply.null();
            }
            outcome.stored
        }
    };
    if is_stored && parsed.expiry.is_some() {
        c.notify(Class::GENERIC, "expire", c.args.get(1));
    }
    Ok(())
}

/// Sets and replies with the value that was there; returns whether it has set.
async fn set_returning<G: Engine>(c: &mut Context<'_, G>, options: &SetOptions) -> Result<bool, CommandError> {
    let outcome = put(c, 2, options, true).await;
    let found = outcome.as_ref().map(|outcome| outcome.old.is_some()).map_err(Clone::clone);
    if c.looked_for_string(c.args.get(1), found)? {
        c.reply.value(c.value);
    } else {
        c.reply.null();
    }
    let outcome = outcome?;
    c.notify_set(&outcome, c.args.get(1));
    Ok(outcome.stored)
}

/// `SETNX key value`
pub async fn setnx<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let options = SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() };
    let outcome = put(c, 2, &options, false).await?;
    c.notify_set(&outcome, c.args.get(1));
    c.reply.yes(outcome.stored);
    Ok(())
}

/// `SETEX key seconds value`
pub async fn setex<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_for(c, Unit::EX).await
}

/// `PSETEX key milliseconds value`
pub async fn psetex<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_for(c, Unit::PX).await
}

async fn set_for<G: Engine>(c: &mut Context<'_, G>, unit: Unit) -> Outcome {
    let expiry = expiry(c, unit, c.args.get(2)).await?;
    let options = SetOptions { expiry, ..SetOptions::default() };
    let outcome = put(c, 3, &options, false).await?;
    c.notify_set(&outcome, c.args.get(1));
    c.notify(Class::GENERIC, "expire", c.args.get(1));
    c.reply.ok();
    Ok(())
}

/// `GETSET key value`
pub async fn getset<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_returning(c, &SetOptions::default()).await?;
    Ok(())
}

/// `GETDEL key`
pub async fn getdel<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let taken = c.cache.take(&c.key(1), Some(c.value)).await;
    if c.looked_for_string(c.args.get(1), taken)? {
        c.notify(Class::GENERIC, "del", c.args.get(1));
        c.reply.value(c.value);
    } else {
        c.reply.null();
    }
    Ok(())
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT second | PXAT millisecond | PERSIST]`
pub async fn getex<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let parsed = options(c, 2, false)?;
    if parsed.expiry.is_none() && !parsed.persist {
        return get(c).await;
    }
    // Redis judges the moment only if a string is there.
    let meta = c.cache.peek(&c.key(1)).await?;
    c.looked(c.args.get(1), meta.is_some());
    let Some(meta) = meta else {
        c.reply.null();
        return Ok(());
    };
    Kind::STRING.check(meta)?;
    let expiry = match parsed.expiry {
        Some((unit, amount)) => expiry(c, unit, amount).await?,
        None => Expiry::Never,
    };
    let now_ms = c.cache.now_ms().await?;
    if c.cache.get_and_expire(&c.key(1), expiry, c.value).await? {
        match expiry {
            Expiry::AtMs(at_ms) if at_ms <= now_ms => c.notify(Class::GENERIC, "del", c.args.get(1)),
            Expiry::AtMs(_) | Expiry::InMs(_) => c.notify(Class::GENERIC, "expire", c.args.get(1)),
            _ if c.value.meta().expiry_ms.is_some() => c.notify(Class::GENERIC, "persist", c.args.get(1)),
            _ => {}
        }
        c.reply.value(c.value);
    } else {
        c.reply.null();
    }
    Ok(())
}

/// How many keys MSET and MSETNX have; a value stands behind each.
fn pairs<G: Engine>(c: &Context<'_, G>) -> Result<usize, CommandError> {
    let args = c.args.len();
    if args.is_multiple_of(2) {
        return Err(CommandError::Arity(c.spec.name));
    }
    Ok(args / 2)
}

/// `MSET key value [key value...]`
pub async fn mset<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_pairs(c).await?;
    c.reply.ok();
    Ok(())
}

async fn set_pairs<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (count, cache, args, database) = (pairs(c)?, c.cache, c.args, c.database());
    let key = |nth: usize| args.get(1 + 2 * nth);
    let set = async |nth| cache.set(&database.stored(key(nth)), args.get(2 + 2 * nth), &SetOptions::default()).await;
    let is_set = |nth, outcome| c.notify_set(&outcome, key(nth));
    at_once::each_of(c.turn(), cache, (0..count).map(key), set, is_set).await?;
    Ok(())
}

/// `MSETNX key value [key value...]`
pub async fn msetnx<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (count, cache, args, database, is_any_there) = (pairs(c)?, c.cache, c.args, c.database(), Cell::new(false));
    // The first key that is there decides.
    let look = async |nth| match is_any_there.get() {
        true => Ok(None),
        false => cache.peek(&database.stored(args.get(1 + 2 * nth))).await,
    };
    at_once::each(c.turn(), cache, count, look, |_, meta| is_any_there.set(is_any_there.get() || meta.is_some()))
        .await?;
    if !is_any_there.get() {
        let bytes = (0..count).map(|nth| args.get(2 + 2 * nth).len()).sum();
        c.moves(bytes, (0..count).map(|nth| database.stored(args.get(1 + 2 * nth)).into_owned()));
        set_pairs(c).await?;
    }
    c.reply.yes(!is_any_there.get());
    Ok(())
}

/// A value is given back to the allocator once it is larger than this and has served its reply.
pub(super) const VALUE_BYTES_KEPT: usize = 1 << 20;

/// Forgets a large value that a command looked at without replying with it.
pub(super) fn forget(value: &mut Value) {
    memory::shrink_beyond(value, VALUE_BYTES_KEPT);
}
