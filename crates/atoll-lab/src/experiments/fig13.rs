//! FORGE, Fig. 13: YCSB over the number of threads; and how near to the limits of the model a GET
//! comes.

use super::point::{Measured, measure_all};
use super::setup::{Setup, Start};
use super::versus::{self, Printed};
use super::{Experiment, Options, shape};
use crate::load::{Load, LoadOptions, ycsb};
use crate::{LabError, report};
use atoll_fabric::Kind;
use atoll_sim::network::Profile;
use atoll_sim::network::bound::VerbShape;
use atoll_sim::network::traffic::{Limit, VerbKind};
use std::sync::Arc;

const WORKLOADS: [&str; 5] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e"];
const THREADS: [u16; 5] = [16, 32, 64, 128, 256];
const CACHE_PERCENT: u64 = 20;

/// Section 6.2: over Ditto, S3FIFO-DM and GLCache-DM.
const PRINTED: Printed = [Some((2.0, 8.7)), Some((1.3, 5.9)), Some((3.9, 13.3)), None];

/// The experiment.
pub(super) struct Ycsb;

/// Its scale.
struct Scale {
    keys: u64,
    requests: u64,
    threads: Vec<u16>,
    /// Of the runs in which all keys are cached and, with the address cache, known to all threads.
    warm_keys: u64,
    warm_requests: u64,
}

impl Experiment for Ycsb {
    fn name(&self) -> &'static str {
        "forge-fig13"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 13: YCSB A to E, 20 % cache, 16 to 256 threads; YCSB C beside the model's limits"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let full = Scale {
            keys: 2_000_000,
            requests: 4_000_000,
            threads: THREADS.to_vec(),
            warm_keys: 10_000,
            warm_requests: 2_000_000,
        };
        let quick =
            Scale { keys: 50_000, requests: 100_000, threads: vec![16, 64], warm_keys: 500, warm_requests: 64_000 };
        let scale = options.scaled(full, quick);
        let mut setups = Vec::new();
        for name in WORKLOADS {
            for threads in &scale.threads {
                setups.push(cold(name, *threads, &scale, options)?);
            }
        }
        let most = *scale.threads.last().expect("there are threads");
        setups.push(warm(most, 0, &scale, options)?);
        setups.push(warm(most, address_bytes(scale.warm_keys), &scale, options)?);
        let points = WORKLOADS.len() * scale.threads.len();
        let cold: Vec<_> = setups[..points].iter().map(|one| (one.clone(), ycsb::OBJECT_BYTES)).collect();
        setups.extend(versus::beside(&options.baselines, &cold));
        let measured = measure_all(&setups, options.workers)?;
        let (forge, others) = measured.split_at(points + 2);
        let (cold, warm) = forge.split_at(points);
        let lines: Vec<&[Measured]> = cold.chunks(scale.threads.len()).collect();
        let all: Vec<&[Measured]> =
            cold.chunks(scale.threads.len()).chain(others.chunks(scale.threads.len())).collect();
        let xs: Vec<f64> = scale.threads.iter().map(|threads| f64::from(*threads)).collect();
        let x = report::Axis { logarithmic: true, ..shape::axis("threads", "") };
        let forge_names = WORKLOADS.map(str::to_owned);
        let mut figures = shape::figures(&x, &xs, &versus::names(&options.baselines, &forge_names), &all);
        figures.extend(versus::figures(&options.baselines, &x, &xs, &forge_names, &all, |_| PRINTED));
        let at_cache_size = lines[2].last().expect("there are threads");
        figures.extend(limits(&setups[0], at_cache_size, &warm[0], &warm[1]));
        let Scale { keys, requests, warm_keys, .. } = scale;
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {} bytes; {requests} requests, of YCSB E a twentieth, since a scan is fifty GETs. The paper's text prints no absolute number of this figure. Its \
                 baselines have as much memory as FORGE, metadata included; what is printed of FORGE over all its baselines stands beside what is here over each. YCSB C \
                 at {most} threads stands beside the throughput that the model allows one memory node for a GET's READs alone: bucket and object; for the verbs that a miss needs at least besides: the record's WRITE, \
                 two CAS and a look that publish it, a CAS that evicts another; with the address cache slot and object, and the object alone, which no validated GET reaches. With all keys cached there are {warm_keys} of them; for the address cache \
                 every thread has looked each up before. Where FORGE is ahead by less than is printed, verbs by purpose tell why: GLCache-DM is a rule of FORGE's own groups here and has its verbs but for what it cleans; \
                 on YCSB A every overwriting leaves a dead record in a group, and cleaning such groups takes FORGE verbs (collection), where Ditto uses the block again at once, and where its writers of a hot key do not undo each other's tries. At {most} threads the busiest server of a NIC is {}.",
                ycsb::OBJECT_BYTES,
                busiest(&lines),
            ),
            figures,
        })
    }
}

/// A workload of YCSB; of E fewer requests, since a scan is many GETs.
pub(super) fn load(name: &str, keys: u64, requests: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let requests = if name == "ycsb-e" { requests / 20 } else { requests };
    Ok(LoadOptions { keys, requests: Some(requests), seed: options.seed, ..LoadOptions::named(name) }.open()?.into())
}

fn cold(name: &str, threads: u16, scale: &Scale, options: &Options) -> Result<Setup, LabError> {
    let load = load(name, scale.keys, scale.requests, options)?;
    let cache_bytes = scale.keys * u64::from(ycsb::OBJECT_BYTES) * CACHE_PERCENT / 100;
    Ok(Setup::new(load, threads, cache_bytes, ycsb::OBJECT_BYTES, options.seed))
}

/// All keys are cached, with room for what threads hold open.
fn warm(threads: u16, address_cache_bytes: usize, scale: &Scale, options: &Options) -> Result<Setup, LabError> {
    let load = load("ycsb-c", scale.warm_keys, scale.warm_requests, options)?;
    let cache_bytes = 3 * scale.warm_keys * u64::from(ycsb::OBJECT_BYTES) + u64::from(threads) * (256 << 10);
    let setup = Setup::new(load, threads, cache_bytes, ycsb::OBJECT_BYTES, options.seed);
    Ok(Setup { start: Start::LookedUp, address_cache_bytes, ..setup })
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

/// The most that one memory node gives of GETs in Mops/s, as many of which hit as were measured,
/// each with these verbs, and those of a fill for the others.
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
fn limits(setup: &Setup, at_cache_size: &Measured, cached: &Measured, known: &Measured) -> Vec<report::Figure> {
    let record = atoll_cache::record::small_record_bytes(
        crate::load::KEY_BYTES as usize,
        (ycsb::OBJECT_BYTES - crate::load::KEY_BYTES) as usize,
    );
    let bucket = atoll_cache::forge::layout::BUCKET_BYTES;
    let bound = |reads: &[VerbShape]| 1e6 / setup.profile.operation_ps(reads)[0].1 as f64;
    let (two, slot_and_object, object) =
        (bound(&[read(bucket), read(record)]), bound(&[read(8), read(record)]), bound(&[read(record)]));
    // What a miss needs at least: the look that finds nothing, the record, the slot taken and made
    // live, and an object evicted.
    let filled = [read(bucket), write(record), SWAP, read(bucket), SWAP, SWAP];
    let mixed = bound_of_both(&setup.profile, at_cache_size, &[read(bucket), read(record)], &filled);
    let rows = [
        ("20 % cache, against bucket + object", at_cache_size, two),
        ("20 % cache, against that for hits, and fills for misses", at_cache_size, mixed),
        ("all keys cached, against bucket + object", cached, two),
        ("all addresses known, against slot + object", known, slot_and_object),
        ("all addresses known, against the object alone", known, object),
    ];
    let x = shape::categories("YCSB C at the most threads", rows.map(|(name, ..)| name));
    let numbered = || rows.iter().enumerate().map(|(place, row)| (place as f64, row));
    let throughput = report::Figure {
        title: "Throughput beside the model's limit".to_owned(),
        x: x.clone(),
        y: shape::axis("throughput", "Mops/s"),
        series: vec![
            shape::series("reached", numbered().map(|(place, (_, measured, _))| (place, measured.mops()))),
            shape::series("limit", numbered().map(|(place, (.., limit))| (place, *limit))),
        ],
    };
    let share = report::Figure {
        title: "Share of the model's limit".to_owned(),
        x,
        y: shape::axis("share", ""),
        series: vec![
            shape::series(
                "share reached",
                numbered().map(|(place, (_, measured, limit))| (place, measured.mops() / limit)),
            ),
            shape::series(
                "round trips a request",
                numbered().map(|(place, (_, measured, _))| (place, round_trips(measured))),
            ),
            shape::series(
                "busiest server of a NIC",
                numbered().map(|(place, (_, measured, _))| {
                    (place, measured.busiest().map_or(0.0, |(_, percent)| percent / 100.0))
                }),
            ),
        ],
    };
    vec![throughput, share]
}

/// What holds each workload back at the most threads.
fn busiest(lines: &[&[Measured]]) -> String {
    let one = |(name, measured): (&&str, &&[Measured])| {
        let (limit, percent) = measured.last()?.busiest()?;
        Some(format!("in {name} {limit:?} ({percent:.0} % of the time)"))
    };
    WORKLOADS.iter().zip(lines).filter_map(one).collect::<Vec<_>>().join(", ")
}

fn round_trips(measured: &Measured) -> f64 {
    let posted = measured.traffic.of(atoll_fabric::Purpose::Request);
    posted.round_trips as f64 / measured.requests.max(1) as f64
}
