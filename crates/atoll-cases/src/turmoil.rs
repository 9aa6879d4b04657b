//! A case in which things go wrong: clients die, stand still, lose their links, and others come in
//! their place.
//!
//! What must hold: histories are linearizable (what a dead client had under way may have happened
//! or not), nobody waits for ever, and once the dead are shut out and one repair has passed, the
//! pool is sound and takes as many objects as ever.

use crate::case::{Case, GROWTH_NS_MAX, timed_history};
use crate::client::Hesitant;
use crate::load::{self, Load};
use crate::subject::{Forged, Subject};
use atoll_cache::{Cache, CacheError, Engine, EnginePool, Lasting, Pooled, SetOptions};
use atoll_fabric::{Address, Endpoint, Identity, VerbError};
use atoll_pool::provision::{self, Step};
use atoll_pool::registry::{self, PlaceState, Reach, Times};
use atoll_pool::{ChunkId, Layout, PoolError, PoolSettings};
use atoll_sim::history::{Checked, Evictions};
use atoll_sim::{ClientId, Control, Faults, Fencing, History, Liberties, Random, Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A case, what goes wrong in it, and how soon clients look after each other.
#[derive(Clone, Debug)]
pub struct Turmoil<S: Subject = Forged> {
    /// The pool and its clients.
    pub case: Case<S>,
    /// What goes wrong.
    pub faults: Faults,
    /// Which liberties of the contract are taken.
    pub liberties: Liberties,
    /// Whom a fence shuts out.
    pub fencing: Fencing,
    /// How soon clients look after each other.
    pub times: Times,
    /// How far a client looks.
    pub reach: Reach,
    /// Clients that come for those that are killed.
    pub successors: u32,
    /// Chunks by which a client makes the pool smaller and then larger again.
    pub resized_chunks: u64,
    /// Whether the pool is made with a few chunks' memory, and the rest is provided while clients
    /// use it.
    pub sparse: bool,
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// The history.
    pub checked: Checked,
    /// Steps of the simulation.
    pub steps: u64,
    /// Verbs that took effect.
    pub verbs: u64,
    /// Clients killed.
    pub kills: u64,
    /// A digest of all events.
    pub digest: u64,
}

/// What clients counted, those that died among them.
#[derive(Default)]
struct Tally {
    /// Objects evicted.
    evictions: Cell<u64>,
    /// Objects dropped because their bytes were not what was written.
    damaged: Cell<u64>,
    /// Clients that did not come to their end: what the last batch of each did is not counted.
    lost: Cell<u64>,
}

/// A client's cache. What it counted is added to the tally when it goes, however it does.
struct Tallied<G: Engine> {
    cache: Cache<G>,
    tally: Rc<Tally>,
    has_left: bool,
}

impl<G: Engine> Drop for Tallied<G> {
    fn drop(&mut self) {
        let (stats, tally) = (self.cache.stats(), &self.tally);
        tally.evictions.set(tally.evictions.get() + stats.evictions);
        tally.damaged.set(tally.damaged.get() + stats.damaged);
        tally.lost.set(tally.lost.get() + u64::from(!self.has_left));
    }
}

impl<G: Engine> Tallied<G> {
    /// Leaves the pool; only a client that could has come to its end.
    async fn leave<E: Endpoint>(&mut self) -> Result<(), CacheError>
    where
        G: Pooled<E>,
    {
        self.cache.engine().leave().await?;
        self.has_left = true;
        Ok(())
    }
}

/// What the clients of a run share with the one that judges it.
struct Stage<S: Subject> {
    turmoil: Turmoil<S>,
    seed: u64,
    bytes: u64,
    history: Rc<History>,
    errors: RefCell<Vec<String>>,
    next_number: Cell<u32>,
    tally: Rc<Tally>,
    /// Whose operations in the history are whose.
    numbers: Rc<RefCell<BTreeMap<ClientId, u32>>>,
    /// The words of a client's place that move while it makes its rounds.
    leases: RefCell<HashMap<Identity, [Address; 2]>>,
}

/// Steps within which a run comes to its end, a hundred times what one takes: else somebody waits
/// for ever.
const STEPS_MAX: u64 = 5_000_000;
/// A wall clock jumps by up to three years.
const CLOCK_JUMP_MS_MAX: u64 = 3 * 365 * 86_400_000;
/// Chunks that have memory when a sparse pool is made; fewer than its home has.
const CHUNKS_THERE: u32 = 2;
/// Looks of the last client at a pool that is not sound yet.
const LOOKS_MAX: u32 = 20;
/// Rounds of the last client within which everything that dead clients held has come back by
/// itself.
const ROUNDS_MAX: u32 = 400;

impl<S: Subject> Turmoil<S> {
    /// Everything from the seed.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::stream(seed, 8);
        let case = Case::<S>::drawn(seed);
        let roomy = random.below(4) == 0;
        let case = if roomy {
            // Nothing is evicted, so that a miss tells of a mistake, or of an expiry.
            Case { chunks: 400, slots: 1024, objects_max: 0, evictions: Evictions::Never, ..case }
        } else {
            case
        };
        let load = Load { operations: random.pick(&[10, 30, 60]), ..case.load };
        let case = Case { load, steps_max: STEPS_MAX, ..case };
        let fencing = random.pick(&[Fencing::Observed, Fencing::Observed, Fencing::Forced]);
        let steps_between = random.pick(&[100, 400, 2000]);
        let mut faults = Faults::host(random.below(5) as u32, random.below(4) as u32, steps_between);
        faults.ns_max = random.pick(&[10_000, 1_000_000, 100_000_000]);
        if fencing == Fencing::Forced {
            // What only a network does.
            faults.unknowns_max = random.below(3) as u32;
            faults.link_cuts_max = random.below(2) as u32;
            faults.slow_nodes_max = random.below(2) as u32;
        }
        faults.node_losses_max = u32::from(random.below(40) == 0);
        faults.clock_jumps_max = random.below(3) as u32;
        faults.clock_jump_ms_max = CLOCK_JUMP_MS_MAX;
        faults.clock_drift_per_mille_max = random.pick(&[0, 10, 200]);
        let suspect_ns = random.pick(&[5_000, 50_000, 1_000_000]);
        let times = Times { look_ns: suspect_ns / 4, suspect_ns, help_ns: 4 * suspect_ns };
        let resized_chunks = [0, 0, 1, case.chunks / 4][random.below(4) as usize];
        let (liberties, successors) = (Liberties::all(), 2 + faults.kills_max);
        let forgetful = resized_chunks > 0 && Random::stream(seed, 32).below(2) == 0;
        let case = if forgetful { Case { subject: case.subject.forgetful(), ..case } } else { case };
        // Where clients alone have the pool's memory.
        let sparse = S::SPREADS && Random::stream(seed, 34).below(3) == 0;
        // As in a fleet that is larger than what a client looks at.
        let reach = Random::stream(seed, 41).pick(&[Reach::default(), Reach { watched: 1, walked: 1 }]);
        Self { case, faults, liberties, fencing, times, reach, successors, resized_chunks, sparse }
    }

    /// The same with so many operations of each client under way at once. At least one of each, and
    /// at so many keys that the checker can put in order what meets at one.
    pub fn with_lanes(mut self, lanes: u64) -> Self {
        let load = &mut self.case.load;
        if lanes > 1 {
            load.operations = load.operations.max(2 * lanes);
            load.keys = load.keys.max(2 * lanes);
        }
        self.case.steps_max *= lanes;
        self.case.lanes = lanes;
        self
    }

    /// Everything from the seed, and how many operations of each client are under way and are
    /// dropped, too.
    pub fn crowded(seed: u64) -> Self {
        let lanes = Random::stream(seed, 40).pick(&[1, 1, 1, 2, 4, 16, 64]);
        Self::drawn(seed).with_lanes(lanes).with_dropped(Random::stream(seed, 42).pick(&[0, 0, 5, 40]))
    }

    /// The same with so many percent of the operations' futures dropped on the way; at so many keys
    /// that the checker can put in order what may have happened at any time.
    pub fn with_dropped(mut self, percent: u64) -> Self {
        let load = &mut self.case.load;
        load.dropped = percent;
        load.keys = if percent > 0 { load.keys.max(6) } else { load.keys };
        self
    }

    fn options(&self, seed: u64) -> SimOptions {
        let settings = self.settings();
        SimOptions {
            steps_max: self.case.steps_max,
            strategy: self.case.strategy,
            distance: self.case.distance,
            liberties: self.liberties,
            faults: self.faults,
            fencing: self.fencing,
            gives_back: self.case.subject.is_forgetful(),
            ..SimOptions::with_nodes(seed, self.case.regions(&settings))
        }
    }

    fn settings(&self) -> PoolSettings {
        let settings = self.case.settings();
        let places = 2 * self.successors + 2;
        PoolSettings {
            clients_max: settings.clients_max + places,
            capacity_bytes: settings.capacity_bytes + 1280 * u64::from(places),
            ..settings
        }
    }

    /// Plays the case's load under a seed; what was wrong, if anything was.
    pub fn run(&self, seed: u64) -> Result<Ran, String> {
        self.run_on(&Sim::new(self.options(seed)))
    }

    /// The same with the last so many events in words.
    pub fn run_traced(&self, seed: u64, events: usize) -> (Result<Ran, String>, String) {
        let sim = Sim::new(SimOptions { trace_events: events, ..self.options(seed) });
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_on(&sim)));
        let trace = if events > 0 { sim.trace() } else { String::new() };
        (ran.unwrap_or_else(|_| Err("the run panicked".to_owned())), trace)
    }

    /// Takes the memory of all chunks but a few away before the pool is made.
    fn withhold(&self, sim: &Sim, settings: &PoolSettings) -> Result<(), String> {
        let layout = Layout::plan(settings, S::engine_area(settings)).map_err(|error| error.to_string())?;
        let first = layout.chunk(ChunkId(CHUNKS_THERE));
        sim.withhold(first, settings.home_bytes() - first.offset());
        for node in 1..settings.nodes as u8 {
            let heap = layout.member_heap(node);
            sim.withhold(Address::new(node, 0, heap), settings.member_bytes - heap);
        }
        Ok(())
    }

    fn run_on(&self, sim: &Sim) -> Result<Ran, String> {
        let settings = self.settings();
        let bytes = settings.home_bytes();
        if self.sparse {
            self.withhold(sim, &settings)?;
        }
        let endpoint = Hesitant::decided(sim.endpoint("maker"));
        let made = sim.block_on(async move { S::Engine::format(&endpoint, settings).await });
        let pool = made.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let control = sim.control();
        let layout = pool.pool().layout.clone();
        let places = pool.pool().settings.clients_max;
        let words = (0..places).flat_map(|place| [layout.signal(place), layout.lease(place)]);
        words.for_each(|word| control.watch_word(word));
        let attendant = self.case.subject.attendant(&pool);
        let attend = |present: &Rc<()>| attendant.iter().for_each(|attend| attend(sim, Rc::downgrade(present)));
        let history = Rc::new(timed_history::<S>(sim.control(), &pool));
        sim.name_addresses(move |at| pool.describe(at));
        let stage = Rc::new(Stage {
            turmoil: self.clone(),
            seed: sim.seed(),
            bytes,
            history,
            errors: RefCell::default(),
            next_number: Cell::new(self.case.clients),
            tally: Rc::default(),
            numbers: Rc::default(),
            leases: RefCell::default(),
        });
        if S::ENDS_WITH_FENCE {
            let (history, numbers) = (stage.history.clone(), stage.numbers.clone());
            control.on_shut_out(move |client| {
                if let Some(number) = numbers.borrow().get(&client) {
                    history.shut_out(*number);
                }
            });
        }
        let present = Rc::new(());
        attend(&present);
        for number in 0..self.case.clients {
            let (stage, control, present) = (stage.clone(), sim.control(), present.clone());
            let client = sim.spawn(&format!("client {number}"), live(stage.clone(), control, number, present));
            stage.numbers.borrow_mut().insert(client, number);
        }
        if self.case.growth_chunks > 0 {
            sim.spawn("grower", grow(stage.clone(), sim.control()));
        }
        if self.resized_chunks > 0 {
            sim.spawn("resizer", resize(stage.clone(), sim.control(), present.clone()));
        }
        if self.sparse {
            sim.spawn("provider", provide(stage.clone(), sim.control()));
        }
        sim.spawn_spared("keeper", keep(stage.clone(), sim.control(), present));
        sim.run().map_err(|error| error.to_string())?;
        if let Some(error) = stage.errors.take().into_iter().next() {
            return Err(error);
        }
        let present = Rc::new(());
        attend(&present);
        sim.block_on(end(stage.clone(), sim.control(), present)).map_err(|error| error.to_string())??;
        let checked = stage.history.check_with(self.case.evictions).map_err(|violation| violation.to_string())?;
        stage.judge_counts()?;
        stage.judge_fences(&control)?;
        let report = sim.run().map_err(|error| error.to_string())?;
        let kills = sim.control().killed().len() as u64;
        Ok(Ran { checked, steps: report.steps, verbs: report.verbs, kills, digest: report.digest })
    }
}

impl<S: Subject> Stage<S> {
    /// Joins the pool as a client of its own process.
    async fn join(&self, control: &Control, name: &str, hole: bool) -> Result<Tallied<Lasting<S::Engine>>, PoolError> {
        let endpoint = Hesitant::decided(control.endpoint(name));
        let pool = S::Engine::open(&endpoint, self.bytes).await?;
        let mut engine = S::Engine::join(&pool, endpoint).await?;
        engine.client().set_times(self.turmoil.times);
        engine.client().set_reach(self.turmoil.reach);
        self.turmoil.case.subject.prepare(&mut engine, self.turmoil.case.hole.filter(|_| hole));
        let (layout, slot) = (&pool.pool().layout, engine.client().me().slot);
        let words = [layout.signal(slot), layout.lease(slot)];
        self.leases.borrow_mut().insert(engine.client().endpoint.identity(), words);
        Ok(Tallied { cache: Cache::new(Lasting::new(engine)), tally: self.tally.clone(), has_left: false })
    }

    /// What clients counted must explain what they saw.
    fn judge_counts(&self) -> Result<(), String> {
        let (Tally { evictions, damaged, lost }, faults) = (&*self.tally, &self.turmoil.faults);
        // A node that loses its bytes damages what was there.
        if damaged.get() > 0 && faults.node_losses_max == 0 {
            return Err(format!("{} sound objects were dropped as damaged", damaged.get()));
        }
        let is_counted = S::CLIENTS_EVICT && lost.get() == 0 && faults.node_losses_max == 0;
        let gone = if is_counted { self.history.keys_evicted() as u64 } else { 0 };
        match gone > evictions.get() {
            true => Err(format!("{gone} keys went by themselves, and {} evictions were counted", evictions.get())),
            false => Ok(()),
        }
    }

    /// A living client may be shut out only if it made no round for long enough, as far as the
    /// client that did so saw.
    fn judge_fences(&self, control: &Control) -> Result<(), String> {
        let Turmoil { times, faults, .. } = &self.turmoil;
        // By an observer's clock that is too fast.
        let least_ns = times.suspect_ns * 1000 / (1000 + u64::from(faults.clock_drift_per_mille_max));
        for forced in control.forced() {
            let Some(words) = self.leases.borrow().get(&forced.who).copied() else { continue };
            let seen = if self.turmoil.case.lanes > 1 { &forced.longest_ns } else { &forced.still_ns };
            let still_ns = words.iter().filter_map(|word| seen.get(word)).min().copied().unwrap_or(0);
            if still_ns + 2 < least_ns {
                let who = control.identified(forced.who).map_or_else(String::new, |client| control.name(client));
                return Err(format!("{who} was shut out {still_ns} ns after it had made a round"));
            }
        }
        Ok(())
    }

    /// Whether a client with this endpoint may end with this error.
    fn is_fate(&self, control: &Control, who: Identity, error: &VerbError) -> bool {
        let Turmoil { faults, fencing, .. } = &self.turmoil;
        match error {
            // Where a hole is open, the harm that it names comes after its victim was shut out.
            VerbError::Fenced if self.turmoil.case.hole.is_some() => true,
            VerbError::Fenced => *fencing == Fencing::Forced && control.is_shut_out(who),
            VerbError::OutcomeUnknown => faults.unknowns_max + faults.link_cuts_max > 0,
            VerbError::PeerDead => faults.node_losses_max > 0,
            _ => false,
        }
    }
}

impl<S: Subject> Stage<S> {
    /// Whether a joiner may end with this error.
    fn is_fate_of_joiners(&self, error: &PoolError) -> bool {
        let faults = &self.turmoil.faults;
        match error {
            PoolError::Verb(VerbError::Fenced) => self.turmoil.fencing == Fencing::Forced,
            PoolError::Verb(VerbError::OutcomeUnknown) => faults.unknowns_max + faults.link_cuts_max > 0,
            PoolError::Verb(VerbError::PeerDead) => faults.node_losses_max > 0,
            PoolError::NotAPool | PoolError::Member { .. } => faults.node_losses_max > 0,
            _ => false,
        }
    }
}

/// A client's life, if nothing cuts it short. While it lasts, the attendant has to be there.
async fn live<S: Subject>(stage: Rc<Stage<S>>, control: Control, number: u32, _present: Rc<()>) {
    let mut cache = match stage.join(&control, &format!("client {number}"), true).await {
        Ok(cache) => cache,
        Err(error) if stage.is_fate_of_joiners(&error) => return,
        Err(error) => return stage.errors.borrow_mut().push(format!("client {number}: {error}")),
    };
    let load = &stage.turmoil.case.load;
    let mut outcome = load::run(&cache.cache, number, stage.seed, load, stage.turmoil.case.lanes, &stage.history).await;
    if outcome.is_ok() {
        outcome = cache.leave().await;
    }
    let me = cache.cache.engine().client().endpoint.identity();
    match named(cache.cache.engine().client(), outcome) {
        // A client that stands still, and has not been shut out, may hold all there is.
        Ok(()) | Err(CacheError::OutOfMemory) => {}
        Err(CacheError::Verb(error)) if stage.is_fate(&control, me, &error) => {}
        // The node was lost while it was being added.
        Err(CacheError::Damaged { .. }) if stage.turmoil.faults.node_losses_max > 0 => {}
        Err(error) => stage.errors.borrow_mut().push(format!("client {number}: {error}")),
    }
}

/// What came of a client's part, by the failure that one operation met: the others were told that
/// they are shut out, and that one may have been dropped.
fn named(client: &atoll_pool::Client<Hesitant>, outcome: Result<(), CacheError>) -> Result<(), CacheError> {
    match (outcome, client.cause_of_loss()) {
        (Err(CacheError::Verb(VerbError::Fenced)), Some(cause)) => Err(cause.into()),
        (outcome, _) => outcome,
    }
}

/// Adds a memory node at some moment, if nothing cuts that short.
async fn grow<S: Subject>(stage: Rc<Stage<S>>, control: Control) {
    let outcome = async {
        let mut cache = stage.join(&control, "grower", false).await?;
        let engine = cache.cache.engine();
        let when_ns = engine.client().endpoint.random() % GROWTH_NS_MAX;
        engine.client().endpoint.pause(when_ns).await;
        engine.grow(stage.turmoil.case.growth_bytes()).await?;
        // What goes wrong on leaving has nothing to do with it.
        drop(cache.leave().await);
        Ok(())
    };
    if let Err(error) = outcome.await
        && !stage.is_fate_of_joiners(&error)
    {
        stage.errors.borrow_mut().push(format!("the grower: {error}"));
    }
}

/// Provides the memory of a sparse pool, if nothing cuts that short.
async fn provide<S: Subject>(stage: Rc<Stage<S>>, control: Control) {
    let endpoint = Hesitant::decided(control.endpoint("provider"));
    // Why a pool cannot be opened is told by its clients.
    let Ok(shared) = S::Engine::open(&endpoint, stage.bytes).await else { return };
    let (layout, mut tables_next) = (&shared.pool().layout, Address::new(0, 0, 0));
    while let Ok(Step::More) = provision::provide_next(&endpoint, layout, &mut tables_next).await {
        endpoint.pause(endpoint.random() % GROWTH_NS_MAX).await;
    }
}

/// Makes the pool smaller at some moment and larger again, if nothing cuts that short.
async fn resize<S: Subject>(stage: Rc<Stage<S>>, control: Control, _present: Rc<()>) {
    let me = Cell::new(Identity::default());
    let outcome = async {
        let mut cache = match stage.join(&control, "resizer", true).await {
            Ok(cache) => cache,
            Err(error) => {
                if !stage.is_fate_of_joiners(&error) {
                    stage.errors.borrow_mut().push(format!("the resizer: {error}"));
                }
                return Ok(());
            }
        };
        me.set(cache.cache.engine().client().endpoint.identity());
        let engine = cache.cache.engine();
        let when_ns = engine.client().endpoint.random() % GROWTH_NS_MAX;
        engine.client().endpoint.pause(when_ns).await;
        for _ in 0..1 + engine.client().endpoint.random() % 3 {
            shrink_and_restore(engine, stage.turmoil.resized_chunks).await?;
        }
        cache.leave().await
    };
    match outcome.await {
        Ok(()) => {}
        Err(CacheError::Verb(error)) if stage.is_fate(&control, me.get(), &error) => {}
        Err(CacheError::Damaged { .. }) if stage.turmoil.faults.node_losses_max > 0 => {}
        Err(error) => stage.errors.borrow_mut().push(format!("the resizer: {error}")),
    }
}

/// Makes the pool smaller by so many chunks, and larger again some time later.
async fn shrink_and_restore<G: Pooled<Hesitant>>(engine: &G, chunks: u64) -> Result<(), CacheError> {
    let mut left = chunks;
    while left > 0 {
        match engine.retire_chunks(left).await {
            // All chunks may be in the hands of a client that stands still.
            Err(CacheError::OutOfMemory) => break,
            retired => left -= retired?,
        }
    }
    // Of some the memory goes back to the host before they are given back, of others it does not.
    for _ in 0..engine.client().endpoint.random() % 16 {
        engine.tend().await?;
        if engine.discard_retired().await? == 0 {
            break;
        }
        let ns = engine.client().endpoint.random() % (GROWTH_NS_MAX / 8);
        engine.client().endpoint.pause(ns).await;
    }
    let when_ns = engine.client().endpoint.random() % GROWTH_NS_MAX;
    engine.client().endpoint.pause(when_ns).await;
    while engine.restore_chunk().await? {}
    Ok(())
}

/// Spawns a successor for every client that is killed.
async fn keep<S: Subject>(stage: Rc<Stage<S>>, control: Control, present: Rc<()>) {
    while control.next_killed().await.is_some() {
        let number = stage.next_number.get();
        if number - stage.turmoil.case.clients < stage.turmoil.successors {
            stage.next_number.set(number + 1);
            let life = live(stage.clone(), control.clone(), number, present.clone());
            let client = control.spawn(&format!("client {number}"), life);
            stage.numbers.borrow_mut().insert(client, number);
        }
    }
}

/// What dead clients held comes back by itself while the last client makes its rounds, and does
/// nothing else. Then the pool is sound, before anybody asks for a repair: that one would mend what
/// the others forgot.
async fn settle_down<S: Subject>(stage: &Stage<S>, engine: &Lasting<S::Engine>) -> Result<(), String> {
    let text = |error: CacheError| format!("after the faults: {error}");
    let times = stage.turmoil.times;
    let shared = engine.shared().clone();
    let pool = shared.pool();
    for round in 1.. {
        engine.tend().await.map_err(text)?;
        let places = registry::places(&engine.client().endpoint, pool).await.map_err(|error| text(error.into()))?;
        let others = places.iter().filter(|place| place.incarnation.slot != engine.client().me().slot);
        if others.filter(|place| place.state != PlaceState::Free).count() == 0 {
            break;
        }
        if round == ROUNDS_MAX {
            return Err("nobody came for what a dead client held".to_owned());
        }
        engine.client().endpoint.pause(times.look_ns.max(times.help_ns / 50)).await;
    }
    let faults = engine.verify().await.map_err(text)?.faults;
    faults.first().map_or(Ok(()), |fault| Err(format!("verify, before any repair that was asked for: {fault}")))
}

/// After everything: one repair, and the pool is as good as new.
async fn end<S: Subject>(stage: Rc<Stage<S>>, control: Control, _present: Rc<()>) -> Result<(), String> {
    let text = |error: CacheError| format!("after the faults: {error}");
    let joined = stage.join(&control, "last", true).await;
    let mut cache = match joined {
        // The pool went with the node's bytes.
        Err(error) if stage.is_fate_of_joiners(&error) => return Ok(()),
        joined => joined.map_err(|error| format!("after the faults: {error}"))?,
    };
    if S::SETTLES_DOWN {
        settle_down(&stage, cache.cache.engine()).await?;
    }
    let Tallied { cache, has_left, .. } = &mut cache;
    *has_left = true;
    for look in 1.. {
        cache.engine().repair().await.map_err(text)?;
        let report = cache.engine().verify().await.map_err(text)?;
        match report.faults.first() {
            None if !report.counts_estimated => break,
            _ if look < LOOKS_MAX => cache.engine().client().endpoint.pause(stage.turmoil.times.suspect_ns).await,
            None => return Err("after the faults: the last client is never alone".to_owned()),
            Some(fault) => return Err(format!("verify: {fault}")),
        }
    }
    // What a resizer that died left out of use.
    while cache.engine().restore_chunk().await.map_err(text)? {}
    let growth_bytes = stage.turmoil.case.growth_bytes();
    let shared = cache.engine().shared().clone();
    let pool = shared.pool();
    if u32::from(pool.layout.nodes_known()) < pool.settings.nodes_max {
        // Whoever was to add the node died at it, and left nothing in the way.
        let grown = cache.engine().grow(growth_bytes).await;
        grown.map_err(|error| format!("after the faults: {error}"))?;
    }
    for number in 0..2 * stage.turmoil.case.chunks {
        let key = format!("after all {number}");
        cache.set(key.as_bytes(), &[7; 40], &SetOptions::default()).await.map_err(text)?;
    }
    let faults = cache.engine().verify().await.map_err(text)?.faults;
    cache.engine().leave().await.map_err(text)?;
    faults.first().map_or(Ok(()), |fault| Err(format!("verify: {fault}")))
}
