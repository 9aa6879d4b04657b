//! The classic commands.

use super::change::{Alter, Altered, Edit, is_item};
use super::request::{How, Id, Store, words};
use super::time::expiry;
use super::{Context, gets, stored};
use crate::redis::events::Class;
use atoll_cache::{
    Attributes, CacheError, Condition, Engine, ExpireCondition, ExpireOutcome, Expiry, SetOptions,
};
use std::pin::pin;

/// How a request to store ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Under this token.
    Stored(u64),
    NotStored,
    Exists,
    NotFound,
}

/// Changes an item, in one step for the whole pool. Returns the change, and the token that the item
/// has then. The caller gives the change's memory back.
pub(super) async fn alter<'e, G: Engine>(
    c: &mut Context<'_, G>,
    key: &[u8],
    edit: Edit<'e>,
    cas: Option<u64>,
) -> Result<(Alter<'e>, u64), CacheError> {
    let cache = c.client.cache;
    let mut alter = Alter::new(edit, cas, cache.value_bytes_max(), std::mem::take(c.new));
    let token = pin!(cache.engine().update(key, &mut alter)).await;
    *c.new = std::mem::take(&mut alter.new);
    let token = token?.unwrap_or(0);
    match alter.outcome {
        Altered::TooLong => Err(CacheError::ValueTooLarge { bytes: c.new.len(), max: alter.bytes_max }),
        _ => Ok((alter, token)),
    }
}

/// Stores a value as `store` says.
pub(super) async fn store<G: Engine>(c: &mut Context<'_, G>, store: &Store<'_>) -> Result<Stored, CacheError> {
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
        Altered::Done => Stored::Stored(token),
        Altered::Exists => Stored::Exists,
        _ if is_part => Stored::NotStored,
        _ => Stored::NotFound,
    };
    note(c, store, done);
    Ok(done)
}

async fn set_if<G: Engine>(
    c: &mut Context<'_, G>,
    key: &[u8],
    store: &Store<'_>,
    (how, expiry): (How, Expiry),
) -> Result<Stored, CacheError> {
    let condition = match (how, store.cas) {
        (How::Add, _) => Condition::IfAbsent,
        (_, Some(token)) => Condition::IfToken(token),
        (How::Replace, None) => Condition::IfPresent,
        _ => Condition::Always,
    };
    let attributes = Attributes { kind: 0, flags: store.client_flags };
    let outcome = c.client.cache.set(key, store.data, &SetOptions { condition, expiry, attributes }).await?;
    let done = match (outcome.stored, condition) {
        (true, _) => Stored::Stored(outcome.token),
        (false, Condition::IfToken(_)) if outcome.old.is_some() => Stored::Exists,
        (false, Condition::IfToken(_)) => Stored::NotFound,
        _ => Stored::NotStored,
    };
    note(c, store, done);
    Ok(done)
}

/// Counts and tells what became of a request to store.
fn note<G: Engine>(c: &Context<'_, G>, store: &Store<'_>, done: Stored) {
    match done {
        Stored::Stored(_) => {
            let event = if store.how == How::Append { "append" } else { "set" };
            // A key in base64 is told as the peer wrote it.
            c.notify(Class::STRING, event, store.key);
        }
        Stored::Exists => {
            c.client.tally.borrow_mut().rejected[c.client.first_command + store.id as usize] += 1;
        }
        _ => c.missed(store.id),
    }
}

/// `set`, `add`, `replace`, `append`, `prepend`, `cas`
pub(super) async fn set<G: Engine>(c: &mut Context<'_, G>, request: &Store<'_>) -> Result<(), CacheError> {
    let line = match pin!(store(c, request)).await? {
        Stored::Stored(_) => "STORED",
        Stored::NotStored => "NOT_STORED",
        Stored::Exists => "EXISTS",
        Stored::NotFound => "NOT_FOUND",
    };
    c.say(line, request.noreply);
    Ok(())
}

/// `gat` and `gats`
pub(super) async fn get_and_touch<G: Engine>(
    c: &mut Context<'_, G>,
    keys: &[u8],
    with_cas: bool,
    exptime: i32,
) -> Result<(), CacheError> {
    for key in words(keys) {
        let stored = stored(c.database, key, false);
        let is_there = c.client.cache.get_and_expire(&stored, expiry(exptime), c.value).await?;
        if is_there && is_item(&c.value.meta()) {
            gets::push_head(c.output, key, c.value, with_cas);
            c.output.push_value(c.value);
            c.output.push(b"\r\n");
            c.notify(Class::GENERIC, "expire", key);
        } else {
            c.missed(if with_cas { Id::Gats } else { Id::Gat });
        }
    }
    c.say("END", false);
    Ok(())
}

/// `delete key [0] [noreply]`
pub(super) async fn delete<G: Engine>(c: &mut Context<'_, G>, key: &[u8], noreply: bool) -> Result<(), CacheError> {
    let is_removed = c.client.cache.delete(&stored(c.database, key, false)).await?;
    match is_removed {
        true => c.notify(Class::GENERIC, "del", key),
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
    let (key_of_cache, condition) = (stored(c.database, key, false), ExpireCondition::default());
    let outcome = c.client.cache.expire(&key_of_cache, expiry(exptime), condition).await?;
    let is_there = outcome != ExpireOutcome::Absent;
    match is_there {
        true => c.notify(Class::GENERIC, "expire", key),
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
    let edit = Edit::Count { by, down, expiry: None };
    let (altered, _) = pin!(alter(c, &stored(c.database, key, false), edit, None)).await?;
    match altered.outcome {
        Altered::Done => {
            c.notify(Class::STRING, if down { "decrby" } else { "incrby" }, key);
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
