//! The checks are themselves tested: a cache that lies in one way each is caught, and one that does
//! not is not.

use super::authority::{Authority, Total};
use super::load::{Load, Writer};
use super::value::Keys;
use super::waits::Waits;
use crate::LabError;
use crate::deployment::{Bound, Deployment, EngineName, Experiment, Plan, on_engine};
use crate::random::Random;
use atoll_cache::{Cache, CacheError, Change, Engine, Lookup, Old, Value, Verdict, Want};
use atoll_fabric::Clock;
use atoll_fabric::shm::ShmRegion;
use std::cell::RefCell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// None.
    Truth,
    /// A lookup gives what an earlier SET stored.
    Stale,
    /// A lookup gives the value of another key.
    Foreign,
    /// A byte of what is stored is another one.
    Damaged,
    /// A change is said to be made and is not.
    LostChange,
    /// A removal is said to be made and is not.
    LostRemoval,
    /// What is to expire does not.
    LostExpiry,
}

/// Operations between two lies, on average.
const TRUE_BETWEEN: u64 = 50;

/// An engine that lies now and then.
struct Liar<G> {
    engine: G,
    /// Another cache, which misses every other change: what it has is old.
    old: G,
    lie: Lie,
    random: RefCell<Random>,
    last_key: RefCell<Vec<u8>>,
}

impl<G: Engine> Liar<G> {
    fn lies(&self, lie: Lie) -> bool {
        self.lie == lie && self.random.borrow_mut().below(TRUE_BETWEEN) == 0
    }
}

/// A change of which something else is made.
struct Twisted<C> {
    change: C,
    lie: Option<Lie>,
    value: Vec<u8>,
}

impl<C: Change> Change for Twisted<C> {
    type Lasting = Twisted<C::Lasting>;

    fn lasting(&mut self) -> Self::Lasting {
        Twisted { change: self.change.lasting(), lie: self.lie, value: std::mem::take(&mut self.value) }
    }

    fn ended(&mut self, lasting: Self::Lasting) {
        self.change.ended(lasting.change);
        self.value = lasting.value;
    }

    fn wants(&self) -> Want {
        self.change.wants()
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        let verdict = self.change.decide(now_ms, old);
        self.value = self.change.value().to_vec();
        match (self.lie, verdict) {
            (Some(Lie::LostChange), Verdict::Put { .. }) | (Some(Lie::LostRemoval), Verdict::Remove) => Verdict::Leave,
            (Some(Lie::LostExpiry), Verdict::Put { .. }) => Verdict::Put { expiry_ms: None },
            (Some(Lie::Damaged), Verdict::Put { .. }) => {
                let middle = self.value.len() / 2;
                if let Some(byte) = self.value.get_mut(middle) {
                    *byte ^= 1;
                }
                verdict
            }
            _ => verdict,
        }
    }

    fn value(&self) -> &[u8] {
        &self.value
    }
}

impl<G: Engine> Engine for Liar<G> {
    atoll_cache::pass_on_operations!(engine);

    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        if self.lies(Lie::Stale) {
            return self.old.get(key, into).await;
        }
        if self.lies(Lie::Foreign) {
            let key = self.last_key.borrow().clone();
            return self.engine.get(&key, into).await;
        }
        *self.last_key.borrow_mut() = key.to_vec();
        self.engine.get(key, into).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        if self.lie == Lie::Stale && self.random.borrow_mut().below(2) == 0 {
            self.old.update(key, change).await?;
        }
        let lie = self.lie;
        let lie = self.lies(lie).then_some(lie);
        let mut twisted = Twisted { change: change.lasting(), lie, value: Vec::new() };
        let token = self.engine.update(key, &mut twisted).await;
        change.ended(twisted.change);
        token
    }
}

/// Plays the load over a liar, and gives what the checks found until they found something, or until
/// so many operations were done.
struct Caught {
    lie: Lie,
    operations_max: u64,
}

impl Experiment for Caught {
    type Output = Vec<String>;

    fn run<D: Deployment>(self) -> Result<Vec<String>, LabError> {
        let bound = Bound::Bytes(16 << 20);
        let plan = Plan { engine: EngineName::Forge, bound, object_bytes: 8192, clients_max: 4, name: None };
        let (deployment, old) = (D::create(&plan, &Clock::host())?, D::create(&plan, &Clock::host())?);
        let keys = Keys::for_capacity(16 << 20);
        let name = format!("shm:/atoll-lies-{}-{:?}", std::process::id(), self.lie);
        let authority = Authority::create(&name, keys.count())?;
        ShmRegion::remove(&name)?;
        let liar = Liar {
            engine: deployment.client()?.into_engine(),
            old: old.client()?.into_engine(),
            lie: self.lie,
            random: RefCell::new(Random::new(7)),
            last_key: RefCell::default(),
        };
        let writer = Writer { index: 0, writers: 1, nonce: 1, reads: false };
        let (mut found, mut waits) = (Vec::new(), Waits::none());
        let mut wrong = |what| found.push(what);
        let mut load = Load::new(Cache::new(liar), &authority, keys, writer, &mut waits, &mut wrong);
        for _ in 0..self.operations_max {
            load.step()?;
            if authority.total(Total::Wrong) > 0 {
                break;
            }
        }
        drop(load);
        Ok(found)
    }
}

fn caught(lie: Lie, operations_max: u64) -> Vec<String> {
    on_engine(EngineName::Forge, Caught { lie, operations_max }).unwrap()
}

#[test]
fn a_cache_that_does_not_lie_is_not_accused() {
    assert_eq!(caught(Lie::Truth, 50_000), Vec::<String>::new());
}

#[test]
fn every_lie_is_caught() {
    for lie in [Lie::Stale, Lie::Foreign, Lie::Damaged, Lie::LostChange, Lie::LostRemoval, Lie::LostExpiry] {
        let found = caught(lie, 1_000_000);
        assert!(!found.is_empty(), "{lie:?} was not caught");
        println!("{lie:?}: {}", found[0]);
    }
}
