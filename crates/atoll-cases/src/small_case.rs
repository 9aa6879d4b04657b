//! Small cases of which every interleaving is run: `atoll sim explore`.
//!
//! Two clients have one or two operations each, on one or two keys, with a kill or a pause
//! anywhere. The same must hold as in drawn cases: histories are linearizable, and a repair leaves
//! the pool sound.

use crate::case::Case;
use crate::client::Client;
use crate::endpoint::CaseEndpoint;
use crate::subject::Subject;
use atoll_cache::{CacheError, Condition, Pooled};
use atoll_fabric::Endpoint;
use atoll_sim::explore::{self, Explored, ExploredFault};
use atoll_sim::history::Evictions;
use atoll_sim::{Distance, ExploreOptions, History, Relaxations, Sim};
use std::cell::RefCell;
use std::rc::Rc;

/// One operation of an explored client.
#[derive(Clone, Copy, Debug)]
enum Step {
    Get(&'static str),
    Set(&'static str, usize),
    SetIfAbsent(&'static str),
    Delete(&'static str),
    Increment(&'static str),
}
use Step::{Delete, Get, Increment, Set, SetIfAbsent};

/// A small case.
#[derive(Clone, Debug)]
pub struct SmallCase {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens in it.
    pub what: &'static str,
    /// What a client does before the two clients begin.
    before: Steps,
    clients: [Steps; 2],
    fault: ExploredFault,
    /// Chunks of the pool; few where there is to be an eviction.
    chunks: u64,
}

/// A value longer than half a chunk of these pools, so that it has extents.
const LARGE: usize = 300;
/// Chunks enough for everything.
const ROOMY: u64 = 24;
/// Chunks so few that a client must evict.
const TIGHT: u64 = 8;

/// Steps of the cases below: what is there before, and what a client does.
type Steps = &'static [Step];
const EMPTY: Steps = &[];
const PRESENT: Steps = &[Set("k", 10)];
const PRESENT_LARGE: Steps = &[Set("k", LARGE)];
const COUNTED: Steps = &[Increment("n")];
const FULL: Steps = &[Set("a", 60), Set("b", 60), Set("c", 60), Set("d", 60), Set("e", 60), Set("f", 60)];
const INSERT: Steps = &[Set("k", 10)];
const INSERT_ONCE: Steps = &[SetIfAbsent("k")];
const REPLACE: Steps = &[Set("k", 20)];
const REPLACE_LARGE: Steps = &[Set("k", LARGE + 1)];
const REMOVE: Steps = &[Delete("k")];
const LOOK: Steps = &[Get("k")];
const LOOK_TWICE: Steps = &[Get("k"), Get("k")];
const EVICT: Steps = &[Set("g", 60), Set("h", 60)];
const LOOK_AT_EVICTED: Steps = &[Get("a")];

/// A case without a fault, in a pool with room for everything.
const fn case(name: &'static str, what: &'static str, before: Steps, clients: [Steps; 2]) -> SmallCase {
    SmallCase { name, what, before, clients, fault: ExploredFault::None, chunks: ROOMY }
}

impl SmallCase {
    const fn with(self, fault: ExploredFault) -> Self {
        Self { fault, ..self }
    }

    const fn of_chunks(self, chunks: u64) -> Self {
        Self { chunks, ..self }
    }
}

/// All small cases.
#[rustfmt::skip]
pub const SMALL_CASES: &[SmallCase] = &[
    case("replace-look", "one client replaces a value, another looks twice", PRESENT, [REPLACE, LOOK_TWICE]),
    case("delete-look", "one client removes a key, another looks twice", PRESENT, [REMOVE, LOOK_TWICE]),
    case("insert-look", "one client sets a new key, another looks twice", EMPTY, [INSERT, LOOK_TWICE]),
    case("large-look", "one client replaces a large value by another, one looks", PRESENT_LARGE, [REPLACE_LARGE, LOOK]),
    case("replace-delete", "one client replaces a value, another removes the key", PRESENT, [REPLACE, REMOVE]),
    case("insert-insert", "two clients set the same new key", EMPTY, [INSERT, INSERT]),
    case("increment-increment", "two clients increment a number", COUNTED, [COUNTED, COUNTED]),
    case("insert-once", "two clients set a new key if it is absent", EMPTY, [INSERT_ONCE, INSERT_ONCE]),
    case("replace-look-kill", "one client replaces a value, another looks, and one dies", PRESENT, [REPLACE, LOOK])
        .with(ExploredFault::Kill),
    case("insert-look-kill", "one client sets a new key, another looks, and one dies", EMPTY, [INSERT, LOOK])
        .with(ExploredFault::Kill),
    case("delete-look-kill", "one client removes a key, another looks, and one dies", PRESENT, [REMOVE, LOOK])
        .with(ExploredFault::Kill),
    case("replace-look-pause", "one client replaces a value, another looks, and one stands still", PRESENT, [REPLACE, LOOK])
        .with(ExploredFault::Pause),
    case("large-look-kill", "one client replaces a large value by another, one looks, and one dies",
        PRESENT_LARGE, [REPLACE_LARGE, LOOK]).with(ExploredFault::Kill),
    case("evict-look-kill",
        "one client evicts to set a further key, another looks at one that may be evicted, and one dies",
        FULL, [EVICT, LOOK_AT_EVICTED]).with(ExploredFault::Kill).of_chunks(TIGHT),
];

/// The bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most runs.
    pub runs_max: u64,
    /// The most switches away from a client that could continue. `None` for all runs that differ in
    /// their effects (see [`ExploreOptions`]).
    pub preemptions_max: Option<u32>,
    /// Whether verbs of a batch take effect in every order that the contract permits.
    pub reorder: bool,
    /// Whether READs and WRITEs of several words take effect in two halves.
    pub tear: bool,
    /// How far memory is from the clients.
    pub distance: Distance,
}

impl Bounds {
    /// All runs that differ in what matters, up to so many, of clients with near memory whose verbs
    /// take effect whole and in order.
    pub const fn runs(runs_max: u64) -> Self {
        Self { runs_max, preemptions_max: None, reorder: false, tear: false, distance: Distance::Near }
    }
}

impl SmallCase {
    /// The one with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SMALL_CASES.iter().find(|case| case.name == name)
    }

    fn case<S: Subject>(&self) -> Case<S> {
        Case {
            chunk_bytes: S::CHUNK_BYTES[0],
            chunks: self.chunks,
            group_objects_max: 16,
            slots: 16,
            clients: self.clients.len() as u32 + 1,
            evictions: if self.chunks == ROOMY { Evictions::Never } else { Evictions::Anytime },
            ..Case::default()
        }
    }

    pub(crate) fn options<S: Subject>(&self, bounds: &Bounds) -> ExploreOptions {
        let case = self.case::<S>();
        let settings = case.settings();
        let mut options = ExploreOptions {
            fault: self.fault,
            preemptions_max: bounds.preemptions_max,
            runs_max: bounds.runs_max,
            ..ExploreOptions::new(settings.home_bytes())
        };
        options.sim.nodes = case.regions(&settings);
        options.sim.distance = bounds.distance;
        options.sim.relaxations = Relaxations { reorder: bounds.reorder, tear: bounds.tear, ..Relaxations::none() };
        options
    }

    /// Runs every interleaving within bounds.
    pub fn explore<S: Subject>(&self, bounds: &Bounds) -> Explored {
        explore::explore(&self.options::<S>(bounds), |sim| self.run::<S>(sim))
    }

    pub(crate) fn run<S: Subject>(&self, sim: &Sim) -> Result<(), String> {
        let (case, history) = (self.case::<S>(), Rc::new(History::new()));
        let endpoint = CaseEndpoint::new(sim.endpoint("maker"));
        let settings = case.settings();
        let made = sim.block_on(async move { S::Engine::format(&endpoint, settings).await.map(drop) });
        made.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let mut clients = Vec::new();
        for number in 0..case.clients {
            clients.push(case.join(sim, number, &history)?);
        }
        let (mut first, before) = (clients.pop().expect("there is one for what comes before"), self.before);
        let prepared = sim.block_on(async move {
            for step in before {
                play(&mut first, *step).await?;
            }
            first.cache.engine().leave().await
        });
        prepared.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let done = Rc::new(RefCell::new(Vec::new()));
        for (mut client, steps) in clients.into_iter().zip(self.clients) {
            let (control, done) = (sim.control(), done.clone());
            sim.spawn(&format!("client {}", client.number), async move {
                for step in steps {
                    control.turn().await;
                    play(&mut client, *step).await.expect("nothing of this fails");
                }
                client.cache.engine().finish().await;
                // Until what is in flight has landed the client can die with it.
                client.endpoint().pause(1_000_000).await;
                done.borrow_mut().push(client);
            });
        }
        sim.run().map_err(|error| error.to_string())?;
        let judged = self.judge(sim, &case, &history);
        // They are of no use any more, and may be dropped in a task alone.
        sim.block_on(async move { drop(done.take()) }).map_err(|error| error.to_string())?;
        judged
    }

    fn judge<S: Subject>(&self, sim: &Sim, case: &Case<S>, history: &Rc<History>) -> Result<(), String> {
        let Client { cache, .. } = case.join(sim, u32::MAX, &Rc::default())?;
        let verified = sim.block_on(async move {
            cache.engine().repair().await?;
            let report = cache.engine().verify().await?;
            cache.engine().leave().await?;
            Ok::<_, CacheError>(report)
        });
        let report = verified.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        if let Some(fault) = report.faults.first() {
            return Err(format!("verify: {fault}"));
        }
        history.check_with(case.evictions).map(drop).map_err(|violation| violation.to_string())
    }
}

async fn play<S: Subject>(client: &mut Client<S>, step: Step) -> Result<(), CacheError> {
    let value = |client: &Client<S>, bytes| {
        crate::load::unique_value(client.number, client.history.events().len() as u64, bytes)
    };
    match step {
        Get(key) => client.get(key.as_bytes()).await.map(drop),
        Set(key, bytes) => {
            let value = value(client, bytes as u64);
            client.set(key.as_bytes(), value).await
        }
        SetIfAbsent(key) => {
            let value = value(client, 10);
            client.set_returning(key.as_bytes(), value, Condition::IfAbsent).await
        }
        Delete(key) => client.delete(key.as_bytes()).await,
        Increment(key) => client.increment(key.as_bytes(), 1).await,
    }
}
