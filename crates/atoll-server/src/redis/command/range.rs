//! Commands on parts of values, and on their lengths.

use super::arguments::integer;
use super::modify::{Modified, Subject, edit};
use super::{CommandError, Context, LARGE_BYTES_MIN, Outcome};
use crate::redis::events::Class;
use crate::redis::kind::Kind;
use crate::redis::resp::parser::BULK_BYTES_MAX;
use atoll_cache::{CacheError, Engine};

/// What a value that grew too long is called here.
pub(super) fn too_long(error: CacheError) -> CommandError {
    match error {
        CacheError::ValueTooLarge { bytes, .. } if bytes > BULK_BYTES_MAX => CommandError::TooLong,
        other => other.into(),
    }
}

/// `APPEND key value`
pub async fn append<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let key = c.key(1);
    let suffix = c.args.get(2);
    let length = match is_large(c, &key).await? {
        true => {
            let max = c.cache.value_bytes_max();
            let appended = edit(c, &key, Subject { event: "append", ..STRINGS }, |_, value| {
                let (from, bytes) = (value.bytes().len(), value.bytes().len() + suffix.len());
                if bytes > max {
                    return Err(too_long(CacheError::ValueTooLarge { bytes, max }));
                }
                value.resize(bytes);
                value.bytes_mut()[from..].copy_from_slice(suffix);
                Ok(Modified::Put(bytes))
            });
            appended.await?
        }
        false => {
            let is_new = c.seems_new(&key).await?;
            let length = c.cache.append(&key, suffix).await.map_err(too_long)?;
            c.notify_put(is_new, "append", c.args.get(1));
            length
        }
    };
    c.reply.count(length);
    Ok(())
}

/// What APPEND and SETRANGE change.
const STRINGS: Subject = Subject { kind: Kind::STRING, class: Class::STRING, event: "" };

/// Whether the present value is so large that a copy of it would keep other connections waiting: it
/// is changed where its lookup put it.
async fn is_large<G: Engine>(c: &Context<'_, G>, key: &[u8]) -> Result<bool, CommandError> {
    Ok(c.cache.peek(key).await?.is_some_and(|meta| meta.value_bytes >= LARGE_BYTES_MIN))
}

/// `STRLEN key`
pub async fn strlen<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let meta = c.cache.peek(&c.key(1)).await?;
    c.looked(c.args.get(1), meta.is_some());
    meta.map_or(Ok(()), |meta| Kind::STRING.check(meta))?;
    c.reply.count(meta.map_or(0, |meta| meta.value_bytes));
    Ok(())
}

/// `GETRANGE key start end`
pub async fn getrange<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (start, end) = (integer(c.args.get(2))?, integer(c.args.get(3))?);
    let part = move |length| bounds(length, start, end).map_or(0..0, |(start, end)| start..end);
    if c.look_at_part(1, Kind::STRING, part).await?.is_some() {
        c.reply.value(c.value);
    } else {
        c.reply.bulk(b"");
    }
    Ok(())
}

/// The bytes of a value of `length` from `start` to the inclusive `end`, as a half-open range.
fn bounds(length: usize, start: i64, end: i64) -> Option<(usize, usize)> {
    // Redis says this before it clamps: else the first byte would come from two ends far before it.
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_start = |index: i64| if index < 0 { index.saturating_add(length as i64).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(length as i64 - 1));
    (start <= end).then(|| (start as usize, end as usize + 1))
}

/// `SETRANGE key offset value`
pub async fn setrange<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let offset = integer(c.args.get(2))?;
    let Ok(offset) = usize::try_from(offset) else { return Err("ERR offset is out of range".into()) };
    let bytes = c.args.get(3);
    let key = c.key(1);
    if !bytes.is_empty() && offset.saturating_add(bytes.len()) > BULK_BYTES_MAX {
        // Redis looks first whether a string is there.
        c.cache.peek(&key).await?.map_or(Ok(()), |meta| Kind::STRING.check(meta))?;
        return Err(CommandError::TooLong);
    }
    if !bytes.is_empty() && is_large(c, &key).await? {
        let max = c.cache.value_bytes_max();
        let length = edit(c, &key, Subject { event: "setrange", ..STRINGS }, |_, value| {
            let (end, length) = (offset + bytes.len(), value.bytes().len());
            if end > max {
                return Err(too_long(CacheError::ValueTooLarge { bytes: end, max }));
            }
            value.resize(length.max(end));
            value.bytes_mut()[offset..end].copy_from_slice(bytes);
            Ok(Modified::Put(length.max(end)))
        });
        let length = length.await?;
        c.reply.count(length);
        return Ok(());
    }
    let is_new = c.seems_new(&key).await?;
    let length = c.cache.set_range(&key, offset, bytes).await.map_err(too_long)?;
    if !bytes.is_empty() {
        c.notify_put(is_new, "setrange", c.args.get(1));
    }
    c.reply.count(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped_as_in_redis() {
        for (start, end, expected) in [
            (0, 4, Some((0, 5))),
            (-3, -1, Some((2, 5))),
            (0, -1, Some((0, 5))),
            (3, 1, None),
            (-1, -3, None),
            (-100, -50, Some((0, 1))),
            (-50, -100, None),
            (5, 9, None),
            (i64::MIN, i64::MAX, Some((0, 5))),
            (i64::MAX, i64::MAX, None),
        ] {
            assert_eq!(bounds(5, start, end), expected, "{start} {end}");
        }
        assert_eq!(bounds(0, 0, -1), None);
    }
}
