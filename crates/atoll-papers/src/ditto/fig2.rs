//! Ditto, Fig. 2: what it costs to maintain caching data structures in the pool.

use super::testbed::{roomy_bytes, testbed, verbs_figure, without_misses};
use crate::bench::loads::ycsb;
use crate::bench::measured::Measured;
use crate::bench::setup::Setup;
use crate::bench::sweep::{METRICS, Sweep};
use crate::bench::{Findings, Options};
use atoll_baselines::queues::{LISTS, QueueOptions, QueuePolicy};
use atoll_lab::LabError;
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::places::Places;

const CLIENTS: [u16; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// What the paper prints of the throughput of KVC and KVC-S with a single client over that of KVS.
const OF_KVS_PERCENT: f64 = 23.0;

/// A store that tracks nothing, one with an LRU list behind a lock, and one with 32 of them; and
/// which part of the requests each is asked for. Each request of the last two is that many more
/// verbs where clients wait for locks.
fn systems() -> [(&'static str, Option<QueueOptions>, u64); 3] {
    let lists = |lists| Some(QueueOptions { lists, ..QueueOptions::new(QueuePolicy::ShardLru) });
    [("KVS", None, 1), ("KVC", lists(1), 16), ("KVC-S", lists(LISTS), 4)]
}

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
    let clients = options.scaled(CLIENTS.to_vec(), vec![1, 16]);
    let mut sweep = Sweep::over(Places::numbers("clients", "", clients.iter().copied()).logarithmic());
    for (name, queues, part) in systems() {
        let points = clients.iter().map(|clients| point(queues, keys, requests / part, *clients, options));
        sweep.line(name, points.collect::<Result<Vec<_>, _>>()?);
    }
    let swept = sweep.measure(options)?;
    let mut figures = swept.figures(&METRICS);
    let alone = swept.column(0);
    figures.push(verbs_figure("Verbs of a single client", swept.names(), &alone));
    let share = |measured: &&Measured| 100.0 * measured.mops() / alone[0].mops().max(1e-9);
    let places = Places::named("system", swept.names());
    let printed = [None, Some(OF_KVS_PERCENT), Some(OF_KVS_PERCENT)];
    let of_kvs = places.line("of KVS", alone.iter().map(share)).beside(printed);
    figures.push(places.figure("Throughput of a single client", ("of KVS", "%"), [of_kvs]));
    Ok(Findings {
        what: format!(
            "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million; {requests} requests, of KVC a sixteenth and of KVC-S a fourth of them. KVC has one LRU list behind a lock and KVC-S 32, whose \
             clients wait 5 us for a lock; so do ours for the lock of KVC. The paper prints of both that with a single client they have 23 % of the store's throughput and 4.5 times its tail latency, and of the store no absolute number.",
        ),
        figures,
    })
}

/// A point on these queues, or on the store without any.
fn point(
    queues: Option<QueueOptions>,
    keys: u64,
    requests: u64,
    clients: u16,
    options: &Options,
) -> Result<Setup, LabError> {
    let bytes = roomy_bytes(keys, clients);
    let base = testbed(ycsb("ycsb-c", keys, requests, options)?, clients, bytes, options.seed);
    Ok(without_misses(match queues {
        None => base.on_kvs(bytes),
        Some(queues) => base.on_queues(queues, bytes),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measured;
    use atoll_fabric::Purpose;

    #[test]
    fn a_hit_takes_two_round_trips_and_with_a_list_five_more_unless_it_is_at_the_head() {
        let options = Options { quick: true, ..Options::default() };
        for ((name, queues, _), (least, most)) in systems().into_iter().zip([(2.0, 2.1), (6.5, 7.1), (6.0, 7.1)]) {
            let measured = measured::measure(&point(queues, 2_000, 4_000, 1, &options).unwrap()).unwrap();
            let posted: u64 = Purpose::ALL.iter().map(|purpose| measured.traffic.of(*purpose).round_trips).sum();
            let round_trips = posted as f64 / measured.requests as f64;
            assert!((least..=most).contains(&round_trips), "{name}: {round_trips}");
        }
    }
}
