//! Ditto, Fig. 22: the cache becomes larger while a trace is replayed.

use super::fig21::TRACE;
use super::staged::{self, Counted, Stage};
use super::systems;
use crate::bench::loads::{Known, fixed};
use crate::bench::sweep::Swept;
use crate::bench::{Findings, Options};
use atoll_cache::ditto::DittoOptions;
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

const CACHE_PERCENTS: [u64; 4] = [10, 20, 30, 40];
const CLIENTS: u16 = 64;
/// Stages of a size.
const STEPS: usize = 5;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let clients = options.scaled(CLIENTS, 4);
    let load = Known::of(fixed(TRACE, 2_500_000, clients, CACHE_PERCENTS[0], options)?);
    let largest = *CACHE_PERCENTS.last().expect("there are sizes");
    let step = |percent: u64| [Stage { clients, memory_percent: 100 * percent / largest, part: 1 }; STEPS];
    let stages = CACHE_PERCENTS.map(step).concat();
    let systems = systems::ditto(|options| DittoOptions { sample_buckets: 2, ..options });
    let setups = systems.iter().map(|system| system.share(&load, clients, largest, options.seed)).collect();
    let counted = staged::measure_all(&systems, setups, &stages, options)?;
    let steps = (1..=stages.len()).map(|step| step as f64 * 100.0 / stages.len() as f64);
    let by_step = Swept::new(Places::numbers("requests", "%", steps), counted.names, counted.lines);
    let sizes = Places::named("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %")));
    let summed = by_step.lines().iter().map(|line| line.chunks(STEPS).map(Counted::sum).collect());
    let by_size = Swept::new(sizes, by_step.names().to_vec(), summed.collect());
    Ok(Findings {
        what: format!(
            "{}, in place of the paper's webmail; a miss takes 500 us. The cache has {} % of the objects at first; after each fourth of the requests, while nobody asks, chunks \
             that were out of use come back. Nothing is moved, and nothing is warmed up. The index and the history are made for {largest} % from the beginning, so that at first a bucket \
             holds few objects: a sample is two buckets in place of one, of which four objects are live at first and sixteen at the end, where the paper's has five. A part of the trace is seen with one size only, so that lines \
             tell systems apart and not sizes. The paper's text prints no number of this figure, and says that Ditto comes near to Ditto-LRU, and hits more than both experts \
             with 20 and 30 %, where Ditto-LFU hits more than Ditto-LRU.",
            load.what(),
            CACHE_PERCENTS[0],
        ),
        figures: vec![
            by_size.figure("Hit ratio by size", ("hit ratio", "%"), Counted::hit_percent),
            by_step.figure("Hit ratio as requests are made", ("hit ratio", "%"), Counted::hit_percent),
            staged::weights(by_step.names(), by_step.lines(), 1),
        ],
    })
}
