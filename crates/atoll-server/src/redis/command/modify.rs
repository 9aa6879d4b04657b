//! A value that is replaced by what a command makes of it, in one atomic step for the whole pool.
//!
//! The command looks the value up, makes the new one, and puts it only if no other client was
//! faster; otherwise it begins again. Some client always succeeds.

use super::{CommandError, Context, range, string};
use crate::redis::events::Class;
use crate::redis::kind::Kind;
use atoll_cache::{CacheError, Condition, Engine, Expiry, Meta, SetOptions};

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

/// Calls `make(present value, new value)`, which fills the second, until no other client comes in
/// between. An absent value is `None`; it is told as new when it is put.
pub(super) async fn modify<G: Engine, T>(
    c: &mut Context<'_, G>,
    key: &[u8],
    subject: Subject,
    mut make: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<Modified<T>, CommandError>,
) -> Result<T, CommandError> {
    let mut new = Vec::new();
    loop {
        let is_there = c.cache.get(key, c.value).await?;
        let (condition, attributes, is_right) = if is_there {
            let meta @ Meta { token, attributes, .. } = c.value.meta();
            (Condition::IfToken(token), attributes, subject.kind.check(meta))
        } else {
            (Condition::IfAbsent, subject.kind.attributes(), Ok(()))
        };
        new.clear();
        let made = is_right.and_then(|()| make(is_there.then(|| c.value.bytes()), &mut new));
        string::forget(c.value);
        let (outcome, is_change, is_removed) = match made? {
            Modified::Kept(outcome) => return Ok(outcome),
            Modified::Put(outcome) => (outcome, true, false),
            Modified::Grown(outcome) => (outcome, false, false),
            Modified::Removed(outcome) => (outcome, true, true),
        };
        // A moment that is past removes the key, if its token is still the same.
        let expiry = if is_removed { Expiry::AtMs(0) } else { Expiry::Keep };
        let options = SetOptions { condition, expiry, attributes };
        if c.cache.set(key, &new, &options).await.map_err(range::too_long)?.stored {
            if !is_there {
                c.notify(Class::NEW, "new", c.args.get(1));
            }
            if is_change {
                c.notify(subject.class, subject.event, c.args.get(1));
            }
            if is_removed {
                c.notify(Class::GENERIC, "del", c.args.get(1));
            }
            return Ok(outcome);
        }
    }
}

/// Refuses a value that would be longer than any may be, before memory is taken for it.
pub(super) fn check_length<G: Engine>(c: &Context<'_, G>, bytes: usize) -> Result<(), CommandError> {
    let max = c.cache.value_bytes_max();
    if bytes > max { Err(range::too_long(CacheError::ValueTooLarge { bytes, max })) } else { Ok(()) }
}
