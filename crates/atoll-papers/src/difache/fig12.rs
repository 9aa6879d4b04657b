//! DiFache, Fig. 12: latencies by kind of access, and what an invalidation takes.

use super::point::{Access, Measured, Point};
use super::systems::{CMCACHE, DIFACHE, NO_AC, beside, medians, testbed};
use crate::bench::loads::real;
use crate::bench::{Findings, Options};
use atoll_fabric::Purpose;
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

/// The cluster whose trace the paper runs.
const CLUSTER: &str = "twitter-4";
const ACCESSES: [&str; 5] =
    ["read hit", "read miss", "read that bypasses", "write that invalidates", "write that bypasses"];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let requests = options.scaled(1_000_000, 8_000);
    let load = real(CLUSTER, requests, options)?;
    let point = Point { object_bytes: None, read_percent: None, ..testbed(load, options) };
    let swept = beside(Places::named("load", ["cluster 4"]), &[point], options)?;
    let column = swept.column(0);
    let places = Places::named("access", ACCESSES);
    let difache = places.line("difache", medians(column[DIFACHE]));
    // Of a hit and a miss the text prints a median, of a bypass only what it takes more than none.
    let difache = difache.beside([Some(0.74), Some(4.6), None, None, None]);
    let no_ac = places.line("difache-noac", medians(column[NO_AC]));
    // Of a hit the text prints that it takes 5.7 % less than DiFache's.
    let central = places.line("cmcache", medians(column[CMCACHE]));
    let central = central.beside([Some(0.74 / 1.057), None, None, None, None]);
    let extremes = Places::named("miss", ["least", "most"]);
    let misses = [0.0, 1.0].map(|quantile| column[CMCACHE].quantile_us(Access::Miss, quantile));
    let misses = extremes.line("cmcache", misses).beside([Some(14.8), Some(585.2)]);
    // DiFache's median write takes 53.8 % less time than CMCache's.
    let write = |system: usize| column[system].median_us(Access::WriteInvalidating);
    let writes = Places::named("system", ["cmcache"]);
    let writes = writes.factors(
        "Median latency of a write that invalidates, over difache's",
        "factor",
        [writes.line("ours", [write(CMCACHE) / write(DIFACHE).max(1e-9)]).beside([Some(1.0 / (1.0 - 0.538))])],
    );
    let latencies = places.figure("Median latency", ("latency", "us"), [difache, no_ac, central]);
    let written = |measured: &&Measured| {
        let counts = measured.counts;
        let writes = counts.writes_invalidating + counts.writes_bypassing;
        let reads = counts.hits + counts.misses + counts.bypasses;
        100.0 * counts.writes_invalidating as f64 / (writes + reads).max(1) as f64
    };
    let systems = Places::named("system", ["difache-noac", "difache"]);
    let of = |what: fn(&Measured) -> f64| [what(column[NO_AC]), what(column[DIFACHE])];
    let told = systems.line("verbs to other nodes a write", of(Measured::told_per_write));
    // A look-up and a WRITE to each of seven nodes, if all are told.
    let told = told.beside([Some(14.0), None]);
    let share = systems.line("of all accesses", [written(&column[NO_AC]), written(&column[DIFACHE])]);
    let share = share.beside([Some(7.7), Some(2.4)]);
    let trips = systems.line("round trips an access", of(round_trips));
    let figures = vec![
        latencies,
        extremes.figure("Latency of a miss with a central manager", ("latency", "us"), [misses]),
        writes,
        systems.figure("Writes that invalidate", ("of all accesses", "%"), [share]),
        systems.figure("Verbs of an invalidation", ("verbs", ""), [told]),
        systems.figure("Round trips on the network", ("round trips", ""), [trips]),
        swept.figure("Throughput", ("throughput", "Mops/s"), Measured::mops),
        swept.figure("P99 latency", ("latency", "us"), |measured| measured.latencies.quantile(0.99) as f64 / 1e3),
    ];
    let what = format!(
        "A load with the statistics of Twitter's cluster 4, {requests} requests, of which a fifth warms up. The paper prints 14.8 us for the invalidations of a write. Its write then takes three round \
         trips: a WRITE, the look-ups and the WRITEs of seven other nodes. Ours takes two: a WRITE, and a fetch-and-add to each node.",
    );
    Ok(Findings { what, figures })
}

fn round_trips(measured: &Measured) -> f64 {
    let trips: u64 = Purpose::ALL.iter().map(|purpose| measured.traffic.of(*purpose).round_trips).sum();
    trips as f64 / measured.requests.max(1) as f64
}
