//! A random load on a cache, recorded as a history. The same load runs on the simulated fabric and
//! on shared memory.

use crate::compiled::{Boxed, boxed};
use atoll_cache::{
    Cache, CacheError, Condition, Engine, ExpireCondition, ExpireOutcome, Expiry, Lasting, Number, Pooled, SetOptions,
    Value,
};
use atoll_fabric::Endpoint;
use atoll_pool::clock::SKEW_MS;
use atoll_sim::Random;
use atoll_sim::history::{self, Call, History, Outcome, Pending, Seen};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;

/// The recorder of a load's operations.
pub trait Recorder {
    /// An operation under way.
    type Pending;
    /// A client invokes an operation.
    fn begin(&self, client: u32, key: &[u8], call: Call) -> Self::Pending;
    /// It returned.
    fn end(&self, pending: Self::Pending, outcome: Outcome);
    /// It has ended, and no client knows its outcome.
    fn over(&self, pending: Self::Pending);
}

impl Recorder for std::rc::Rc<History> {
    type Pending = Pending;

    fn begin(&self, client: u32, key: &[u8], call: Call) -> Pending {
        History::begin(self, client, key, call)
    }

    fn end(&self, pending: Pending, outcome: Outcome) {
        History::end(self, pending, outcome);
    }

    fn over(&self, pending: Pending) {
        History::over(self, pending);
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
    /// Whether there are deletes, increments, appends, conditions and expiries beside sets and
    /// lookups.
    pub mixed: bool,
    /// Whether some objects live for a few milliseconds, some expiries are moved by as much, and
    /// clients pause for as long.
    pub expiring: bool,
    /// Percent of operations whose futures are dropped on the way.
    pub dropped: u64,
}

impl Load {
    /// A load of all kinds of operations, without expiry and without dropped futures.
    pub const fn new(keys: u64, operations: u64, value_bytes_max: u64, lookups: u64) -> Self {
        Self { keys, operations, value_bytes_max, lookups, mixed: true, expiring: false, dropped: 0 }
    }
}

/// What a client has at hand while it does its part.
struct Part<'a, G: Engine + 'static, R: Recorder> {
    client: &'a Player<'a, G, R>,
    cache: &'a Cache<Lasting<G>>,
    random: Random,
    expiring: bool,
    /// What has begun, in this order.
    under_way: VecDeque<R::Pending>,
}

/// A client, as all that it has under way share it.
struct Player<'a, G: Engine + 'static, R: Recorder> {
    cache: &'a Cache<Lasting<G>>,
    /// Whether the fabric failed it: what it had posted may take effect later.
    is_lost: &'a dyn Fn() -> bool,
    number: u32,
    history: &'a R,
    /// What was dropped, with how many operations the engine must have ended of those that were
    /// left until it is over.
    dropped: RefCell<Vec<(u64, R::Pending)>>,
}

impl<G: Engine + 'static, R: Recorder> Player<'_, G, R> {
    /// Reports the dropped operations that have ended.
    fn tell_what_is_over(&self) {
        if (self.is_lost)() {
            return;
        }
        let ended = self.cache.engine().left_and_ended();
        let mut dropped = self.dropped.borrow_mut();
        let over = dropped.extract_if(.., |(until, _)| *until <= ended);
        over.for_each(|(_, pending)| self.history.over(pending));
    }
}

/// A value that no other write has, of about `bytes`.
pub fn unique_value(client: u32, step: u64, bytes: u64) -> Vec<u8> {
    let mut value = format!("{client}.{step}.").into_bytes();
    let fill = (client as u8).wrapping_mul(17).wrapping_add(step as u8);
    value.resize(value.len().max(bytes as usize), fill);
    value
}

/// An expiry after so many milliseconds, for the cache and for the history. The cache adds what the
/// clocks of clients differ.
fn in_ms(ms: u64) -> (Expiry, history::Expiry) {
    (Expiry::InMs(ms), history::Expiry::InMs(ms + SKEW_MS))
}

fn key_of(index: u64) -> Vec<u8> {
    // Keys of different lengths, one of them empty.
    if index == 0 {
        Vec::new()
    } else {
        format!("k{}", "x".repeat(index as usize % 5) + &index.to_string()).into_bytes()
    }
}

/// Runs one client's part of the load, with this many operations at a time. Errors that the load
/// permits (no room) leave the operation pending: it may have happened.
pub fn run<'a, E: Endpoint + 'static, G: Pooled<E> + 'static, R: Recorder>(
    cache: &'a Cache<Lasting<G>>,
    number: u32,
    seed: u64,
    load: &'a Load,
    lanes: u64,
    history: &'a R,
) -> Boxed<'a, Result<(), CacheError>> {
    boxed(run_lanes(cache, number, seed, load, lanes, history))
}

async fn run_lanes<E: Endpoint, G: Pooled<E> + 'static, R: Recorder>(
    cache: &Cache<Lasting<G>>,
    number: u32,
    seed: u64,
    load: &Load,
    lanes: u64,
    history: &R,
) -> Result<(), CacheError> {
    let is_lost = &|| cache.engine().client().is_lost();
    let client = &Player { cache, is_lost, number, history, dropped: RefCell::default() };
    let mut random = Random::stream(seed, u64::from(number) + 1000);
    if lanes <= 1 {
        return run_lane(client, random, load, 0..load.operations).await;
    }
    let steps = load.operations.div_ceil(lanes);
    let lane = |lane: u64| {
        let random = Random::stream(seed, 10_000 + 1_000 * u64::from(number) + lane);
        run_lane(client, random, load, lane * steps..(lane + 1) * steps)
    };
    if random.below(2) == 0 {
        only_woken((0..lanes).map(lane)).await
    } else {
        all_in_any_order((0..lanes).map(lane), random).await
    }
}

/// Polls lanes that were woken, as executors do. A lane that is never woken makes the case hang.
/// Runs to the end of all lanes: a lane that fails does not stop the others.
async fn only_woken(lanes: impl Iterator<Item: Future<Output = Result<(), CacheError>>>) -> Result<(), CacheError> {
    let mut under_way: FuturesUnordered<_> = lanes.collect();
    let mut outcome = Ok(());
    while let Some(ended) = under_way.next().await {
        outcome = outcome.and(ended);
    }
    outcome
}

/// Polls all lanes whenever one is woken, and starts anywhere. Runs to the end of all lanes, too.
async fn all_in_any_order(
    lanes: impl Iterator<Item: Future<Output = Result<(), CacheError>>>,
    mut random: Random,
) -> Result<(), CacheError> {
    let mut under_way: Vec<_> = lanes.map(Box::pin).collect();
    let mut outcome = Ok(());
    poll_fn(|context| {
        let first = random.below(under_way.len().max(1) as u64) as usize;
        under_way.rotate_left(first);
        under_way.retain_mut(|lane| match lane.as_mut().poll(context) {
            Poll::Ready(ended) => {
                outcome = std::mem::replace(&mut outcome, Ok(())).and(ended);
                false
            }
            Poll::Pending => true,
        });
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcome
}

/// Some steps of a client's part, one after the other.
async fn run_lane<E: Endpoint, G: Pooled<E> + 'static, R: Recorder>(
    client: &Player<'_, G, R>,
    random: Random,
    load: &Load,
    steps: Range<u64>,
) -> Result<(), CacheError> {
    let cache = client.cache;
    let mut part = Part { client, cache, random, expiring: load.expiring, under_way: VecDeque::new() };
    for step in steps {
        if load.expiring && part.random.below(3) == 0 {
            let ns = part.random.below(PAUSE_NS_MAX);
            part.cache.engine().client().endpoint.pause(ns).await;
        }
        if load.dropped > 0 && part.random.below(100) < load.dropped {
            let polls = 1 + part.random.below(POLLS_MAX);
            match poll_at_most(polls, part.step(step, load)).await {
                Some(ended) => part.refused(ended)?,
                None => part.drop_what_is_under_way(),
            }
        } else {
            let ended = part.step(step, load).await;
            part.refused(ended)?;
        }
    }
    Ok(())
}

/// An operation is dropped after this many polls at most: near the beginning, where most of them
/// are, or in the middle of an eviction.
const POLLS_MAX: u64 = 24;

/// Polls so often, and then gives up.
pub async fn poll_at_most<F: Future>(polls: u64, operation: F) -> Option<F::Output> {
    let (mut operation, mut left) = (pin!(operation), polls);
    poll_fn(|context| match operation.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left <= 1 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// The longest pause between two operations of a load that expires: most objects outlive one.
const PAUSE_NS_MAX: u64 = 3_000_000;
/// The longest time that an object of such a load lives, if it does not stay.
const LIFE_MS_MAX: u64 = 8;

impl<G: Engine + 'static, R: Recorder> Part<'_, G, R> {
    fn begin(&mut self, key: &[u8], call: Call) {
        self.client.tell_what_is_over();
        self.under_way.push_back(self.client.history.begin(self.client.number, key, call));
    }

    /// What began first has returned.
    fn end(&mut self, outcome: Outcome) {
        let first = self.under_way.pop_front().expect("it began");
        self.client.history.end(first, outcome);
    }

    /// A change that was refused, because a memory node is gone, has ended.
    fn refused(&mut self, ended: Result<(), CacheError>) -> Result<(), CacheError> {
        if !matches!(ended, Err(CacheError::NodeAbsent { .. })) {
            return ended;
        }
        self.under_way.drain(..).for_each(|pending| self.client.history.over(pending));
        Ok(())
    }

    /// The future was dropped.
    fn drop_what_is_under_way(&mut self) {
        let left = self.cache.engine().left();
        let dropped = self.under_way.drain(..).map(|pending| (left, pending));
        self.client.dropped.borrow_mut().extend(dropped);
    }

    /// One operation, or a few that belong together.
    async fn step(&mut self, step: u64, load: &Load) -> Result<(), CacheError> {
        let key = key_of(self.random.below(load.keys));
        if self.random.below(100) >= load.lookups {
            let bytes = self.random.below(load.value_bytes_max.max(1)) >> self.random.below(4);
            let choices = if load.expiring { 17 } else { 16 };
            let choice = if load.mixed { self.random.below(choices) } else { 0 };
            self.change(step, &key, bytes, choice).await
        } else if load.mixed && self.random.below(8) == 0 {
            self.get_many(load.keys).await
        } else {
            self.get(step, &key).await
        }
    }

    /// A new object's expiry, for the cache and for the history.
    async fn expiry(&mut self) -> Result<(Expiry, history::Expiry), CacheError> {
        if !self.expiring || self.random.below(2) == 0 {
            return Ok((Expiry::Never, history::Expiry::Never));
        }
        self.expiry_soon().await
    }

    async fn expiry_soon(&mut self) -> Result<(Expiry, history::Expiry), CacheError> {
        let ms = 1 + self.random.below(LIFE_MS_MAX);
        Ok(match self.random.below(4) {
            0 => in_ms(ms),
            1 => (Expiry::Keep, history::Expiry::Keep),
            _ => {
                let at_ms = self.cache.now_ms().await? + ms;
                (Expiry::AtMs(at_ms), history::Expiry::AtMs(at_ms))
            }
        })
    }

    /// A lookup; every other one into memory of the client's own.
    async fn get(&mut self, step: u64, key: &[u8]) -> Result<(), CacheError> {
        const OWN_BYTES: usize = 64 << 10;
        let mut value = Value::new();
        self.begin(key, Call::Get);
        if step.is_multiple_of(2) {
            let mut own = vec![0; OWN_BYTES];
            match self.cache.get_to_slice(key, &mut own).await?.map(|meta| meta.value_bytes) {
                Some(bytes) if bytes > OWN_BYTES => {}
                found => {
                    self.end(Outcome::get(found.map(|bytes| &own[..bytes])));
                    return Ok(());
                }
            }
        }
        let hit = self.cache.get(key, &mut value).await?;
        self.end(Outcome::get(hit.then(|| value.bytes())));
        Ok(())
    }

    /// More keys than one batch takes, some of them twice.
    async fn get_many(&mut self, keys: u64) -> Result<(), CacheError> {
        let keys: Vec<_> = (0..self.random.spread(6)).map(|_| key_of(self.random.below(keys))).collect();
        keys.iter().for_each(|key| self.begin(key, Call::Get));
        let mut outcomes = Vec::new();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.cache.get_many(&keys, |_, value| outcomes.push(Outcome::get(value.as_deref().map(Value::bytes)))).await?;
        outcomes.into_iter().for_each(|outcome| self.end(outcome));
        Ok(())
    }

    async fn set_if(
        &mut self,
        key: &[u8],
        value: Vec<u8>,
        (condition, recorded): (Condition, history::Condition),
    ) -> Result<(), CacheError> {
        let (expiry, until) = self.expiry().await?;
        self.begin(key, Call::set_until(value.clone(), recorded, until));
        let outcome = self.cache.set(key, &value, &SetOptions { condition, expiry, ..SetOptions::default() }).await?;
        let token = outcome.stored.then_some(outcome.token);
        self.end(Outcome::Set { stored: outcome.stored, seen: Seen::Nothing, token });
        Ok(())
    }

    async fn set_returning(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), CacheError> {
        let (expiry, until) = self.expiry().await?;
        let call = Call::set_until(value.clone(), history::Condition::IfPresent, until);
        let mut old = Value::new();
        self.begin(key, call);
        let options = SetOptions { condition: Condition::IfPresent, expiry, ..SetOptions::default() };
        let outcome = self.cache.set_returning(key, &value, &options, Some(&mut old)).await?;
        let seen = if outcome.old.is_some() { Seen::value(old.bytes()) } else { Seen::Absent };
        self.end(Outcome::Set { stored: outcome.stored, seen, token: None });
        Ok(())
    }

    /// The token of what is there, which is not counted as an access.
    async fn peek(&mut self, key: &[u8]) -> Result<Option<u64>, CacheError> {
        self.begin(key, Call::Get);
        let token = self.cache.peek(key).await?.map(|meta| meta.token);
        let seen = match token {
            None => Seen::Absent,
            Some(token) => Seen::Present { value: None, token: Some(token) },
        };
        self.end(Outcome::Seen(seen));
        Ok(token)
    }

    async fn delete(&mut self, key: &[u8]) -> Result<(), CacheError> {
        self.begin(key, Call::Delete);
        let found = self.cache.delete(key).await?;
        self.end(Outcome::Seen(Seen::presence(found)));
        Ok(())
    }

    async fn take(&mut self, key: &[u8]) -> Result<(), CacheError> {
        let mut old = Value::new();
        self.begin(key, Call::Delete);
        let found = self.cache.take(key, Some(&mut old)).await?;
        let seen = if found { Seen::value(old.bytes()) } else { Seen::Absent };
        self.end(Outcome::Seen(seen));
        Ok(())
    }

    async fn increment(&mut self, key: &[u8]) -> Result<(), CacheError> {
        let by = self.random.below(10) as i64 + 1;
        self.begin(key, Call::Increment { by });
        let outcome = match self.cache.increment(key, by).await? {
            Number::Value(number) => Outcome::Number(number),
            Number::NotANumber => Outcome::NotANumber,
            Number::Overflow => Outcome::Overflow,
        };
        self.end(outcome);
        Ok(())
    }

    async fn append(&mut self, key: &[u8], step: u64) -> Result<(), CacheError> {
        let suffix = format!("{}{step},", self.client.number).into_bytes();
        self.begin(key, Call::Append { suffix: suffix.clone() });
        let length = self.cache.append(key, &suffix).await?;
        self.end(Outcome::Length(length));
        Ok(())
    }

    /// Moves an expiry: to never, or to a time that no run reaches, or to one that it does.
    async fn expire(&mut self, key: &[u8]) -> Result<(), CacheError> {
        let (expiry, until) = match self.random.below(2) {
            0 => (Expiry::Never, history::Expiry::Never),
            _ if self.expiring => self.expiry_soon().await?,
            _ => in_ms(1 << 40),
        };
        let mut value = Value::new();
        self.begin(key, Call::Expire { expiry: until });
        let outcome = if self.expiring && self.random.below(2) == 0 {
            let found = self.cache.get_and_expire(key, expiry, &mut value).await?;
            Outcome::get(found.then(|| value.bytes()))
        } else {
            match self.cache.expire(key, expiry, ExpireCondition::default()).await? {
                ExpireOutcome::Absent => Outcome::Seen(Seen::Absent),
                ExpireOutcome::Set => Outcome::Seen(Seen::presence(true)),
                ExpireOutcome::Removed => Outcome::Removed,
                ExpireOutcome::Refused => unreachable!("there is no condition"),
            }
        };
        self.end(outcome);
        Ok(())
    }

    async fn change(&mut self, step: u64, key: &[u8], bytes: u64, choice: u64) -> Result<(), CacheError> {
        let value = unique_value(self.client.number, step, bytes);
        // Numbers live under keys of their own, so that increments meet each other; so do values
        // that are appended to.
        let (numbers, appended) = ([b"n", key].concat(), [b"a", key].concat());
        match choice {
            0..=6 => self.set_if(key, value, (Condition::Always, history::Condition::Always)).await,
            7 => self.set_if(key, value, (Condition::IfAbsent, history::Condition::IfAbsent)).await,
            8 => self.set_returning(key, value).await,
            9 => match self.peek(key).await? {
                Some(token) => {
                    let conditions = (Condition::IfToken(token), history::Condition::IfToken(token));
                    self.set_if(key, value, conditions).await
                }
                None => Ok(()),
            },
            11 if self.expiring => self.take(key).await,
            10 | 11 => self.delete(key).await,
            12 | 13 => self.increment(&numbers).await,
            14 if self.random.below(3) == 0 => self.take(&appended).await,
            14 => self.append(&appended, step).await,
            15 => self.expire(key).await,
            _ => {
                let key = if self.random.below(2) == 0 { numbers } else { appended };
                self.expire(&key).await
            }
        }
    }
}
