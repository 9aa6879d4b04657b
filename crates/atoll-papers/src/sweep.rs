//! `atoll lab sweep`: engines over threads, memory nodes, sizes and loads of the user's choice.
//!
//! Each option takes several values. The points are all combinations of them. One option's values
//! are the places along, and each combination of the others is a line.

use crate::bench::experiment::seeds;
use crate::bench::footprint::Footprint;
use crate::bench::measured::Measured;
use crate::bench::named::System;
use crate::bench::sensitivity::{self, Factors};
use crate::bench::setup::Setup;
use crate::bench::sizes::{GROUP_OBJECTS, cache_bytes_min};
use crate::bench::sweep::{METRICS, Sweep, Swept};
use crate::bench::{Options, experiment, networks};
use atoll_lab::load::{KEY_BYTES, Load, LoadOptions, ycsb};
use atoll_lab::report::places::Places;
use atoll_lab::report::{self, Figure, repeated};
use atoll_lab::{LabError, output};
use atoll_sim::network::Profile;
use clap::ValueEnum;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Most points of a sweep.
const POINTS_MAX: usize = 2000;

/// An option with several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
enum Choice {
    /// --engine
    Engine,
    /// --load
    Load,
    /// --threads
    Threads,
    /// --nodes
    Nodes,
    /// --cache
    Cache,
    /// --group-objects
    GroupObjects,
    /// --value-bytes
    ValueBytes,
    /// --theta
    Theta,
    /// --in-flight
    InFlight,
    /// --near
    Near,
    /// --rate
    Rate,
}

impl Choice {
    /// All, those first that are most often lines.
    const ALL: [Self; 11] = [
        Self::Engine,
        Self::Load,
        Self::Threads,
        Self::Nodes,
        Self::Cache,
        Self::GroupObjects,
        Self::ValueBytes,
        Self::Theta,
        Self::InFlight,
        Self::Near,
        Self::Rate,
    ];

    /// Label and unit of its axis.
    fn axis(self) -> (&'static str, &'static str) {
        match self {
            Self::Engine => ("engine", ""),
            Self::Load => ("load", ""),
            Self::Threads => ("threads", ""),
            Self::Nodes => ("memory nodes", ""),
            Self::Cache => ("cache", "%"),
            Self::GroupObjects => ("objects a group, at most", ""),
            Self::ValueBytes => ("value", "bytes"),
            Self::Theta => ("theta", ""),
            Self::InFlight => ("operations under way per thread", ""),
            Self::Near => ("near cache", "%"),
            Self::Rate => ("arrivals", "Mops/s"),
        }
    }

    /// One of its values in a line's name.
    fn told(self, value: &str) -> String {
        match self {
            Self::Engine | Self::Load => value.to_owned(),
            Self::Threads => format!("{value} threads"),
            Self::Nodes => format!("{value} node{}", if value == "1" { "" } else { "s" }),
            Self::Cache => format!("{value} % cache"),
            Self::GroupObjects => format!("{value} a group"),
            Self::ValueBytes => format!("{value} bytes"),
            Self::Theta => format!("theta {value}"),
            Self::InFlight => format!("{value} in flight"),
            Self::Near => format!("{value} % near"),
            Self::Rate => format!("{value} Mops/s arrive"),
        }
    }
}

/// Run engines in virtual time over threads, memory nodes, sizes and loads of your choice
///
/// Options that say "several" take values separated by commas; all combinations are run.
#[derive(Clone, Debug, clap::Args)]
pub struct SweepCommand {
    /// Engines, several
    #[arg(long, value_enum, value_delimiter = ',', default_value = "forge")]
    engine: Vec<System>,
    /// Loads, each with an option of its own: ycsb-a to ycsb-f, twitter-1 to twitter-54, a trace's
    /// name or file, zipf:KEYS,THETA,REQUESTS
    #[arg(long, default_value = "ycsb-c")]
    load: Vec<String>,
    /// Client threads on three compute nodes, several
    #[arg(long, value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Memory nodes that share the cache, several
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=8))]
    nodes: Vec<u32>,
    /// Percent of the bytes that the load asks for, which the cache has with its metadata, several
    #[arg(long, value_delimiter = ',', default_value = "20", value_parser = clap::value_parser!(u64).range(1..=1000))]
    cache: Vec<u64>,
    /// Most objects of a group of forge, several
    #[arg(long, value_delimiter = ',', default_values_t = [GROUP_OBJECTS], value_parser = clap::value_parser!(u32).range(1..=4096))]
    group_objects: Vec<u32>,
    /// YCSB: bytes of a value, several; a key has eight
    #[arg(long, value_delimiter = ',', default_values_t = [ycsb::OBJECT_BYTES - KEY_BYTES], value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    value_bytes: Vec<u32>,
    /// YCSB: Zipf's exponent, several
    #[arg(long, value_delimiter = ',', default_values_t = [ycsb::THETA])]
    theta: Vec<f64>,
    /// Operations that a thread has in flight, several
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    in_flight: Vec<u16>,
    /// Percent of the bytes that the load asks for, which the near cache of each compute node has,
    /// several; 0 for none
    #[arg(long, value_delimiter = ',', default_value = "0")]
    near: Vec<f64>,
    /// Millions of requests that arrive in a second, at all threads together, several; 0 for a
    /// closed loop. Requests arrive at random, and their latency counts from when they were to
    /// begin
    #[arg(long, value_delimiter = ',', default_value = "0")]
    rate: Vec<f64>,
    /// Give each compute node a client that only makes room ahead of need, for engines with groups
    #[arg(long)]
    evictors: bool,
    /// YCSB: keys
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    keys: u64,
    /// Requests of all threads of a point
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    requests: u64,
    /// The network: cx3-56g, cx4-100g, cx5-100g, cx6-100g, cxl, tcp-25g, or a TOML file with a
    /// name, a base (one of these) and the fields that differ
    #[arg(long, default_value = "cx5-100g")]
    profile: String,
    /// The option whose values are along the figures [default: the first after --engine and --load
    /// with several]
    #[arg(long, value_enum)]
    along: Option<Choice>,
    /// What the results' files are called: small letters, digits and -
    #[arg(long, default_value = "sweep")]
    name: String,
    /// Seed of loads and simulations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds to run; results are means, with the least and the most as intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Run it once more at half and at twice of each constant that the profile assumes, and show
    /// how far the throughput of each engine over the first depends on them
    #[arg(long, conflicts_with = "seeds")]
    sensitivity: bool,
    /// Folder of traces, with twitter_2020Mar_stats.csv
    #[arg(long, default_value = "../shared/traces")]
    traces: PathBuf,
    /// Points that run at a time [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write results as JSON, CSV and a page with plots into this folder
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A combination: which value of each option.
type At = HashMap<Choice, usize>;

/// A load with what its caches are sized by.
#[derive(Clone)]
struct Sized {
    load: Arc<dyn Load>,
    footprint: Footprint,
}

impl SweepCommand {
    /// Measures all points and prints the results.
    pub fn run(self) -> Result<(), LabError> {
        let options = Options {
            traces: self.traces.clone(),
            seed: self.seed,
            workers: experiment::workers(self.workers),
            ..Options::default()
        };
        let result = match self.sensitivity {
            true => self.sensitivity(&options)?,
            false => {
                let of_seed = |options: Options| Self { seed: options.seed, ..self.clone() }.measure(&options);
                let results = seeds(&options, self.seeds).map(of_seed).collect::<Result<Vec<_>, _>>()?;
                repeated::merged(results).expect("there is a seed")
            }
        };
        if let Some(folder) = &self.out {
            report::write(folder, &result)?;
        }
        output::print(self.json, &result, report::text::render);
        Ok(())
    }

    /// The sweep at every change of an assumed constant.
    fn sensitivity(&self, options: &Options) -> Result<report::Experiment, LabError> {
        if self.engine.len() < 2 {
            let why = "--sensitivity is of the throughput of engines over the first: give several --engine";
            return Err(LabError::Options(why.to_owned()));
        }
        let tell = |change: &str| eprintln!("{}: {change}", self.name);
        sensitivity::run(options, Factors::All, tell, |options| self.measure(options))
    }

    /// The throughput of each engine over the first, of several.
    fn over_first(&self, along: Choice, swept: &Swept<Measured>) -> Figure {
        let (places, lines, names) = (swept.places(), swept.lines(), swept.names());
        let title = format!("Throughput over {}", self.values(Choice::Engine)[0]);
        let line = |name: &String, of: &[Measured], than: &dyn Fn(usize) -> f64| {
            let ratios = of.iter().enumerate().map(|(place, measured)| measured.mops() / than(place).max(1e-9));
            places.line(name.clone(), ratios)
        };
        let series: Vec<_> = match along {
            Choice::Engine => names.iter().zip(lines).map(|(name, of)| line(name, of, &|_| of[0].mops())).collect(),
            _ => {
                // Engines are the outermost of what lines differ in.
                let each = lines.len() / self.engine.len();
                let pairs = names.iter().zip(lines).enumerate().skip(each);
                pairs.map(|(number, (name, of))| line(name, of, &|at| lines[number % each][at].mops())).collect()
            }
        };
        places.factors(title, "times higher", series)
    }

    fn measure(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let profile = networks::named(&self.profile)
            .map_err(|what| LabError::Options(format!("--profile {}: {what}", self.profile)))?;
        let along = self.along();
        let lines = self.lines(along);
        if lines.len() * self.values(along).len() > POINTS_MAX {
            return Err(LabError::Options(format!("a sweep has at most {POINTS_MAX} points: give fewer values")));
        }
        let loads = self.loads()?;
        let mut sweep = Sweep::over(self.places(along));
        for line in &lines {
            let points = (0..self.values(along).len()).map(|place| {
                let at = At::from_iter(line.iter().map(|(choice, value)| (*choice, *value)).chain([(along, place)]));
                self.setup(&at, &loads, profile)
            });
            sweep.line(self.told(line), points.collect::<Result<Vec<_>, _>>()?);
        }
        let swept = sweep.measure(options)?;
        let mut figures = swept.figures(&METRICS);
        figures.push(busiest(&swept));
        if self.engine.len() > 1 {
            figures.push(self.over_first(along, &swept));
        }
        let what = format!(
            "{}; {} requests of all threads; a network as {}. No paper has this sweep. A point is measured as those of the experiments are \
             (atoll lab list): the first fifth not counted, a SET after each miss, the cache's size with its metadata. Without arrivals it is a closed loop.",
            loads.first().map_or_else(String::new, |first| first.load.what()),
            self.requests,
            profile.name,
        );
        let title = format!("Sweep of {}", self.values(Choice::Engine).join(", "));
        let (conclusions, reached) = (options.record.conclusions(), options.record.reached());
        let name = self.name.clone();
        Ok(report::Experiment { name, title, what, figures, conclusions, reached, run: Some(options.run()) })
    }

    /// The values of an option, as they are shown.
    fn values(&self, choice: Choice) -> Vec<String> {
        fn shown<T: ToString>(values: &[T]) -> Vec<String> {
            values.iter().map(T::to_string).collect()
        }
        match choice {
            Choice::Engine => {
                let name = |system: &System| system.to_possible_value().map(|value| value.get_name().to_owned());
                self.engine.iter().filter_map(name).collect()
            }
            Choice::Load => self.load.clone(),
            Choice::Threads => shown(&self.threads),
            Choice::Nodes => shown(&self.nodes),
            Choice::Cache => shown(&self.cache),
            Choice::GroupObjects => shown(&self.group_objects),
            Choice::ValueBytes => shown(&self.value_bytes),
            Choice::Theta => shown(&self.theta),
            Choice::InFlight => shown(&self.in_flight),
            Choice::Near => shown(&self.near),
            Choice::Rate => shown(&self.rate),
        }
    }

    /// The option whose values are along.
    fn along(&self) -> Choice {
        let several = |choice: &Choice| self.values(*choice).len() > 1;
        let found = || Choice::ALL[2..].iter().chain(&Choice::ALL[..2]).copied().find(several);
        self.along.or_else(found).unwrap_or(Choice::Threads)
    }

    fn places(&self, along: Choice) -> Places {
        let (label, unit) = along.axis();
        let values = self.values(along);
        let numbers: Result<Vec<f64>, _> = values.iter().map(|value| value.parse()).collect();
        match numbers {
            Ok(numbers) if values.len() > 1 => Places::numbers(label, unit, numbers),
            _ => Places::named(label, values),
        }
    }

    /// All combinations of the options that are not along.
    fn lines(&self, along: Choice) -> Vec<Vec<(Choice, usize)>> {
        let mut lines: Vec<Vec<(Choice, usize)>> = vec![Vec::new()];
        for choice in Choice::ALL.into_iter().filter(|choice| *choice != along) {
            let with = |line: &Vec<(Choice, usize)>, value| [&line[..], &[(choice, value)]].concat();
            let values = self.values(choice).len();
            lines = lines.iter().flat_map(|line| (0..values).map(move |value| with(line, value))).collect();
        }
        lines
    }

    /// What tells a line from the others; its engine, if nothing does.
    fn told(&self, line: &[(Choice, usize)]) -> String {
        let several = |(choice, value): &(Choice, usize)| {
            let values = self.values(*choice);
            (values.len() > 1).then(|| choice.told(&values[*value]))
        };
        let parts: Vec<String> = line.iter().filter_map(several).collect();
        if parts.is_empty() { self.values(Choice::Engine)[0].clone() } else { parts.join(", ") }
    }

    /// The loads: of each name one for each size of values and each theta.
    fn loads(&self) -> Result<Vec<Sized>, LabError> {
        let mut loads = Vec::new();
        for name in &self.load {
            let is_ycsb = name.starts_with("ycsb-");
            if !is_ycsb && (self.value_bytes.len() > 1 || self.theta.len() > 1) {
                let why = format!("{name} has sizes and a distribution of its own: give one --value-bytes and --theta");
                return Err(LabError::Options(why));
            }
            for value_bytes in &self.value_bytes {
                for theta in &self.theta {
                    let load: Arc<dyn Load> = LoadOptions {
                        name: name.clone(),
                        requests: Some(self.requests),
                        keys: self.keys,
                        theta: *theta,
                        object_bytes: KEY_BYTES + value_bytes,
                        traces: Some(self.traces.clone()),
                        seed: self.seed,
                    }
                    .open()?
                    .into();
                    let footprint = match is_ycsb {
                        true => Footprint { objects: self.keys, bytes: self.keys * u64::from(KEY_BYTES + value_bytes) },
                        false => Footprint::of(&*load),
                    };
                    loads.push(Sized { load, footprint });
                }
            }
        }
        Ok(loads)
    }

    fn setup(&self, at: &At, loads: &[Sized], profile: Profile) -> Result<Setup, LabError> {
        let (sizes, thetas) = (self.value_bytes.len(), self.theta.len());
        let load = (at[&Choice::Load] * sizes + at[&Choice::ValueBytes]) * thetas + at[&Choice::Theta];
        let Sized { load, footprint } = loads[load].clone();
        let (threads, nodes) = (self.threads[at[&Choice::Threads]], self.nodes[at[&Choice::Nodes]]);
        let (bytes, object_bytes) = (footprint.bytes * self.cache[at[&Choice::Cache]] / 100, footprint.object_bytes());
        let least = cache_bytes_min(object_bytes, threads);
        if bytes < least {
            let why = format!(
                "a cache of {bytes} bytes is too small for {threads} threads and objects of {object_bytes} bytes, whose clients hold {least} open: give \
                 more --keys, a larger --cache or fewer --threads"
            );
            return Err(LabError::Options(why));
        }
        let base = Setup::new(load, threads, bytes, object_bytes, self.seed);
        let group_objects = self.group_objects[at[&Choice::GroupObjects]];
        let one = self.engine[at[&Choice::Engine]].put(base, group_objects);
        let has_evictors = self.evictors;
        let rate_per_s = (self.rate[at[&Choice::Rate]] * 1e6) as u64;
        let rate_per_s = Some(rate_per_s).filter(|rate| *rate > 0);
        let in_flight = self.in_flight[at[&Choice::InFlight]];
        let near_bytes = (footprint.bytes as f64 * self.near[at[&Choice::Near]] / 100.0) as u64;
        Ok(Setup { profile, in_flight, rate_per_s, near_bytes, has_evictors, ..one.spread(nodes) })
    }
}

/// How busy the busiest server of a memory node's NIC was.
fn busiest(swept: &Swept<Measured>) -> Figure {
    let percent = |measured: &Measured| measured.busiest().map_or(0.0, |(_, percent)| percent);
    swept.figure("Busiest server of a memory node's NIC", ("busy", "%"), percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: SweepCommand,
    }

    fn command(line: &str) -> SweepCommand {
        let few = "--keys 2000 --requests 4000 --threads 2 --cache 50";
        let own = |option: &str| line.contains(option);
        let rest = few.split(" --").map(|each| format!("--{}", each.trim_start_matches("--")));
        let rest: Vec<String> = rest.filter(|each| !own(each.split(' ').next().unwrap())).collect();
        let words = format!("sweep {line} {}", rest.join(" "));
        Line::try_parse_from(words.split_whitespace()).unwrap().command
    }

    fn measured(line: &str) -> report::Experiment {
        let command = command(line);
        let options = Options { seed: command.seed, workers: 2, ..Options::default() };
        command.measure(&options).unwrap()
    }

    #[test]
    fn every_combination_is_a_point_and_every_metric_a_figure() {
        let found = measured("--engine forge,ditto --threads 1,2 --nodes 1,2 --load ycsb-a --load ycsb-c");
        assert_eq!(found.figures.len(), METRICS.len() + 2);
        let (throughput, factors) = (&found.figures[0], found.figures.last().unwrap());
        assert_eq!(factors.series.len(), 4, "ditto over forge");
        let (ours, other) = (throughput.series[4].points[1].y, throughput.series[0].points[1].y);
        assert_eq!(factors.series[0].points[1].y, ours / other);
        let names: Vec<&str> = throughput.series.iter().map(|series| &*series.name).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[0], "forge, ycsb-a, 1 node");
        assert_eq!(names[7], "ditto, ycsb-c, 2 nodes");
        assert!(throughput.series.iter().all(|series| series.points.iter().map(|point| point.x).eq([1.0, 2.0])));
        assert!(throughput.series.iter().flat_map(|series| &series.points).all(|point| point.y > 0.0));
        assert_eq!(found.run.unwrap().seed, 1);
    }

    #[test]
    fn every_engine_runs() {
        let all: Vec<String> =
            System::value_variants().iter().map(|it| it.to_possible_value().unwrap().get_name().to_owned()).collect();
        let found = measured(&format!("--engine {}", all.join(",")));
        assert_eq!(found.figures[0].x.categories, all);
        assert!(found.figures[0].series[0].points.iter().all(|point| point.y > 0.0), "{found:?}");
    }

    #[test]
    fn in_an_open_loop_as_many_requests_are_made_as_arrive_and_waiting_counts() {
        let found = measured("--rate 0.2,0.4,8 --load ycsb-c --cache 200 --requests 12000");
        let of = |figure: usize| found.figures[figure].series[0].points.iter().map(|point| point.y).collect::<Vec<_>>();
        let (mops, p99_us) = (of(0), of(2));
        assert!((0.17..0.23).contains(&mops[0]) && (0.34..0.46).contains(&mops[1]), "{mops:?}");
        // Two threads cannot do eight million.
        assert!(mops[2] < 4.0 && p99_us[2] > 20.0 * p99_us[0], "{mops:?} {p99_us:?}");
    }

    #[test]
    fn several_seeds_are_one_result_with_an_interval() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("--seeds 3 --out {}", folder.path().display());
        command(&line).run().unwrap();
        let json = std::fs::read(folder.path().join("sweep.json")).unwrap();
        let found: report::Experiment = serde_json::from_slice(&json).unwrap();
        let point = found.figures[0].series[0].points[0];
        let [low, high] = point.interval.unwrap();
        assert!(low < point.y && point.y < high, "{point:?}");
        let run = found.run.unwrap();
        assert_eq!((run.seeds, run.profiles), (3, vec!["cx5-100g".to_owned()]));
        assert!(found.reached[0].objects_a_group.unwrap() >= 8);
        assert!(found.reached[0].objects_held > 0 && !found.conclusions.is_empty());
    }

    #[test]
    fn the_throughput_of_engines_over_the_first_stands_at_every_change_of_a_constant() {
        let options = Options { workers: 2, ..Options::default() };
        let found = command("--engine forge,ditto").sensitivity(&options).unwrap();
        assert_eq!(found.name, "sweep-sensitivity");
        let changes = sensitivity::RUNS as usize;
        assert_eq!(found.figures[0].series[0].points.len(), changes);
        assert!(found.conclusions.iter().any(|told| told.contains("moves it most")), "{:?}", found.conclusions);
        let error = command("--engine forge").sensitivity(&options).unwrap_err().to_string();
        assert!(error.contains("several --engine"), "{error}");
    }

    #[test]
    fn a_profile_of_the_users_own_changes_what_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slow.toml");
        std::fs::write(&path, "name = \"slow\"\nbase = \"cx5-100g\"\nwire_ps = 50000000\n").unwrap();
        let mops = |line: &str| measured(line).figures[0].series[0].points[0].y;
        let (slow, known) = (mops(&format!("--profile {}", path.display())), mops(""));
        assert!(slow * 10.0 < known, "{slow} {known}");
    }

    #[test]
    fn what_cannot_be_swept_is_an_error_that_says_what_to_do() {
        let options = Options::default();
        for (line, told) in [
            ("--cache 1 --threads 64", "more --keys"),
            ("--profile nowhere.toml", "neither a profile"),
            ("--load zipf:1000,0.9,1000 --theta 0.5,0.9", "one --value-bytes"),
            (
                "--threads 1,2,3,4,5,6,7,8,9,10 --theta 0,1,2,3,4,5,6,7,8,9 --cache 51,52,53,54,55,56,57 --in-flight 1,2,3",
                "at most 2000 points",
            ),
        ] {
            let error = command(line).measure(&options).unwrap_err().to_string();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
