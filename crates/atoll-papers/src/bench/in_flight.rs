//! How much a thread gains from several operations in flight.

use super::experiment::{Findings, Options};
use super::loads::YcsbShare;
use super::measured::Measured;
use super::setup::Setup;
use super::sizes::BLOCK_OBJECT_BYTES;
use super::sweep::{METRICS, Sweep, Swept};
use atoll_cache::ditto::DittoOptions;
use atoll_lab::LabError;
use atoll_lab::report::places::{Places, retitled};

const WORKLOADS: [&str; 2] = ["ycsb-a", "ycsb-c"];
const ENGINES: [&str; 2] = ["forge", "ditto"];
const THREADS: [u16; 3] = [4, 16, 64];
const IN_FLIGHT: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
const CACHE_PERCENT: u64 = 50;

/// Measures it on both engines.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((50_000, 250_000), (2_000, 10_000));
    let threads = options.scaled(THREADS, [2, 4, 8]);
    let share = YcsbShare { keys, requests, cache_percent: CACHE_PERCENT };
    let places = Places::named("operations under way per thread", IN_FLIGHT.map(|each| each.to_string()));
    let mut sweep = Sweep::over(places);
    for workload in WORKLOADS {
        for engine in ENGINES {
            for threads in threads {
                let forge = share.point(workload, threads, options)?;
                let bytes = forge.pool.capacity_bytes;
                let setup = match engine {
                    "ditto" => forge.on_ditto(&DittoOptions::default(), bytes),
                    _ => forge,
                };
                let points = IN_FLIGHT.map(|in_flight| Setup { in_flight, ..setup.clone() });
                sweep.line(format!("{threads} threads"), points);
            }
        }
    }
    let titles = WORKLOADS.iter().flat_map(|workload| ENGINES.map(|engine| format!("{engine}, {workload}")));
    let groups = sweep.measure(options)?.split(threads.len());
    let of_group = |(group, title): (&Swept<Measured>, String)| {
        retitled(group.figures(&METRICS[..3]), |of| format!("{of} of {title}"))
    };
    Ok(Findings {
        what: format!(
            "{keys} keys of {BLOCK_OBJECT_BYTES} bytes, {requests} requests, a cache of {CACHE_PERCENT} %. No paper has this figure. A thread begins an operation as soon as one of \
             those that it has under way has ended; its processor costs what the table of costs says for every step. One operation of a \
             client makes room at a time, those that find none wait for it: where much is evicted, that bounds a thread.",
        ),
        figures: groups.iter().zip(titles).flat_map(of_group).collect(),
    })
}
