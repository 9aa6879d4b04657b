//! One client of a simulated case.

use crate::stops::Stops;
use crate::subject::{Forged, Subject};
use atoll_cache::{Cache, CacheError, Condition, Lasting, Number, Pooled, SetOptions, Value};
use atoll_fabric::batch::Operation;
use atoll_fabric::pass_on;
use atoll_fabric::{Batch, Endpoint, Messenger, VerbError};
use atoll_sim::history::{self, Call, Outcome, Seen};
use atoll_sim::{History, Random, SimEndpoint};
use std::rc::Rc;

/// One client of a case, as its part sees it.
pub struct Client<S: Subject = Forged> {
    /// Which one it is.
    pub number: u32,
    /// The run's seed.
    pub seed: u64,
    /// Its cache.
    pub cache: Cache<Lasting<S::Engine>>,
    /// Where it records what it does.
    pub history: Rc<History>,
    /// Where a test stops it.
    pub stops: Stops,
    pub(super) subject: S,
    pub(super) hole: Option<S::Hole>,
    pub(super) epoch_ms: u64,
    /// What its endpoint's clock shows when the simulation begins.
    pub(super) origin_ns: u64,
    /// Endpoints for the times that it comes back.
    pub(super) spares: Vec<Hesitant>,
}

impl<S: Subject> Client<S> {
    /// A stream of its own.
    pub fn random(&self) -> Random {
        Random::stream(self.seed, 5000 + u64::from(self.number))
    }

    /// The time that no client knows, in milliseconds since the Unix epoch.
    pub fn true_ms(&self) -> u64 {
        self.epoch_ms + (self.cache.engine().client().endpoint.now_ns() - self.origin_ns) / 1_000_000
    }

    /// Leaves the pool and joins it again, as another incarnation.
    pub async fn rejoin(&mut self) -> Result<(), CacheError> {
        self.cache.engine().leave().await?;
        let endpoint = self.spares.pop().expect("a case says how often its clients come back");
        let pool = self.cache.engine().shared().clone();
        let mut engine = S::Engine::join(&pool, endpoint).await.expect("the place that it left is free");
        self.subject.prepare(&mut engine, self.hole);
        self.cache = Cache::new(Lasting::new(engine));
        Ok(())
    }

    /// A recorded lookup; whether it hit.
    pub async fn get(&mut self, key: &[u8]) -> Result<bool, CacheError> {
        let mut value = Value::new();
        let pending = self.history.begin(self.number, key, Call::Get);
        let hit = self.cache.get(key, &mut value).await?;
        self.history.end(pending, Outcome::get(hit.then(|| value.bytes())));
        Ok(hit)
    }

    /// A recorded set.
    pub async fn set(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), CacheError> {
        let pending = self.history.begin(self.number, key, Call::set(value.clone()));
        self.cache.set(key, &value, &SetOptions::default()).await?;
        self.history.end(pending, Outcome::stored(true));
        Ok(())
    }

    /// A recorded increment.
    pub async fn increment(&mut self, key: &[u8], by: i64) -> Result<(), CacheError> {
        let pending = self.history.begin(self.number, key, Call::Increment { by });
        let outcome = match self.cache.increment(key, by).await? {
            Number::Value(number) => Outcome::Number(number),
            Number::NotANumber => Outcome::NotANumber,
            Number::Overflow => Outcome::Overflow,
        };
        self.history.end(pending, outcome);
        Ok(())
    }

    /// A recorded removal.
    pub async fn delete(&mut self, key: &[u8]) -> Result<(), CacheError> {
        let pending = self.history.begin(self.number, key, Call::Delete);
        let found = self.cache.delete(key).await?;
        self.history.end(pending, Outcome::Seen(Seen::presence(found)));
        Ok(())
    }

    /// A recorded set, or set-if-absent, that tells what was there.
    pub async fn set_returning(&mut self, key: &[u8], value: Vec<u8>, condition: Condition) -> Result<(), CacheError> {
        let call = match condition {
            Condition::IfAbsent => Call::set_if(value.clone(), history::Condition::IfAbsent),
            _ => Call::set(value.clone()),
        };
        let mut old = Value::new();
        let pending = self.history.begin(self.number, key, call);
        let options = SetOptions { condition, ..SetOptions::default() };
        let outcome = self.cache.set_returning(key, &value, &options, Some(&mut old)).await?;
        let seen = if outcome.old.is_some() { Seen::value(old.bytes()) } else { Seen::Absent };
        self.history.end(pending, Outcome::Set { stored: outcome.stored, seen, token: None });
        Ok(())
    }
}

/// The simulator's endpoint, with a client that may think before it publishes what it has decided:
/// between a look at a slot and the compare-and-swap of it.
pub struct Hesitant {
    pub(super) inner: SimEndpoint,
    pub(super) hesitation_ns: u64,
    pub(super) stops: Stops,
}

impl Hesitant {
    /// One that never hesitates.
    pub(super) fn decided(inner: SimEndpoint) -> Self {
        Self { inner, hesitation_ns: 0, stops: Stops::default() }
    }
}

impl Endpoint for Hesitant {
    async fn post(&self, batch: &mut Batch) -> Result<(), VerbError> {
        let is = |wanted: fn(&Operation) -> bool| batch.verbs().iter().any(|verb| wanted(&verb.operation));
        let publishes = is(|operation| matches!(operation, Operation::Write { .. }))
            && is(|operation| matches!(operation, Operation::CompareAndSwap { .. }));
        if publishes && self.hesitation_ns > 0 {
            self.inner.pause(self.random() % self.hesitation_ns).await;
        }
        self.stops.post(&self.inner, batch).await
    }

    pass_on!(inner: post_unawaited flush provide discard region_attributes wait boot);
    pass_on!(inner: provided charge pause now_ns unix_ms agent_ms random limits is_near);
    pass_on!(inner: identity origin is_dead shut_out fabric);
}

impl Messenger for Hesitant {
    pass_on!(inner: mailbox sign send receive receive_within);
}
