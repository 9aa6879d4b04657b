//! How much it helps a thread to have several operations under way.

use super::fig13::load;
use super::point::{Measured, measure_all};
use super::setup::Setup;
use super::{Experiment, Options, shape};
use crate::load::ycsb;
use crate::{LabError, report};
use atoll_cache::ditto::DittoOptions;

const WORKLOADS: [&str; 2] = ["ycsb-a", "ycsb-c"];
const ENGINES: [&str; 2] = ["forge", "ditto"];
const THREADS: [u16; 3] = [4, 16, 64];
const IN_FLIGHT: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
const CACHE_PERCENT: u64 = 50;
const METRICS: [shape::Metric; 3] = [shape::METRICS[0], shape::METRICS[1], shape::METRICS[2]];

/// The experiment.
pub(super) struct InFlight;

impl Experiment for InFlight {
    fn name(&self) -> &'static str {
        "in-flight"
    }

    fn what(&self) -> &'static str {
        "Throughput and latency by operations under way per thread, 1 to 64, of 4 to 64 threads"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests) = options.scaled((50_000, 250_000), (2_000, 10_000));
        let threads = options.scaled(THREADS, [2, 4, 8]);
        let mut setups = Vec::new();
        for workload in WORKLOADS {
            let load = load(workload, keys, requests, options)?;
            let cache_bytes = keys * u64::from(ycsb::OBJECT_BYTES) * CACHE_PERCENT / 100;
            for engine in ENGINES {
                for threads in threads {
                    let forge = Setup::new(load.clone(), threads, cache_bytes, ycsb::OBJECT_BYTES, options.seed);
                    let setup = match engine {
                        "ditto" => forge.on_ditto(&DittoOptions::default(), cache_bytes, ycsb::OBJECT_BYTES),
                        _ => forge,
                    };
                    setups.extend(IN_FLIGHT.map(|in_flight| Setup { in_flight, ..setup.clone() }));
                }
            }
        }
        let measured = measure_all(&setups, options.workers)?;
        let x = shape::categories("operations under way per thread", IN_FLIGHT.map(|each| each.to_string()));
        let xs: Vec<f64> = (0..IN_FLIGHT.len()).map(|place| place as f64).collect();
        let names = threads.map(|threads| format!("{threads} threads"));
        let mut figures = Vec::new();
        let titles = WORKLOADS.iter().flat_map(|workload| ENGINES.map(|engine| format!("{engine}, {workload}")));
        for (title, measured) in titles.zip(measured.chunks(threads.len() * IN_FLIGHT.len())) {
            let lines: Vec<&[Measured]> = measured.chunks(IN_FLIGHT.len()).collect();
            for mut figure in shape::figures_of(&METRICS, &x, &xs, &names, &lines) {
                figure.title = format!("{} of {title}", figure.title);
                figures.push(figure);
            }
        }
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {} bytes, {requests} requests, a cache of {CACHE_PERCENT} %. No paper has this figure. A thread begins an operation as soon as one of \
                 those that it has under way has ended; its processor costs what the table of costs says for every step. One operation of a \
                 client makes room at a time, those that find none wait for it: where much is evicted, that bounds a thread.",
                ycsb::OBJECT_BYTES,
            ),
            figures,
        })
    }
}
