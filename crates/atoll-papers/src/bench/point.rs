//! A point of an experiment as a simulation: its pool, the threads that have joined, and phases in
//! which all threads are at work.

use super::client::Client;
use super::processor;
use super::setup::{Setup, Start};
use super::system::Subject;
use super::tally::Tally;
use atoll_cache::{Ahead, Cache, CacheError, EnginePool, NearCache, Stats};
use atoll_cases::ServerSpawner;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Endpoint, Kind};
use atoll_lab::LabError;
use atoll_lab::load::Stream;
use atoll_sim::network::{Network, Traffic};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::cell::RefCell;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;

/// How long an evictor that has nothing to do waits before it looks again.
const EVICTOR_PAUSE_NS: u64 = 2_000;

/// A thread between phases. A task borrows its client and puts it back.
pub(crate) type Place<G> = Rc<RefCell<Option<Client<G>>>>;

/// A simulation with its pool and the threads that have joined.
pub(crate) struct Point<'s, G: Subject> {
    setup: &'s Setup,
    pub(crate) sim: Sim,
    /// The pool, as each compute node has it open.
    pub(crate) pools: Vec<Arc<G::Shared>>,
    /// The near cache of each compute node, if they have some.
    nears: Vec<Arc<NearCache>>,
    pub(crate) places: Vec<Place<G>>,
    /// Clients that only make room ahead of need; each is `None` while a task has it.
    evictors: Vec<Rc<RefCell<Option<Cache<G>>>>>,
    pub(crate) tally: Rc<RefCell<Tally>>,
    attendant: Option<ServerSpawner>,
}

impl<'s, G: Subject> Point<'s, G> {
    /// Makes the pool, and lets all threads of the setup join.
    pub(crate) fn new(setup: &'s Setup) -> Result<Self, LabError> {
        let bytes = setup.pool.home_bytes();
        let further = (1..setup.pool.nodes).map(|_| setup.pool.member_bytes);
        let regions = std::iter::once(bytes).chain(further).map(|bytes| vec![region(bytes, Kind::Host)]);
        let mut nodes: Vec<_> = regions.collect();
        let beside = setup.tuning.as_ref().map_or(Ok(Vec::new()), |tuning| tuning.regions(setup))?;
        nodes[0].extend(beside.into_iter().map(|(bytes, kind)| region(bytes, kind)));
        let sim = Sim::new(SimOptions::timed(setup.seed, nodes, Network::new(setup.profile, setup.compute_nodes)));
        let (endpoint, settings) = (CaseEndpoint::new(sim.endpoint("maker")), setup.pool.clone());
        ran(sim.block_on(async move { G::format(&endpoint, settings).await.map(drop) }))??;
        let mut pools = Vec::new();
        for node in 0..setup.compute_nodes {
            let endpoint = CaseEndpoint::new(sim.endpoint_on("opener", node));
            pools.push(ran(sim.block_on(async move { G::open(&endpoint, bytes).await }))??);
        }
        let attendant = setup.processor.map(|one| processor::attendant(one, &setup.profile, &pools[0]));
        let tally = Rc::new(RefCell::new(Tally::default()));
        let near = || NearCache::of_process(setup.near_bytes).map_err(|error| LabError::Options(error.to_string()));
        let nears = (0..if setup.near_bytes > 0 { setup.compute_nodes } else { 0 }).map(|_| Ok(Arc::new(near()?)));
        let nears = nears.collect::<Result<_, LabError>>()?;
        let (places, evictors) = (Vec::new(), Vec::new());
        let mut point = Self { setup, sim, pools, nears, places, evictors, tally, attendant };
        for _ in 0..setup.threads {
            point.join()?;
        }
        if setup.has_evictors {
            for node in 0..setup.compute_nodes {
                let evictor = Cache::new(point.joined(node)?);
                point.evictors.push(Rc::new(RefCell::new(Some(evictor))));
            }
        }
        Ok(point)
    }

    /// An engine of a new client on a compute node.
    fn joined(&self, node: u16) -> Result<G, LabError> {
        let pool = self.pools[usize::from(node)].clone();
        let endpoint = CaseEndpoint::new(self.sim.endpoint_on("client", node));
        let mut engine = ran(self.sim.block_on(async move { G::join(&pool, endpoint).await }))??;
        if let Some(tuning) = &self.setup.tuning {
            tuning.apply(self.setup, engine.own());
        }
        engine.set_awaited();
        Ok(engine)
    }

    /// Lets the next thread join. A thread beyond the setup's begins with an empty stream.
    pub(crate) fn join(&mut self) -> Result<(), LabError> {
        let thread = self.places.len() as u16;
        let mut engine = self.joined(thread % self.setup.compute_nodes)?;
        if let Some(cache) = self.nears.get(usize::from(thread % self.setup.compute_nodes)) {
            engine.attach(cache.clone())?;
        }
        let stream: Stream = match thread < self.setup.threads {
            true => self.setup.load.stream(thread.into(), self.setup.threads.into()),
            false => Box::new(std::iter::empty()),
        };
        let client = Client::new(Cache::new(engine), stream, self.setup.miss_penalty_ns, &self.tally)
            .with_in_flight(self.setup.in_flight)
            .with_arrivals(self.setup.arrivals_ns());
        self.places.push(Rc::new(RefCell::new(Some(client))));
        Ok(())
    }

    /// All threads do something of their own, until all have ended.
    pub(crate) fn phase<F: Future<Output = (Client<G>, Result<(), CacheError>)> + 'static>(
        &self,
        what: impl Fn(u64, Client<G>) -> F,
    ) -> Result<u64, LabError> {
        self.begin();
        let present = Rc::new(());
        if let Some(attend) = &self.attendant {
            attend(&self.sim, Rc::downgrade(&present));
        }
        for (node, place) in self.evictors.iter().enumerate() {
            let (place, tally, threads) = (place.clone(), self.tally.clone(), Rc::downgrade(&present));
            let pool = self.pools[node].clone();
            let evictor = place.take().expect("between phases every evictor is at its place");
            self.sim.spawn("evictor", async move {
                let driven = pool.reserve().filter(|reserve| reserve.attend(Waker::noop().clone()));
                if let Err(error) = evict_ahead(&evictor, &threads).await {
                    tally.borrow_mut().fail(error.into());
                }
                driven.iter().for_each(|reserve| reserve.leave());
                *place.borrow_mut() = Some(evictor);
            });
        }
        for (thread, place) in self.places.iter().enumerate() {
            let (place, tally, present) = (place.clone(), self.tally.clone(), present.clone());
            let client = place.take().expect("between phases every thread is at its place");
            let work = what(thread as u64, client);
            self.sim.spawn("client", async move {
                let (client, outcome) = work.await;
                if let Err(error) = outcome {
                    tally.borrow_mut().fail(error.into());
                }
                *place.borrow_mut() = Some(client);
                drop(present);
            });
        }
        drop(present);
        let report = ran(self.sim.run())?;
        match self.tally.borrow_mut().take_failure() {
            Some(error) => Err(error),
            None => Ok(report.verbs),
        }
    }

    /// Runs one task, while the memory node's processor, if the point has one, serves it.
    pub(crate) fn alone<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> Result<T, LabError> {
        let present = Rc::new(());
        let Some(attend) = &self.attendant else { return ran(self.sim.block_on(task)) };
        attend(&self.sim, Rc::downgrade(&present));
        // The run ends with the server, which ends when the task is no longer present.
        ran(self.sim.block_on(async move {
            let outcome = task.await;
            drop(present);
            outcome
        }))
    }

    /// Sets, and looks up, what the setup wants before the first request.
    pub(crate) fn preload(&self) -> Result<(), LabError> {
        if self.setup.start == Start::Empty {
            return Ok(());
        }
        let (load, threads) = (self.setup.load.clone(), u64::from(self.setup.threads));
        let keys = |thread, threads| -> Stream { load.preload(thread, threads) };
        self.phase(|thread, mut client| {
            let keys = keys(thread, threads);
            async move {
                let outcome = client.preload(keys).await;
                (client, outcome)
            }
        })?;
        if self.setup.start == Start::Loaded {
            return Ok(());
        }
        self.phase(|_, mut client| {
            let keys = keys(0, 1);
            async move {
                let outcome = client.look_up(keys).await;
                (client, outcome)
            }
        })?;
        Ok(())
    }

    /// Objects that the cache holds.
    pub(crate) fn objects_held(&self) -> Result<u64, LabError> {
        let place = self.places[0].clone();
        let client = place.take().expect("between phases every thread is at its place");
        let (client, objects) = self.alone(async move {
            let objects = client.cache.objects().await;
            (client, objects)
        })?;
        *place.borrow_mut() = Some(client);
        Ok(objects?)
    }

    /// All threads leave the pool. Gives the verbs of the whole run.
    pub(crate) fn leave(&mut self) -> Result<u64, LabError> {
        let verbs = self.phase(|_, client| async move {
            let outcome = client.cache.engine().leave().await;
            (client, outcome)
        });
        self.places.clear();
        for place in self.evictors.drain(..) {
            if let Some(evictor) = place.take() {
                ran(self.sim.block_on(async move { evictor.engine().leave().await }))??;
            }
        }
        verbs
    }

    /// Begins to count. Gives the time.
    pub(crate) fn begin(&self) -> u64 {
        *self.tally.borrow_mut() = Tally::default();
        self.traffic().ns
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.sim.traffic().expect("the run is timed")
    }

    /// Name and sum of every counter of the engines.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut sum = Stats::default().named().to_vec();
        let mut add = |stats: Stats| sum.iter_mut().zip(stats.named()).for_each(|(sum, (_, count))| sum.1 += count);
        self.places.iter().filter_map(|place| Some(place.borrow().as_ref()?.cache.stats())).for_each(&mut add);
        self.evictors.iter().filter_map(|place| Some(place.borrow().as_ref()?.stats())).for_each(&mut add);
        sum
    }
}

/// Makes room ahead of need while threads are at work.
async fn evict_ahead<G: Subject>(evictor: &Cache<G>, threads: &Weak<()>) -> Result<(), CacheError> {
    while threads.strong_count() > 0 {
        if evictor.engine().evict_ahead().await? != Ahead::Worked {
            evictor.engine().client().endpoint.pause(EVICTOR_PAUSE_NS).await;
            evictor.tend().await?;
        }
    }
    Ok(())
}

/// A simulation that does not end is a bug of ours.
pub(crate) fn ran<T>(outcome: Result<T, atoll_sim::SimError>) -> Result<T, LabError> {
    outcome.map_err(|error| LabError::Failed(error.to_string()))
}
