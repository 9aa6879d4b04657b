//! A value that is replaced by what a command makes of it, in one atomic step for the whole pool.
//!
//! The command looks the value up, makes the new one, and puts it only if no other client was
//! faster; otherwise it begins again. Some client always succeeds. A change of a part is made where
//! the lookup put the value: to copy a large one would keep the worker's other connections waiting.

use super::{CommandError, Context, range, string};
use crate::redis::events::Class;
use crate::redis::kind::Kind;
use atoll_cache::{CacheError, Condition, Engine, Expiry, Meta, SetOptions, Value};

/// The values that a command changes, and how its changes are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    /// The kind of the values. One of another kind is refused.
    pub(super) kind: Kind,
    /// The class of the event.
    pub(super) class: Class,
    /// The event of a change.
    pub(super) event: &'static str,
}

/// What becomes of a value.
pub(super) enum Modified<T> {
    /// It stays as it is.
    Kept(T),
    /// The new value takes its place and keeps its expiry and attributes.
    Put(T),
    /// As `Put`, but the value has only grown, by zeros. For Redis that is no change.
    Grown(T),
    /// The key is removed, since its value would be empty.
    Removed(T),
}

/// Calls `make(present value, new value, whether another client came in between before)`, which
/// fills the second, until no other client comes in between. An absent value is `None`; it is told
/// as new when it is put.
///
/// It may let other connections run, the first time. If it did so later, too, many writers of one
/// value would keep each other from ending: of all that begin at a time one succeeds.
pub(super) async fn modify<G: Engine, T>(
    c: &mut Context<'_, G>,
    key: &[u8],
    subject: Subject,
    mut make: impl AsyncFnMut(Option<&[u8]>, &mut Vec<u8>, bool) -> Result<Modified<T>, CommandError>,
) -> Result<T, CommandError> {
    let mut new = Vec::new();
    for attempt in 0_usize.. {
        let present = look(c, key, subject).await?;
        new.clear();
        let made = make(present.map(|_| c.value.bytes()), &mut new, attempt > 0).await;
        string::forget(c.value);
        if let Some(outcome) = put(c, key, (subject, present), &new, made?).await? {
            return Ok(outcome);
        }
    }
    unreachable!("the attempts do not end")
}

/// The same for changes of a part of the value, which may be large: `make(whether it is there, the
/// value)` changes the value where it is, without a copy. An absent one is empty.
pub(super) async fn edit<G: Engine, T>(
    c: &mut Context<'_, G>,
    key: &[u8],
    subject: Subject,
    mut make: impl FnMut(bool, &mut Value) -> Result<Modified<T>, CommandError>,
) -> Result<T, CommandError> {
    loop {
        let present = look(c, key, subject).await?;
        if present.is_none() {
            c.value.clear();
        }
        let put = match make(present.is_some(), c.value) {
            Ok(made) => put(c, key, (subject, present), c.value.bytes(), made).await,
            Err(error) => Err(error),
        };
        string::forget(c.value);
        if let Some(outcome) = put? {
            return Ok(outcome);
        }
    }
}

/// The metadata of what a command found, if it is there and one of its values.
type Present = Option<Meta>;

/// Looks the value up that a command is to change.
async fn look<G: Engine>(c: &mut Context<'_, G>, key: &[u8], subject: Subject) -> Result<Present, CommandError> {
    if !c.cache.get(key, c.value).await? {
        return Ok(None);
    }
    subject.kind.check(c.value.meta()).inspect_err(|_| string::forget(c.value))?;
    Ok(Some(c.value.meta()))
}

/// Puts the new value if `present` is still there; returns nothing if another client came in
/// between.
async fn put<G: Engine, T>(
    c: &Context<'_, G>,
    key: &[u8],
    (subject, present): (Subject, Present),
    new: &[u8],
    made: Modified<T>,
) -> Result<Option<T>, CommandError> {
    let (outcome, is_change, is_removed) = match made {
        Modified::Kept(outcome) => return Ok(Some(outcome)),
        Modified::Put(outcome) => (outcome, true, false),
        Modified::Grown(outcome) => (outcome, false, false),
        Modified::Removed(outcome) => (outcome, true, true),
    };
    let (condition, attributes) = match present {
        Some(Meta { token, attributes, .. }) => (Condition::IfToken(token), attributes),
        None => (Condition::IfAbsent, subject.kind.attributes()),
    };
    // A moment that is past removes the key, if its token is still the same.
    let expiry = if is_removed { Expiry::AtMs(0) } else { Expiry::Keep };
    let options = SetOptions { condition, expiry, attributes };
    if !c.cache.set(key, new, &options).await.map_err(range::too_long)?.stored {
        return Ok(None);
    }
    if present.is_none() {
        c.notify(Class::NEW, "new", c.args.get(1));
    }
    if is_change {
        c.notify(subject.class, subject.event, c.args.get(1));
    }
    if is_removed {
        c.notify(Class::GENERIC, "del", c.args.get(1));
    }
    Ok(Some(outcome))
}

/// Refuses a value that would be longer than any may be, before memory is taken for it.
pub(super) fn check_length<G: Engine>(c: &Context<'_, G>, bytes: usize) -> Result<(), CommandError> {
    let max = c.cache.value_bytes_max();
    if bytes > max { Err(range::too_long(CacheError::ValueTooLarge { bytes, max })) } else { Ok(()) }
}
