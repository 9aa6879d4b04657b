//! A point of an experiment, run: a simulation with its pool and threads, its phases, and what was
//! counted.
//!
//! | phase | threads | counted |
//! |---|---|---|
//! | join | one after the other | nothing |
//! | preload and look-ups, if the setup is warm | all at once | nothing |
//! | warm-up: the first fifth of the requests | all at once | nothing |
//! | measured: until the first thread has no request left | all at once | everything |
//! | leave | all at once | nothing |

use super::client::{Client, Tally};
use super::setup::{Setup, Start};
use super::system::{Subject, Work, on_system};
use crate::LabError;
use crate::latency::Latencies;
use crate::load::Stream;
use crate::progress::Progress;
use crate::scheduled::Scheduled;
use atoll_cache::{Cache, CacheError, Stats};
use atoll_cases::ServerSpawner;
use atoll_fabric::Kind;
use atoll_sim::network::traffic::Limit;
use atoll_sim::network::{Network, Traffic};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One of the requests of every thread in so many is warm-up (FORGE 6.1: the first 20 %).
const WARM_UP_ONE_IN: u64 = 5;

/// What came of a point.
pub struct Measured {
    /// Requests that were counted.
    pub requests: u64,
    /// GETs among them, those of scans included.
    pub gets: u64,
    /// GETs that hit.
    pub hits: u64,
    /// Virtual time in which they were counted.
    pub ns: u64,
    /// What passed the network meanwhile.
    pub traffic: Traffic,
    /// What the threads' engines counted meanwhile.
    pub stats: Vec<(&'static str, u64)>,
    /// Verbs of the whole run, which took effect one by one.
    pub verbs_simulated: u64,
    latencies: Latencies,
}

impl Measured {
    /// Requests in a microsecond: millions a second.
    pub fn mops(&self) -> f64 {
        self.requests as f64 * 1e3 / self.ns.max(1) as f64
    }

    /// Percent of the GETs that hit.
    pub fn hit_percent(&self) -> f64 {
        self.hits as f64 * 100.0 / self.gets.max(1) as f64
    }

    /// The latency in microseconds that so many of a hundred requests did not pass.
    pub fn latency_us(&self, percent: f64) -> f64 {
        self.latencies.quantile(percent / 100.0) as f64 / 1e3
    }

    /// The server of a NIC that was busiest, and percent of the time.
    pub fn busiest(&self) -> Option<(Limit, f64)> {
        self.traffic.busiest().map(|(_, limit, per_mille)| (limit, per_mille as f64 / 10.0))
    }
}

/// Runs all points, `workers` at a time, and gives their results in order. Every simulation is one
/// thread's, so that nothing depends on how many there are.
pub fn measure_all(setups: &[Setup], workers: usize) -> Result<Vec<Measured>, LabError> {
    let (measured, seconds) = run_all(setups, workers, measure)?;
    let verbs: u64 = measured.iter().map(|measured| measured.verbs_simulated).sum();
    // To standard error, since it is not the same twice.
    if seconds > 0.0 {
        let (points, per_second) = (setups.len(), verbs as f64 / 1e6 / seconds);
        eprintln!("{points} points, {verbs} verbs: {per_second:.2} million in a second of a processor");
    }
    Ok(measured)
}

/// The same for any run of a point; also the seconds of processors that it took.
pub(super) fn run_all<T: Send>(
    setups: &[Setup],
    workers: usize,
    run: impl Fn(&Setup) -> Result<T, LabError> + Sync,
) -> Result<(Vec<T>, f64), LabError> {
    let progress = Progress::new(setups.iter().map(|setup| setup.load.requests()).sum(), "points");
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let busy_ns = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, setups.len().max(1)) {
            scope.spawn(|| {
                let scheduled = Scheduled::this_thread();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(setup) = setups.get(number) else { break };
                    let before_ns = scheduled.ns().0;
                    let result = run(setup);
                    busy_ns.fetch_add(scheduled.ns().0 - before_ns, Ordering::Relaxed);
                    progress.advance(setup.load.requests());
                    results.lock().expect("no point panics while it has it").push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no point panics while it has it");
    results.sort_by_key(|(number, _)| *number);
    let results = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<T>, LabError>>()?;
    Ok((results, busy_ns.into_inner() as f64 / 1e9))
}

/// Threads between phases: a task takes its client and puts it back.
pub(super) type Place<G> = Rc<RefCell<Option<Client<G>>>>;

/// A simulation with its pool and the threads that have joined.
pub(super) struct Point<'s, G: Subject> {
    setup: &'s Setup,
    pub(super) sim: Sim,
    /// The pool, as each compute node has it open.
    pub(super) pools: Vec<Arc<G::Shared>>,
    pub(super) places: Vec<Place<G>>,
    pub(super) tally: Rc<RefCell<Tally>>,
    attendant: Option<ServerSpawner>,
}

/// Runs one point.
pub fn measure(setup: &Setup) -> Result<Measured, LabError> {
    struct One<'s>(&'s Setup);
    impl Work for One<'_> {
        type Output = Measured;

        fn run<G: Subject>(self) -> Result<Measured, LabError> {
            measure_on::<G>(self.0)
        }
    }
    on_system(setup.system, One(setup))
}

fn measure_on<G: Subject>(setup: &Setup) -> Result<Measured, LabError> {
    let mut point = Point::<G>::new(setup)?;
    point.preload()?;
    let share = setup.load.requests() / u64::from(setup.threads);
    let warm_up = share / WARM_UP_ONE_IN;
    point.phase(|_, client| play(client, warm_up))?;
    let (before, stats_before, begun_ns) = (point.traffic(), point.stats(), point.begin());
    point.phase(|_, client| play(client, share - warm_up))?;
    let tally = point.tally.replace(Tally::new());
    let traffic = point.traffic().since(&before);
    let stats = point.stats().iter().zip(stats_before).map(|((name, now), (_, then))| (*name, now - then)).collect();
    let verbs_simulated = point.leave()?;
    let ns = tally.ended_ns.unwrap_or(begun_ns) - begun_ns;
    let Tally { requests, gets, hits, latencies, .. } = tally;
    Ok(Measured { requests, gets, hits, ns, traffic, stats, verbs_simulated, latencies })
}

async fn play<G: Subject>(mut client: Client<G>, requests: u64) -> (Client<G>, Result<(), CacheError>) {
    client.play(requests).await;
    (client, Ok(()))
}

impl<'s, G: Subject> Point<'s, G> {
    /// Makes the pool, and lets all threads of the setup join.
    pub(super) fn new(setup: &'s Setup) -> Result<Self, LabError> {
        let bytes = setup.pool.home_bytes();
        let further = (1..setup.pool.nodes).map(|_| setup.pool.member_bytes);
        let regions = std::iter::once(bytes).chain(further).map(|bytes| vec![region(bytes, Kind::Host)]);
        let mut nodes: Vec<_> = regions.collect();
        let beside_bytes = G::beside_bytes(setup)?;
        if beside_bytes > 0 {
            nodes[0].push(region(beside_bytes, Kind::Host));
        }
        let sim = Sim::new(SimOptions::timed(setup.seed, nodes, Network::new(setup.profile, setup.compute_nodes)));
        let (endpoint, settings) = (sim.endpoint("maker"), setup.pool.clone());
        ran(sim.block_on(async move { G::format(&endpoint, settings).await.map(drop) }))??;
        let mut pools = Vec::new();
        for node in 0..setup.compute_nodes {
            let endpoint = sim.endpoint_on("opener", node);
            pools.push(ran(sim.block_on(async move { G::open(&endpoint, bytes).await }))??);
        }
        let (attendant, tally) = (G::attendant(&pools[0], setup), Rc::new(RefCell::new(Tally::new())));
        let mut point = Self { setup, sim, pools, places: Vec::new(), tally, attendant };
        for _ in 0..setup.threads {
            point.join()?;
        }
        Ok(point)
    }

    /// Lets the next thread join. Those beyond the setup's have their streams from whoever lets
    /// them join.
    pub(super) fn join(&mut self) -> Result<(), LabError> {
        let thread = self.places.len() as u16;
        let pool = self.pools[usize::from(thread % self.setup.compute_nodes)].clone();
        let endpoint = self.sim.endpoint_on("client", thread % self.setup.compute_nodes);
        let mut engine = ran(self.sim.block_on(async move { G::join(&pool, endpoint).await }))??;
        engine.prepare(self.setup);
        let stream: Stream = match thread < self.setup.threads {
            true => self.setup.load.stream(thread.into(), self.setup.threads.into()),
            false => Box::new(std::iter::empty()),
        };
        let client = Client::new(Cache::new(engine), stream, self.setup.miss_penalty_ns, &self.tally)
            .with_in_flight(self.setup.in_flight);
        self.places.push(Rc::new(RefCell::new(Some(client))));
        Ok(())
    }

    /// All threads do something of their own, until all have ended.
    pub(super) fn phase<F: Future<Output = (Client<G>, Result<(), CacheError>)> + 'static>(
        &self,
        what: impl Fn(u64, Client<G>) -> F,
    ) -> Result<u64, LabError> {
        self.begin();
        let present = Rc::new(());
        if let Some(attend) = &self.attendant {
            attend(&self.sim, Rc::downgrade(&present));
        }
        for (thread, place) in self.places.iter().enumerate() {
            let (place, tally, present) = (place.clone(), self.tally.clone(), present.clone());
            let client = place.take().expect("between phases every thread is at its place");
            let work = what(thread as u64, client);
            self.sim.spawn("client", async move {
                let (client, outcome) = work.await;
                if let Err(error) = outcome {
                    tally.borrow_mut().failed.get_or_insert(error.into());
                }
                *place.borrow_mut() = Some(client);
                drop(present);
            });
        }
        drop(present);
        let report = ran(self.sim.run())?;
        match self.tally.borrow_mut().failed.take() {
            Some(error) => Err(error),
            None => Ok(report.verbs),
        }
    }

    /// Brings about what is to be there before the first request.
    pub(super) fn preload(&self) -> Result<(), LabError> {
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

    /// Everybody leaves the pool; verbs of the whole run.
    pub(super) fn leave(&mut self) -> Result<u64, LabError> {
        let verbs = self.phase(|_, client| async move {
            let outcome = client.cache.engine().leave().await;
            (client, outcome)
        });
        self.places.clear();
        verbs
    }

    /// From now on is counted; gives the time.
    fn begin(&self) -> u64 {
        *self.tally.borrow_mut() = Tally::new();
        self.traffic().ns
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.sim.traffic().expect("the run is timed")
    }

    /// Name and sum of every counter of the engines.
    pub(super) fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut sum = Stats::default().named().to_vec();
        for place in &self.places {
            let place = place.borrow();
            let named = place.as_ref().map(|client| client.cache.stats().named());
            sum.iter_mut().zip(named.into_iter().flatten()).for_each(|(sum, (_, count))| sum.1 += count);
        }
        sum
    }
}

/// A simulation that does not come to its end is a fault of ours.
pub(super) fn ran<T>(outcome: Result<T, atoll_sim::SimError>) -> Result<T, LabError> {
    outcome.map_err(|error| LabError::Failed(error.to_string()))
}
