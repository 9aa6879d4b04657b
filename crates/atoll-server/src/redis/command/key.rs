//! Commands on keys, independent of their values.
//!
//! DEL, EXISTS and TOUCH of several keys are not one atomic step. RENAME, COPY and MOVE are one for
//! the clients of this server. While they move a large value, commands on other keys run. Another
//! process of the pool may see the new key before the old one is gone.

use super::arguments::is;
use super::{CommandError, Context, Outcome, at_once, keyspace, string};
use crate::redis::events::Class;
use crate::redis::kind::Kind;
use atoll_cache::{Condition, Engine, Expiry, Meta, SetOptions};

/// Keys that TOUCH looks up between two looks at the time.
const TOUCH_STEP: usize = 64;

/// `DEL key...` and `UNLINK key...`
pub async fn del<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (cache, args, database, mut removed) = (c.cache, c.args, c.database(), 0);
    let is_removed = |nth, was_there| {
        if was_there {
            c.notify(Class::GENERIC, "del", args.get(1 + nth));
            removed += 1;
        }
    };
    let remove = async |nth| cache.delete(&database.stored(args.get(1 + nth))).await;
    at_once::each(c.turn(), cache, args.len() - 1, remove, is_removed).await?;
    c.reply.count(removed);
    Ok(())
}

/// `EXISTS key...`
pub async fn exists<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (cache, args, database, mut found) = (c.cache, c.args, c.database(), 0);
    let is_found = |nth, meta: Option<Meta>| {
        c.looked(args.get(1 + nth), meta.is_some());
        found += usize::from(meta.is_some());
    };
    let look = async |nth| cache.peek(&database.stored(args.get(1 + nth))).await;
    at_once::each(c.turn(), cache, args.len() - 1, look, is_found).await?;
    c.reply.count(found);
    Ok(())
}

/// `TOUCH key...`: an access is counted as for a lookup.
pub async fn touch<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (mut found, mut turn) = (0, c.turn());
    for index in 1..c.args.len() {
        if index.is_multiple_of(TOUCH_STEP) {
            turn.yield_if_over().await;
        }
        let is_there = c.cache.get_part(&c.key(index), |_| 0..0, c.value).await?.is_some();
        string::forget(c.value);
        c.looked(c.args.get(index), is_there);
        found += usize::from(is_there);
    }
    c.reply.count(found);
    Ok(())
}

/// `TYPE key`
pub async fn kind<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let meta = c.cache.peek(&c.key(1)).await?;
    c.looked(c.args.get(1), meta.is_some());
    c.reply.simple(meta.map_or("none", |meta| Kind::of(meta).name()));
    Ok(())
}

/// Copies the object at `from`, with its expiry and attributes, to the stored key `to`.
async fn duplicate<G: Engine>(
    c: &mut Context<'_, G>,
    from: &[u8],
    to: &[u8],
    condition: Condition,
) -> Result<Copied, CommandError> {
    let Some(Meta { value_bytes, .. }) = c.cache.peek(from).await? else { return Ok(Copied::Nothing) };
    c.moves(value_bytes, [from, to].into_iter().map(<[u8]>::to_vec));
    if !c.cache.get(from, c.value).await? {
        return Ok(Copied::Nothing);
    }
    let Meta { expiry_ms, attributes, .. } = c.value.meta();
    let options = SetOptions { condition, expiry: expiry_ms.map_or(Expiry::Never, Expiry::AtMs), attributes };
    let outcome = c.cache.set(to, c.value.bytes(), &options).await;
    string::forget(c.value);
    Ok(if outcome?.stored { Copied::Done } else { Copied::Refused })
}

/// How copying an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    /// There is no such object.
    Nothing,
    /// The other key is there already.
    Refused,
    Done,
}

/// `RENAME key key`
pub async fn rename<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    rename_if(c, Condition::Always).await?;
    c.reply.ok();
    Ok(())
}

/// `RENAMENX key key`
pub async fn renamenx<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let copied = rename_if(c, Condition::IfAbsent).await?;
    c.reply.yes(copied == Copied::Done);
    Ok(())
}

async fn rename_if<G: Engine>(c: &mut Context<'_, G>, condition: Condition) -> Result<Copied, CommandError> {
    let (from, to) = (c.key(1), c.key(2));
    let copied = match from == to {
        // It stays where it is.
        true if c.cache.peek(&from).await?.is_some() => Copied::Refused,
        true => Copied::Nothing,
        false => duplicate(c, &from, &to, condition).await?,
    };
    match copied {
        Copied::Nothing => return Err("ERR no such key".into()),
        Copied::Done => {
            c.cache.delete(&from).await?;
            // As in Redis what was there before is removed first, without an event.
            c.notify(Class::NEW, "new", c.args.get(2));
            c.notify(Class::GENERIC, "rename_from", c.args.get(1));
            c.notify(Class::GENERIC, "rename_to", c.args.get(2));
        }
        Copied::Refused => {}
    }
    Ok(copied)
}

/// `COPY key key [DB database] [REPLACE]`
pub async fn copy<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (mut number, mut condition, mut rest) = (c.session.database, Condition::IfAbsent, c.args.from(3));
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "replace") => condition = Condition::Always,
            () if is(word, "db") => {
                number = keyspace::database_number(rest.next().ok_or(CommandError::Syntax)?)?;
            }
            () => return Err(CommandError::Syntax),
        }
    }
    let (from, to) = (c.key(1), c.instance.databases.get(number).stored(c.args.get(2)));
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let copied = duplicate(c, &from, &to, condition).await?;
    c.looked(c.args.get(1), copied != Copied::Nothing);
    if copied == Copied::Done {
        c.notify_in(number, Class::NEW, "new", c.args.get(2));
        c.notify_in(number, Class::GENERIC, "copy_to", c.args.get(2));
    }
    c.reply.yes(copied == Copied::Done);
    Ok(())
}

/// `MOVE key database`
pub async fn relocate<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let number = keyspace::database_number(c.args.get(2))?;
    let (from, to) = (c.key(1), c.instance.databases.get(number).stored(c.args.get(1)));
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let copied = duplicate(c, &from, &to, Condition::IfAbsent).await?;
    if copied == Copied::Done {
        c.cache.delete(&from).await?;
        c.notify_in(number, Class::NEW, "new", c.args.get(1));
        c.notify(Class::GENERIC, "move_from", c.args.get(1));
        c.notify_in(number, Class::GENERIC, "move_to", c.args.get(1));
    }
    c.reply.yes(copied == Copied::Done);
    Ok(())
}
