//! Ditto, Fig. 2: what it costs to maintain caching data structures in the pool.

use super::super::point::{Measured, measure_all};
use super::super::setup::Setup;
use super::super::{Experiment, Options, shape};
use super::{roomy_bytes, testbed, verbs_figure, without_misses, ycsb};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};
use atoll_baselines::queues::{LISTS, QueueOptions, QueuePolicy};

const CLIENTS: [u16; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// A system of the figure: its name, and a point with a cache of so many bytes made into one on it.
type System = (&'static str, fn(Setup, u64) -> Setup, u64);

/// A store that tracks nothing, one with an LRU list behind a lock, and one with 32 of them. The
/// last two are asked for the sixteenth and the fourth part of the requests, since each is that
/// many more verbs where clients wait for locks.
const SYSTEMS: [System; 3] = [
    ("KVS", |setup, bytes| setup.on_kvs(bytes, OBJECT_BYTES), 1),
    ("KVC", |setup, bytes| setup.on_queues(lists(1), bytes, OBJECT_BYTES), 16),
    ("KVC-S", |setup, bytes| setup.on_queues(lists(LISTS), bytes, OBJECT_BYTES), 4),
];
/// What the paper prints of the throughput of KVC and KVC-S with a single client over that of KVS.
const OF_KVS_PERCENT: f64 = 23.0;

fn lists(lists: u32) -> QueueOptions {
    QueueOptions { lists, ..QueueOptions::new(QueuePolicy::ShardLru) }
}

/// The experiment.
pub(crate) struct Tracking;

impl Experiment for Tracking {
    fn name(&self) -> &'static str {
        "ditto-fig2"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 2: a store that tracks nothing and LRU lists, YCSB C, 1 to 256 clients, no misses"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
        let clients = options.scaled(CLIENTS.to_vec(), vec![1, 16]);
        let mut setups = Vec::new();
        for (_, on, part) in SYSTEMS {
            for clients in &clients {
                let load = ycsb("ycsb-c", keys, requests / part, options)?;
                let bytes = roomy_bytes(keys, *clients);
                setups.push(without_misses(on(testbed(load, *clients, bytes, options.seed), bytes)));
            }
        }
        let measured = measure_all(&setups, options.workers)?;
        let lines: Vec<&[Measured]> = measured.chunks(clients.len()).collect();
        let names = SYSTEMS.map(|(name, ..)| name.to_owned());
        let xs: Vec<f64> = clients.iter().map(|clients| f64::from(*clients)).collect();
        let x = report::Axis { logarithmic: true, ..shape::axis("clients", "") };
        let mut figures = shape::figures(&x, &xs, &names, &lines);
        let alone: Vec<&Measured> = lines.iter().map(|line| &line[0]).collect();
        figures.push(verbs_figure("Verbs of a single client", &names, &alone));
        let share = |measured: &&Measured| 100.0 * measured.mops() / alone[0].mops().max(1e-9);
        let shares = alone.iter().map(share).enumerate().map(|(place, share)| (place as f64, share));
        let mut of_kvs = shape::series("of KVS", shares);
        of_kvs.points[1..].iter_mut().for_each(|point| point.paper = Some(OF_KVS_PERCENT));
        figures.push(report::Figure {
            title: "Throughput of a single client".to_owned(),
            x: shape::categories("system", SYSTEMS.map(|(name, ..)| name)),
            y: shape::axis("of KVS", "%"),
            series: vec![of_kvs],
        });
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million; {requests} requests, of KVC a sixteenth and of KVC-S a fourth of them. KVC has one LRU list behind a lock and KVC-S 32, whose \
                 clients wait 5 us for a lock; so do ours for the lock of KVC. The paper prints of both that with a single client they have 23 % of the store's throughput and 4.5 times its tail latency, and of the store no absolute number.",
            ),
            figures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_fabric::Purpose;
    use std::path::PathBuf;

    #[test]
    fn a_hit_takes_two_round_trips_and_with_a_list_five_more_unless_it_is_at_the_head() {
        let options = Options { quick: true, traces: PathBuf::new(), seed: 1, workers: 1, baselines: Vec::new() };
        for ((name, on, _), (least, most)) in SYSTEMS.into_iter().zip([(2.0, 2.1), (6.5, 7.1), (6.0, 7.1)]) {
            let (load, bytes) = (ycsb("ycsb-c", 2_000, 4_000, &options).unwrap(), roomy_bytes(2_000, 1));
            let setup = without_misses(on(testbed(load, 1, bytes, 1), bytes));
            let measured = measure_all(&[setup], 1).unwrap().remove(0);
            let posted: u64 = Purpose::ALL.iter().map(|purpose| measured.traffic.of(*purpose).round_trips).sum();
            let round_trips = posted as f64 / measured.requests as f64;
            assert!((least..=most).contains(&round_trips), "{name}: {round_trips}");
        }
    }
}
