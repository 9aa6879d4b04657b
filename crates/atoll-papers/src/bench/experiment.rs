//! An experiment: its name, what it shows, and how its figures are measured.

use super::baseline::Baseline;
use atoll_lab::LabError;
use atoll_lab::report::{self, Figure};
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

    /// How a run with these options is told in its report.
    pub fn run(&self) -> report::Run {
        report::Run {
            quick: self.quick,
            seed: self.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("ATOLL_COMMIT").map(str::to_owned),
        }
    }
}

/// How many points run at a time: as many as the user says, else one for each processor.
pub fn workers(said: Option<u16>) -> usize {
    let processors = || std::thread::available_parallelism().ok().map(usize::from);
    said.map(usize::from).or_else(processors).unwrap_or(1)
}

/// What an experiment found.
pub struct Findings {
    /// What was measured and how, in a paragraph: everything that differs from what holds for all
    /// experiments.
    pub what: String,
    /// The figures. A result stands beside the paper's number only where the paper's text or tables
    /// print one.
    pub figures: Vec<Figure>,
}

/// How an experiment is measured. The same options give the same findings.
type Measure = fn(&Options) -> Result<Findings, LabError>;

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// What it is called: `forge-fig13`. Its results have the same name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub what: &'static str,
    measure: Measure,
}

impl Experiment {
    /// An experiment that is measured so.
    pub const fn new(name: &'static str, what: &'static str, measure: Measure) -> Self {
        Self { name, what, measure }
    }

    /// Runs it.
    pub fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let Findings { what, figures } = (self.measure)(options)?;
        let (name, title) = (self.name.to_owned(), self.what.to_owned());
        Ok(report::Experiment { name, title, what, figures, run: Some(options.run()) })
    }
}
