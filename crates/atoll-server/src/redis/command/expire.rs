//! When keys expire.

use super::arguments::{Unit, integer, is};
use super::error::shown;
use super::{CommandError, Context, Outcome};
use atoll_cache::{Engine, ExpireCondition, ExpireOutcome, Expiry};

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub async fn expire<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_expiry(c, Unit::EX).await
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub async fn pexpire<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_expiry(c, Unit::PX).await
}

/// `EXPIREAT key second [NX | XX | GT | LT]`
pub async fn expireat<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_expiry(c, Unit::EXAT).await
}

/// `PEXPIREAT key millisecond [NX | XX | GT | LT]`
pub async fn pexpireat<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_expiry(c, Unit::PXAT).await
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
    let now_ms = c.cache.now_ms().await?;
    let at_ms = unit.at_ms(amount, now_ms).ok_or(CommandError::InvalidExpire(c.spec.name))?;
    let expiry = Expiry::AtMs(u64::try_from(at_ms).unwrap_or(0));
    let outcome = c.cache.expire(c.args.get(1), expiry, condition).await?;
    c.reply.yes(matches!(outcome, ExpireOutcome::Set | ExpireOutcome::Removed));
    Ok(())
}

/// `PERSIST key`
pub async fn persist<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let condition = ExpireCondition { if_some: true, ..ExpireCondition::default() };
    let outcome = c.cache.expire(c.args.get(1), Expiry::Never, condition).await?;
    c.reply.yes(outcome == ExpireOutcome::Set);
    Ok(())
}

/// `TTL key`
pub async fn ttl<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    show_expiry(c, Unit::EX).await
}

/// `PTTL key`
pub async fn pttl<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    show_expiry(c, Unit::PX).await
}

/// `EXPIRETIME key`
pub async fn expiretime<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    show_expiry(c, Unit::EXAT).await
}

/// `PEXPIRETIME key`
pub async fn pexpiretime<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    show_expiry(c, Unit::PXAT).await
}

async fn show_expiry<G: Engine>(c: &mut Context<'_, G>, unit: Unit) -> Outcome {
    let shown = match c.cache.peek(c.args.get(1)).await?.map(|meta| meta.expiry_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry_ms)) => {
            let since_ms = if unit.relative { c.cache.now_ms().await? } else { 0 };
            let ms = expiry_ms.saturating_sub(since_ms) as i64;
            // Seconds are rounded, as in Redis.
            if unit.ms == 1 { ms } else { ms.saturating_add(unit.ms / 2) / unit.ms }
        }
    };
    c.reply.integer(shown);
    Ok(())
}
