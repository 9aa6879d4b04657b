//! A random load on a cache, recorded as a history. The same load runs on the simulated fabric and on shared memory.

use atoll_cache::{Cache, CacheError, Condition, Engine, Expiry, Number, SetOptions, Value};
use atoll_sim::Random;
use atoll_sim::history::{self, Call, History, Outcome, Pending, Seen};

/// What writes down the operations of a load.
pub trait Recorder {
    /// An operation under way.
    type Pending;
    /// A client invokes an operation.
    fn begin(&self, client: u32, key: &[u8], call: Call) -> Self::Pending;
    /// It returned.
    fn end(&self, pending: Self::Pending, outcome: Outcome);
}

impl Recorder for std::rc::Rc<History> {
    type Pending = Pending;

    fn begin(&self, client: u32, key: &[u8], call: Call) -> Pending {
        History::begin(self, client, key, call)
    }

    fn end(&self, pending: Pending, outcome: Outcome) {
        History::end(self, pending, outcome);
    }
}

/// What a client does.
#[derive(Clone, Debug)]
pub struct Load {
    /// Keys; few, so that clients meet.
    pub keys: u64,
    /// Operations of each client.
    pub operations: u64,
    /// Longest value in bytes.
    pub value_bytes_max: u64,
    /// Percent of operations that are lookups.
    pub lookups: u64,
    /// Whether there are deletes, increments, appends, conditions and expiries beside sets and lookups.
    pub mixed: bool,
    /// Whether some sets are for a few milliseconds, and some expiries are moved by as much.
    pub expiring: bool,
}

/// A value that no other write has, of about `bytes`.
pub fn unique_value(client: u32, step: u64, bytes: u64) -> Vec<u8> {
    let mut value = format!("{client}.{step}.").into_bytes();
    let fill = (client as u8).wrapping_mul(17).wrapping_add(step as u8);
    value.resize(value.len().max(bytes as usize), fill);
    value
}

fn key_of(index: u64) -> Vec<u8> {
    // Keys of different lengths, one of them empty.
    if index == 0 {
        Vec::new()
    } else {
        format!("k{}", "x".repeat(index as usize % 5) + &index.to_string()).into_bytes()
    }
}

/// Does one client's part of the load. Errors that the load permits (no room) leave the operation pending: it may have happened.
pub async fn run<G: Engine, R: Recorder>(
    cache: &mut Cache<G>,
    client: u32,
    seed: u64,
    load: &Load,
    history: &R,
) -> Result<(), CacheError> {
    let mut random = Random::stream(seed, u64::from(client) + 1000);
    let mut value = Value::new();
    for step in 0..load.operations {
        let key = key_of(random.below(load.keys));
        if random.below(100) < load.lookups {
            if load.mixed && random.below(8) == 0 {
                // More keys than one batch takes, some of them twice.
                let keys: Vec<_> = (0..random.spread(6)).map(|_| key_of(random.below(load.keys))).collect();
                let pending: Vec<_> = keys.iter().map(|key| history.begin(client, key, Call::Get)).collect();
                let mut outcomes = Vec::new();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                cache.get_many(&keys, |_, value| outcomes.push(Outcome::get(value.map(Value::bytes)))).await?;
                pending.into_iter().zip(outcomes).for_each(|(pending, outcome)| history.end(pending, outcome));
                continue;
            }
            let pending = history.begin(client, &key, Call::Get);
            let hit = cache.get(&key, &mut value).await?;
            history.end(pending, Outcome::get(hit.then(|| value.bytes())));
            continue;
        }
        let bytes = random.below(load.value_bytes_max.max(1)) >> random.below(4);
        let choice = if load.mixed { random.below(16) } else { 0 };
        one_change(cache, client, step, &key, bytes, choice, load.expiring, &mut random, history).await?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "a test's plain plumbing")]
async fn one_change<G: Engine, R: Recorder>(
    cache: &mut Cache<G>,
    client: u32,
    step: u64,
    key: &[u8],
    bytes: u64,
    choice: u64,
    expiring: bool,
    random: &mut Random,
    history: &R,
) -> Result<(), CacheError> {
    let mut old = Value::new();
    match choice {
        0..=6 => {
            let value = unique_value(client, step, bytes);
            let pending = history.begin(client, key, Call::set(value.clone()));
            let soon = expiring && random.below(2) == 0;
            let expiry = if soon { Expiry::InMs(1 + random.below(3)) } else { Expiry::Never };
            let outcome = cache.set(key, &value, &SetOptions { expiry, ..SetOptions::default() }).await?;
            history.end(pending, Outcome::Set { stored: true, seen: Seen::Nothing, token: Some(outcome.token) });
        }
        7 => {
            let value = unique_value(client, step, bytes);
            let pending = history.begin(client, key, Call::set_if(value.clone(), history::Condition::IfAbsent));
            let options = SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() };
            let outcome = cache.set(key, &value, &options).await?;
            history.end(pending, Outcome::stored(outcome.stored));
        }
        8 => {
            let value = unique_value(client, step, bytes);
            let pending = history.begin(client, key, Call::set_if(value.clone(), history::Condition::IfPresent));
            let options = SetOptions { condition: Condition::IfPresent, ..SetOptions::default() };
            let outcome = cache.set_returning(key, &value, &options, Some(&mut old)).await?;
            let seen = if outcome.old.is_some() { Seen::value(old.bytes()) } else { Seen::Absent };
            history.end(pending, Outcome::Set { stored: outcome.stored, seen, token: None });
        }
        9 => {
            let pending = history.begin(client, key, Call::Get);
            let meta = cache.peek(key).await?;
            let token = meta.map(|meta| meta.token);
            let seen = match token {
                None => Seen::Absent,
                Some(token) => Seen::Present { value: None, token: Some(token) },
            };
            history.end(pending, Outcome::Seen(seen));
            let Some(token) = token else { return Ok(()) };
            let value = unique_value(client, step, bytes);
            let call = Call::set_if(value.clone(), history::Condition::IfToken(token));
            let pending = history.begin(client, key, call);
            let options = SetOptions { condition: Condition::IfToken(token), ..SetOptions::default() };
            let outcome = cache.set(key, &value, &options).await?;
            let token = outcome.stored.then_some(outcome.token);
            history.end(pending, Outcome::Set { stored: outcome.stored, seen: Seen::Nothing, token });
        }
        10 | 11 => {
            let pending = history.begin(client, key, Call::Delete);
            let found = cache.delete(key).await?;
            history.end(pending, Outcome::Seen(Seen::presence(found)));
        }
        12 | 13 => {
            // Numbers live under keys of their own, so that increments meet each other.
            let key = [b"n", key].concat();
            let by = random.below(10) as i64 + 1;
            let pending = history.begin(client, &key, Call::Increment { by });
            let outcome = match cache.increment(&key, by).await? {
                Number::Value(number) => Outcome::Number(number),
                Number::NotANumber => Outcome::NotANumber,
                Number::Overflow => Outcome::Overflow,
            };
            history.end(pending, outcome);
        }
        14 => {
            let key = [b"a", key].concat();
            let suffix = format!("{client}{step},").into_bytes();
            if random.below(3) == 0 {
                let pending = history.begin(client, &key, Call::Delete);
                let found = cache.take(&key, Some(&mut old)).await?;
                let seen = if found { Seen::value(old.bytes()) } else { Seen::Absent };
                history.end(pending, Outcome::Seen(seen));
            } else {
                let pending = history.begin(client, &key, Call::Append { suffix: suffix.clone() });
                let length = cache.append(&key, &suffix).await?;
                history.end(pending, Outcome::Length(length));
            }
        }
        _ => {
            let pending = history.begin(client, key, Call::Expire { expiry_ms: None });
            let later_ms = if expiring { 1 + random.below(4) } else { 1 << 40 };
            let expiry = if random.below(2) == 0 { Expiry::Never } else { Expiry::InMs(later_ms) };
            let outcome = cache.expire(key, expiry, atoll_cache::ExpireCondition::default()).await?;
            let seen = Seen::presence(outcome != atoll_cache::ExpireOutcome::Absent);
            history.end(pending, Outcome::Seen(seen));
        }
    }
    Ok(())
}
