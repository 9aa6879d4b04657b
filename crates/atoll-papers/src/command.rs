//! The commands of `atoll lab` that are of the simulated network.

use crate::bench::experiment::workers;
use crate::bench::{Baseline, Experiment, Options};
use crate::list::{self, ALL, named};
use crate::sweep::SweepCommand;
use crate::validation::ValidateCommand;
use crate::verbs::VerbsCommand;
use atoll_lab::report::verdict::Tally;
use atoll_lab::{LabError, report};
use std::path::PathBuf;
use std::time::Instant;

/// Experiments on the simulated network. A binary mounts them within its command `lab`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum PapersCommand {
    /// List the experiments
    List(ListCommand),
    /// Run an experiment in virtual time, beside what its paper prints
    Run(RunCommand),
    /// Run engines in virtual time over threads, memory nodes, sizes and loads of your choice
    Sweep(Box<SweepCommand>),
    /// Count round trips, verbs and bytes of single operations on a simulated network
    Verbs(VerbsCommand),
    /// Hold the simulated networks against every figure that the papers print of their hardware
    Validate(ValidateCommand),
}

impl PapersCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        match self {
            Self::List(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Sweep(command) => command.run(),
            Self::Verbs(command) => command.run(),
            Self::Validate(command) => command.run(),
        }
    }
}

/// List the experiments
#[derive(Clone, Debug, clap::Args)]
pub struct ListCommand {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

impl ListCommand {
    /// Prints the list.
    pub fn run(self) -> Result<(), LabError> {
        if self.json {
            let line = |each: &Experiment| serde_json::json!({"name": each.name, "what": each.what});
            println!("{}", serde_json::Value::from(ALL.iter().map(line).collect::<Vec<_>>()));
            return Ok(());
        }
        for experiment in ALL {
            println!("{}", list::line(experiment));
        }
        Ok(())
    }
}

/// Run an experiment in virtual time, beside what its paper prints
#[derive(Clone, Debug, clap::Args)]
pub struct RunCommand {
    /// Its name, as `atoll lab list` prints it, or `all`
    name: String,
    /// Print one JSON array of results
    #[arg(long)]
    json: bool,
    /// Write results as JSON, CSV and a page with plots into this folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// A version that takes seconds, to see that it works
    #[arg(long)]
    quick: bool,
    /// Folder of traces, with twitter_2020Mar_stats.csv
    #[arg(long, default_value = "../shared/traces")]
    traces: PathBuf,
    /// Seed of loads and simulations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Points that run at a time [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Systems that stand beside FORGE in the figures of its paper [default: all]
    #[arg(long, value_delimiter = ',')]
    beside: Option<Vec<Baseline>>,
    /// Run the figures of FORGE's paper on FORGE alone, in a fraction of the time
    #[arg(long, conflicts_with = "beside")]
    alone: bool,
}

impl RunCommand {
    /// Runs the experiment, or all of them one after the other; prints results as they come.
    pub fn run(self) -> Result<(), LabError> {
        let workers = workers(self.workers);
        let all = if self.alone { Vec::new() } else { Baseline::ALL.to_vec() };
        let baselines = self.beside.unwrap_or(all);
        let options = Options { quick: self.quick, traces: self.traces, seed: self.seed, workers, baselines };
        let chosen = if self.name == "all" { ALL.to_vec() } else { vec![named(&self.name)?] };
        let mut results = Vec::new();
        for experiment in chosen {
            let since = Instant::now();
            let result = experiment.run(&options)?;
            if let Some(folder) = &self.out {
                report::write(folder, &result)?;
            }
            if !self.json {
                println!("{}", report::text::render(&result));
            }
            eprintln!("{} took {:.1} s", experiment.name, since.elapsed().as_secs_f64());
            results.push(result);
        }
        let tally: Tally = results.iter().map(report::Experiment::tally).sum();
        if !self.json && results.len() > 1 && tally.printed() > 0 {
            println!("Of all together, {tally}.");
        }
        if self.json {
            println!("{}", serde_json::to_string(&results).expect("results are plain data"));
        }
        Ok(())
    }
}
