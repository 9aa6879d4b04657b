//! Ditto, Fig. 14: YCSB over the number of clients, without misses.

use super::super::point::{Measured, measure_all};
use super::super::processor::ServerCosts;
use super::super::setup::Setup;
use super::super::{Experiment, Options, shape};
use super::{paper, roomy_bytes, setup, verbs_figure, without_misses, ycsb};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};
use atoll_baselines::cliquemap::Policy;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};

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

/// The experiment.
pub(crate) struct Ycsb;

impl Experiment for Ycsb {
    fn name(&self) -> &'static str {
        "ditto-fig14"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 14: YCSB A to D on Ditto and CliqueMap, YCSB C on Shard-LRU, 1 to 256 clients, no misses"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
        let clients = options.scaled(CLIENTS.to_vec(), vec![1, 16]);
        let mut setups = [Vec::new(), Vec::new()];
        for (name, _) in WORKLOADS {
            for clients in &clients {
                let load = ycsb(name, keys, requests, options)?;
                // Of YCSB D a twentieth of the requests are new keys.
                let bytes = roomy_bytes(keys + requests / 20, *clients);
                let ditto = setup(load, &paper("lru+lfu"), *clients, bytes, options.seed);
                setups[0].push(without_misses(ditto.clone()));
                setups[1].push(without_misses(ditto.on_cliquemap(Policy::Lru, bytes, OBJECT_BYTES)));
            }
        }
        let mut setups = setups.concat();
        for clients in &clients {
            let load = ycsb(WORKLOADS[LOCKED.0].0, keys, requests / LOCKED_PART, options)?;
            let bytes = roomy_bytes(keys, *clients);
            let one: Setup = without_misses(setup(load, &paper("lru+lfu"), *clients, bytes, options.seed));
            setups.push(one.on_queues(QueueOptions::new(QueuePolicy::ShardLru), bytes, OBJECT_BYTES));
        }
        let measured = measure_all(&setups, options.workers)?;
        let lines: Vec<&[Measured]> = measured.chunks(clients.len()).collect();
        let on = |system: &'static str| WORKLOADS.map(|(name, _)| format!("{name}, {system}"));
        let mut names = [on("ditto"), on("cliquemap-lru")].concat();
        names.push(LOCKED.1.to_owned());
        let xs: Vec<f64> = clients.iter().map(|clients| f64::from(*clients)).collect();
        let x = report::Axis { logarithmic: true, ..shape::axis("clients", "") };
        let mut figures = shape::figures(&x, &xs, &names, &lines);
        let is_full = clients.last() == CLIENTS.last();
        if is_full {
            for (line, (_, mops)) in figures[0].series.iter_mut().zip(WORKLOADS) {
                line.points.last_mut().expect("there are clients").paper = Some(mops);
            }
        }
        let (ditto, others) = lines.split_at(WORKLOADS.len());
        let (cliquemap, locked) = others.split_at(WORKLOADS.len());
        let on_cliquemap: Vec<_> = ditto.iter().copied().zip(cliquemap.iter().copied()).collect();
        let on_shard_lru = [(ditto[LOCKED.0], locked[0])];
        let names_of_ratios = WORKLOADS.map(|(name, _)| name);
        figures.push(ratios("Throughput of Ditto over CliqueMap", &x, &xs, &names_of_ratios, &on_cliquemap));
        figures.push(ratios(
            "Throughput of Ditto over Shard-LRU",
            &x,
            &xs,
            &names_of_ratios[LOCKED.0..],
            &on_shard_lru,
        ));
        figures.push(most(&[("CliqueMap", &on_cliquemap), ("Shard-LRU", &on_shard_lru)], is_full));
        let last: Vec<&Measured> = lines.iter().map(|line| line.last().expect("there are clients")).collect();
        figures.push(verbs_figure("Verbs at the most clients", &names, &last));
        let costs = ServerCosts::measured(Policy::Lru);
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
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
}

/// Ditto's points, and a baseline's for the same numbers of clients.
type Pair<'m> = (&'m [Measured], &'m [Measured]);

/// Ditto's throughput over a baseline's.
fn times(ditto: &Measured, baseline: &Measured) -> f64 {
    ditto.mops() / baseline.mops().max(1e-9)
}

/// The same at every number of clients.
fn ratios(title: &str, x: &report::Axis, xs: &[f64], names: &[&str], pairs: &[Pair<'_>]) -> report::Figure {
    let series = names.iter().zip(pairs).map(|(name, (ditto, baseline))| {
        let places = xs.iter().zip(ditto.iter().zip(*baseline));
        shape::series(*name, places.map(|(x, (ditto, baseline))| (*x, times(ditto, baseline))))
    });
    report::Figure {
        title: title.to_owned(),
        x: x.clone(),
        y: shape::axis("times higher", ""),
        series: series.collect(),
    }
}

/// The most of those, beside the paper's, which is not of one of the baselines.
fn most(of: &[(&str, &[Pair<'_>])], is_full: bool) -> report::Figure {
    let point = |(place, (_, pairs)): (usize, &(&str, &[Pair<'_>]))| {
        let all = pairs.iter().flat_map(|(ditto, baseline)| ditto.iter().zip(*baseline));
        let most = all.map(|(ditto, baseline)| times(ditto, baseline)).fold(0.0, f64::max);
        report::Point { x: place as f64, y: most, paper: is_full.then_some(TIMES_MOST) }
    };
    report::Figure {
        title: "The most that Ditto has over its baselines".to_owned(),
        x: shape::categories("over", of.iter().map(|(name, _)| *name)),
        y: shape::axis("times higher", ""),
        series: vec![report::Series {
            name: "throughput".to_owned(),
            points: of.iter().enumerate().map(point).collect(),
        }],
    }
}
