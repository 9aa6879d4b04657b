//! The replay of a trace on a cache.
//!
//! Request i belongs to process i mod P, and there to its clients in turn. One process runs
//! everything on one thread and is repeatable, as far as the engine is. Several processes run at
//! their own speed on one named cache. The trace's time is the clients' time. `player` says what a
//! client does.
//!
//! Invariant: with a bound in objects, at most so many are resident. A replay that sees more is an
//! error.

mod player;
mod task;

use crate::LabError;
use crate::progress::Progress;
use crate::trace::{Request, Trace};
use atoll::size::parse_bytes;
use atoll_deployment::{Bound, EngineName, Plan};
use atoll_fabric::{Clock, run_ready};
use player::{Count, Player, Sizes, Tally};
use serde::{Deserialize, Serialize};
use std::time::Instant;
pub(crate) use task::ReplayTask;

/// Requests between two steps of the progress bar.
const STRETCH: u64 = 1 << 14;

/// Replay a trace on a cache and report what it hits and how fast it is
///
/// A GET that misses is followed by a SET; a SET counts as a look-up, and hits when its key is
/// resident; a DELETE counts as neither. Time is the trace's time.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayCommand {
    /// An oracleGeneral or Twitter CSV file, zstd or plain, or zipf:KEYS,THETA,REQUESTS
    trace: String,
    #[command(flatten)]
    bound: BoundOptions,
    /// The engine
    #[arg(long, default_value_t)]
    engine: EngineName,
    /// Clients of each process, which take turns on one thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,
    /// Processes on one shared cache
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: u32,
    /// Let an evictor make room after each change, as the product's thread does (`forge`, one
    /// process)
    #[arg(long, conflicts_with = "processes")]
    evict_ahead: bool,
    /// Seed of a generated load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct BoundOptions {
    /// Most objects that may be resident; all have unit size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    cache_objects: Option<u64>,
    /// Bytes of the cache's pool, such as 64MiB; objects have the trace's sizes
    #[arg(long, value_name = "B", value_parser = parse_bytes)]
    cache_bytes: Option<u64>,
}

/// Everything that a process must know of a replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    trace: String,
    seed: u64,
    plan: Plan,
    sizes: Sizes,
    /// Of each process.
    clients: u32,
    processes: u32,
}

/// A replay's result; its JSON form is for scripts.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// All requests, DELETEs among them.
    pub requests: u64,
    /// Look-ups that found their key.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Misses over look-ups.
    pub miss_ratio: f64,
    /// Objects evicted to make room.
    pub evictions: u64,
    /// The most objects that were resident at a time.
    pub objects_max: u64,
    /// Requests per second of time spent inside the cache, summed over processes; reading the trace
    /// is not in it.
    pub ops_per_s: f64,
    /// Median latency of a GET.
    pub get_ns_p50: u64,
    /// The latency of a GET that one in a hundred passes.
    pub get_ns_p99: u64,
    /// Median latency of a SET.
    pub set_ns_p50: u64,
    /// The latency of a SET that one in a hundred passes.
    pub set_ns_p99: u64,
}

impl ReplayCommand {
    /// Does the replay and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        let json = self.json;
        let settings = self.settings();
        let since = Instant::now();
        let (tally, ops_per_s) = Replay { settings: &settings }.run()?;
        let report = ReplayReport::new(&tally, ops_per_s);
        if json {
            println!("{}", serde_json::to_string(&report).expect("a report is plain data"));
        } else {
            print_report(&settings, &report, &tally, since.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn settings(self) -> Settings {
        let (bound, sizes, object_bytes) = match (self.bound.cache_objects, self.bound.cache_bytes) {
            (Some(objects_max), _) => (Bound::Objects(objects_max), Sizes::Unit, 64),
            (None, bytes) => (Bound::Bytes(bytes.unwrap_or(0)), Sizes::Traced, 256),
        };
        let name = (self.processes > 1).then(|| format!("shm:/atoll-replay-{}", std::process::id()));
        // One client more than replay, for the check at the end.
        let clients_max = self.processes * self.clients + 1;
        let plan = Plan {
            engine: self.engine,
            bound,
            object_bytes,
            clients_max,
            name,
            evicts_ahead: self.evict_ahead,
            secret_file: None,
        };
        let (trace, seed, clients, processes) = (self.trace, self.seed, self.clients, self.processes);
        Settings { trace, seed, plan, sizes, clients, processes }
    }
}

impl ReplayReport {
    fn new(tally: &Tally, ops_per_s: f64) -> Self {
        let look_ups = (tally.count(Count::Hits) + tally.count(Count::Misses)).max(1);
        Self {
            requests: tally.count(Count::Requests),
            hits: tally.count(Count::Hits),
            misses: tally.count(Count::Misses),
            miss_ratio: tally.count(Count::Misses) as f64 / look_ups as f64,
            evictions: tally.count(Count::Evictions),
            objects_max: tally.objects_max,
            ops_per_s,
            get_ns_p50: tally.get.quantile(0.5),
            get_ns_p99: tally.get.quantile(0.99),
            set_ns_p50: tally.set.quantile(0.5),
            set_ns_p99: tally.set.quantile(0.99),
        }
    }
}

fn print_report(settings: &Settings, report: &ReplayReport, tally: &Tally, seconds: f64) {
    let Settings { trace, plan, clients, processes, .. } = settings;
    let bound = match plan.bound {
        Bound::Objects(objects) => format!("{objects} objects"),
        Bound::Bytes(bytes) => format!("{bytes} bytes"),
    };
    println!("{trace} on {}, {bound}, {processes} x {clients} clients, {seconds:.1} s", plan.engine);
    println!("requests     {:>12}", report.requests);
    println!("hits         {:>12}   {:>7.3} %", report.hits, 100.0 * (1.0 - report.miss_ratio));
    println!("misses       {:>12}   {:>7.3} %", report.misses, 100.0 * report.miss_ratio);
    println!("deletes      {:>12}", tally.count(Count::Deletes));
    println!("evictions    {:>12}", report.evictions);
    println!("objects, max {:>12}", report.objects_max);
    if tally.count(Count::Refused) > 0 {
        println!(
            "too large    {:>12}   SETs of values longer than the pool takes, not stored",
            tally.count(Count::Refused)
        );
    }
    println!("requests/s   {:>12.0}   of time inside the cache", report.ops_per_s);
    println!("GET          {:>9} ns   p99 {} ns", report.get_ns_p50, report.get_ns_p99);
    println!("SET          {:>9} ns   p99 {} ns", report.set_ns_p50, report.set_ns_p99);
}

struct Replay<'r> {
    settings: &'r Settings,
}

impl Replay<'_> {
    /// What was counted, and requests per second.
    fn run(self) -> Result<(Tally, f64), LabError> {
        let plan = &self.settings.plan;
        // The trace is opened before a cache is made, so that a wrong name costs nothing.
        let trace = Trace::open(&self.settings.trace, self.settings.seed)?;
        let progress = Progress::new(trace.position().1, "replay");
        let (clock, time) = Clock::manual(0);
        let deployment = plan.create(&clock)?;
        let (mut tally, ops_per_s) = if self.settings.processes > 1 {
            let played = task::play_all(self.settings, &progress);
            plan.remove()?;
            played?
        } else {
            let clients = (0..self.settings.clients).map(|_| deployment.client()).collect::<Result<Vec<_>, _>>()?;
            let player = Player::new(clients, time, self.settings.sizes);
            let tally = play(player, trace, |_| true, |position| progress.set(position))?;
            let ops_per_s = tally.requests_per_s();
            (tally, ops_per_s)
        };
        run_ready(player::check_count(&mut deployment.client()?))?;
        tally.objects_max = tally.objects_max.max(deployment.objects_max().unwrap_or(0));
        match plan.bound {
            Bound::Objects(bound) if tally.objects_max > bound => {
                Err(LabError::TooManyResident { objects_max: tally.objects_max, bound })
            }
            _ => Ok((tally, ops_per_s)),
        }
    }
}

/// Plays the requests of `trace` whose number is `ours`; calls `progress` now and then with the
/// trace's position.
fn play(
    mut player: Player,
    mut trace: Trace,
    ours: impl Fn(u64) -> bool,
    progress: impl Fn(u64),
) -> Result<Tally, LabError> {
    let (mut request, mut number) = (Request::default(), 0);
    while trace.read(&mut request)? {
        if ours(number) {
            run_ready(player.play(&request))?;
        }
        number += 1;
        if number.is_multiple_of(STRETCH) {
            progress(trace.position().0);
        }
    }
    Ok(player.finish())
}

#[cfg(test)]
mod tests;
