//! The promises of every engine on the simulated fabric, each a suite over many seeds.
//!
//! A failure names the engine, the seed, the case, and the command that runs it again.

use crate::case::Case;
use crate::faulty::{FaultyCase, RunSummary};
use crate::subject::Subject;
use crate::subjects::{CliqueMapSubject, DittoSubject, ForgeSubject, GlCacheSubject, KvsSubject, QueuesSubject};
use atoll_sim::{for_each_seed, replay_command};
use std::fmt::Debug;

/// A suite that holds for any engine.
pub trait Suite {
    /// Runs it with one engine.
    fn run<S: Subject>(&self);
}

/// Runs a suite with every engine whose clients do all the work.
pub fn on_engines_of_clients(suite: &impl Suite) {
    suite.run::<ForgeSubject>();
    suite.run::<GlCacheSubject>();
    suite.run::<DittoSubject>();
    suite.run::<KvsSubject>();
    suite.run::<QueuesSubject>();
}

/// Runs a suite with every engine, also where the memory node has a server.
pub fn on_every_engine(suite: &impl Suite) {
    on_engines_of_clients(suite);
    suite.run::<CliqueMapSubject>();
}

/// Runs a scenario under many seeds, and returns the results of the runs.
///
/// # Panics
/// If a run fails.
pub fn under_seeds<S: Subject, C: Debug, T>(
    seeds: u64,
    case: impl Fn(u64) -> C,
    run: impl Fn(&C, u64) -> Result<T, String>,
) -> Vec<T> {
    let mut outcomes = Vec::new();
    for_each_seed(seeds, |seed| {
        let case = case(seed);
        let outcome = run(&case, seed);
        let told = |error| panic!("{}, seed {seed}: {error}\n{case:?}\nreplay: {}", S::NAME, replay_command(seed));
        outcomes.push(outcome.unwrap_or_else(told));
    });
    outcomes
}

/// Promise 1: whatever the schedule, histories are linearizable and the pool is sound.
///
/// # Panics
/// If that does not hold, or if no lookup hits.
pub fn histories_are_linearizable<S: Subject>(seeds: u64, case: impl Fn(u64) -> Case<S>) {
    let checked = under_seeds::<S, _, _>(seeds, case, Case::run);
    assert!(checked.iter().any(|checked| checked.hits > 0), "a load that never hits shows nothing");
}

/// Promise 4, under all faults: no wrong value is served, no client waits for ever, and all that
/// dead clients held is reclaimed. Returns the runs.
///
/// # Panics
/// If that does not hold.
pub fn faults_do_no_harm<S: Subject>(seeds: u64, case: impl Fn(u64) -> FaultyCase<S>) -> Vec<RunSummary> {
    under_seeds::<S, _, _>(seeds, case, FaultyCase::run)
}
