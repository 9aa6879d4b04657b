//! Opened holes: each is a guard of an engine that a test switches off, and seeds must show the
//! harm.

use crate::case::Case;
use crate::faulty::FaultyCase;
use crate::subject::Subject;
use atoll_baselines::cliquemap;
use atoll_cache::{forge, table};
use atoll_sim::{for_each_seed, replay_command};
use std::fmt::Debug;

/// A guard that can be switched off.
pub trait Hole: Copy + Debug {
    /// Words of the failures that prove the hole.
    fn harms(self) -> &'static [&'static str];

    /// Whether a failure is the harm of this hole.
    fn is_shown_by(self, failure: &str) -> bool;
}

macro_rules! holes {
    ($($engine:ident),*) => {$(
        impl Hole for $engine::Hole {
            fn harms(self) -> &'static [&'static str] {
                self.harms()
            }

            fn is_shown_by(self, failure: &str) -> bool {
                self.is_shown_by(failure)
            }
        }
    )*};
}

holes!(forge, table, cliquemap);

/// How many of the seeds must show the harm of an open hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// One in fifty. The cases are made so that one in twenty does: another schedule must not cause
    /// a false alarm.
    ByOneIn50,
    /// One of all seeds.
    ByOne,
}

/// Runs a case under many seeds. With the hole closed no run may fail; with the hole open some must
/// fail with its harm.
///
/// # Panics
/// If a run fails with the hole closed, or if too few runs show the harm with the hole open.
pub fn show<H: Hole>(hole: H, seeds: u64, wanted: Shown, run: impl Fn(u64, Option<H>) -> Result<(), String>) {
    for_each_seed(seeds, |seed| {
        if let Err(error) = run(seed, None) {
            panic!("{hole:?}, seed {seed}, no hole open: {error}\nreplay: {}", replay_command(seed));
        }
    });
    let shown: Vec<_> = (0..seeds).filter_map(|seed| Some((seed, run(seed, Some(hole)).err()?))).collect();
    let harmed: Vec<_> = shown.iter().filter(|(_, error)| hole.is_shown_by(error)).collect();
    println!("{hole:?}: shown by {} of {seeds} seeds, its harm by {}", shown.len(), harmed.len());
    let least = if wanted == Shown::ByOneIn50 { seeds.div_ceil(50) } else { 1 };
    assert!(
        harmed.len() as u64 >= least,
        "{hole:?} is open, and {} of {seeds} seeds show its harm, {:?}: {shown:#?}",
        harmed.len(),
        hole.harms()
    );
    let (seed, error) = harmed[0];
    println!("  seed {seed}: {}", error.lines().next().unwrap_or_default());
}

/// The same for a case whose clients do what `run` says.
pub fn show_run<S: Subject<Hole: Hole>>(
    hole: S::Hole,
    seeds: u64,
    case: impl Fn(u64) -> Case<S>,
    run: impl Fn(&Case<S>, u64) -> Result<(), String>,
) {
    show(hole, seeds, Shown::ByOneIn50, |seed, hole| run(&Case { hole, ..case(seed) }, seed));
}

/// The same for a case that plays its load.
pub fn show_case<S: Subject<Hole: Hole>>(hole: S::Hole, seeds: u64, case: impl Fn(u64) -> Case<S>) {
    show_run(hole, seeds, case, |case, seed| case.run(seed).map(drop));
}

/// The same for drawn cases with faults, each changed by `change`.
pub fn show_faulty_case<S: Subject<Hole: Hole>>(
    hole: S::Hole,
    seeds: u64,
    wanted: Shown,
    change: impl Fn(&mut FaultyCase<S>),
) {
    show(hole, seeds, wanted, |seed, hole| {
        let mut faulty = FaultyCase::<S>::drawn(seed);
        change(&mut faulty);
        faulty.case.hole = hole;
        faulty.run(seed).map(drop)
    });
}
