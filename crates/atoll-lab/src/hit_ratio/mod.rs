//! The hit-ratio experiment: an engine on every trace of a folder at the oracle's cache sizes.
//!
//! As for the oracle, every request is a look-up that inserts after a miss. Objects have unit size,
//! and nothing expires. Points run in parallel, each on a cache of its own. One thread makes a
//! point's requests, by its clients in turn, so a result does not depend on the machine. A trace is
//! decoded once and freed after its last point.

pub mod choice;
pub mod curve;
pub mod distance;
pub mod oracle;
#[cfg(test)]
mod references;
mod table;

use crate::LabError;
use crate::output;
use crate::progress::Progress;
use crate::trace::{Request, Trace, TraceError};
use atoll_cache::miniature::choice::CURVE;
use atoll_cache::{Cache, SetOptions, Stats, Value};
use atoll_deployment::{Bound, Client, EngineName, Plan};
use atoll_fabric::{Clock, run_ready};
use oracle::Point;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How often the objects that are resident are counted, in insertions.
const COUNT_EVERY: u64 = 16;
/// Requests between two looks at whether another point failed, and two steps of the progress bar.
const STRETCH: usize = 1 << 14;
/// The nominal clock of the experiment, as in the published traces without times.
const NS_PER_REQUEST: u64 = 1_000_000;

/// Measure an engine's hit ratio on a folder of traces, beside known algorithms
#[derive(Clone, Debug, clap::Args)]
pub struct HitRatioCommand {
    /// Folder of *.oracleGeneral.zst with oracle_miss_ratio.csv and README.md
    dir: PathBuf,
    /// The engine
    #[arg(long, default_value_t)]
    engine: EngineName,
    /// Clients that take turns, on one thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,
    /// Only traces whose names hold this
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the engine missed at one point.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The trace.
    pub trace: String,
    /// Cache size in percent of the trace's objects.
    pub size_pct: u32,
    /// The same in objects.
    pub cache_objects: u64,
    /// Misses over requests.
    pub miss_ratio: f64,
    /// The hit ratio at each capacity of [`CURVE`], by the clients' miniatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modelled: Option<[f64; CURVE.len()]>,
}

impl Row {
    /// The row of a point.
    fn of(point: &Point, miss_ratio: f64) -> Self {
        let Point { trace, size_pct, cache_objects, .. } = point.clone();
        Self { trace, size_pct, cache_objects, miss_ratio, modelled: None }
    }
}

/// The experiment's result; its JSON form is for scripts.
#[derive(Clone, Debug, Serialize)]
pub struct HitRatioReport {
    /// The engine.
    pub engine: EngineName,
    /// One row a point, in the oracle's order.
    pub rows: Vec<Row>,
    /// Mean distance to Belady's optimum in percentage points, over real traces and caches of at
    /// least 1000 objects.
    pub mean_gap_1000_pp: Option<f64>,
    /// The same over caches of at least 100 objects.
    pub mean_gap_100_pp: Option<f64>,
}

impl HitRatioCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        let mut points = oracle::read(&self.dir)?;
        points.retain(|point| self.only.as_ref().is_none_or(|only| point.trace.contains(only)));
        let report = measure(&self.dir, &points, &self.engine, self.clients)?;
        output::print(self.json, &report, |shown| table::render(&points, shown));
        Ok(())
    }
}

/// Runs `engine` at all `points` of the traces in `folder`.
pub fn measure(folder: &Path, points: &[Point], engine: &EngineName, clients: u32) -> Result<HitRatioReport, LabError> {
    let measured = Points { folder, points, engine, clients }.run()?;
    let miss_ratios: Vec<f64> = measured.iter().map(|measured| measured.miss_ratio).collect();
    let of = |point: &Point| points.iter().position(|other| std::ptr::eq(other, point)).map(|index| miss_ratios[index]);
    Ok(HitRatioReport {
        engine: engine.clone(),
        rows: points.iter().zip(&measured).map(|(point, measured)| measured.row(point)).collect(),
        mean_gap_1000_pp: oracle::mean_gap_pp(points, 1000, of),
        mean_gap_100_pp: oracle::mean_gap_pp(points, 100, of),
    })
}

/// What one point gave.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    miss_ratio: f64,
    modelled: Option<[f64; CURVE.len()]>,
}

impl Measured {
    fn row(&self, point: &Point) -> Row {
        Row { modelled: self.modelled, ..Row::of(point, self.miss_ratio) }
    }
}

/// A trace that several points share.
struct SharedTrace {
    path: PathBuf,
    /// The keys while they are needed, and how many points have yet to finish with them.
    state: Mutex<(Option<Arc<[u64]>>, usize)>,
}

impl SharedTrace {
    fn keys(&self) -> Result<Arc<[u64]>, TraceError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = &state.0 {
            return Ok(keys.clone());
        }
        let keys = decode(&self.path)?;
        state.0 = Some(keys.clone());
        Ok(keys)
    }

    fn done(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 -= 1;
        if state.1 == 0 {
            state.0 = None;
        }
    }
}

/// The keys of a trace of numbers.
pub(crate) fn decode(path: &Path) -> Result<Arc<[u64]>, TraceError> {
    let mut trace = Trace::open_file(path)?;
    let (mut request, mut keys) = (Request::default(), Vec::new());
    while trace.read(&mut request)? {
        keys.push(request.key_number());
    }
    Ok(keys.into())
}

struct Points<'p> {
    folder: &'p Path,
    points: &'p [Point],
    engine: &'p EngineName,
    clients: u32,
}

impl Points<'_> {
    /// The trace of every point; points of one trace stand together.
    fn traces(&self) -> Vec<Arc<SharedTrace>> {
        let mut traces: Vec<Arc<SharedTrace>> = Vec::new();
        for (index, point) in self.points.iter().enumerate() {
            let trace = match traces.last() {
                Some(last) if self.points[index - 1].trace == point.trace => last.clone(),
                _ => {
                    let path = self.folder.join(format!("{}.oracleGeneral.zst", point.trace));
                    Arc::new(SharedTrace { path, state: Mutex::new((None, 0)) })
                }
            };
            trace.state.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
            traces.push(trace);
        }
        traces
    }

    /// Points with the largest files first, so that no core works on a long one alone at the end.
    fn order(&self, traces: &[Arc<SharedTrace>]) -> Vec<usize> {
        let bytes = |index: usize| std::fs::metadata(&traces[index].path).map_or(0, |metadata| metadata.len());
        let mut order: Vec<usize> = (0..traces.len()).collect();
        order.sort_by_key(|&index| (std::cmp::Reverse(bytes(index)), index));
        order
    }
}

impl Points<'_> {
    fn run(self) -> Result<Vec<Measured>, LabError> {
        let traces = self.traces();
        let order = self.order(&traces);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        // The bar counts thousandths of points, since how long the traces are is not known before
        // they are decoded.
        let progress = Progress::new(1000 * self.points.len() as u64, "hit ratio");
        let work = || {
            let mut found = Vec::new();
            while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                if failed.load(Ordering::Relaxed) {
                    break;
                }
                let outcome = traces[index].keys().map_err(LabError::from).and_then(|keys| {
                    measure_point(self.engine, self.points[index].cache_objects, self.clients, &keys, &progress)
                });
                traces[index].done();
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                found.push((index, outcome?));
            }
            Ok(found)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(self.points.len().max(1));
        let outcomes: Vec<Result<Vec<(usize, Measured)>, LabError>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker has a bug")).collect()
        });
        let mut all = vec![Measured::default(); self.points.len()];
        for outcome in outcomes {
            outcome?.into_iter().for_each(|(index, measured)| all[index] = measured);
        }
        Ok(all)
    }
}

/// One cache on one trace.
fn measure_point(
    engine: &EngineName,
    cache_objects: u64,
    clients: u32,
    keys: &[u64],
    progress: &Progress,
) -> Result<Measured, LabError> {
    let (clock, time) = Clock::manual(0);
    let bound = Bound::Objects(cache_objects);
    let plan = Plan {
        engine: engine.clone(),
        bound,
        object_bytes: 9,
        clients_max: clients,
        name: None,
        evicts_ahead: false,
        secret_file: None,
    };
    let deployment = plan.create(&clock)?;
    let mut clients = (0..clients).map(|_| deployment.client()).collect::<Result<Vec<_>, _>>()?;
    let mut run = Run { clients: &mut clients, time: &time, misses: 0, objects_max: 0, next: 0, value: Value::new() };
    for (index, stretch) in keys.chunks(STRETCH).enumerate() {
        run_ready(run.stretch(stretch))?;
        let (before, after) = (index * STRETCH, index * STRETCH + stretch.len());
        progress.advance((1000 * after / keys.len() - 1000 * before / keys.len()) as u64);
    }
    let (misses, seen) = (run.misses, run.objects_max);
    let objects_max = deployment.objects_max().unwrap_or(0).max(seen);
    if objects_max > cache_objects {
        return Err(LabError::TooManyResident { objects_max, bound: cache_objects });
    }
    let mut stats = Stats::default();
    clients.iter().for_each(|client| stats.add(&client.stats()));
    Ok(Measured { miss_ratio: misses as f64 / keys.len().max(1) as f64, modelled: stats.curve() })
}

/// One point that is being run.
struct Run<'r> {
    clients: &'r mut [Cache<Client>],
    time: &'r AtomicU64,
    misses: u64,
    objects_max: u64,
    /// The number of the next request; it goes to the client of that number modulo their count.
    next: u64,
    value: Value,
}

impl Run<'_> {
    async fn stretch(&mut self, keys: &[u64]) -> Result<(), LabError> {
        for key in keys {
            self.time.store(self.next * NS_PER_REQUEST, Ordering::Relaxed);
            let client = (self.next % self.clients.len() as u64) as usize;
            let client = &mut self.clients[client];
            self.next += 1;
            let key = key.to_le_bytes();
            if client.get(&key, &mut self.value).await? {
                continue;
            }
            client.set(&key, b"v", &SetOptions::default()).await?;
            if self.misses.is_multiple_of(COUNT_EVERY) {
                self.objects_max = self.objects_max.max(client.objects().await?);
            }
            self.misses += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use atoll_deployment::reference::PolicyName;

    /// Real traces that a test can afford.
    const TRACES: [&str; 3] = ["cache2k_web12", "lirs_sprite", "lmcache_agents"];

    #[test]
    fn queues_in_the_pool_hit_nearly_what_their_policies_do() {
        let Some(folder) = fixtures::traces() else { return };
        let mut points = oracle::read(&folder).unwrap();
        points.retain(|point| TRACES.contains(&&*point.trace) && point.cache_objects >= 300);
        let mut far = Vec::new();
        // On loops SIEVE is worst where its order is exact: the few objects that go because their
        // bucket is full save it some misses, and 32 lists many.
        for (engine, algorithm, fewer_max) in [
            ("shard-lru:1", "LRU", 0.1),
            ("shard-lru", "LRU", 1.0),
            ("lru-dm", "LRU", 1.0),
            ("sieve-dm:1", "SIEVE", 5.0),
            ("sieve-dm", "SIEVE", 100.0),
            ("s3fifo-dm", "S3-FIFO", 2.0),
        ] {
            let report = measure(&folder, &points, &engine.parse().unwrap(), 1).unwrap();
            for (row, point) in report.rows.iter().zip(&points) {
                let exact = point.miss_ratio(algorithm).unwrap();
                let points_more = 100.0 * (row.miss_ratio - exact);
                let (trace, objects) = (&row.trace, row.cache_objects);
                println!(
                    "{engine:<12}{trace:<16}{objects:>6} objects: {:5.2} % missed, {algorithm} {:5.2} %, {points_more:+.2}",
                    100.0 * row.miss_ratio,
                    100.0 * exact
                );
                if points_more > 2.0 || points_more < -fewer_max {
                    far.push(format!("{engine} on {trace} with {objects} objects: {points_more:+.2} points"));
                }
            }
        }
        assert_eq!(far, Vec::<String>::new());
    }

    #[test]
    fn lru_through_the_whole_experiment_misses_what_the_oracle_says() {
        let Some(folder) = fixtures::traces() else { return };
        let mut points = oracle::read(&folder).unwrap();
        points.retain(|point| ["lirs_cpp", "lirs_multi1", "semicomplete_web"].contains(&&*point.trace));
        assert_eq!(points.len(), 12);
        for clients in [1, 3] {
            let report = measure(&folder, &points, &EngineName::Reference(PolicyName::Lru), clients).unwrap();
            for (row, point) in report.rows.iter().zip(&points) {
                assert!((row.miss_ratio - point.miss_ratio("LRU").unwrap()).abs() < 1e-6, "{row:?}");
            }
            let gap = oracle::mean_gap_pp(&points, 100, |point| point.miss_ratio("LRU")).unwrap();
            assert!((report.mean_gap_100_pp.unwrap() - gap).abs() < 1e-3);
            assert!(report.mean_gap_1000_pp.is_none());
            let json = serde_json::to_value(&report).unwrap();
            assert_eq!(json["engine"], "lru");
            assert!(json["rows"][0]["miss_ratio"].is_f64() && json["mean_gap_1000_pp"].is_null());
        }
    }
}
