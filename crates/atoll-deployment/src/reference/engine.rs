//! An engine of one process that keeps objects in an ordinary map and evicts by an exact policy, or
//! by a sampled one.
//!
//! Its clients share one state and live on one thread. It bounds the number of objects, never their
//! bytes.

use super::Policy;
use crate::reviewed::{Review, Reviewed};
use atoll_cache::model::Model;
use atoll_cache::{
    CacheError, Change, Engine, Flushed, Lookup, Meta, Old, Stats, VALUE_BYTES_MAX, Value, Verdict, Want,
};
use atoll_fabric::{Clock, run_ready};
use std::cell::RefCell;
use std::rc::Rc;

/// Invariant between operations: the model holds exactly the policy's resident keys.
struct State {
    model: Model,
    policy: Box<dyn Policy<Vec<u8>>>,
}

/// What the clients of one cache share. Cloning gives another handle to the same cache.
#[derive(Clone)]
pub struct Shared(Rc<RefCell<State>>);

impl Shared {
    /// An empty cache on `clock` that evicts by `policy`.
    pub fn new(policy: Box<dyn Policy<Vec<u8>>>, clock: Clock) -> Self {
        Self(Rc::new(RefCell::new(State { model: Model::new(clock), policy })))
    }
}

/// One client of the cache.
pub struct ReferenceEngine {
    shared: Shared,
    stats: RefCell<Stats>,
}

impl ReferenceEngine {
    /// A client of `shared`.
    pub fn new(shared: &Shared) -> Self {
        Self { shared: shared.clone(), stats: RefCell::default() }
    }
}

/// Removes a key from the model, whatever its state.
struct Evict;

impl Change for Evict {
    type Lasting = Self;

    fn lasting(&mut self) -> Self {
        Self
    }

    fn ended(&mut self, Self: Self) {}

    fn wants(&self) -> Want {
        Want::Meta
    }

    fn decide(&mut self, _now_ms: u64, _old: Option<Old<'_>>) -> Verdict {
        Verdict::Remove
    }

    fn value(&self) -> &[u8] {
        &[]
    }
}

/// Remembers what a change decided last.
#[derive(Default)]
struct Watch(Option<Verdict>);

impl Review for Watch {
    fn review(&mut self, _change: &impl Change, verdict: Verdict) -> Verdict {
        self.0 = Some(verdict);
        verdict
    }
}

// The model never waits. Its futures run on the spot, and no borrow of the state is held across an
// await.
impl Engine for ReferenceEngine {
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let state = &mut *self.shared.0.borrow_mut();
        let lookup = run_ready(state.model.get(key, into))?;
        match lookup {
            Lookup::Hit => {
                state.policy.touch(&key.to_vec());
                self.stats.borrow_mut().hits += 1;
            }
            Lookup::Absent => self.stats.borrow_mut().misses_absent += 1,
            Lookup::Expired => self.stats.borrow_mut().misses_expired += 1,
        }
        Ok(lookup)
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        run_ready(self.shared.0.borrow_mut().model.peek(key))
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let state = &mut *self.shared.0.borrow_mut();
        let mut watched = Reviewed { change: change.lasting(), review: Watch::default() };
        let token = run_ready(state.model.update(key, &mut watched));
        let owned = key.to_vec();
        let bytes = (key.len() + watched.change.value().len()) as u64;
        change.ended(watched.change);
        let token = token?;
        match watched.review.0 {
            Some(Verdict::Put { .. }) => {
                self.stats.borrow_mut().puts += 1;
                if state.policy.contains(&owned) {
                    state.policy.touch(&owned);
                } else if let Some(victim) = state.policy.insert(owned, bytes) {
                    run_ready(state.model.update(&victim, &mut Evict))?;
                    self.stats.borrow_mut().evictions += 1;
                }
            }
            Some(Verdict::Remove) => {
                self.stats.borrow_mut().removes += 1;
                state.policy.remove(&owned);
            }
            None | Some(Verdict::Leave | Verdict::Expire { .. }) => {}
        }
        Ok(token)
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        run_ready(self.shared.0.borrow_mut().model.scan(cursor, count, each))
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        run_ready(self.shared.0.borrow_mut().model.random_key())
    }

    async fn flush(&self, cursor: u64) -> Result<Flushed, CacheError> {
        let mut keys = Vec::new();
        run_ready(self.scan(0, usize::MAX >> 1, |key| keys.push(key.to_vec())))?;
        let state = &mut *self.shared.0.borrow_mut();
        keys.iter().for_each(|key| state.policy.remove(key));
        run_ready(state.model.flush(cursor))
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        run_ready(self.shared.0.borrow_mut().model.objects())
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        run_ready(self.shared.0.borrow_mut().model.now_ms())
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn stats(&self) -> Stats {
        *self.stats.borrow()
    }
}
