//! FORGE, Fig. 13: YCSB over the number of threads; and how near to the limits of the model a GET
//! comes.

use super::versus::{self, Printed};
use crate::bench::loads::{YcsbShare, ycsb_blocks};
use crate::bench::measured::{Measured, measure_all};
use crate::bench::setup::{Setup, Start};
use crate::bench::sizes::BLOCK_OBJECT_BYTES;
use crate::bench::sweep::Sweep;
use crate::bench::tuning::ForgeTuning;
use crate::bench::{Baseline, Findings, Options};
use atoll_fabric::Kind;
use atoll_lab::LabError;
use atoll_lab::load::{KEY_BYTES, Load};
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use atoll_sim::network::Profile;
use atoll_sim::network::bound::VerbShape;
use atoll_sim::network::traffic::{Limit, VerbKind};
use std::sync::Arc;

pub(super) const WORKLOADS: [&str; 5] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e"];
const THREADS: [u16; 5] = [16, 32, 64, 128, 256];
const CACHE_PERCENT: u64 = 20;

/// "Than all baselines".
const PRINTED: [Printed; 1] = [Printed {
    over: &Baseline::ALL,
    source: "FORGE, section 6.2",
    ranges: [Some((2.0, 8.7)), Some((1.3, 5.9)), Some((3.9, 13.3)), None],
    means: [None; 4],
}];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((1_600_000, 1_800_000), (50_000, 100_000));
    let (warm_keys, warm_requests) = options.scaled((10_000, 2_000_000), (500, 64_000));
    let threads = options.scaled(THREADS.to_vec(), vec![16, 64]);
    let cold = YcsbShare { keys, requests, cache_percent: CACHE_PERCENT };
    let mut sweep = Sweep::over(Places::numbers("threads", "", threads.iter().copied()).logarithmic());
    for name in WORKLOADS {
        let points: Result<Vec<_>, _> = threads.iter().map(|threads| cold.point(name, *threads, options)).collect();
        sweep.line(name, points?);
    }
    let versus = versus::measure(sweep, &PRINTED, options)?;
    let most = *threads.last().expect("there are threads");
    // In these all keys are cached and, with the address cache, known to all threads.
    let warm = ycsb_blocks("ycsb-c", warm_keys, warm_requests, options)?;
    let warm = [0, address_bytes(warm_keys)].map(|bytes| known(&warm, warm_keys, most, bytes, options.seed));
    let measured = measure_all(&warm, options)?;
    let mut figures = versus.figures();
    figures.extend(limits(&warm[0].profile, versus.forms[1].last()[2], &measured[0], &measured[1]));
    Ok(Findings {
        what: format!(
            "{keys} keys of {BLOCK_OBJECT_BYTES} bytes, {requests} requests, {CACHE_PERCENT} % cache; of YCSB E a twentieth of the requests, since a scan is fifty GETs. Of the paper's FORGE and \
             of the engine that Atoll ships, both over the paper's baselines; the paper's text prints ranges over all of them together, and no absolute number. \
             All systems have as much memory, metadata included. YCSB C at {most} threads also stands beside the throughput that the model allows one memory node for a GET's READs alone, \
             bucket and object; for the verbs that a miss needs at least besides: the record's WRITE, two CAS and a look that publish it, a CAS that evicts another; with the address cache \
             slot and object, and the object alone, which no validated GET reaches. With all keys cached there are {warm_keys} of them; for the address cache every thread has looked each up before.",
        ),
        figures,
    })
}

/// All keys are cached, with room for what threads hold open.
fn known(load: &Arc<dyn Load>, keys: u64, threads: u16, address_cache_bytes: usize, seed: u64) -> Setup {
    let cache_bytes = 3 * keys * u64::from(BLOCK_OBJECT_BYTES) + u64::from(threads) * (256 << 10);
    let tuning = ForgeTuning { address_cache_bytes };
    let setup = Setup::new(load.clone(), threads, cache_bytes, BLOCK_OBJECT_BYTES, seed);
    Setup { start: Start::LookedUp, tuning: Some(Arc::new(tuning)), ..setup }
}

/// Memory of an address cache that knows every key, although sets of four fill unevenly.
fn address_bytes(keys: u64) -> usize {
    (keys as usize * 24 * 8).next_power_of_two()
}

const fn read(bytes: u64) -> VerbShape {
    VerbShape { verb: VerbKind::Read, bytes, memory: Kind::Host }
}

const fn write(bytes: u64) -> VerbShape {
    VerbShape { verb: VerbKind::Write, bytes, memory: Kind::Host }
}

const SWAP: VerbShape = VerbShape { verb: VerbKind::CompareAndSwap, bytes: 8, memory: Kind::Host };

/// The most GETs that one memory node serves, in Mops/s. As many hit as were measured. A hit has
/// some verbs, and a miss has those of a fill.
fn bound_of_both(profile: &Profile, measured: &Measured, hit: &[VerbShape], filled: &[VerbShape]) -> f64 {
    let (hits, fills, share) =
        (profile.operation_ps(hit), profile.operation_ps(filled), measured.hit_percent() / 100.0);
    let ps = |(limit, hit_ps): (Limit, u64)| {
        let fill_ps = fills.iter().find(|(other, _)| *other == limit).map_or(0, |(_, ps)| *ps);
        share * hit_ps as f64 + (1.0 - share) * fill_ps as f64
    };
    1e6 / hits.into_iter().map(ps).fold(0.0, f64::max)
}

/// YCSB C beside the model's limits.
fn limits(profile: &Profile, at_cache_size: &Measured, cached: &Measured, known: &Measured) -> [Figure; 2] {
    let record = atoll_cache::record::small_record_bytes(KEY_BYTES as usize, (BLOCK_OBJECT_BYTES - KEY_BYTES) as usize);
    let bucket = atoll_cache::forge::layout::BUCKET_BYTES;
    let bound = |reads: &[VerbShape]| 1e6 / profile.operation_ps(reads)[0].1 as f64;
    let (two, slot_and_object, object) =
        (bound(&[read(bucket), read(record)]), bound(&[read(8), read(record)]), bound(&[read(record)]));
    // What a miss needs at least: the look that finds nothing, the record, the slot claimed and
    // published, and an object evicted.
    let filled = [read(bucket), write(record), SWAP, read(bucket), SWAP, SWAP];
    let mixed = bound_of_both(profile, at_cache_size, &[read(bucket), read(record)], &filled);
    let rows = [
        ("20 % cache, against bucket + object", at_cache_size, two),
        ("20 % cache, against that for hits, and fills for misses", at_cache_size, mixed),
        ("all keys cached, against bucket + object", cached, two),
        ("all addresses known, against slot + object", known, slot_and_object),
        ("all addresses known, against the object alone", known, object),
    ];
    let places = Places::named("YCSB C at the most threads", rows.map(|(name, ..)| name));
    let line = |name: &str, of: &dyn Fn(&Measured, f64) -> f64| {
        places.line(name, rows.iter().map(|(_, measured, limit)| of(measured, *limit)))
    };
    let busy = |measured: &Measured| measured.busiest().map_or(0.0, |(_, percent)| percent / 100.0);
    [
        places.figure(
            "Throughput beside the model's limit",
            ("throughput", "Mops/s"),
            [line("reached", &|measured, _| measured.mops()), line("limit", &|_, limit| limit)],
        ),
        places.figure(
            "Share of the model's limit",
            ("share", ""),
            [
                line("share reached", &|measured, limit| measured.mops() / limit),
                line("round trips a request", &|measured, _| round_trips(measured)),
                line("busiest server of a NIC", &|measured, _| busy(measured)),
            ],
        ),
    ]
}

fn round_trips(measured: &Measured) -> f64 {
    let posted = measured.traffic.of(atoll_fabric::Purpose::Request);
    posted.round_trips as f64 / measured.requests.max(1) as f64
}
