//! FORGE, Fig. 3: where the traffic of a cache in the pool comes from. 3a is YCSB; 3b is a load
//! with objects of many sizes.

use super::fig13::WORKLOADS;
use super::fig15;
use crate::bench::loads::YcsbShare;
use crate::bench::measured::Measured;
use crate::bench::setup::Setup;
use crate::bench::sizes::BLOCK_OBJECT_BYTES;
use crate::bench::sweep::Sweep;
use crate::bench::{Baseline, Findings, Options};
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_fabric::Purpose;
use atoll_lab::LabError;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;

const THREADS: u16 = 16;
const CACHE_PERCENT: u64 = 10;
/// A load like one of Twitter's clusters, in place of the paper's Twitter traces, and its requests.
const TWITTER: (&str, u64) = ("twitter-54", 2_000_000);

/// Percent of the traffic for requests, hotness, eviction and collection.
type Shares = [Option<f64>; 4];

/// What is printed of a system: of YCSB, and of Twitter's load. The shares of SIEVE's requests, and
/// of all but collection on Twitter's, are in the picture only.
struct Printed {
    ycsb: Shares,
    twitter: Shares,
}

const NOTHING: Printed = Printed { ycsb: [None; 4], twitter: [None; 4] };
const LRU: Printed =
    Printed { ycsb: [Some(13.4), Some(57.4), Some(29.2), None], twitter: [None, None, None, Some(31.9)] };
const SIEVE: Printed = Printed { ycsb: [None, Some(37.7), Some(47.6), None], twitter: [None, None, None, Some(38.2)] };
const DITTO: Printed =
    Printed { ycsb: [Some(36.1), Some(45.9), Some(18.0), None], twitter: [None, None, None, Some(18.3)] };

/// A system: its name, how a point of FORGE is put on it, and what is printed of it.
type System = (String, Box<dyn Fn(&Setup) -> Setup>, &'static Printed);

/// The forms of FORGE, the baselines, and the systems with queues that the paper's figure has.
fn systems(options: &Options) -> Vec<System> {
    let mut systems: Vec<System> = vec![
        ("forge-paper".to_owned(), Box::new(|point| point.clone().on_forge_paper(point.pool.capacity_bytes)), &NOTHING),
        ("forge".to_owned(), Box::new(Setup::clone), &NOTHING),
    ];
    for baseline in options.baselines.iter().copied() {
        let printed = if baseline == Baseline::Ditto { &DITTO } else { &NOTHING };
        systems.push((baseline.name().to_owned(), Box::new(move |point| baseline.put(point)), printed));
    }
    for (policy, printed) in [(QueuePolicy::ShardLru, &LRU), (QueuePolicy::Sieve, &SIEVE)] {
        if !options.baselines.is_empty() {
            let put =
                move |point: &Setup| point.clone().on_queues(QueueOptions::new(policy), point.pool.capacity_bytes);
            systems.push((policy.name().to_owned(), Box::new(put), printed));
        }
    }
    systems
}

/// A system's points: on YCSB A to E, then on Twitter's load.
struct Line {
    name: String,
    printed: &'static Printed,
    measured: Vec<Measured>,
}

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((1_000_000, 3_000_000), (20_000, 60_000));
    let share = YcsbShare { keys, requests, cache_percent: CACHE_PERCENT };
    let threads = options.scaled(THREADS, 4);
    let points: Result<Vec<_>, _> = WORKLOADS.iter().map(|name| share.point(name, threads, options)).collect();
    let mut points = points?;
    let twitter = fig15::sized(TWITTER, threads, CACHE_PERCENT, options)?;
    points.push(twitter.point(threads, CACHE_PERCENT, options));
    let mut sweep = Sweep::over(Places::named("load", WORKLOADS.into_iter().chain([TWITTER.0])));
    let systems = systems(options);
    for (name, put, _) in &systems {
        sweep.line(name.clone(), points.iter().map(put));
    }
    let lines = sweep.measure(options)?.into_lines();
    let lines: Vec<Line> =
        systems.into_iter().zip(lines).map(|((name, _, printed), measured)| Line { name, printed, measured }).collect();
    let (ycsb, of_twitter) = (0..WORKLOADS.len(), WORKLOADS.len()..WORKLOADS.len() + 1);
    let figures = vec![
        shares("Verbs by purpose, YCSB A to E", &lines, ycsb.clone(), verbs, |it| it.ycsb)
            .from("FORGE, section 2.2, Fig. 3a"),
        shares("Bytes by purpose, YCSB A to E", &lines, ycsb, bytes, |_| [None; 4]),
        shares("Verbs by purpose, Twitter's", &lines, of_twitter.clone(), verbs, |it| it.twitter)
            .from("FORGE, section 2.2, Fig. 3b"),
        shares("Bytes by purpose, Twitter's", &lines, of_twitter, bytes, |_| [None; 4]),
        housekeeping(&lines),
    ];
    Ok(Findings {
        what: format!(
            "{keys} keys of {BLOCK_OBJECT_BYTES} bytes, {requests} requests, of YCSB E a twentieth, since a scan is fifty GETs; and {}, in place of the paper's Twitter traces; {threads} threads, {CACHE_PERCENT} % cache. \
             The paper says neither which YCSB workload its figure shows nor whether traffic is verbs or bytes: all workloads are taken together here, and the printed shares stand beside verbs. \
             Its LRU and SIEVE are shard-lru and sieve-dm here. The SET after a miss counts as a request. Regrouping counts as eviction, as it must in the paper, which has no collection in \
             YCSB. Upkeep is leases and looking after other clients, which the paper does not have.",
            twitter.what_with_sizes(),
        ),
        figures,
    })
}

/// What a point posted for a purpose.
type Count = fn(&Measured, Purpose) -> u64;

fn verbs(measured: &Measured, purpose: Purpose) -> u64 {
    measured.traffic.of(purpose).verbs
}

fn bytes(measured: &Measured, purpose: Purpose) -> u64 {
    measured.traffic.of(purpose).bytes
}

/// The shares of every system's traffic on some of the loads together, by purpose.
fn shares(
    title: &str,
    lines: &[Line],
    loads: std::ops::Range<usize>,
    count: Count,
    printed: fn(&Printed) -> Shares,
) -> Figure {
    let places = Places::named("purpose", Purpose::ALL.map(Purpose::name));
    let series = lines.iter().map(|line| {
        let of = |purpose: Purpose| line.measured[loads.clone()].iter().map(|one| count(one, purpose)).sum::<u64>();
        let total: u64 = Purpose::ALL.into_iter().map(of).sum();
        let shares = Purpose::ALL.map(|purpose| of(purpose) as f64 * 100.0 / total.max(1) as f64);
        places.line(line.name.clone(), shares).beside(printed(line.printed))
    });
    places.figure(title, ("share", "%"), series)
}

/// Percent of every system's verbs that are for no request, on every load.
fn housekeeping(lines: &[Line]) -> Figure {
    let places = Places::named("load", WORKLOADS.into_iter().chain([TWITTER.0]));
    let share = |one: &Measured| {
        let total: u64 = Purpose::ALL.iter().map(|purpose| verbs(one, *purpose)).sum();
        100.0 - verbs(one, Purpose::Request) as f64 * 100.0 / total.max(1) as f64
    };
    let series = lines.iter().map(|line| places.line(line.name.clone(), line.measured.iter().map(share)));
    places.figure("Verbs that are for no request", ("share", "%"), series)
}
