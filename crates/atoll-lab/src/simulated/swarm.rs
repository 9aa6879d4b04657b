//! Many drawn cases with faults: `atoll sim swarm` and `atoll sim replay`.
//!
//! Seed and commit decide a run, on every machine. A run that fails prints the command that replays it; the replay can print every event.

use super::subject::{Dittoed, Forged, Learned, Queueing, Stored, Subject};
use super::turmoil::{Ran, Turmoil};
use crate::LabError;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Draw pools, loads, liberties and faults from seeds, and look for what goes wrong
#[derive(Args, Clone, Debug)]
pub struct SwarmCommand {
    /// The engine
    #[arg(long, value_enum, default_value_t)]
    engine: SimulatedEngine,
    /// For so many minutes
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// Runs at most
    #[arg(long)]
    runs: Option<u64>,
    /// The first seed; by default one that nobody has tried
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; by default one a core
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Run one drawn case again
#[derive(Args, Clone, Debug)]
pub struct ReplayCommand {
    /// The engine
    #[arg(long, value_enum, default_value_t)]
    engine: SimulatedEngine,
    /// Its seed
    #[arg(long)]
    seed: u64,
    /// Print the events, the last so many: all by default
    #[arg(long, num_args = 0..=1, default_missing_value = "18446744073709551615")]
    trace: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if minutes > 0.0 && minutes <= 100_000.0 => Ok(minutes),
        _ => Err("write a number of minutes above 0, such as 0.5".to_owned()),
    }
}

/// The engines, as users name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SimulatedEngine {
    /// FORGE
    #[default]
    Forge,
    /// FORGE's groups, of which those go that trees say are worth least
    #[value(name = "glcache-dm")]
    #[serde(rename = "glcache-dm")]
    GlCacheDm,
    /// Ditto
    Ditto,
    /// A table of objects that tracks nothing and evicts at random
    Kvs,
    /// A table of objects with queues in the pool: any of them
    Queues,
}

impl SimulatedEngine {
    /// Runs one seed; a panic is a failure like any other.
    pub fn run_seed(self, seed: u64) -> Result<Ran, String> {
        match self {
            Self::Forge => run_seed::<Forged>(seed),
            Self::GlCacheDm => run_seed::<Learned>(seed),
            Self::Ditto => run_seed::<Dittoed>(seed),
            Self::Kvs => run_seed::<Stored>(seed),
            Self::Queues => run_seed::<Queueing>(seed),
        }
    }

    /// Runs one seed and tells how: the case, how it went, and the last so many events in words.
    fn replay(self, seed: u64, events: usize) -> (String, Result<Ran, String>, String) {
        match self {
            Self::Forge => replay::<Forged>(seed, events),
            Self::GlCacheDm => replay::<Learned>(seed, events),
            Self::Ditto => replay::<Dittoed>(seed, events),
            Self::Kvs => replay::<Stored>(seed, events),
            Self::Queues => replay::<Queueing>(seed, events),
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

fn replay<S: Subject>(seed: u64, events: usize) -> (String, Result<Ran, String>, String) {
    let turmoil = Turmoil::<S>::drawn(seed);
    let (ran, trace) = turmoil.run_traced(seed, events);
    (format!("{turmoil:#?}"), ran, trace)
}

/// A seed under which something was wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
}

/// What a swarm came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwarmReport {
    /// Runs.
    pub runs: u64,
    /// Steps of all simulations.
    pub events: u64,
    /// Clients killed.
    pub kills: u64,
    /// Operations checked.
    pub operations: u64,
    /// Lookups that found something.
    pub hits: u64,
    /// What was wrong.
    pub failures: Vec<Failure>,
    /// Verbs a second of each thread.
    pub verbs_per_s: u64,
    /// The first seed; the next ones follow.
    pub first_seed: u64,
}

/// Failures after which a swarm ends: they have one cause more often than not.
const FAILURES_MAX: usize = 10;

fn run_seed<S: Subject>(seed: u64) -> Result<Ran, String> {
    catch_unwind(AssertUnwindSafe(|| Turmoil::<S>::drawn(seed).run(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

/// Runs seeds from `first` on, on so many threads, until the time or the runs are up.
pub fn swarm(engine: SimulatedEngine, first: u64, runs_max: u64, time: Duration, threads: usize) -> SwarmReport {
    let (begun, next) = (Instant::now(), AtomicU64::new(0));
    let progress = Progress::new(time.as_millis() as u64, "seeds");
    let total = Mutex::new((SwarmReport { first_seed: first, ..SwarmReport::default() }, 0u64));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    let failed = total.lock().expect("no thread panics here").0.failures.len();
                    if run >= runs_max || begun.elapsed() >= time || failed >= FAILURES_MAX {
                        break;
                    }
                    let seed = first.wrapping_add(run);
                    let ran = engine.run_seed(seed);
                    let (report, verbs) = &mut *total.lock().expect("no thread panics here");
                    report.runs += 1;
                    match ran {
                        Ok(ran) => {
                            report.events += ran.steps;
                            report.kills += ran.kills;
                            report.operations += ran.checked.operations as u64;
                            report.hits += ran.checked.hits as u64;
                            *verbs += ran.verbs;
                        }
                        Err(what) => report.failures.push(Failure { seed, what }),
                    }
                    progress.set(begun.elapsed().as_millis() as u64);
                }
            });
        }
    });
    let (mut report, verbs) = total.into_inner().expect("no thread panics here");
    report.verbs_per_s = (verbs as f64 / begun.elapsed().as_secs_f64() / threads.max(1) as f64) as u64;
    report.failures.sort_by_key(|failure| failure.seed);
    report
}

impl SwarmCommand {
    /// Runs the swarm and prints what it found.
    pub fn run(self) -> Result<(), LabError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // Seconds leave room for the runs of each.
        let first = self.seed.unwrap_or(since_epoch.as_secs() * 1_000_000);
        let time = Duration::from_secs_f64(60.0 * self.minutes);
        let report = swarm(self.engine, first, self.runs.unwrap_or(u64::MAX), time, self.threads.unwrap_or(cores));
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report).expect("a report is plain data"));
        } else {
            println!("{} runs from seed {first}: {} events, {} kills", report.runs, report.events, report.kills);
            println!("{} operations checked, {} of them hits", report.operations, report.hits);
            println!("{} verbs a second and thread, joins, walks and checks included", report.verbs_per_s);
            for Failure { seed, what } in &report.failures {
                let engine = self.engine.name();
                println!("seed {seed}: {what}\n  replay: atoll sim replay --engine {engine} --seed {seed} --trace");
            }
        }
        match report.failures.len() {
            0 => Ok(()),
            failures => Err(LabError::Failed(format!("{failures} of {} runs failed", report.runs))),
        }
    }
}

impl ReplayCommand {
    /// Runs the seed and prints how it went.
    pub fn run(self) -> Result<(), LabError> {
        let (turmoil, ran, trace) = self.engine.replay(self.seed, self.trace.unwrap_or(0));
        if !self.json {
            println!("{turmoil}");
        }
        if self.trace.is_some() {
            println!("{}", trace.trim_start_matches('\n'));
        }
        match ran {
            Ok(ran) if self.json => println!(
                "{}",
                serde_json::json!({ "runs": 1, "events": ran.steps, "failures": [], "digest": format!("{:016x}", ran.digest) })
            ),
            Ok(ran) => println!(
                "nothing is wrong: {} events, {} kills, {} operations, digest {:016x}",
                ran.steps, ran.kills, ran.checked.operations, ran.digest
            ),
            Err(what) => {
                if self.json {
                    let failure = Failure { seed: self.seed, what: what.clone() };
                    println!("{}", serde_json::json!({ "runs": 1, "failures": [failure] }));
                }
                return Err(LabError::Failed(format!("seed {}: {what}", self.seed)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a seed draws changes with the liberties that there are; so each fault has a test of its
    /// own, too.
    #[test]
    fn seeds_that_failed_once_do_not_any_more() {
        use SimulatedEngine::{Ditto, Forge, Queues};
        let failed_once = [
            (Forge, 60_504),
            (Forge, 1_795_417_092_021_482),
            (Forge, 1_795_430_848_107_328),
            (Forge, 1_795_433_488_093_929),
            (Queues, 3_059_358),
            (Queues, 1_795_428_688_007_940),
            (Ditto, 1_795_428_328_008_337),
            (Ditto, 1_795_432_168_033_245),
            (Ditto, 1_795_432_168_039_392),
        ];
        for (engine, seed) in failed_once {
            if let Err(what) = engine.run_seed(seed) {
                panic!("atoll sim replay --engine {} --seed {seed}: {what}", engine.name());
            }
        }
    }
}
