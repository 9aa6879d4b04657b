//! A pool on the simulated fabric, so small that everything happens all the time, and clients that
//! play on it.

use crate::client::{Client, Hesitant};
use crate::load::{self, Load};
use crate::stops::Stops;
use crate::subject::{Forged, Subject};
use atoll_cache::forge::layout::{BUCKET_SLOTS, ForgeLayout};
use atoll_cache::forge::{ForgePool, Queue};
use atoll_cache::{Cache, CacheError, Engine, EnginePool, Lasting, Pooled};
use atoll_fabric::{Address, Endpoint, Kind, RegionAttributes};
use atoll_pool::PoolSettings;
use atoll_pool::clock::SKEW_MS;
use atoll_pool::layout::MEMBER_HEADER_BYTES;
use atoll_sim::history::{Checked, Evictions};
use atoll_sim::sim::region;
use atoll_sim::{Control, Distance, History, Random, Sim, SimOptions, Strategy};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A pool, how many clients it has, and what the simulation is like.
#[derive(Clone, Debug)]
pub struct Case<S: Subject = Forged> {
    /// The engine, and its own choices.
    pub subject: S,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Chunks of the heap that the pool is made with.
    pub chunks: u64,
    /// Memory nodes that it is made with; the chunks are spread over them.
    pub nodes: u32,
    /// Chunks of a memory node that is added at some moment of the run; 0 for none.
    pub growth_chunks: u64,
    /// Most objects of a group.
    pub group_objects_max: u32,
    /// Most objects; 0 for no limit.
    pub objects_max: u64,
    /// Slots of the index.
    pub slots: u64,
    /// Clients that play.
    pub clients: u32,
    /// What each does, if it plays no part of its own.
    pub load: Load,
    /// Operations that each client has under way at once.
    pub lanes: u64,
    /// Which evictions the history may show.
    pub evictions: Evictions,
    /// Whose step is next.
    pub strategy: Strategy,
    /// How far memory is from the clients.
    pub distance: Distance,
    /// A run of more steps is a livelock.
    pub steps_max: u64,
    /// How often a client may leave and come back.
    pub rejoins: usize,
    /// How long client 0 waits at most before it publishes a record.
    pub hesitation_ns: u64,
    /// Whether the pool is walked afterwards; not where a test has poked what that looks at.
    pub verified: bool,
    /// The hole that is open.
    pub hole: Option<S::Hole>,
}

impl<S: Subject> Default for Case<S> {
    fn default() -> Self {
        Self {
            subject: S::default(),
            chunk_bytes: 512,
            chunks: 24,
            nodes: 1,
            growth_chunks: 0,
            group_objects_max: 6,
            objects_max: 0,
            slots: 64,
            clients: 3,
            load: Load {
                keys: 5,
                operations: 60,
                value_bytes_max: 300,
                lookups: 40,
                mixed: true,
                expiring: false,
                dropped: 0,
            },
            lanes: 1,
            evictions: Evictions::Anytime,
            strategy: Strategy::FromSeed,
            distance: Distance::FromSeed,
            steps_max: 30_000_000,
            rejoins: 0,
            hesitation_ns: 0,
            verified: true,
            hole: None,
        }
    }
}

impl<S: Subject> Case<S> {
    /// A case whose every number comes from the seed.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::stream(seed, 7);
        let paper = random.below(4) == 0;
        let clients = 2 + random.below(3) as u32;
        let mut spread = Random::stream(seed, 12);
        Self {
            nodes: if S::SPREADS { spread.pick(&[1, 1, 1, 2, 3]) } else { 1 },
            growth_chunks: if S::SPREADS { spread.pick(&[0, 0, 8, 20]) } else { 0 },
            subject: S::drawn(&mut random, paper),
            chunk_bytes: random.pick(&S::CHUNK_BYTES),
            chunks: random.pick(&[18, 24, 40]),
            group_objects_max: random.pick(&[1, 2, 4, 12]),
            objects_max: random.pick(&[0, 0, 0, 4, 12]),
            slots: random.pick(&[32, 64]),
            clients,
            load: Load {
                keys: random.pick(&[1, 2, 4, 8]),
                operations: 60,
                value_bytes_max: random.pick(&[40, 200, 900]),
                lookups: random.pick(&[20, 50]),
                mixed: random.below(4) > 0,
                expiring: random.below(3) == 0,
                dropped: 0,
            },
            ..Self::default()
        }
    }

    /// The pool's settings: as much capacity as the wanted chunks and the metadata need.
    pub fn settings(&self) -> PoolSettings {
        let heap = self.chunks * u64::from(self.chunk_bytes);
        let growth_bytes_max = self.growth_chunks * u64::from(self.chunk_bytes);
        let base = PoolSettings {
            capacity_bytes: heap,
            nodes: self.nodes,
            nodes_max: self.nodes + u32::from(growth_bytes_max > 0),
            growth_bytes_max,
            chunk_bytes: self.chunk_bytes,
            clients_max: self.clients + 2,
            objects_max: self.objects_max,
            group_objects_max: self.group_objects_max,
            ..PoolSettings::for_capacity(1 << 20)
        };
        let mut settings = self.subject.settings(base, self.slots);
        let area = S::engine_area(&settings);
        let metadata = area.home_bytes + 4096 + (self.chunks + self.growth_chunks) * 32;
        let further = u64::from(self.nodes - 1);
        let member_heap = self.chunks / u64::from(self.nodes) * u64::from(self.chunk_bytes);
        let home_bytes = heap - further * member_heap + metadata + u64::from(self.clients) * 1280;
        settings.member_bytes =
            if further > 0 { (MEMBER_HEADER_BYTES + area.share_bytes + member_heap).next_multiple_of(64) } else { 0 };
        PoolSettings { capacity_bytes: home_bytes.next_multiple_of(8) + further * settings.member_bytes, ..settings }
    }

    /// Bytes of the memory node that is added.
    pub fn growth_bytes(&self) -> u64 {
        MEMBER_HEADER_BYTES + self.growth_chunks * u64::from(self.chunk_bytes)
    }

    /// The regions that a pool with these settings needs, the one of a node that will be added
    /// among them.
    pub fn regions(&self, settings: &PoolSettings) -> Vec<Vec<RegionAttributes>> {
        let further = (1..self.nodes).map(|_| settings.member_bytes);
        let added = (self.growth_chunks > 0).then(|| self.growth_bytes());
        let bytes = std::iter::once(settings.home_bytes()).chain(further).chain(added);
        bytes.map(|bytes| vec![region(bytes, Kind::Host)]).collect()
    }

    /// A simulation with the case's pool in it.
    pub fn formatted(&self, seed: u64) -> Result<(Sim, Arc<Shared<S>>), String> {
        let settings = self.settings();
        let mut options = SimOptions::with_nodes(seed, self.regions(&settings));
        (options.steps_max, options.strategy) = (self.steps_max, self.strategy);
        options.distance = self.distance;
        options.nodes[0].extend(self.subject.further_region(&settings)?);
        let sim = Sim::new(options);
        let endpoint = Hesitant::decided(sim.endpoint("maker"));
        let pool = sim.block_on(async move { S::Engine::format(&endpoint, settings).await });
        let pool = pool.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        self.subject.set_stage(&sim, &pool);
        Ok((sim, pool))
    }

    /// Lets every client play its part in `sim`, each a process of its own with its own map of
    /// hotness. The first error is the case's.
    pub fn play<F>(&self, sim: &Sim, history: &Rc<History>, part: impl Fn(Client<S>) -> F) -> Result<(), String>
    where
        F: Future<Output = Result<Client<S>, CacheError>> + 'static,
        Self: Sized,
    {
        self.play_with(sim, history, self.growth_chunks > 0, part)
    }

    /// The same without the client that adds the memory node: a part does.
    pub fn play_ungrown<F>(&self, sim: &Sim, history: &Rc<History>, part: impl Fn(Client<S>) -> F) -> Result<(), String>
    where
        F: Future<Output = Result<Client<S>, CacheError>> + 'static,
        Self: Sized,
    {
        self.play_with(sim, history, false, part)
    }

    fn play_with<F>(
        &self,
        sim: &Sim,
        history: &Rc<History>,
        grows: bool,
        part: impl Fn(Client<S>) -> F,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<Client<S>, CacheError>> + 'static,
        Self: Sized,
    {
        let errors = Rc::new(RefCell::new(Vec::new()));
        // Joined one after the other, so that client n has place n.
        let mut clients = Vec::new();
        for number in 0..self.clients {
            match self.join(sim, number, history) {
                Ok(client) => clients.push(client),
                Err(error) => {
                    // Outside a task they cannot leave.
                    clients.into_iter().for_each(std::mem::forget);
                    return Err(error);
                }
            }
        }
        if grows {
            let mut grower = match self.join(sim, self.clients, history) {
                Ok(grower) => grower,
                Err(error) => {
                    clients.into_iter().for_each(std::mem::forget);
                    return Err(error);
                }
            };
            let (errors, bytes) = (errors.clone(), self.growth_bytes());
            sim.spawn("grower", async move {
                if let Err(error) = grow(&mut grower, bytes).await {
                    errors.borrow_mut().push(format!("the grower: {error}"));
                }
            });
        }
        let present = Rc::new(());
        if let Some(attend) = clients.first().and_then(|first| self.subject.attendant(first.cache.engine().shared())) {
            attend(sim, Rc::downgrade(&present));
        }
        for client in clients {
            let (errors, number, present) = (errors.clone(), client.number, present.clone());
            let part = part(client);
            sim.spawn(&format!("client {number}"), async move {
                let _present = present;
                let outcome = match part.await {
                    Ok(client) => client.cache.engine().leave().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = outcome {
                    errors.borrow_mut().push(format!("client {number}: {error}"));
                }
            });
        }
        drop(present);
        sim.run().map_err(|error| error.to_string())?;
        errors.take().into_iter().next().map_or(Ok(()), Err)
    }

    pub(super) fn join(&self, sim: &Sim, number: u32, history: &Rc<History>) -> Result<Client<S>, String> {
        let hesitation_ns = if number == 0 { self.hesitation_ns } else { 0 };
        let stops = Stops::default();
        let hesitant = |name: String| Hesitant { inner: sim.endpoint(&name), hesitation_ns, stops: stops.clone() };
        let endpoint = hesitant(format!("client {number}"));
        let (bytes, hole, history, seed) = (self.settings().home_bytes(), self.hole, history.clone(), sim.seed());
        let subject = self.subject.clone();
        let (origin_ns, epoch_ms) = (endpoint.now_ns() - sim.now_ns(), SimOptions::new(0, 8).epoch_ms);
        let spares = (0..self.rejoins).map(|time| hesitant(format!("client {number}, {time} to go"))).collect();
        let joined = sim.block_on(async move {
            let pool = S::Engine::open(&endpoint, bytes).await?;
            let mut engine = S::Engine::join(&pool, endpoint).await?;
            subject.prepare(&mut engine, hole);
            Ok::<_, atoll_pool::PoolError>(Client {
                number,
                seed,
                cache: Cache::new(Lasting::new(engine)),
                history,
                stops,
                subject,
                hole,
                epoch_ms,
                origin_ns,
                spares,
            })
        });
        joined.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// What a walk over the quiet pool finds wrong first.
    pub fn verify(&self, sim: &Sim) -> Result<(), String> {
        let Client { cache, .. } = Self { hole: None, ..self.clone() }.join(sim, u32::MAX, &Rc::default())?;
        let report = sim.block_on(async move {
            let report = cache.engine().verify().await?;
            cache.engine().leave().await?;
            Ok::<_, CacheError>(report)
        });
        let report = report.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        report.faults.first().map_or(Ok(()), |fault| Err(format!("verify: {fault}")))
    }

    /// Plays the case's load under a seed; what was wrong, if anything was.
    pub fn run(&self, seed: u64) -> Result<Checked, String> {
        let (load, lanes) = (self.load.clone(), self.lanes);
        self.run_part(seed, move |client| {
            let load = load.clone();
            async move {
                load::run(&client.cache, client.number, client.seed, &load, lanes, &client.history).await?;
                Ok(client)
            }
        })
    }

    /// Plays a part of one's own under a seed, then walks the pool and checks the history.
    pub fn run_part<F>(&self, seed: u64, part: impl Fn(Client<S>) -> F) -> Result<Checked, String>
    where
        F: Future<Output = Result<Client<S>, CacheError>> + 'static,
    {
        let (sim, shared) = self.formatted(seed)?;
        let history = Rc::new(timed_history::<S>(sim.control(), &shared));
        self.play(&sim, &history, |client| {
            let played = part(client);
            async move {
                let client = played.await?;
                // Nobody writes to this pool but clients: what one of them drops as damaged was
                // sound.
                match client.cache.engine().stats().damaged {
                    0 => Ok(client),
                    _ => Err(CacheError::Damaged { what: "a sound object was dropped" }),
                }
            }
        })?;
        if self.verified {
            self.verify(&sim)?;
        }
        drop(sim);
        history.check_with(self.evictions).map_err(|violation| violation.to_string())
    }
}

/// A history that knows the pool's clock, which it looks at past the fabric.
pub(super) fn timed_history<S: Subject>(control: Control, shared: &Shared<S>) -> History {
    let clock = shared.pool().layout.clock();
    // A pool's clock shows zero only after its node was lost.
    let ms = move |control: &Control| Some(control.peek_word(clock)).filter(|ms| *ms > 0);
    History::with_clock(SKEW_MS, move || (control.now_ns(), ms(&control)))
}

/// A run's growth comes within so many nanoseconds of its clients' start.
pub(super) const GROWTH_NS_MAX: u64 = 200_000;

/// Adds a memory node at some moment.
async fn grow<S: Subject>(grower: &mut Client<S>, bytes: u64) -> Result<(), String> {
    let when_ns = grower.random().below(GROWTH_NS_MAX);
    let engine = grower.cache.engine();
    engine.client().endpoint.pause(when_ns).await;
    let pool = engine.shared().pool();
    // It is there when the case's clients come a second time.
    if u32::from(pool.layout.nodes_known()) < pool.settings.nodes_max {
        engine.grow(bytes).await.map_err(|error| error.to_string())?;
    }
    engine.leave().await.map_err(|error| error.to_string())
}

/// A subject's pool, as the process that made it has it open.
pub type Shared<S> = <<S as Subject>::Engine as Pooled<Hesitant>>::Shared;

/// The words of a `forge` pool, for tests that poke them.
pub struct ForgePoolWords {
    /// The pool.
    pub pool: Arc<ForgePool>,
}

impl ForgePoolWords {
    fn layout(&self) -> ForgeLayout {
        ForgeLayout::new(self.pool.pool(), self.pool.settings()).expect("the pool was made with it")
    }

    /// Where the index's slots are.
    pub fn slots(&self) -> impl Iterator<Item = Address> {
        let layout = self.layout();
        (0..u64::from(self.pool.settings().buckets) * BUCKET_SLOTS as u64).map(move |slot| layout.slot(slot))
    }

    /// Where a queue's cursors are.
    pub fn cursors(&self, queue: Queue) -> Address {
        self.layout().cursors(queue)
    }

    /// Whether a word is a node of a ring.
    pub fn is_node(&self, at: Address) -> bool {
        let bytes = 8u64 << self.pool.settings().ring_log2;
        Queue::ALL.iter().map(|queue| self.layout().ring(*queue)).any(|first| {
            let offsets = first.offset()..first.offset() + bytes;
            (first.node(), first.region()) == (at.node(), at.region()) && offsets.contains(&at.offset())
        })
    }

    /// Makes both rings look as if so many groups had passed through them.
    pub fn turn_rings(&self, sim: &Sim, position: u32) {
        let layout = self.layout();
        let ring_log2 = self.pool.settings().ring_log2;
        for queue in Queue::ALL {
            sim.poke_word(layout.cursors(queue), u64::from(position) << 32 | u64::from(position));
            let (length, lap_mask) = (1u32 << ring_log2, 0x1fff & u32::MAX >> ring_log2);
            for ahead in 0..length {
                // Whoever emptied a node left it waiting for the lap after its own.
                let before = position.wrapping_add(ahead).wrapping_sub(length);
                let lap = u64::from((before >> ring_log2).wrapping_add(1) & lap_mask);
                sim.poke_word(layout.ring(queue).add(u64::from(before & (length - 1)) * 8), lap << 48);
            }
        }
    }
}
