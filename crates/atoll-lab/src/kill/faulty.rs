//! Tests of the checks: they catch every cache with one fault, and accuse none without.

use super::draw::{Rereads, Writer};
use super::ledger::{Ledger, Total};
use super::load::Load;
use super::timings::Timings;
use super::value::Keys;
use super::{Names, PoolTime};
use crate::LabError;
use atoll::Pool;
use atoll_cache::{Cache, CacheError, Change, Engine, Lookup, Value, Verdict};
use atoll_deployment::random::Random;
use atoll_deployment::reviewed::{Review, Reviewed};
use atoll_deployment::{Bound, EngineName, Plan};
use atoll_fabric::Clock;
use atoll_fabric::shm::ShmRegion;
use atoll_pool::sharers::Hole;
use std::cell::RefCell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It has none.
    None,
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

/// Operations between two faults, on average.
const OPERATIONS_BETWEEN: u64 = 50;

/// An engine that has a fault now and then.
struct FaultyEngine<G> {
    engine: G,
    /// Another cache, which misses every other change: what it has is old.
    old: G,
    fault: Fault,
    random: RefCell<Random>,
    last_key: RefCell<Vec<u8>>,
}

impl<G: Engine> FaultyEngine<G> {
    fn fails(&self, fault: Fault) -> bool {
        self.fault == fault && self.random.borrow_mut().below(OPERATIONS_BETWEEN) == 0
    }
}

/// Turns a change into another by a fault.
#[derive(Default)]
struct FaultyReview {
    fault: Option<Fault>,
    value: Vec<u8>,
}

impl Review for FaultyReview {
    fn review(&mut self, change: &impl Change, verdict: Verdict) -> Verdict {
        self.value = change.value().to_vec();
        match (self.fault, verdict) {
            (Some(Fault::LostChange), Verdict::Put { .. }) | (Some(Fault::LostRemoval), Verdict::Remove) => {
                Verdict::Leave
            }
            (Some(Fault::LostExpiry), Verdict::Put { attributes, .. }) => Verdict::Put { expiry_ms: None, attributes },
            (Some(Fault::Damaged), Verdict::Put { .. }) => {
                let middle = self.value.len() / 2;
                if let Some(byte) = self.value.get_mut(middle) {
                    *byte ^= 1;
                }
                verdict
            }
            _ => verdict,
        }
    }

    fn value<'v>(&'v self, _change: &'v impl Change) -> &'v [u8] {
        &self.value
    }
}

impl<G: Engine> Engine for FaultyEngine<G> {
    atoll_cache::pass_on_operations!(engine, stats);

    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        if self.fails(Fault::Stale) {
            return self.old.get(key, into).await;
        }
        if self.fails(Fault::Foreign) {
            let key = self.last_key.borrow().clone();
            return self.engine.get(&key, into).await;
        }
        *self.last_key.borrow_mut() = key.to_vec();
        self.engine.get(key, into).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        if self.fault == Fault::Stale && self.random.borrow_mut().below(2) == 0 {
            self.old.update(key, change).await?;
        }
        let fault = self.fault;
        let fault = self.fails(fault).then_some(fault);
        let mut faulty = Reviewed { change: change.lasting(), review: FaultyReview { fault, value: Vec::new() } };
        let token = self.engine.update(key, &mut faulty).await;
        change.ended(faulty.change);
        token
    }
}

/// A small cache of this process.
fn plan() -> Plan {
    Plan {
        engine: EngineName::default(),
        bound: Bound::Bytes(16 << 20),
        object_bytes: 8192,
        clients_max: 4,
        name: None,
        evicts_ahead: false,
        secret_file: None,
    }
}

/// Plays the load over a faulty engine. Gives what the checks found, or nothing after this many
/// operations.
struct Caught {
    fault: Fault,
    operations_max: u64,
    /// Whether expiry is judged as over a network.
    over_network: bool,
}

impl Caught {
    fn run(self) -> Result<Vec<String>, LabError> {
        let plan = plan();
        let (deployment, old) = (plan.create(&Clock::host())?, plan.create(&Clock::host())?);
        let keys = Keys::for_bound(plan.bound);
        let Self { fault, over_network, .. } = self;
        let name = format!("shm:/atoll-faulty-{}-{fault:?}-{over_network}", std::process::id());
        let ledger = Ledger::create(&name, keys.count())?;
        ShmRegion::remove(&name)?;
        let faulty = FaultyEngine {
            engine: deployment.client()?.into_engine(),
            old: old.client()?.into_engine(),
            fault: self.fault,
            random: RefCell::new(Random::new(7)),
            last_key: RefCell::default(),
        };
        let writer = Writer { place: (0, 1), nonce: 1, reads: false, rereads: Rereads::Nothing };
        let (mut found, mut timings) = (Vec::new(), Timings::none());
        let mut wrong = |what| found.push(what);
        let mut load = Load::new(Cache::new(faulty), &ledger, keys, writer, &mut timings, &mut wrong)
            .over_network(self.over_network);
        let mut pool_time = PoolTime::new(&*deployment)?;
        for _ in 0..self.operations_max {
            load.step()?;
            if let Some(ms) = pool_time.settled_ms()? {
                ledger.set_pool_ms(ms);
            }
            if ledger.total(Total::Wrong) > 0 {
                break;
            }
        }
        drop(load);
        Ok(found)
    }
}

fn caught(fault: Fault, operations_max: u64, over_network: bool) -> Vec<String> {
    Caught { fault, operations_max, over_network }.run().unwrap()
}

/// Plays the load by turns over two near caches of one pool. The clients of the first pass the hole
/// by. Gives what the checks found, or nothing after this many operations.
fn caught_near(hole: Option<Hole>, operations_max: u64) -> Vec<String> {
    let name = format!("shm:/atoll-faulty-near-{}-{}", std::process::id(), hole.is_some());
    let plan = Plan { name: Some(name.clone()), ..plan() };
    // Near caches need the pool's name.
    let names = Names { ledger: format!("{name}-ledger"), plan };
    let _creator = names.plan.create(&Clock::host()).unwrap();
    let keys = Keys::for_bound(names.plan.bound);
    let ledger = Ledger::create(&names.ledger, keys.count()).unwrap();
    // Of two sizes, or it would be one.
    let pools = [1 << 20, 1 << 21].map(|bytes| {
        let pool = Pool::open(&name).unwrap();
        pool.near(bytes).unwrap();
        pool
    });
    let [first, second] = pools.each_ref().map(|pool| pool.client().unwrap().into_operations());
    first.engine().client().pool.layout.open_hole_of_sharers(hole);
    let found = RefCell::new(Vec::new());
    let [mut of_first, mut of_second] = [(); 2].map(|()| |what| found.borrow_mut().push(what));
    let [mut first_timings, mut second_timings] = [(); 2].map(|()| Timings::none());
    let writer = |place| Writer { place: (place, 2), nonce: 1 + place, reads: false, rereads: Rereads::Much };
    let mut first = Load::new(first, &ledger, keys, writer(0), &mut first_timings, &mut of_first);
    let mut second = Load::new(second, &ledger, keys, writer(1), &mut second_timings, &mut of_second);
    for _ in 0..operations_max / 2 {
        first.step().unwrap();
        second.step().unwrap();
        if ledger.total(Total::Wrong) > 0 {
            break;
        }
    }
    let hits = [first.cache().stats().near_hits, second.cache().stats().near_hits];
    assert!(hits.iter().all(|hits| *hits > 0), "{hits:?} lookups were answered by near caches");
    drop((first, second));
    found.into_inner()
}

#[test]
fn a_near_cache_is_not_accused_and_one_whose_copies_outlive_their_objects_is_caught() {
    assert_eq!(caught_near(None, 200_000), Vec::<String>::new());
    let found = caught_near(Some(Hole::ToldBeforeChange), 1_000_000);
    assert!(!found.is_empty(), "no old copy was caught");
    println!("{}", found[0]);
}

#[test]
fn a_cache_without_a_fault_is_not_accused() {
    for over_network in [false, true] {
        assert_eq!(caught(Fault::None, 50_000, over_network), Vec::<String>::new());
    }
}

#[test]
fn every_fault_is_caught() {
    for fault in
        [Fault::Stale, Fault::Foreign, Fault::Damaged, Fault::LostChange, Fault::LostRemoval, Fault::LostExpiry]
    {
        for over_network in [false, true] {
            let found = caught(fault, 1_000_000, over_network);
            assert!(!found.is_empty(), "{fault:?} was not caught");
            println!("{fault:?}: {}", found[0]);
        }
    }
}
