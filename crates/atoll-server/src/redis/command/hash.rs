//! Hashes: values that are fields with values of their own.
//!
//! A hash is one value of the cache, with one expiry, and is evicted as a whole. A change of it is
//! one atomic step for the whole pool. A change writes all of the hash anew, and a lookup of a
//! field reads all of it: hashes are for sessions and records, not for tables.
//!
//! Differences from Redis: a hash has at most 1 MiB ([`BYTES_MAX`]): its fields and values, with a
//! byte or more for the length of each. Its fields are shown in the order in which they came, and
//! HSCAN shows all at once, as Redis does with a hash that it keeps as a listpack. Replies of HMGET
//! and HRANDFIELD that repeat fields have at most 64 MiB.
//!
//! [`BYTES_MAX`]: crate::redis::hash::BYTES_MAX

use super::arguments::{integer, is};
use super::modify::{Modified, Subject, modify};
use super::{CommandError, Context, Outcome, keyspace, string};
use crate::redis::events::Class;
use crate::redis::extended::{Extended, Sum};
use crate::redis::glob;
use crate::redis::hash::{Fields, Hash, Pair, Remaking, TooLong};
use crate::redis::isolation::Turn;
use crate::redis::kind::Kind;
use crate::redis::resp::{Protocol, Reply};
use atoll_cache::Engine;
use atoll_cache::cache::parse_integer;
use std::hash::{BuildHasher, RandomState};

/// The most bytes of a reply that repeats fields.
const REPEATED_BYTES_MAX: usize = 64 << 20;
/// Bytes that are written or compared before other connections run.
const STEP_BYTES: usize = 1 << 20;
/// About what stands around a text in a reply.
const AROUND_BYTES: usize = 32;

const DAMAGED: &str = "ERR the value is no hash that a client of Redis has written: remove the key, or set it anew";

/// What a command says of the hashes that it changes.
fn subject(event: &'static str) -> Subject {
    Subject { kind: Kind::HASH, class: Class::HASH, event }
}

fn read(bytes: &[u8]) -> Result<Hash<'_>, CommandError> {
    Hash::read(bytes).ok_or_else(|| DAMAGED.into())
}

/// Replies with what `reply` makes of the hash at argument 1, `None` if it is absent.
async fn look<G: Engine>(c: &mut Context<'_, G>, reply: impl FnOnce(&mut Reply<'_>, Option<Hash<'_>>)) -> Outcome {
    let is_there = c.look(1, Kind::HASH).await?;
    let replied = match is_there.then(|| read(c.value.bytes())).transpose() {
        Ok(hash) => {
            reply(&mut c.reply, hash);
            Ok(())
        }
        Err(error) => Err(error),
    };
    string::forget(c.value);
    replied
}

fn bulk_or_null(reply: &mut Reply<'_>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => reply.bulk(bytes),
        None => reply.null(),
    }
}

/// Fields of a command that are read before other connections run.
const STEP_FIELDS: usize = 4096;

/// The field of this number was read.
async fn pass(turn: &mut Turn<'_>, index: usize) {
    if index % STEP_FIELDS == STEP_FIELDS - 1 {
        turn.yield_if_over().await;
    }
}

/// Makes a hash anew; other connections run in between, unless another client came in between
/// before.
async fn remade(
    mut remaking: Remaking<'_, '_>,
    turn: &mut Turn<'_>,
    is_again: bool,
    new: &mut Vec<u8>,
) -> Result<usize, TooLong> {
    if is_again {
        return remaking.whole(new);
    }
    while remaking.step(STEP_FIELDS, new) {
        turn.yield_if_over().await;
    }
    remaking.end()
}

/// `HGET key field`
pub async fn hget<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let field = c.args.get(2);
    look(c, |reply, hash| bulk_or_null(reply, hash.and_then(|hash| hash.get(field)))).await
}

/// `HMGET key field...`
pub async fn hmget<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (mut fields, mut places, mut turn) = (Fields::with_room(c.args.len() - 2), Vec::new(), c.turn());
    for (index, field) in c.args.from(2).enumerate() {
        places.push(fields.add(field));
        pass(&mut turn, index).await;
    }
    let is_there = c.look(1, Kind::HASH).await?;
    let replied = reply_fields(c, is_there, &fields, &places).await;
    string::forget(c.value);
    replied
}

/// Replies with the fields from argument 2 on of the hash that was looked up.
async fn reply_fields<G: Engine>(
    c: &mut Context<'_, G>,
    is_there: bool,
    fields: &Fields<'_>,
    places: &[usize],
) -> Outcome {
    let (hash, mut turn) = (is_there.then(|| read(c.value.bytes())).transpose()?, c.turn());
    let mut found = vec![None; fields.list().len()];
    for (index, (field, value)) in hash.iter().flat_map(Hash::pairs).enumerate() {
        if let Some(place) = fields.place(field) {
            found[place].get_or_insert(value);
        }
        pass(&mut turn, index).await;
    }
    let mut bytes = 0;
    for (index, place) in places.iter().enumerate() {
        bytes += found[*place].map_or(0, |value| value.len() + AROUND_BYTES);
        pass(&mut turn, index).await;
    }
    check_repeated(bytes)?;
    c.reply.array(places.len());
    for (index, place) in places.iter().enumerate() {
        bulk_or_null(&mut c.reply, found[*place]);
        pass(&mut turn, index).await;
    }
    Ok(())
}

/// Refuses a reply that has become too long, since it repeats fields.
fn check_repeated(bytes: usize) -> Outcome {
    if bytes > REPEATED_BYTES_MAX {
        Err("ERR value is out of range, the reply would be too long".into())
    } else {
        Ok(())
    }
}

/// `HEXISTS key field`
pub async fn hexists<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let field = c.args.get(2);
    look(c, |reply, hash| reply.yes(hash.is_some_and(|hash| hash.get(field).is_some()))).await
}

/// `HSTRLEN key field`
pub async fn hstrlen<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let field = c.args.get(2);
    look(c, |reply, hash| reply.count(hash.and_then(|hash| hash.get(field)).map_or(0, <[u8]>::len))).await
}

/// `HLEN key`
pub async fn hlen<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    look(c, |reply, hash| reply.count(hash.map_or(0, |hash| hash.count()))).await
}

/// Replies with `each` pair of the hash at argument 1, behind a head for so many. Other connections
/// run in between.
async fn look_at_each<G: Engine>(
    c: &mut Context<'_, G>,
    head: fn(&mut Reply<'_>, usize),
    each: fn(&mut Reply<'_>, Pair<'_>),
) -> Outcome {
    let is_there = c.look(1, Kind::HASH).await?;
    let hash = is_there.then(|| read(c.value.bytes())).transpose();
    let replied = match hash {
        Ok(hash) => {
            let mut turn = c.turn();
            head(&mut c.reply, hash.map_or(0, |hash| hash.count()));
            for (index, pair) in hash.iter().flat_map(Hash::pairs).enumerate() {
                each(&mut c.reply, pair);
                pass(&mut turn, index).await;
            }
            Ok(())
        }
        Err(error) => Err(error),
    };
    string::forget(c.value);
    replied
}

/// `HGETALL key`
pub async fn hgetall<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    look_at_each(c, |reply, pairs| reply.map(pairs), flat).await
}

fn flat(reply: &mut Reply<'_>, (field, value): Pair<'_>) {
    reply.bulk(field);
    reply.bulk(value);
}

/// `HKEYS key`
pub async fn hkeys<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    look_at_each(c, |reply, pairs| reply.array(pairs), |reply, (field, _)| reply.bulk(field)).await
}

/// `HVALS key`
pub async fn hvals<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    look_at_each(c, |reply, pairs| reply.array(pairs), |reply, (_, value)| reply.bulk(value)).await
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
pub async fn hscan<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    keyspace::cursor(c.args.get(2))?;
    let replied = match c.look(1, Kind::HASH).await? {
        true => scan(c).await,
        // Redis reads the options only if the key is there.
        false => {
            reply_pairs(&mut c.reply, &[], true);
            Ok(())
        }
    };
    string::forget(c.value);
    replied
}

/// Replies with the pairs of the hash that was looked up. Other connections run in between.
async fn scan<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let options = keyspace::scan_options(c, 3, false)?;
    let (hash, pattern) = (read(c.value.bytes())?, options.pattern);
    let (mut found, mut compared, mut turn) = (Vec::new(), 0, c.turn());
    for pair @ (field, _) in hash.pairs() {
        if glob::matches(pattern, field) {
            found.push(pair);
        }
        compared += (field.len() + 1).saturating_mul(pattern.len());
        if compared >= STEP_BYTES {
            compared = 0;
            turn.yield_if_over().await;
        }
    }
    reply_pairs(&mut c.reply, &found, !options.no_values);
    Ok(())
}

/// A cursor that is at its end, and these pairs.
fn reply_pairs(reply: &mut Reply<'_>, pairs: &[Pair<'_>], with_values: bool) {
    reply.array(2);
    reply.bulk(b"0");
    reply.array(pairs.len() * if with_values { 2 } else { 1 });
    pairs.iter().for_each(|pair| show(reply, *pair, with_values, true));
}

/// Random numbers.
#[derive(Default)]
struct Draw {
    random: RandomState,
    drawn: u64,
}

impl Draw {
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        ((u128::from(self.random.hash_one(self.drawn)) * bound as u128) >> 64) as usize
    }
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub async fn hrandfield<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.args.len() == 2 {
        return look(c, |reply, hash| {
            let some = hash.and_then(|hash| hash.pairs().nth(Draw::default().below(hash.count())));
            bulk_or_null(reply, some.map(|(field, _)| field));
        })
        .await;
    }
    let count = integer(c.args.get(2))?;
    if count == i64::MIN {
        let (least, greatest) = (-i64::MAX, i64::MAX);
        return Err(CommandError::Other(format!(
            "ERR value is out of range, value must between {least} and {greatest}"
        )));
    }
    let with_values = match c.args.len() {
        3 => false,
        4 if is(c.args.get(3), "withvalues") => true,
        _ => return Err(CommandError::Syntax),
    };
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    let count_max = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        let replied = repeat(c, count_max, with_values).await;
        string::forget(c.value);
        return replied;
    }
    let is_flat = c.reply.protocol() == Protocol::Resp2;
    look(c, |reply, hash| {
        let present = hash.map_or(0, |hash| hash.count());
        let count = count_max.min(present);
        reply.array(if with_values && is_flat { count * 2 } else { count });
        // Each pair is chosen with the chance that makes every choice of so many as likely.
        let (mut draw, mut wanted) = (Draw::default(), count);
        for (index, pair) in hash.iter().flat_map(Hash::pairs).enumerate() {
            if draw.below(present - index) < wanted {
                show(reply, pair, with_values, is_flat);
                wanted -= 1;
            }
        }
    })
    .await
}

fn show(reply: &mut Reply<'_>, (field, value): Pair<'_>, with_values: bool, is_flat: bool) {
    if with_values && !is_flat {
        reply.array(2);
    }
    reply.bulk(field);
    if with_values {
        reply.bulk(value);
    }
}

/// Replies with so many fields, each drawn from all. Other connections run in between.
async fn repeat<G: Engine>(c: &mut Context<'_, G>, count: usize, with_values: bool) -> Outcome {
    let is_flat = c.reply.protocol() == Protocol::Resp2;
    if !c.look(1, Kind::HASH).await? {
        c.reply.array(0);
        return Ok(());
    }
    let pairs: Vec<Pair<'_>> = read(c.value.bytes())?.pairs().collect();
    let bytes = |(field, value): &Pair<'_>| field.len() + AROUND_BYTES + if with_values { value.len() } else { 0 };
    let longest = pairs.iter().map(bytes).max().unwrap_or(0);
    check_repeated(count.saturating_mul(longest))?;
    c.reply.array(if with_values && is_flat { count * 2 } else { count });
    let (mut draw, mut written, mut turn) = (Draw::default(), 0, c.turn());
    for _ in 0..count {
        let pair = pairs[draw.below(pairs.len())];
        show(&mut c.reply, pair, with_values, is_flat);
        written += bytes(&pair);
        if written >= STEP_BYTES {
            written = 0;
            turn.yield_if_over().await;
        }
    }
    Ok(())
}

impl From<TooLong> for CommandError {
    fn from(error: TooLong) -> Self {
        Self::Other(format!("ERR {error}"))
    }
}

/// Sets the fields from argument 2 on, and returns how many are new.
async fn set_pairs<G: Engine>(c: &mut Context<'_, G>) -> Result<usize, CommandError> {
    if c.args.len() % 2 == 1 {
        return Err(CommandError::Arity(c.spec.name));
    }
    let (mut fields, mut values) = (Fields::with_room(c.args.len() / 2), Vec::new());
    let (mut rest, mut turn) = (c.args.from(2), c.turn());
    while let (Some(field), Some(value)) = (rest.next(), rest.next()) {
        let place = fields.add(field);
        values.resize(fields.list().len(), &[][..]);
        values[place] = value;
        pass(&mut turn, place).await;
    }
    let key = c.key(1);
    modify(c, &key, subject("hset"), async |old, new, is_again| {
        let remaking = Remaking::set(old.map(read).transpose()?, &fields, &values);
        Ok(Modified::Put(remade(remaking, &mut turn, is_again, new).await?))
    })
    .await
}

/// `HSET key field value [field value...]`
pub async fn hset<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let added = set_pairs(c).await?;
    c.reply.count(added);
    Ok(())
}

/// `HMSET key field value [field value...]`
pub async fn hmset<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    set_pairs(c).await?;
    c.reply.ok();
    Ok(())
}

/// Sets the field at argument 2 to what `make` makes of its present value, unless that is nothing.
async fn set_field<G: Engine, T>(
    c: &mut Context<'_, G>,
    event: &'static str,
    mut make: impl FnMut(Option<&[u8]>) -> Result<Option<(Vec<u8>, T)>, CommandError>,
) -> Result<Option<T>, CommandError> {
    let (key, mut fields) = (c.key(1), Fields::default());
    fields.add(c.args.get(2));
    modify(c, &key, subject(event), async |old, new, _| {
        let hash = old.map(read).transpose()?;
        let Some((value, made)) = make(hash.and_then(|hash| hash.get(fields.list()[0])))? else {
            return Ok(Modified::Kept(None));
        };
        Remaking::set(hash, &fields, &[&value]).whole(new)?;
        Ok(Modified::Put(Some(made)))
    })
    .await
}

/// `HSETNX key field value`
pub async fn hsetnx<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let value = c.args.get(3);
    let set = set_field(c, "hset", |old| Ok(old.is_none().then(|| (value.to_vec(), ())))).await?;
    c.reply.yes(set.is_some());
    Ok(())
}

/// `HINCRBY key field number`
pub async fn hincrby<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let by = integer(c.args.get(3))?;
    let sum = set_field(c, "hincrby", |old| {
        let number = old.map_or(Some(0), parse_integer).ok_or("ERR hash value is not an integer")?;
        let sum = number.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        Ok(Some((sum.to_string().into_bytes(), sum)))
    });
    let sum = sum.await?.expect("a sum was made");
    c.reply.integer(sum);
    Ok(())
}

/// `HINCRBYFLOAT key field number`
pub async fn hincrbyfloat<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let by = Extended::parse(c.args.get(3)).ok_or(CommandError::NotAFloat)?;
    if !by.is_finite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let sum = set_field(c, "hincrbyfloat", |old| {
        let number = Extended::parse(old.unwrap_or(b"0")).ok_or("ERR hash value is not a float")?;
        match number.add(&by) {
            Sum::Finite(sum) => Ok(Some((sum.to_string().into_bytes(), sum.to_string()))),
            Sum::NotFinite => Err("ERR increment would produce NaN or Infinity".into()),
        }
    });
    let sum = sum.await?.expect("a sum was made");
    c.reply.bulk(sum.as_bytes());
    Ok(())
}

/// `HDEL key field...`
pub async fn hdel<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (key, mut fields) = (c.key(1), Fields::with_room(c.args.len() - 2));
    let mut turn = c.turn();
    for (index, field) in c.args.from(2).enumerate() {
        fields.add(field);
        pass(&mut turn, index).await;
    }
    let removed = modify(c, &key, subject("hdel"), async |old, new, is_again| {
        let Some(old) = old else { return Ok(Modified::Kept(0)) };
        let removed = remade(Remaking::remove(read(old)?, &fields), &mut turn, is_again, new).await?;
        Ok(match removed {
            0 => Modified::Kept(0),
            _ if new.is_empty() => Modified::Removed(removed),
            _ => Modified::Put(removed),
        })
    });
    let removed = removed.await?;
    c.reply.count(removed);
    Ok(())
}
