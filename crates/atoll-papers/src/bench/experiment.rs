//! An experiment: its name, what it shows, and how its figures are measured.

use super::baseline::Baseline;
use super::networks::Networks;
use super::record::Record;
use super::setup::Setup;
use atoll_lab::LabError;
use atoll_lab::report::{self, Figure};
use atoll_sim::network::Profile;
use std::path::PathBuf;
use std::time::Duration;

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
    /// What experiments run on instead of their papers' networks.
    pub networks: Networks,
    /// What the run noted so far.
    pub record: Record,
}

impl Default for Options {
    /// A full run with seed 1, of one point at a time, on the papers' networks. No baseline stands
    /// beside FORGE.
    fn default() -> Self {
        Self {
            quick: false,
            traces: PathBuf::new(),
            seed: 1,
            workers: 1,
            baselines: Vec::new(),
            networks: Networks::default(),
            record: Record::default(),
        }
    }
}

impl Options {
    /// `full`, or `quick` in a quick run.
    pub fn scaled<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The profile to simulate in place of a paper's own. The record notes its name.
    pub fn profile(&self, own: Profile) -> Profile {
        let profile = self.networks.profile(own);
        self.record.profile(profile.name);
        profile
    }

    /// The same point on the network to simulate.
    pub(crate) fn networked(&self, setup: &Setup) -> Setup {
        Setup { profile: self.profile(setup.profile), ..setup.clone() }
    }

    /// How a run with these options is told in its report.
    pub fn run(&self) -> report::Run {
        report::Run {
            quick: self.quick,
            seed: self.seed,
            seeds: 1,
            profiles: self.record.profiles(),
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

/// The options with so many seeds, each one more than the one before, and each with a record of its
/// own.
pub fn seeds(options: &Options, count: u32) -> impl Iterator<Item = Options> + '_ {
    (0..u64::from(count.max(1))).map(|more| Options {
        seed: options.seed + more,
        record: Record::default(),
        ..options.clone()
    })
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
    /// Seconds of processor time that a quick run takes, and a full one, with one seed: measured on
    /// two cores of an AMD EPYC. They only tell the user how long it will be.
    cost_s: [u32; 2],
    measure: Measure,
}

impl Experiment {
    /// An experiment that is measured so.
    pub const fn new(name: &'static str, what: &'static str, cost_s: [u32; 2], measure: Measure) -> Self {
        Self { name, what, cost_s, measure }
    }

    /// About how long it takes with these options.
    pub fn expected(&self, options: &Options) -> Duration {
        let [quick_s, full_s] = self.cost_s;
        Duration::from_secs(options.scaled(full_s, quick_s).into()) / options.workers.clamp(1, 64) as u32
    }

    /// Runs it.
    pub fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let options = Options { record: Record::default(), ..options.clone() };
        let Findings { what, figures } = (self.measure)(&options)?;
        let (name, title) = (self.name.to_owned(), self.what.to_owned());
        let (conclusions, reached) = (options.record.conclusions(), options.record.reached());
        Ok(report::Experiment { name, title, what, figures, conclusions, reached, run: Some(options.run()) })
    }
}
