//! The commands of `atoll lab` that are of the simulated network.

use crate::bench::experiment::{seeds, workers};
use crate::bench::networks::Networks;
use crate::bench::sensitivity::{self, Factors};
use crate::bench::{Baseline, Experiment, Options, networks};
use crate::list::{self, ALL, named};
use crate::measure::MeasureCommand;
use crate::sweep::SweepCommand;
use crate::validation::ValidateCommand;
use crate::verbs::VerbsCommand;
use atoll_lab::report::repeated;
use atoll_lab::report::verdict::Tally;
use atoll_lab::{LabError, report};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Seeds of a full run, unless the user says otherwise, and as far as an experiment then ends
/// within [`EXPERIMENT_MAX`].
const SEEDS: u32 = 3;
const EXPERIMENT_MAX: Duration = Duration::from_secs(20 * 60);

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
    /// Hold the simulated networks against what is printed of the hardware
    Validate(ValidateCommand),
    /// Measure a network, and write it as a profile for `lab run` and `lab sweep`
    MeasureNetwork(MeasureCommand),
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
            Self::MeasureNetwork(command) => command.run(),
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
    /// How many seeds to run; results are means, with the least and the most as intervals [default:
    /// 3, of a quick run 1, and fewer where an experiment would take more than 20 minutes]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// Points that run at a time [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Systems that stand beside FORGE in the figures of its paper [default: all]
    #[arg(long, value_delimiter = ',')]
    beside: Option<Vec<Baseline>>,
    /// Run the figures of FORGE's paper on FORGE alone, in a fraction of the time
    #[arg(long, conflicts_with = "beside")]
    alone: bool,
    /// The network in place of the papers': cx3-56g, cx4-100g, cx5-100g, cx6-100g, cxl, tcp-25g, or
    /// a TOML file with a name, a base (one of these) and the fields that differ
    #[arg(long)]
    profile: Option<String>,
    /// Run it once more at half and at twice of each constant that the profiles assume, and show
    /// how far its factors depend on them
    #[arg(long, conflicts_with = "seeds")]
    sensitivity: bool,
}

impl RunCommand {
    /// Runs the experiment, or all of them one after the other; prints results as they come.
    pub fn run(self) -> Result<(), LabError> {
        let options = self.options()?;
        let chosen = if self.name == "all" { ALL.to_vec() } else { vec![named(&self.name)?] };
        let runs = |it: &Experiment| if self.sensitivity { sensitivity::RUNS } else { self.seeds(it, &options) };
        let expected = |left: &[Experiment]| left.iter().map(|it| it.expected(&options) * runs(it)).sum::<Duration>();
        let plural = if chosen.len() == 1 { "" } else { "s" };
        let most = chosen.iter().map(runs).max().unwrap_or(1);
        let each = if most == 1 { String::new() } else { format!(", up to {most} times each") };
        eprintln!("{} experiment{plural}{each}: {}", chosen.len(), told(expected(&chosen)));
        if let Some(folder) = &self.out {
            report::prepare(folder)?;
        }
        let begun = Instant::now();
        let mut results = Vec::new();
        for (number, experiment) in chosen.iter().enumerate() {
            let since = Instant::now();
            let result = self.one(experiment, &options)?;
            if !self.json {
                println!("{}", report::text::render(&result));
            }
            if let Some(folder) = &self.out {
                report::write(folder, &result)?;
            }
            results.push(result);
            eprintln!("{} took {:.1} s", experiment.name, since.elapsed().as_secs_f64());
            let (done, left) = chosen.split_at(number + 1);
            if !left.is_empty() {
                // At the pace so far.
                let pace = begun.elapsed().as_secs_f64() / expected(done).as_secs_f64().max(1.0);
                let left_for = expected(left).mul_f64(pace);
                eprintln!("{} of {} experiments done, {} left", done.len(), chosen.len(), told(left_for));
            }
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

    fn seeds(&self, experiment: &Experiment, options: &Options) -> u32 {
        let fit = EXPERIMENT_MAX.as_secs() / experiment.expected(options).as_secs().max(1);
        self.seeds.unwrap_or(if self.quick { 1 } else { SEEDS.min(fit as u32).max(1) })
    }

    fn options(&self) -> Result<Options, LabError> {
        let all = if self.alone { Vec::new() } else { Baseline::ALL.to_vec() };
        let wrong = |name: &str, what| LabError::Options(format!("--profile {name}: {what}"));
        let of_name = |name: &String| networks::named(name).map_err(|what| wrong(name, what));
        Ok(Options {
            quick: self.quick,
            traces: self.traces.clone(),
            seed: self.seed,
            workers: workers(self.workers),
            baselines: self.beside.clone().unwrap_or(all),
            networks: Networks { instead: self.profile.as_ref().map(of_name).transpose()?, changed: None },
            ..Options::default()
        })
    }

    /// Runs one experiment with all seeds, or at all changes of constants.
    fn one(&self, experiment: &Experiment, options: &Options) -> Result<report::Experiment, LabError> {
        if self.sensitivity {
            let tell = |change: &str| eprintln!("{}: {change}", experiment.name);
            return sensitivity::run(options, Factors::Printed, tell, |options| experiment.run(options));
        }
        let results = seeds(options, self.seeds(experiment, options)).map(|options| experiment.run(&options));
        Ok(repeated::merged(results.collect::<Result<_, _>>()?).expect("there is a seed"))
    }
}

/// A time as people say it.
fn told(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..90 => format!("about {seconds} s"),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: RunCommand,
    }

    #[test]
    fn a_full_run_takes_three_seeds_where_time_allows_and_a_quick_one_a_single_one() {
        let options = Options { workers: 2, ..Options::default() };
        let seeds = |line: &str, name| {
            let command = Line::try_parse_from(format!("run {line}").split_whitespace()).unwrap().command;
            command.seeds(&named(name).unwrap(), &options)
        };
        assert_eq!(seeds("all", "ditto-fig14"), 3);
        assert_eq!(seeds("all", "forge-fig16"), 1, "three would take more than 20 minutes");
        assert_eq!(seeds("all --seeds 5", "forge-fig16"), 5);
        assert_eq!(seeds("all --quick", "ditto-fig14"), 1);
    }
}
