//! Ditto, Fig. 14: YCSB over the number of clients, without misses.

use super::testbed::{paper, roomy_bytes, setup, verbs_figure, without_misses};
use crate::bench::loads::ycsb;
use crate::bench::measured::Measured;
use crate::bench::processor::ServerCosts;
use crate::bench::setup::Setup;
use crate::bench::sweep::{METRICS, Sweep, Swept};
use crate::bench::{Findings, Options};
use atoll_baselines::cliquemap::Policy;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_lab::LabError;
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;

/// Workloads, and what section 5.3 prints of their throughput in Mops: at 256 clients, where the
/// NIC of the memory node is the limit.
const WORKLOADS: [(&str, f64); 4] = [("ycsb-a", 10.5), ("ycsb-b", 13.1), ("ycsb-c", 13.2), ("ycsb-d", 13.0)];
const CLIENTS: [u16; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// The workload on which Shard-LRU stands beside Ditto: the one without SETs.
const LOCKED: (usize, &str) = (2, "ycsb-c, shard-lru");
/// The part of the requests that Shard-LRU is asked: each is many verbs where clients wait for
/// locks.
const LOCKED_PART: u64 = 4;

/// Section 5.3: "up to 9x higher than Shard-LRU and CliqueMap".
const TIMES_MOST: f64 = 9.0;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
    let clients = options.scaled(CLIENTS.to_vec(), vec![1, 16]);
    // On Ditto, with room for this many keys.
    let point = |name: &str, requests: u64, keys_max: u64, clients: u16| -> Result<Setup, LabError> {
        let (load, bytes) = (ycsb(name, keys, requests, options)?, roomy_bytes(keys_max, clients));
        Ok(without_misses(setup(load, &paper("lru+lfu"), clients, bytes, options.seed)))
    };
    let mut sweep = Sweep::over(Places::numbers("clients", "", clients.iter().copied()).logarithmic());
    for (name, _) in WORKLOADS {
        // Of YCSB D a twentieth of the requests are new keys.
        let points = clients.iter().map(|clients| point(name, requests, keys + requests / 20, *clients));
        sweep.line(format!("{name}, ditto"), points.collect::<Result<Vec<_>, _>>()?);
    }
    for (ditto, (name, _)) in sweep.lines().to_vec().into_iter().zip(WORKLOADS) {
        let on_cliquemap = |ditto: Setup| {
            let bytes = ditto.pool.capacity_bytes;
            without_misses(ditto.on_cliquemap(Policy::Lru, bytes))
        };
        sweep.line(format!("{name}, cliquemap-lru"), ditto.1.into_iter().map(on_cliquemap));
    }
    let mut locked = Vec::new();
    for clients in &clients {
        let one = point(WORKLOADS[LOCKED.0].0, requests / LOCKED_PART, keys, *clients)?;
        let bytes = one.pool.capacity_bytes;
        locked.push(one.on_queues(QueueOptions::new(QueuePolicy::ShardLru), bytes));
    }
    sweep.line(LOCKED.1, locked);
    let swept = sweep.measure(options)?;
    let mut figures = swept.figures(&METRICS);
    let is_full = clients.last() == CLIENTS.last();
    if is_full {
        for (line, (_, mops)) in figures[0].series.iter_mut().zip(WORKLOADS) {
            line.points.last_mut().expect("there are clients").paper = Some(mops);
        }
    }
    let names = WORKLOADS.map(|(name, _)| name);
    let baseline = |workload: usize, line: usize| (names[workload], workload, line);
    let cliquemap = [0, 1, 2, 3].map(|workload| baseline(workload, WORKLOADS.len() + workload));
    let shard_lru = [baseline(LOCKED.0, 2 * WORKLOADS.len())];
    let of_all: [(&str, &[Pair]); 2] = [("CliqueMap", &cliquemap), ("Shard-LRU", &shard_lru)];
    figures.extend(of_all.map(|(name, pairs)| ratios(name, &swept, pairs)));
    figures.push(most(&of_all, &swept, is_full));
    figures.push(verbs_figure("Verbs at the most clients", swept.names(), &swept.last()));
    let costs = ServerCosts::measured(Policy::Lru);
    Ok(Findings {
        what: format!(
            "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million, all of them loaded before; {requests} requests. Shard-LRU stands beside it on YCSB C, with a fourth of the requests: how \
             far it falls behind where there are many clients is decided by how long an atomic keeps the next one on its word waiting, since most verbs are then swaps of locks \
             that fail; the profile has that time from another NIC. CliqueMap is with LRU, on one core of the memory node that takes {} ns for a SET and {} ns for an access that a client tells it of, and as long as a client for \
             receiving and answering a message; the paper prints no cost. It prints that Ditto has up to 9 times the throughput of Shard-LRU and CliqueMap, not for which of them, and \
             that with a single client CliqueMap is faster than Ditto in YCSB A. The profile's rates follow from the printed throughput of YCSB C and a GET of 3 READs, a WRITE and a FAA every eleventh time. Our GET \
             has 2 READs: the history counter, which the paper's clients READ with every look-up, ours know from their own evictions. The last figure counts all \
             verbs. In YCSB A it shows more READs than in YCSB C: of clients that update the same key at a time one succeeds, and the others look once more and are done. \
             In YCSB D a client that is ahead of the others asks for keys that they have not inserted yet: these GETs miss.",
            costs.change_ns, costs.access_ns,
        ),
        figures,
    })
}

/// A workload's name, Ditto's line, and a baseline's.
type Pair = (&'static str, usize, usize);

/// Ditto's throughput over a baseline's, at every number of clients.
fn times(swept: &Swept<Measured>, (_, ditto, baseline): Pair) -> impl Iterator<Item = f64> {
    let pairs = swept.lines()[ditto].iter().zip(&swept.lines()[baseline]);
    pairs.map(|(ditto, baseline)| ditto.mops() / baseline.mops().max(1e-9))
}

/// The same as a figure.
fn ratios(over: &str, swept: &Swept<Measured>, pairs: &[Pair]) -> Figure {
    let lines = pairs.iter().map(|pair| swept.places().line(pair.0, times(swept, *pair)));
    swept.places().factors(format!("Throughput of Ditto over {over}"), "times higher", lines)
}

/// The most of those, over each baseline and over all together. The paper's is of all together.
fn most(of: &[(&str, &[Pair])], swept: &Swept<Measured>, is_full: bool) -> Figure {
    let places = Places::named("over", of.iter().map(|(name, _)| *name).chain(["all together"]));
    let of_pairs = |pairs: &[Pair]| pairs.iter().flat_map(|pair| times(swept, *pair)).fold(0.0, f64::max);
    let each: Vec<f64> = of.iter().map(|(_, pairs)| of_pairs(pairs)).collect();
    let all = each.iter().copied().fold(0.0, f64::max);
    let printed = each.iter().map(|_| None).chain([is_full.then_some(TIMES_MOST)]);
    let line = places.line("throughput", each.iter().copied().chain([all])).beside(printed);
    places.factors("The most that Ditto has over its baselines", "times higher", [line]).from("Ditto, section 5.3")
}
