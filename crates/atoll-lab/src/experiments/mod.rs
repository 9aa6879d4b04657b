//! Experiments: the papers' figures, measured in virtual time by the protocol code that also runs
//! on real memory.
//!
//! `atoll lab list` names them, `atoll lab run NAME` runs one. Each is a file with a type that
//! implements [`Experiment`], and a line in [`ALL`].
//!
//! What holds for all of them, after FORGE's section 6.1 where it says something (what is otherwise
//! in those of Ditto's paper stands in `ditto`):
//!
//! - **Testbed**: three compute nodes and, unless said otherwise, one memory node, on the profile
//!   `cx5-100g`. Threads are spread over the compute nodes; those of one node share a process. A
//!   thread has a processor of its own.
//! - **Closed loop**: a thread has one operation outstanding, unless said otherwise, and begins the
//!   next when that has ended.
//! - **Warm-up**: the first fifth of every thread's requests is not counted, as in the paper. The
//!   cache is empty before it.
//! - **End**: counting ends when the first thread has no request left, so that all of them are at
//!   work all the time.
//! - **On-demand fill**: a GET that misses is followed by a SET of the key. The SET is not counted
//!   as a request; its time is part of the GET's latency and of the run, its verbs are part of the
//!   traffic.
//! - **Hit ratio**: GETs that hit over all GETs.
//! - **SCAN**: as many GETs of consecutive keys, one after the other, each of which counts as a
//!   request. The paper does not say how it counts them. A read-modify-write is a GET and a SET and
//!   counts once.
//! - **Cache size**: all memory of the pool with its metadata and what clients hold open, as a
//!   share of the bytes of all keys and values that the load asks for. The paper's sizes are of the
//!   objects alone.
//! - **Groups**: of at most 64 objects, as in the paper, in chunks of the power of two below what
//!   these need (16 KiB for objects of 256 bytes, which holds 54), or of less where the cache would
//!   have fewer than sixteen chunks a thread, but at least eight objects.
//! - **Numbers of keys and requests** are scaled down from the paper's 100 million requests, so
//!   that all experiments together end within minutes; each experiment says to what. The paper does
//!   not print its number of keys.
//! - **Repeatable**: the same options give the same digits.
//!
//! Beside a result stands what the paper's text or tables print for it. Its plots are pictures, of
//! which nothing is read off: most results have nothing beside them.
//!
//! | module | concept |
//! |---|---|
//! | [`setup`] | what a point of an experiment runs on; the pool of a size |
//! | [`processor`] | the memory node's cores, for systems that need them |
//! | [`system`] | the engines that a point can run on |
//! | [`point`] | a point, run: the simulation, its phases, what was counted |
//! | `client` | a thread of a point |
//! | `cache_sizes` | loads over the sizes of the cache |
//! | `in_flight` | several operations of a thread at a time |
//! | [`tenants`] | traces of few keys, for several tenants; objects of one size |
//! | `ditto` | the figures of Ditto's paper |
//! | `versus` | FORGE beside its baselines |
//! | [`shape`] | results brought into figures |
//! | `table` | figures as text |
//! | `command` | the command line |

mod cache_sizes;
mod client;
mod command;
mod ditto;
mod fig13;
mod fig14;
mod fig15;
mod fig16;
mod fig17;
mod fig18;
mod fig3;
mod in_flight;
pub mod point;
pub mod processor;
pub mod setup;
pub mod shape;
pub mod system;
mod table;
pub mod tenants;
mod versus;

pub use command::{ListCommand, RunCommand};
pub use versus::Baseline;

use crate::LabError;
use crate::report;
use std::path::PathBuf;

/// How an experiment is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// A small version that takes seconds and says nothing about the full one: to see that it
    /// works.
    pub quick: bool,
    /// The folder of traces.
    pub traces: PathBuf,
    /// Seed of loads and simulations.
    pub seed: u64,
    /// Points that run at a time, each on a thread.
    pub workers: usize,
    /// What stands beside FORGE in the figures of its paper.
    pub baselines: Vec<Baseline>,
}

impl Options {
    /// `full`, or `quick` in a quick run.
    pub fn scaled<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// An experiment.
pub trait Experiment: Sync {
    /// What it is called: `forge-fig13`. The same name as its results have.
    fn name(&self) -> &'static str;

    /// What it shows, in a line.
    fn what(&self) -> &'static str;

    /// Runs it.
    ///
    /// The implementer runs all points through [`point::measure_all`], which shows progress; states
    /// in the results' `what` everything that differs from what this module says of all
    /// experiments; sets [`report::Point::paper`] only to what the paper's text or tables print;
    /// and reports what was measured, whatever it is. The caller may run it any number of times:
    /// the same options give the same results.
    fn run(&self, options: &Options) -> Result<report::Experiment, LabError>;
}

/// All of them, in the order of `atoll lab list`.
pub const ALL: [&dyn Experiment; 21] = [
    &fig3::Traffic,
    &fig13::Ycsb,
    &fig14::FixedSizes,
    &fig15::RealSizes,
    &fig16::MemoryNodes,
    &fig17::Sensitivity,
    &fig18::Ablation,
    &in_flight::InFlight,
    &ditto::Tracking,
    &ditto::Elasticity,
    &ditto::Ycsb,
    &ditto::Cores,
    &ditto::RealTraces,
    &ditto::RelativeHits,
    &ditto::Changing,
    &ditto::Mixed,
    &ditto::Clients,
    &ditto::Memory,
    &ditto::Policies,
    &ditto::Ablation,
    &ditto::Counters,
];

/// The experiment of that name.
pub fn named(name: &str) -> Result<&'static dyn Experiment, LabError> {
    let unknown = || LabError::Options(format!("there is no experiment {name}: see atoll lab list"));
    ALL.into_iter().find(|experiment| experiment.name() == name).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    /// All baselines stand beside FORGE in the figure that takes least; beside the others one each,
    /// or they would take minutes.
    fn quick(index: usize, traces: PathBuf) -> Options {
        let baselines = match ALL[index].name() {
            "forge-fig14" => Baseline::ALL.to_vec(),
            _ => vec![Baseline::ALL[index % Baseline::ALL.len()]],
        };
        Options { quick: true, traces, seed: 1, workers: 2, baselines }
    }

    #[test]
    fn every_experiment_runs_and_its_results_can_be_shown() {
        let Some(traces) = fixtures::traces() else { return };
        let folder = tempfile::tempdir().unwrap();
        for (index, experiment) in ALL.into_iter().enumerate() {
            let begun = std::time::Instant::now();
            let result = experiment.run(&quick(index, traces.clone())).unwrap();
            println!("{}: {:.1} s", experiment.name(), begun.elapsed().as_secs_f64());
            assert_eq!(result.name, experiment.name());
            report::write(folder.path(), &result).unwrap();
            let mut points = result.figures.iter().flat_map(|figure| &figure.series).flat_map(|series| &series.points);
            assert!(points.all(|point| point.y.is_finite() && point.y >= 0.0), "{}", table::render(&result));
            assert!(table::render(&result).contains(experiment.name()));
        }
        assert!(folder.path().join(report::PAGE_FILE).is_file());
    }

    #[test]
    fn the_same_seed_gives_the_same_digits_however_many_points_run_at_a_time() {
        let load = crate::load::LoadOptions {
            keys: 2_000,
            requests: Some(16_000),
            ..crate::load::LoadOptions::named("ycsb-a")
        };
        let load: std::sync::Arc<dyn crate::load::Load> = load.open().unwrap().into();
        let setup = setup::Setup::new(load, 8, 1 << 18, 256, 7);
        let digits = |workers| -> Vec<(u64, u64, u64)> {
            let measured = point::measure_all(&[setup.clone(), setup.clone()], workers).unwrap();
            measured.iter().map(|each| (each.requests, each.hits, each.ns)).collect()
        };
        let once = digits(1);
        assert_eq!(once[0], once[1]);
        assert_eq!(digits(2), once);
        // Of 12800 after the warm-up those that all threads made until the first had none left: a
        // thread that evicts more than others is behind.
        assert!(once[0].0 > 12_800 * 9 / 10 && once[0].1 > 0, "{once:?}");
    }

    #[test]
    fn threads_with_several_operations_under_way_do_more_and_the_same_ones() {
        let load =
            crate::load::LoadOptions { keys: 500, requests: Some(8_000), ..crate::load::LoadOptions::named("ycsb-c") };
        let load: std::sync::Arc<dyn crate::load::Load> = load.open().unwrap().into();
        let one = setup::Setup::new(load, 4, 1 << 18, 256, 7);
        let sixteen = setup::Setup { in_flight: 16, ..one.clone() };
        let measured = point::measure_all(&[one, sixteen.clone(), sixteen], 2).unwrap();
        assert!(measured[1].mops() > 4.0 * measured[0].mops(), "{} {}", measured[0].mops(), measured[1].mops());
        assert_eq!((measured[1].requests, measured[1].ns), (measured[2].requests, measured[2].ns));
        // Operations under way end together, so that the last ones of all threads are not counted.
        assert!(measured[1].requests > 5_000, "{}", measured[1].requests);
    }

    #[test]
    fn names_are_told_apart_and_an_unknown_one_is_refused() {
        let mut names: Vec<_> = ALL.iter().map(|experiment| experiment.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(named("forge-fig99").err().unwrap().to_string().contains("atoll lab list"));
    }
}
