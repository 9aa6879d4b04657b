//! A point of an experiment, measured: its phases, and what was counted.
//!
//! | phase | threads | counted |
//! |---|---|---|
//! | join | one after the other | nothing |
//! | preload and look-ups, if the setup is warm | all at once | nothing |
//! | warm-up: the first fifth of the requests | all at once | nothing |
//! | measured: until the first thread has no request left | all at once | everything |
//! | leave | all at once | nothing |

use super::client::Client;
use super::experiment::Options;
use super::point::Point;
use super::setup::Setup;
use super::sizes;
use super::system::{Subject, Work, on_system};
use super::tally::{Counted, Tally};
use atoll_cache::CacheError;
use atoll_lab::LabError;
use atoll_lab::Progress;
use atoll_lab::latency::Latencies;
use atoll_lab::report::Reached;
use atoll_lab::scheduled::Scheduled;
use atoll_sim::network::Traffic;
use atoll_sim::network::traffic::Limit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The first of this many parts of each thread's requests is the warm-up (FORGE 6.1: 20 %).
pub(crate) const WARM_UP_ONE_IN: u64 = 5;

/// A server that is busy for so many percent of the time is full.
const FULL_PERCENT: f64 = 90.0;

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
    /// What passed the network in that time.
    pub traffic: Traffic,
    /// What the threads' engines counted in that time.
    pub stats: Vec<(&'static str, u64)>,
    /// Verbs of the whole run.
    pub verbs_simulated: u64,
    /// Objects that the cache held at the end.
    pub objects_held: u64,
    /// Objects that a full group has, of an engine with groups.
    pub objects_a_group: Option<u64>,
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

    /// The latency in microseconds that this many of a hundred requests did not pass.
    pub fn latency_us(&self, percent: f64) -> f64 {
        self.latencies.quantile(percent / 100.0) as f64 / 1e3
    }

    /// The server of a NIC that was busiest, and percent of the time.
    pub fn busiest(&self) -> Option<(Limit, f64)> {
        self.traffic.busiest().map(|(_, limit, per_mille)| (limit, per_mille as f64 / 10.0))
    }
}

impl Measured {
    /// What the point reached, for its report.
    pub(crate) fn reached(&self, line: &str, at: &str) -> Reached {
        let processors = self.traffic.processors_busy_per_mille().map(|per_mille| per_mille as f64 / 10.0);
        let network = self.busiest().map(|(limit, percent)| (server(limit), percent));
        let processor = processors.map(|percent| ("the memory node's processor", percent));
        let busiest = [network, processor].into_iter().flatten().max_by(|one, other| one.1.total_cmp(&other.1));
        let (busiest, busy_percent) = busiest.unwrap_or_default();
        let full = if busy_percent >= FULL_PERCENT { busiest } else { "no server (clients wait for round trips)" };
        Reached {
            line: line.to_owned(),
            at: at.to_owned(),
            objects_held: self.objects_held,
            objects_a_group: self.objects_a_group,
            busiest: busiest.to_owned(),
            busy_percent,
            full: full.to_owned(),
        }
    }
}

/// What a server of a NIC is called.
fn server(limit: Limit) -> &'static str {
    match limit {
        Limit::Issue => "the engine for sending",
        Limit::Serve => "the engine for incoming verbs",
        Limit::Atomics => "the atomics unit",
        Limit::LinkIn => "the link inwards",
        Limit::LinkOut => "the link outwards",
    }
}

/// Measures all points, several at a time, and gives their results in order. One thread runs a
/// whole simulation, so the number of workers changes no result.
pub fn measure_all(setups: &[Setup], options: &Options) -> Result<Vec<Measured>, LabError> {
    let setups: Vec<Setup> = setups.iter().map(|setup| options.networked(setup)).collect();
    let (measured, seconds) = run_all(&setups, options.workers, |setup| setup.load.requests(), measure)?;
    tell_speed(setups.len(), measured.iter().map(|measured| measured.verbs_simulated).sum(), seconds);
    Ok(measured)
}

/// Tells how fast points were simulated: to standard error, since it is not the same twice.
pub(crate) fn tell_speed(points: usize, verbs: u64, seconds: f64) {
    if seconds > 0.0 {
        let per_second = verbs as f64 / 1e6 / seconds;
        eprintln!("{points} points, {verbs} verbs: {per_second:.2} million in a second of a processor");
    }
}

/// Runs every point in any way; `requests` tells the size of one. Also gives the seconds of
/// processor time that this took.
pub(crate) fn run_all<S: Sync, T: Send>(
    setups: &[S],
    workers: usize,
    requests: impl Fn(&S) -> u64 + Sync,
    run: impl Fn(&S) -> Result<T, LabError> + Sync,
) -> Result<(Vec<T>, f64), LabError> {
    let progress = Progress::new(setups.iter().map(&requests).sum(), "points");
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
                    progress.advance(requests(setup));
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

/// Runs one point.
pub fn measure(setup: &Setup) -> Result<Measured, LabError> {
    struct One<'s>(&'s Setup);
    impl Work for One<'_> {
        type Output = Measured;

        fn run<G: Subject>(self) -> Result<Measured, LabError> {
            measure_on::<G>(self.0)
        }
    }
    on_system(setup, One(setup))
}

fn measure_on<G: Subject>(setup: &Setup) -> Result<Measured, LabError> {
    let mut point = Point::<G>::new(setup)?;
    point.preload()?;
    let share = setup.load.requests() / u64::from(setup.threads);
    let warm_up = share / WARM_UP_ONE_IN;
    point.phase(|_, client| play(client, warm_up))?;
    let (before, stats_before, begun_ns) = (point.traffic(), point.stats(), point.begin());
    point.phase(|_, client| play(client, share - warm_up))?;
    let (counted, latencies, ended_ns) = point.tally.replace(Tally::default()).into_counted();
    let traffic = point.traffic().since(&before);
    let stats = point.stats().iter().zip(stats_before).map(|((name, now), (_, then))| (*name, now - then)).collect();
    let objects_held = point.objects_held()?;
    let verbs_simulated = point.leave()?;
    let ns = ended_ns.unwrap_or(begun_ns) - begun_ns;
    let Counted { requests, gets, hits } = counted;
    let objects_a_group = sizes::objects_a_group(&setup.pool, setup.object_bytes);
    Ok(Measured { requests, gets, hits, ns, traffic, stats, verbs_simulated, objects_held, objects_a_group, latencies })
}

async fn play<G: Subject>(mut client: Client<G>, requests: u64) -> (Client<G>, Result<(), CacheError>) {
    client.play(requests).await;
    (client, Ok(()))
}
