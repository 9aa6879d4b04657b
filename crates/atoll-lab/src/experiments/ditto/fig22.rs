//! Ditto, Fig. 22: the cache becomes larger while a trace is replayed.

use super::super::fig14::fixed_for;
use super::super::point::run_all;
use super::super::setup::Footprint;
use super::super::{Experiment, Options, shape};
use super::fig21::TRACE;
use super::staged::{self, Counted, Stage};
use super::{System, by_miniatures, names, on_all, on_ditto, paper};
use crate::{LabError, report};
use atoll_cache::ditto::DittoOptions;

/// The experts that the others have, from larger samples.
const SYSTEMS: [System; 4] = [
    ("ditto", |setup, objects| on_ditto(setup, &larger_samples("lru+lfu"), objects)),
    ("ditto-lru", |setup, objects| on_ditto(setup, &larger_samples("lru"), objects)),
    ("ditto-lfu", |setup, objects| on_ditto(setup, &larger_samples("lfu"), objects)),
    ("ditto, miniatures", |setup, objects| on_ditto(setup, &by_miniatures(larger_samples("lru+lfu")), objects)),
];
const CACHE_PERCENTS: [u64; 4] = [10, 20, 30, 40];
const CLIENTS: u16 = 64;
/// Results: x and y of each.
type Points = Vec<(f64, f64)>;

/// Stages of a size.
const STEPS: usize = 5;

fn larger_samples(experts: &str) -> DittoOptions {
    DittoOptions { sample_buckets: 2, ..paper(experts) }
}

/// The experiment.
pub(crate) struct Memory;

impl Experiment for Memory {
    fn name(&self) -> &'static str {
        "ditto-fig22"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 22: hit ratios while the cache grows from 10 to 40 %, a block trace, 64 clients"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let clients = options.scaled(CLIENTS, 4);
        let load = fixed_for(TRACE, 2_500_000, clients, CACHE_PERCENTS[0], options)?;
        let objects = Footprint::of(&*load).objects;
        let largest = *CACHE_PERCENTS.last().expect("there are sizes");
        let step = |percent: u64| [Stage { clients, memory_percent: 100 * percent / largest, part: 1 }; STEPS];
        let stages = CACHE_PERCENTS.map(step).concat();
        let setups = on_all(&SYSTEMS, &load, clients, objects * largest / 100, options.seed);
        let (counted, _) = run_all(&setups, options.workers, |setup| staged::measure(setup, &stages))?;
        let series = |points: &dyn Fn(&[Counted]) -> Points| -> Vec<report::Series> {
            let lines = names(&SYSTEMS).into_iter().zip(&counted);
            lines.map(|(name, line)| shape::series(name, points(line))).collect()
        };
        let by_step = |line: &[Counted]| -> Points {
            let places = (1..=line.len()).map(|place| place as f64 * 100.0 / line.len() as f64);
            places.zip(line.iter().map(Counted::hit_percent)).collect()
        };
        let by_size = |line: &[Counted]| -> Points {
            let sizes = line.chunks(STEPS).map(|steps| Counted::sum(steps).hit_percent());
            sizes.enumerate().map(|(place, percent)| (place as f64, percent)).collect()
        };
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}: {} requests for {objects} keys, in place of the paper's webmail; a miss takes 500 us. The cache has {} % of the objects at first; after each fourth of the requests, while nobody asks, chunks \
                 that were out of use come back. Nothing is moved, and nothing is warmed up. The index and the history are made for {largest} % from the beginning, so that at first a bucket \
                 holds few objects: a sample is two buckets in place of one, of which four objects are live at first and sixteen at the end, where the paper's has five. A part of the trace is seen with one size only, so that lines \
                 tell systems apart and not sizes. The paper's text prints no number of this figure, and says that Ditto comes near to Ditto-LRU, and hits more than both experts \
                 with 20 and 30 %, where Ditto-LFU hits more than Ditto-LRU.",
                load.what(),
                load.requests(),
                CACHE_PERCENTS[0],
            ),
            figures: vec![
                report::Figure {
                    title: "Hit ratio by size".to_owned(),
                    x: shape::categories("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %"))),
                    y: shape::axis("hit ratio", "%"),
                    series: series(&by_size),
                },
                report::Figure {
                    title: "Hit ratio as requests are made".to_owned(),
                    x: shape::axis("requests", "%"),
                    y: shape::axis("hit ratio", "%"),
                    series: series(&by_step),
                },
                staged::weights(&names(&SYSTEMS), &counted.iter().map(Vec::as_slice).collect::<Vec<_>>(), 1),
            ],
        })
    }
}
