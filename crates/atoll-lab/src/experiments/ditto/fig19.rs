//! Ditto, Fig. 19: a load that changes from friendly to LRU to friendly to LFU and back.

use super::super::point::run_all;
use super::super::{Experiment, Options, shape};
use super::staged::{self, Counted, Stage};
use super::{System, WITH_CLIQUEMAP, by_miniatures, names, on_all, on_ditto, paper};
use crate::load::Load;
use crate::load::patterned::{Pattern, Patterned};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};
use atoll_cache::ditto::DittoOptions;
use std::sync::Arc;

/// In microseconds: when an access is told at the latest. In so small a cache an object that nobody
/// asks for stays less than a tenth of a second, and LFU would know of nothing that is told after
/// the usual one.
const COUNTER_AGE_US: u64 = 10_000;

/// The experts that the others have, which tell of accesses sooner.
pub(super) const SYSTEMS: [System; 4] = [
    ("ditto", |setup, objects| on_ditto(setup, &telling_soon("lru+lfu"), objects)),
    ("ditto-lru", |setup, objects| on_ditto(setup, &telling_soon("lru"), objects)),
    ("ditto-lfu", |setup, objects| on_ditto(setup, &telling_soon("lfu"), objects)),
    ("ditto, miniatures", |setup, objects| on_ditto(setup, &by_miniatures(telling_soon("lru+lfu")), objects)),
];
/// Those, and CliqueMap.
const ALL: [System; 6] = [SYSTEMS[0], SYSTEMS[1], SYSTEMS[2], SYSTEMS[3], WITH_CLIQUEMAP[4], WITH_CLIQUEMAP[5]];

fn telling_soon(experts: &str) -> DittoOptions {
    DittoOptions { counter_age_us: COUNTER_AGE_US, ..paper(experts) }
}

/// The paper's four phases.
const PHASES: [(&str, Pattern); 4] = [
    ("1: recent", Pattern::Recent),
    ("2: frequent", Pattern::Frequent),
    ("3: recent", Pattern::Recent),
    ("4: frequent", Pattern::Frequent),
];
const CLIENTS: u16 = 16;
/// Stages of a phase.
const STEPS: usize = 10;

/// The experiment.
pub(crate) struct Changing;

impl Experiment for Changing {
    fn name(&self) -> &'static str {
        "ditto-fig19"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 19: four phases, friendly to LRU and to LFU in turn, 500 us a miss, 16 clients"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests, clients) = options.scaled((2_000, 1_600_000, CLIENTS), (500, 40_000, 4));
        let load: Arc<dyn Load> = Arc::new(Patterned {
            phases: PHASES.map(|(_, pattern)| pattern).to_vec(),
            keys,
            object_bytes: OBJECT_BYTES,
            requests,
            seed: options.seed,
        });
        let setups = on_all(&ALL, &load, clients, keys, options.seed);
        let stages = [Stage { clients, memory_percent: 100, part: 1 }; PHASES.len() * STEPS];
        let (counted, _) = run_all(&setups, options.workers, |setup| staged::measure(setup, &stages))?;
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "The paper says of its load only that it is synthesized and has four phases. Ours has {requests} requests in four phases of equal length. In the first and third each is for one of the \
                 {keys} newest keys, all of which are as likely; a new key comes, and the oldest goes, after every second request, and no key comes twice. In the second and fourth one half of the requests are each for one of \
                 {keys} popular keys, which are the same in both phases, and the other half each for a key that is asked for once. The cache has room for {keys} objects of {OBJECT_BYTES} bytes. \
                 Places along are tenths of a phase, by requests and not by time: all systems are asked the same. Between them clients wait for each other, which is not counted. Nothing is warmed up. \
                 The paper does not say how many clients and keys there are. In so small a cache objects pass soon: clients tell the pool of accesses that they have added up when these are {} ms old at the latest, in place \
                 of a second, or LFU would know next to nothing. \
                 CliqueMap has one core at the memory node. The paper's text prints no number of this figure, and says that Ditto has the highest throughput and hit ratio.",
                COUNTER_AGE_US / 1000,
            ),
            figures: figures(&counted),
        })
    }
}

fn figures(counted: &[Vec<Counted>]) -> Vec<report::Figure> {
    type Metric = (&'static str, &'static str, fn(&Counted) -> f64);
    const METRICS: [Metric; 2] = [("throughput", "Mops/s", Counted::mops), ("hit ratio", "%", Counted::hit_percent)];
    let mut figures = Vec::new();
    for (label, unit, metric) in METRICS {
        let figure = |title: String, x: report::Axis, lines: Vec<Vec<(f64, f64)>>| {
            let series = names(&ALL).into_iter().zip(lines).map(|(name, line)| shape::series(name, line));
            report::Figure { title, x, y: shape::axis(label, unit), series: series.collect() }
        };
        let by_step = |line: &Vec<Counted>| {
            line.iter().enumerate().map(|(step, one)| ((step + 1) as f64 / STEPS as f64, metric(one))).collect()
        };
        let x = shape::axis("requests", "phases");
        figures.push(figure(format!("Tenths of a phase, {label}"), x, counted.iter().map(by_step).collect()));
        let by_phase = |line: &Vec<Counted>| {
            let mut phases: Vec<Counted> = line.chunks(STEPS).map(Counted::sum).collect();
            phases.push(Counted::sum(line));
            phases.iter().enumerate().map(|(place, one)| (place as f64, metric(one))).collect()
        };
        let x = shape::categories("phase", PHASES.into_iter().map(|(name, _)| name).chain(["all"]));
        figures.push(figure(format!("Phases, {label}"), x, counted.iter().map(by_phase).collect()));
    }
    figures.push(staged::weights(&names(&ALL), &counted.iter().map(Vec::as_slice).collect::<Vec<_>>(), STEPS));
    figures
}
