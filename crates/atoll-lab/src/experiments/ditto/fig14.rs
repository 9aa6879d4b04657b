//! Ditto, Fig. 14: YCSB over the number of clients, without misses.

use super::super::point::{Measured, measure_all};
use super::super::setup::Setup;
use super::super::{Experiment, Options, shape};
use super::{paper, roomy_bytes, setup, verbs_figure, without_misses, ycsb};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};
use atoll_cache::queues::{QueueOptions, QueuePolicy};

/// Workloads, and what section 5.3 prints of their throughput in Mops: at 256 clients, where the NIC of the memory node is the limit.
const WORKLOADS: [(&str, f64); 4] = [("ycsb-a", 10.5), ("ycsb-b", 13.1), ("ycsb-c", 13.2), ("ycsb-d", 13.0)];
const CLIENTS: [u16; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// The workload on which Shard-LRU stands beside Ditto: the one without SETs.
const BESIDE: (usize, &str) = (2, "ycsb-c, shard-lru");
/// The part of the requests that it is asked for: each is many verbs where clients wait for locks.
const BESIDE_PART: u64 = 4;
/// By how much Ditto's throughput is higher than that of its baselines, at most (section 5.3).
const OVER_BASELINES: f64 = 9.0;

/// The experiment.
pub(crate) struct Ycsb;

impl Experiment for Ycsb {
    fn name(&self) -> &'static str {
        "ditto-fig14"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 14: YCSB A to D, 1 to 256 clients, no misses"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
        let clients = options.scaled(CLIENTS.to_vec(), vec![1, 16]);
        let mut setups = Vec::new();
        for (name, _) in WORKLOADS {
            for clients in &clients {
                let load = ycsb(name, keys, requests, options)?;
                // Of YCSB D a twentieth of the requests are new keys.
                let bytes = roomy_bytes(keys + requests / 20, *clients);
                setups.push(without_misses(setup(load, &paper("lru+lfu"), *clients, bytes, options.seed)));
            }
        }
        let beside: Vec<Setup> = setups.chunks(clients.len()).nth(BESIDE.0).expect("it is a workload").to_vec();
        for one in beside {
            let load = ycsb(WORKLOADS[BESIDE.0].0, keys, requests / BESIDE_PART, options)?;
            let (one, bytes) = (Setup { load, ..one.clone() }, one.pool.capacity_bytes);
            setups.push(one.on_queues(QueueOptions::new(QueuePolicy::ShardLru), bytes, OBJECT_BYTES));
        }
        let measured = measure_all(&setups, options.workers)?;
        let lines: Vec<&[Measured]> = measured.chunks(clients.len()).collect();
        let names = WORKLOADS.iter().map(|(name, _)| *name).chain([BESIDE.1]).map(str::to_owned).collect::<Vec<_>>();
        let xs: Vec<f64> = clients.iter().map(|clients| f64::from(*clients)).collect();
        let x = report::Axis { logarithmic: true, ..shape::axis("clients", "") };
        let mut figures = shape::figures(&x, &xs, &names, &lines);
        if clients.last() == CLIENTS.last() {
            for (line, (_, mops)) in figures[0].series.iter_mut().zip(WORKLOADS) {
                line.points.last_mut().expect("there are clients").paper = Some(mops);
            }
        }
        let most: Vec<&Measured> = lines.iter().map(|line| line.last().expect("there are clients")).collect();
        figures.push(verbs_figure("Verbs at the most clients", &names, &most));
        let (ditto, baseline) = (lines[BESIDE.0], lines.last().expect("there are lines"));
        let times = ditto.iter().zip(*baseline).map(|(ditto, baseline)| ditto.mops() / baseline.mops().max(1e-9));
        let mut over = shape::series("times higher", xs.iter().copied().zip(times));
        if clients.last() == CLIENTS.last() {
            over.points.last_mut().expect("there are clients").paper = Some(OVER_BASELINES);
        }
        figures.push(report::Figure {
            title: "Throughput of Ditto over Shard-LRU, YCSB C".to_owned(),
            x: report::Axis { logarithmic: true, ..shape::axis("clients", "") },
            y: shape::axis("times higher", ""),
            series: vec![over],
        });
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million, all of them loaded before; {requests} requests. Shard-LRU stands beside it on YCSB C, with a fourth of the requests; the paper prints \
                 that Ditto is up to nine times higher than its baselines. How far Shard-LRU falls behind where there are many clients is decided by how long an atomic keeps \
                 the next one on its word waiting, since most verbs are then swaps of locks that fail; the profile has that time from another NIC. CliqueMap, which its figure has too, is not here. The profile's rates follow from the printed throughput of YCSB C and a GET of 3 READs, a WRITE and a FAA every eleventh time. Our GET \
                 has 2 READs: the history counter, which the paper's clients READ with every look-up, ours know from their own evictions. The figure of verbs counts all \
                 verbs. In YCSB A it shows more CAS than SETs: clients that update the same key at a time begin anew, and with fewer keys the hottest ones are asked for more \
                 often. In YCSB D a client that is ahead of the others asks for keys that they have not inserted yet: these GETs miss.",
            ),
            figures,
        })
    }
}
