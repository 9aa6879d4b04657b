//! One client of a simulated case.

use crate::compiled::boxed;
use crate::endpoint::CaseEndpoint;
use crate::stops::Stops;
use crate::subject::{Shared, Subject};
use crate::subjects::ForgeSubject;
use atoll_cache::{Cache, CacheError, Condition, Got, Lasting, Number, Pooled, SetOptions, Staged, Value};
use atoll_fabric::Endpoint;
use atoll_sim::history::{self, Call, Outcome, Seen};
use atoll_sim::{History, Random};
use std::rc::Rc;
use std::sync::Arc;

/// One client of a case, and what it records.
pub struct Client<S: Subject = ForgeSubject> {
    /// Its number in the case.
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
    /// An endpoint for each time that it joins again.
    pub(super) spares: Vec<CaseEndpoint>,
}

impl<S: Subject> Client<S> {
    /// Its endpoint.
    pub fn endpoint(&self) -> &CaseEndpoint {
        &self.cache.engine().client().endpoint
    }

    /// A random stream of its own.
    pub fn random(&self) -> Random {
        Random::stream(self.seed, 5000 + u64::from(self.number))
    }

    /// The right time, which no client can read, in milliseconds since the Unix epoch.
    pub fn true_ms(&self) -> u64 {
        self.epoch_ms + (self.endpoint().now_ns() - self.origin_ns) / 1_000_000
    }

    /// Leaves the pool and joins it again, as a new incarnation.
    pub async fn rejoin(&mut self) -> Result<(), CacheError> {
        let pool = self.cache.engine().shared().clone();
        self.rejoin_process(pool).await
    }

    /// The same in the process that has this pool open.
    pub async fn rejoin_process(&mut self, pool: Arc<Shared<S>>) -> Result<(), CacheError> {
        self.cache.engine().leave().await?;
        let endpoint = self.spares.pop().expect("a case says how often its clients come back");
        let mut engine = boxed(S::Engine::join(&pool, endpoint)).await.expect("the place that it left is free");
        self.subject.configure(&mut engine, self.hole);
        self.cache = Cache::new(Lasting::new(engine));
        Ok(())
    }

    /// A recorded lookup; returns whether it hit.
    pub async fn get(&self, key: &[u8]) -> Result<bool, CacheError> {
        let mut value = Value::new();
        let pending = self.history.begin(self.number, key, Call::Get);
        let hit = self.cache.get(key, &mut value).await?;
        self.history.end(pending, Outcome::get(hit.then(|| value.bytes())));
        Ok(hit)
    }

    /// A recorded read, in pieces of 4 KiB if the value has more bytes. Returns whether it could be
    /// read so, and no other process came in between.
    pub async fn get_in_pieces(&self, key: &[u8]) -> Result<bool, CacheError> {
        let (pending, mut value) = (self.history.begin(self.number, key, Call::Get), Value::new());
        let mut bytes = None;
        let got = self.cache.get_or_open(key, &mut value, 1).await?;
        if let Got::Open(mut reading) = got {
            let mut read = vec![0; reading.missing_bytes()];
            let mut are_its = true;
            for piece in read.chunks_mut(4 << 10) {
                are_its = are_its && self.cache.read_on(&mut reading, piece).await?;
            }
            bytes = are_its.then_some(read);
            if !are_its && self.cache.get(key, &mut value).await? {
                self.history.end(pending, Outcome::get(Some(value.bytes())));
                return Ok(false);
            }
        } else if let Got::Value = got {
            bytes = Some(value.bytes().to_vec());
        }
        let is_there = bytes.is_some();
        self.history.end(pending, Outcome::get(bytes.as_deref()));
        Ok(is_there)
    }

    /// A recorded set.
    pub async fn set(&self, key: &[u8], value: Vec<u8>) -> Result<(), CacheError> {
        let pending = self.history.begin(self.number, key, Call::set(value.clone()));
        self.cache.set(key, &value, &SetOptions::default()).await?;
        self.history.end(pending, Outcome::stored(true));
        Ok(())
    }

    /// A recorded increment.
    pub async fn increment(&self, key: &[u8], by: i64) -> Result<(), CacheError> {
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
    pub async fn delete(&self, key: &[u8]) -> Result<(), CacheError> {
        let pending = self.history.begin(self.number, key, Call::Delete);
        let found = self.cache.delete(key).await?;
        self.history.end(pending, Outcome::Seen(Seen::presence(found)));
        Ok(())
    }

    /// A recorded set, or set-if-absent, that returns the previous value.
    pub async fn set_returning(&self, key: &[u8], value: Vec<u8>, condition: Condition) -> Result<(), CacheError> {
        self.set_recorded(key, value, condition, None).await
    }

    /// The same of a value that was staged.
    pub async fn set_staged(
        &self,
        key: &[u8],
        value: Vec<u8>,
        condition: Condition,
        staged: Staged,
    ) -> Result<(), CacheError> {
        self.set_recorded(key, value, condition, Some(staged)).await
    }

    async fn set_recorded(
        &self,
        key: &[u8],
        value: Vec<u8>,
        condition: Condition,
        staged: Option<Staged>,
    ) -> Result<(), CacheError> {
        let call = match condition {
            Condition::IfAbsent => Call::set_if(value.clone(), history::Condition::IfAbsent),
            _ => Call::set(value.clone()),
        };
        let mut old = Value::new();
        let pending = self.history.begin(self.number, key, call);
        let options = SetOptions { condition, ..SetOptions::default() };
        let outcome = match staged {
            None => self.cache.set_returning(key, &value, &options, Some(&mut old)).await?,
            Some(staged) => self.cache.set_staged(key, staged, &options, Some(&mut old)).await?,
        };
        let seen = if outcome.old.is_some() { Seen::value(old.bytes()) } else { Seen::Absent };
        self.history.end(pending, Outcome::Set { stored: outcome.stored, seen, token: None });
        Ok(())
    }
}
