//! The classic commands.

use super::change::{Alter, Altered, Edit};
use super::request::{How, Id, Store};
use super::time::expiry;
use super::{Context, stored};
use crate::redis::events::Class;
use atoll_cache::{Attributes, CacheError, Condition, Engine, ExpireCondition, ExpireOutcome, Expiry, SetOptions};
use std::pin::pin;

/// How a request to store ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    /// Under this token.
    Stored(u64),
    NotStored,
    Exists,
    NotFound,
}

/// Changes an item, in one step for the whole pool. Returns the change, and the token that the item
/// has then.
pub(super) async fn alter<'e, G: Engine>(
    c: &mut Context<'_, G>,
    key: &[u8],
    edit: Edit<'e>,
    cas: Option<u64>,
) -> Result<(Alter<'e>, u64), CacheError> {
    let cache = c.client.cache;
    let mut alter = Alter::new(edit, cas, cache.value_bytes_max(), std::mem::take(c.new));
    let token = pin!(cache.update(key, &mut alter)).await;
    *c.new = std::mem::take(&mut alter.new);
    Ok((alter, token?.unwrap_or(0)))
}

/// Stores a value as `store` says.
pub(super) async fn store<G: Engine>(c: &mut Context<'_, G>, store: &Store<'_>) -> Result<StoreOutcome, CacheError> {
    let is_binary = store.meta.is_some_and(|flags| flags.is_binary);
    let key = stored(c.database, store.key, is_binary);
    let refills = store.cas.is_some() && store.meta.is_some_and(|flags| flags.invalidates);
    let (data, flags, expiry) = (store.data.into(), store.client_flags, expiry(store.exptime));
    let edit = match store.how {
        How::Append => Edit::Append(data),
        How::Prepend => Edit::Prepend(data),
        _ if refills => Edit::Refill { value: data, flags, expiry },
        how => return set_if(c, &key, store, (how, expiry)).await,
    };
    let is_part = matches!(store.how, How::Append | How::Prepend);
    let (altered, token) = pin!(alter(c, &key, edit, store.cas)).await?;
    let done = match altered.outcome {
        Altered::Done => StoreOutcome::Stored(token),
        Altered::Exists => StoreOutcome::Exists,
        _ if is_part => StoreOutcome::NotStored,
        _ => StoreOutcome::NotFound,
    };
    note(c, store, done, (&key, false));
    Ok(done)
}

async fn set_if<G: Engine>(
    c: &mut Context<'_, G>,
    key: &[u8],
    store: &Store<'_>,
    (how, expiry): (How, Expiry),
) -> Result<StoreOutcome, CacheError> {
    let condition = match (how, store.cas) {
        (How::Add, _) => Condition::IfAbsent,
        (_, Some(token)) => Condition::IfToken(token),
        (How::Replace, None) => Condition::IfPresent,
        _ => Condition::Always,
    };
    let attributes = Attributes { kind: 0, flags: store.client_flags };
    let options = SetOptions { condition, expiry, attributes };
    let outcome = match c.upload.take() {
        None => c.client.cache.set(key, store.data, &options).await?,
        Some(upload) => Box::pin(upload.set(c.client.cache, key, &options, None)).await?,
    };
    let done = match (outcome.stored, condition) {
        (true, _) => StoreOutcome::Stored(outcome.token),
        (false, Condition::IfToken(_)) if outcome.old.is_some() => StoreOutcome::Exists,
        (false, Condition::IfToken(_)) => StoreOutcome::NotFound,
        _ => StoreOutcome::NotStored,
    };
    note(c, store, done, (key, outcome.old.is_none()));
    Ok(done)
}

/// Counts and tells what became of a request to store under a key, which may be new.
fn note<G: Engine>(c: &Context<'_, G>, store: &Store<'_>, done: StoreOutcome, (key, is_new): (&[u8], bool)) {
    match done {
        StoreOutcome::Stored(_) if matches!(store.how, How::Append | How::Prepend) => {
            c.notify(Class::STRING, "append", key);
        }
        StoreOutcome::Stored(_) => {
            c.notify_put(is_new, "set", key);
            c.notify_expiry(Some(store.exptime).filter(|exptime| *exptime != 0), key);
        }
        StoreOutcome::Exists => {
            c.client.tally.borrow_mut().failed[c.client.first_command + store.id as usize] += 1;
        }
        _ => c.missed(store.id),
    }
}

/// `set`, `add`, `replace`, `append`, `prepend`, `cas`
pub(super) async fn set<G: Engine>(c: &mut Context<'_, G>, request: &Store<'_>) -> Result<(), CacheError> {
    let line = match pin!(store(c, request)).await? {
        StoreOutcome::Stored(_) => "STORED",
        StoreOutcome::NotStored => "NOT_STORED",
        StoreOutcome::Exists => "EXISTS",
        StoreOutcome::NotFound => "NOT_FOUND",
    };
    c.say(line, request.noreply);
    Ok(())
}

/// `delete key [0] [noreply]`
pub(super) async fn delete<G: Engine>(c: &mut Context<'_, G>, key: &[u8], noreply: bool) -> Result<(), CacheError> {
    let stored = stored(c.database, key, false);
    let is_removed = c.client.cache.delete(&stored).await?;
    match is_removed {
        true => c.notify(Class::GENERIC, "del", &stored),
        false => c.missed(Id::Delete),
    }
    c.say(if is_removed { "DELETED" } else { "NOT_FOUND" }, noreply);
    Ok(())
}

/// `touch key exptime [noreply]`
pub(super) async fn touch<G: Engine>(
    c: &mut Context<'_, G>,
    key: &[u8],
    exptime: i32,
    noreply: bool,
) -> Result<(), CacheError> {
    let stored = stored(c.database, key, false);
    let outcome = c.client.cache.expire(&stored, expiry(exptime), ExpireCondition::default()).await?;
    let is_there = outcome != ExpireOutcome::Absent;
    match is_there {
        true => c.notify_expiry(Some(exptime), &stored),
        false => c.missed(Id::Touch),
    }
    c.say(if is_there { "TOUCHED" } else { "NOT_FOUND" }, noreply);
    Ok(())
}

/// What a peer reads whose value is no number.
pub(super) const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// `incr key by [noreply]` and `decr key by [noreply]`
pub(super) async fn count<G: Engine>(
    c: &mut Context<'_, G>,
    key: &[u8],
    (by, down): (u64, bool),
    noreply: bool,
) -> Result<(), CacheError> {
    let (stored, edit) = (stored(c.database, key, false), Edit::Count { by, down, expiry: None });
    let (altered, _) = pin!(alter(c, &stored, edit, None)).await?;
    match altered.outcome {
        Altered::Done => {
            c.notify(Class::STRING, if down { "decrby" } else { "incrby" }, &stored);
            c.say(itoa::Buffer::new().format(altered.number), noreply);
        }
        Altered::NotANumber => {
            c.client.tally.borrow_mut().error("CLIENT_ERROR");
            c.say(NOT_A_NUMBER, noreply);
        }
        _ => {
            c.missed(if down { Id::Decr } else { Id::Incr });
            c.say("NOT_FOUND", noreply);
        }
    }
    Ok(())
}
