//! Commands on the expiry of keys.
//!
//! Differences from Redis: the latest moment is 2^48 milliseconds after the epoch, in the year
//! 10889. A later one counts as that. A key that expires after some time does so up to three
//! milliseconds later, never before: [`Expiry::InMs`]. PEXPIRETIME shows the moment with two
//! milliseconds of them, and PTTL the time that was asked for.

use super::arguments::{Unit, integer, is};
use super::error::shown;
use super::{CommandError, Context, Outcome};
use crate::redis::events::Class;
use atoll_cache::cache::left_ms;
use atoll_cache::{Engine, ExpireCondition, ExpireOutcome, Expiry};

/// Writes commands that differ by the unit of their time.
macro_rules! by_unit {
    ($($(#[$syntax:meta])* $name:ident: $way:ident($unit:expr),)*) => {$(
        $(#[$syntax])*
        pub async fn $name<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
            $way(c, $unit).await
        }
    )*};
}

by_unit! {
    /// `EXPIRE key seconds [NX | XX | GT | LT]`
    expire: set_expiry(Unit::EX),
    /// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
    pexpire: set_expiry(Unit::PX),
    /// `EXPIREAT key second [NX | XX | GT | LT]`
    expireat: set_expiry(Unit::EXAT),
    /// `PEXPIREAT key millisecond [NX | XX | GT | LT]`
    pexpireat: set_expiry(Unit::PXAT),
    /// `TTL key`
    ttl: show_expiry(Unit::EX),
    /// `PTTL key`
    pttl: show_expiry(Unit::PX),
    /// `EXPIRETIME key`
    expiretime: show_expiry(Unit::EXAT),
    /// `PEXPIRETIME key`
    pexpiretime: show_expiry(Unit::PXAT),
}

fn condition<G: Engine>(c: &Context<'_, G>) -> Result<ExpireCondition, CommandError> {
    let mut condition = ExpireCondition::default();
    for word in c.args.from(3) {
        match () {
            () if is(word, "nx") => condition.if_none = true,
            () if is(word, "xx") => condition.if_some = true,
            () if is(word, "gt") => condition.if_later = true,
            () if is(word, "lt") => condition.if_earlier = true,
            () => return Err(CommandError::Other(format!("ERR Unsupported option {}", shown(word, usize::MAX)))),
        }
    }
    if condition.if_none && (condition.if_some || condition.if_later || condition.if_earlier) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if condition.if_later && condition.if_earlier {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(condition)
}

async fn set_expiry<G: Engine>(c: &mut Context<'_, G>, unit: Unit) -> Outcome {
    let condition = condition(c)?;
    let amount = integer(c.args.get(2))?;
    let expiry = unit.expiry(amount, c.cache.now_ms().await?).ok_or(CommandError::InvalidExpire(c.spec.name))?;
    let outcome = c.cache.expire(&c.key(1), expiry, condition).await?;
    match outcome {
        ExpireOutcome::Set => c.notify(Class::GENERIC, "expire", c.args.get(1)),
        ExpireOutcome::Removed => c.notify(Class::GENERIC, "del", c.args.get(1)),
        _ => {}
    }
    c.reply.yes(matches!(outcome, ExpireOutcome::Set | ExpireOutcome::Removed));
    Ok(())
}

/// `PERSIST key`
pub async fn persist<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let condition = ExpireCondition { if_some: true, ..ExpireCondition::default() };
    let outcome = c.cache.expire(&c.key(1), Expiry::Never, condition).await?;
    if outcome == ExpireOutcome::Set {
        c.notify(Class::GENERIC, "persist", c.args.get(1));
    }
    c.reply.yes(outcome == ExpireOutcome::Set);
    Ok(())
}

async fn show_expiry<G: Engine>(c: &mut Context<'_, G>, unit: Unit) -> Outcome {
    let meta = c.cache.peek(&c.key(1)).await?;
    c.looked(c.args.get(1), meta.is_some());
    let shown = match meta.map(|meta| meta.expiry_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry_ms)) => {
            let ms = if unit.relative { left_ms(expiry_ms, c.cache.now_ms().await?) } else { expiry_ms } as i64;
            // Seconds are rounded, as in Redis.
            if unit.ms == 1 { ms } else { ms.saturating_add(unit.ms / 2) / unit.ms }
        }
    };
    c.reply.integer(shown);
    Ok(())
}
