//! FORGE, Fig. 3a: where the traffic of a cache in the pool comes from.

use super::fig13::WORKLOADS;
use crate::bench::loads::YcsbShare;
use crate::bench::measured::Measured;
use crate::bench::sweep::Sweep;
use crate::bench::{Baseline, Findings, Options};
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_fabric::Purpose;
use atoll_lab::LabError;
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::places::Places;
use atoll_lab::report::{Figure, Series};

const THREADS: u16 = 16;
const CACHE_PERCENT: u64 = 10;

/// What the paper's section 2.2 prints of the systems that it compares with, in percent: requests,
/// hotness, eviction. It does not print SIEVE's requests.
const OTHERS: [(&str, [Option<f64>; 3]); 3] = [
    ("LRU (paper)", [Some(13.4), Some(57.4), Some(29.2)]),
    ("SIEVE (paper)", [None, Some(37.7), Some(47.6)]),
    ("Ditto (paper)", [Some(36.1), Some(45.9), Some(18.0)]),
];

/// The systems with queues, and which of [`OTHERS`] the paper prints of each.
const QUEUES: [(QueuePolicy, usize); 2] = [(QueuePolicy::ShardLru, 0), (QueuePolicy::Sieve, 1)];

/// Measures the figure.
/// A system's points on all workloads.
struct System {
    /// What its lines are called.
    name: &'static str,
    /// What its figures are called.
    title: String,
    /// Which of [`OTHERS`] the paper prints of it.
    printed: Option<usize>,
    measured: Vec<Measured>,
}

pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((1_000_000, 3_000_000), (20_000, 60_000));
    let share = YcsbShare { keys, requests, cache_percent: CACHE_PERCENT };
    let forge: Result<Vec<_>, _> = WORKLOADS.iter().map(|name| share.point(name, THREADS, options)).collect();
    let forge = forge?;
    let mut systems = vec![("forge", String::new(), None)];
    let mut sweep = Sweep::over(Places::named("workload", WORKLOADS));
    sweep.line("forge", forge.iter().cloned());
    for baseline in &options.baselines {
        let title = format!(" of {}", baseline.title());
        systems.push((baseline.name(), title, (*baseline == Baseline::Ditto).then_some(2)));
        sweep.line(baseline.name(), forge.iter().map(|point| baseline.put(point)));
    }
    for (policy, printed) in if options.baselines.is_empty() { &[] } else { QUEUES.as_slice() } {
        systems.push((policy.name(), format!(" of {}", policy.name()), Some(*printed)));
        let queues = QueueOptions::new(*policy);
        sweep.line(policy.name(), forge.iter().map(|point| point.clone().on_queues(queues, point.pool.capacity_bytes)));
    }
    let lines = sweep.measure(options)?.into_lines();
    let named = systems.into_iter().zip(lines);
    let systems: Vec<System> =
        named.map(|((name, title, printed), measured)| System { name, title, printed, measured }).collect();
    let mut figures = vec![
        shares("Verbs by purpose", "share of verbs", &systems, |measured, purpose| measured.traffic.of(purpose).verbs),
        shares("Bytes by purpose", "share of bytes", &systems, |measured, purpose| measured.traffic.of(purpose).bytes),
    ];
    figures.extend(systems.iter().map(housekeeping));
    Ok(Findings {
        what: format!(
            "{keys} keys of {OBJECT_BYTES} bytes, {requests} requests, of YCSB E a twentieth, since a scan is fifty GETs. The paper says neither which YCSB workload its Fig. 3a shows nor \
             whether traffic is verbs or bytes: all workloads and both are here. It prints the shares of LRU, SIEVE and Ditto, whose housekeeping is 86.6 %, \
             85.3 % and 63.9 %; FORGE's own share is in the picture only. Of Ditto, LRU and SIEVE the printed shares stand beside ours on every workload: ours are ditto, \
             shard-lru and sieve-dm; S3FIFO-DM and GLCache-DM are not in the paper's figure. Regrouping counts as eviction, as it must in the paper, which has no collection in \
             YCSB; the SET after a miss counts as a request. Upkeep is leases and looking after other clients, which the paper does not have.",
        ),
        figures,
    })
}

/// What a point posted for a purpose.
type Count = fn(&Measured, Purpose) -> u64;

/// The shares of every system's traffic, by purpose. The paper's may be of another workload.
fn shares(title: &str, y: &str, systems: &[System], count: Count) -> Figure {
    let places = Places::named("purpose", Purpose::ALL.map(Purpose::name));
    let mut series = Vec::new();
    for System { name, printed, measured, .. } in systems {
        let printed = printed.map_or([None; 3], |other| OTHERS[other].1);
        series.extend(WORKLOADS.iter().zip(measured).map(|(workload, measured)| {
            let shares = Purpose::ALL.map(|purpose| percent(measured, purpose, count));
            places.line(format!("{name} {workload}"), shares).beside(printed)
        }));
    }
    series.extend(OTHERS.iter().map(|(name, percents)| {
        let mut line: Series = places.line(*name, percents.map(Option::unwrap_or_default));
        let mut percents = percents.iter();
        line.points.retain(|_| percents.next().is_some_and(Option::is_some));
        line
    }));
    places.figure(title, (y, "%"), series)
}

/// Percent of a point's traffic that is of a purpose.
fn percent(measured: &Measured, purpose: Purpose, count: Count) -> f64 {
    let total: u64 = Purpose::ALL.iter().map(|purpose| count(measured, *purpose)).sum();
    count(measured, purpose) as f64 * 100.0 / total.max(1) as f64
}

/// Everything that is no request, in percent.
fn housekeeping(System { title, measured, .. }: &System) -> Figure {
    let places = Places::named("workload", WORKLOADS);
    let line = |name: &str, of: &dyn Fn(&Measured) -> f64| places.line(name, measured.iter().map(of));
    let besides = |count: Count| move |one: &Measured| 100.0 - percent(one, Purpose::Request, count);
    places.figure(
        format!("Housekeeping and hits{title}"),
        ("share", "%"),
        [
            line("housekeeping, verbs", &besides(|one, purpose| one.traffic.of(purpose).verbs)),
            line("housekeeping, bytes", &besides(|one, purpose| one.traffic.of(purpose).bytes)),
            line("hit ratio", &Measured::hit_percent),
        ],
    )
}
