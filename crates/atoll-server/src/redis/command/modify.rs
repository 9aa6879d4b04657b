//! A value that is replaced by what a command makes of it, in one atomic step for the whole pool.
//!
//! The command looks the value up, makes the new one, and puts it only if no other client was
//! faster; otherwise it begins again. Some client always succeeds. What it puts is told as the
//! event `setbit`, for the commands that use this change bits.

use super::{CommandError, Context, range, string};
use crate::redis::events::Class;
use atoll_cache::{CacheError, Condition, Engine, Expiry, Meta, SetOptions};

/// What becomes of a value.
pub(super) enum Modified<T> {
    /// It stays as it is.
    Kept(T),
    /// The new value takes its place and keeps its expiry and attributes.
    Put(T),
    /// As `Put`, but the value has only grown, by zeros. For Redis that is no change.
    Grown(T),
}

/// Calls `make(present value, new value)`, which fills the second, until no other client comes in
/// between. An absent value is `None`.
pub(super) async fn modify<G: Engine, T>(
    c: &mut Context<'_, G>,
    key: &[u8],
    mut make: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<Modified<T>, CommandError>,
) -> Result<T, CommandError> {
    let mut new = Vec::new();
    loop {
        let is_there = c.cache.get(key, c.value).await?;
        let Meta { token, attributes, .. } = if is_there { c.value.meta() } else { Meta::default() };
        let condition = if is_there { Condition::IfToken(token) } else { Condition::IfAbsent };
        new.clear();
        let made = make(is_there.then(|| c.value.bytes()), &mut new);
        string::forget(c.value);
        let (outcome, is_change) = match made? {
            Modified::Kept(outcome) => return Ok(outcome),
            Modified::Put(outcome) => (outcome, true),
            Modified::Grown(outcome) => (outcome, false),
        };
        let options = SetOptions { condition, expiry: Expiry::Keep, attributes };
        if c.cache.set(key, &new, &options).await.map_err(range::too_long)?.stored {
            if !is_there {
                c.notify(Class::NEW, "new", c.args.get(1));
            }
            if is_change {
                c.notify(Class::STRING, "setbit", c.args.get(1));
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
