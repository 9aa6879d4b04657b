//! Estimates of how many different elements there were.
//!
//! A change of one key is one atomic step for the whole pool. PFMERGE reads its keys and then
//! changes the first: no other command of this server runs meanwhile, but other processes of the
//! pool may change a source in between.
//!
//! Differences from Redis: the bytes of a value that is not dense may differ, though both read each
//! other's; PFCOUNT stores no cardinality in the value. PFDEBUG and PFSELFTEST are not there.

use super::modify::{Modified, Subject, modify};
use super::{CommandError, Context, Outcome, string};
use crate::redis::events::Class;
use crate::redis::hyperloglog::{NotRead, Registers};
use crate::redis::kind::Kind;
use atoll_cache::Engine;

const SETS: Subject = Subject { kind: Kind::STRING, class: Class::STRING, event: "pfadd" };

impl From<NotRead> for CommandError {
    fn from(why: NotRead) -> Self {
        match why {
            NotRead::Other => "WRONGTYPE Key is not a valid HyperLogLog string value.".into(),
            NotRead::Corrupted => "INVALIDOBJ Corrupted HLL object detected".into(),
        }
    }
}

/// The union of the sets of the keys from this argument on.
async fn union<G: Engine>(c: &mut Context<'_, G>, first: usize) -> Result<Registers, CommandError> {
    let mut union = Registers::default();
    for index in first..c.args.len() {
        if c.look(index, Kind::STRING).await? {
            let read = Registers::read(c.value.bytes());
            string::forget(c.value);
            union.merge(&read?);
        }
    }
    Ok(union)
}

/// `PFADD key [element...]`
pub async fn pfadd<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (key, args) = (c.key(1), c.args);
    let is_changed = modify(c, &key, SETS, async |old, new, _| {
        let mut registers = old.map_or_else(|| Ok(Registers::default()), Registers::read)?;
        let changed = args.from(2).filter(|element| registers.add(element)).count();
        if changed == 0 && old.is_some() {
            return Ok(Modified::Kept(false));
        }
        registers.encode(new);
        Ok(Modified::Put(true))
    });
    let is_changed = is_changed.await?;
    c.reply.yes(is_changed);
    Ok(())
}

/// `PFCOUNT key...`
pub async fn pfcount<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let union = union(c, 1).await?;
    c.reply.integer(i64::try_from(union.estimate()).unwrap_or(i64::MAX));
    Ok(())
}

/// `PFMERGE destination [source...]`
pub async fn pfmerge<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (sources, destination) = (union(c, 1).await?, c.key(1));
    let merged = modify(c, &destination, SETS, async |old, new, _| {
        let mut registers = old.map_or_else(|| Ok(Registers::default()), Registers::read)?;
        registers.merge(&sources);
        registers.encode(new);
        Ok(Modified::Put(()))
    });
    merged.await?;
    c.reply.ok();
    Ok(())
}
