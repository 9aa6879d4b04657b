//! Commands on values as numbers.

use super::arguments::integer;
use super::{CommandError, Context, Outcome};
use crate::redis::extended::{Extended, Sum};
use crate::redis::kind::Kind;
use atoll_cache::{CacheError, Change, Engine, KEY_BYTES_MAX, Meta, Number, Old, Verdict, Want};
use std::borrow::Cow;

/// `INCR key`
pub async fn incr<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    add(c, 1).await
}

/// `DECR key`
pub async fn decr<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    add(c, -1).await
}

/// `INCRBY key number`
pub async fn incrby<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    add(c, integer(c.args.get(2))?).await
}

/// `DECRBY key number`
pub async fn decrby<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let by = integer(c.args.get(2))?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(c, by).await
}

async fn add<G: Engine>(c: &mut Context<'_, G>, by: i64) -> Outcome {
    let key = c.key(1);
    let is_new = c.seems_new(&key).await?;
    match c.cache.increment(&key, by).await? {
        Number::Value(number) => {
            c.notify_put(is_new, "incrby", c.args.get(1));
            c.reply.integer(number);
        }
        Number::NotANumber => return Err(CommandError::NotAnInteger),
        Number::Overflow => return Err("ERR increment or decrement would overflow".into()),
    }
    Ok(())
}

/// `INCRBYFLOAT key number`
pub async fn incrbyfloat<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let key = c.key(1);
    if key.len() > KEY_BYTES_MAX {
        return Err(CacheError::KeyTooLong { bytes: key.len() }.into());
    }
    let is_new = c.seems_new(&key).await?;
    let mut change = AddExtended { by: c.args.get(2).into(), sum: Ok(String::new()) };
    // `Cache::increment_float` counts in 64 bits; Redis counts in 80, and its clients see the
    // difference (0.1 + 0.2 is 0.3 there).
    c.cache.update(&key, &mut change).await?;
    let sum = change.sum?;
    c.notify_put(is_new, "incrbyfloat", c.args.get(1));
    c.reply.bulk(sum.as_bytes());
    Ok(())
}

/// Adds to the number at a key, keeping its expiry.
struct AddExtended<'a> {
    by: Cow<'a, [u8]>,
    sum: Result<String, CommandError>,
}

impl AddExtended<'_> {
    fn sum(&self, old: Option<Old<'_>>) -> Result<String, CommandError> {
        old.map_or(Ok(()), |old| Kind::STRING.check(old.meta))?;
        let number = |text| Extended::parse(text).ok_or(CommandError::NotAFloat);
        let old = number(old.map_or(b"0", |old| old.value))?;
        match old.add(&number(&self.by)?) {
            Sum::Finite(sum) => Ok(sum.to_string()),
            Sum::NotFinite => Err("ERR increment would produce NaN or Infinity".into()),
        }
    }
}

impl Change for AddExtended<'_> {
    type Lasting = AddExtended<'static>;

    fn lasting(&mut self) -> AddExtended<'static> {
        let by = Cow::Owned(std::mem::take(&mut self.by).into_owned());
        AddExtended { by, sum: std::mem::replace(&mut self.sum, Ok(String::new())) }
    }

    fn ended(&mut self, lasting: AddExtended<'static>) {
        *self = lasting;
    }

    fn wants(&self) -> Want {
        Want::Value
    }

    fn decide(&mut self, _now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.sum = self.sum(old);
        match self.sum {
            Ok(_) => {
                let Meta { expiry_ms, attributes, .. } = old.map(|old| old.meta).unwrap_or_default();
                Verdict::Put { expiry_ms, attributes }
            }
            Err(_) => Verdict::Leave,
        }
    }

    fn value(&self) -> &[u8] {
        self.sum.as_ref().map_or(&[], |sum| sum.as_bytes())
    }
}
