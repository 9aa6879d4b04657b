//! Many drawn cases with faults: `atoll sim swarm`.
//!
//! Seed and commit decide a run, on every machine.

use crate::engine::SimulatedEngine;
use serde::Serialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// Runs seeds from `first` on, on so many threads, until the time or the runs are up.
///
/// `at` is called after every run with the time since the start.
pub fn swarm(
    engine: SimulatedEngine,
    first: u64,
    runs_max: u64,
    time: Duration,
    threads: usize,
    at: impl Fn(Duration) + Sync,
) -> SwarmReport {
    let (begun, next) = (Instant::now(), AtomicU64::new(0));
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
                    at(begun.elapsed());
                }
            });
        }
    });
    let (mut report, verbs) = total.into_inner().expect("no thread panics here");
    report.verbs_per_s = (verbs as f64 / begun.elapsed().as_secs_f64() / threads.max(1) as f64) as u64;
    report.failures.sort_by_key(|failure| failure.seed);
    report
}
