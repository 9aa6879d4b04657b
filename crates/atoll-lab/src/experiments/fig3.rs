//! FORGE, Fig. 3a: where the traffic of a cache in the pool comes from.

use super::fig13::load;
use super::point::{Measured, measure_all};
use super::setup::Setup;
use super::versus::{self, Baseline};
use super::{Experiment, Options, shape};
use crate::load::ycsb;
use crate::{LabError, report};
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_fabric::Purpose;

const THREADS: u16 = 16;
const CACHE_PERCENT: u64 = 10;
const WORKLOADS: [&str; 5] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e"];

/// What the paper's section 2.2 prints of the systems that it compares with, in percent: requests,
/// hotness, eviction. The requests of SIEVE it does not print.
const OTHERS: [(&str, [Option<f64>; 3]); 3] = [
    ("LRU (paper)", [Some(13.4), Some(57.4), Some(29.2)]),
    ("SIEVE (paper)", [None, Some(37.7), Some(47.6)]),
    ("Ditto (paper)", [Some(36.1), Some(45.9), Some(18.0)]),
];

/// The systems with queues, and which of [`OTHERS`] the paper prints of each.
const QUEUES: [(QueuePolicy, usize); 2] = [(QueuePolicy::ShardLru, 0), (QueuePolicy::Sieve, 1)];

/// The experiment.
pub(super) struct Traffic;

impl Experiment for Traffic {
    fn name(&self) -> &'static str {
        "forge-fig3"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 3a: traffic by purpose, YCSB, 10 % cache, 16 threads"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests) = options.scaled((1_000_000, 3_000_000), (20_000, 60_000));
        let mut setups = Vec::new();
        for name in WORKLOADS {
            let load = load(name, keys, requests, options)?;
            let cache_bytes = keys * u64::from(ycsb::OBJECT_BYTES) * CACHE_PERCENT / 100;
            setups.push(Setup::new(load, THREADS, cache_bytes, ycsb::OBJECT_BYTES, options.seed));
        }
        let points: Vec<_> = setups.iter().map(|one| (one.clone(), ycsb::OBJECT_BYTES)).collect();
        setups.extend(versus::beside(&options.baselines, &points));
        let queues = if options.baselines.is_empty() { &[] } else { QUEUES.as_slice() };
        for (policy, _) in queues {
            setups.extend(points.iter().map(|(one, object_bytes)| {
                let bytes = one.pool.capacity_bytes;
                one.clone().on_queues(QueueOptions::new(*policy), bytes, *object_bytes)
            }));
        }
        let measured = measure_all(&setups, options.workers)?;
        let (forge, others) = measured.split_at(WORKLOADS.len());
        let (baselines, queued) = others.split_at(options.baselines.len() * WORKLOADS.len());
        let names = Purpose::ALL.map(Purpose::name);
        let figure = |title: &str, y: &str, of: &dyn Fn(&Measured, Purpose) -> u64| {
            let share = |(name, measured): (String, &Measured)| shares(name, measured, of);
            let named = |system: &str| WORKLOADS.map(|name| format!("{system} {name}"));
            let mut series: Vec<_> = named("forge").into_iter().zip(forge).map(share).collect();
            for (baseline, measured) in options.baselines.iter().zip(baselines.chunks(WORKLOADS.len())) {
                let lines = named(baseline.name()).into_iter().zip(measured).map(share);
                series.extend(
                    lines.map(|line| if *baseline == Baseline::Ditto { beside_printed(line, 2) } else { line }),
                );
            }
            for ((policy, printed), measured) in queues.iter().zip(queued.chunks(WORKLOADS.len())) {
                let lines = named(policy.name()).into_iter().zip(measured).map(share);
                series.extend(lines.map(|line| beside_printed(line, *printed)));
            }
            series.extend(OTHERS.iter().map(|(name, percents)| {
                let known =
                    percents.iter().enumerate().filter_map(|(place, percent)| Some((place as f64, (*percent)?)));
                shape::series(*name, known)
            }));
            report::Figure {
                title: title.to_owned(),
                x: shape::categories("purpose", names),
                y: shape::axis(y, "%"),
                series,
            }
        };
        let mut figures = vec![
            figure("Verbs by purpose", "share of verbs", &|measured, purpose| measured.traffic.of(purpose).verbs),
            figure("Bytes by purpose", "share of bytes", &|measured, purpose| measured.traffic.of(purpose).bytes),
            housekeeping("Housekeeping and hits", forge),
        ];
        for (baseline, measured) in options.baselines.iter().zip(baselines.chunks(WORKLOADS.len())) {
            figures.push(housekeeping(&format!("Housekeeping and hits of {}", baseline.title()), measured));
        }
        for ((policy, _), measured) in queues.iter().zip(queued.chunks(WORKLOADS.len())) {
            figures.push(housekeeping(&format!("Housekeeping and hits of {}", policy.name()), measured));
        }
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {} bytes, {requests} requests, of YCSB E a twentieth, since a scan is fifty GETs. The paper says neither which YCSB workload its Fig. 3a shows nor \
                 whether traffic is verbs or bytes: all workloads and both are here. It prints the shares of LRU, SIEVE and Ditto, whose housekeeping is 86.6 %, \
                 85.3 % and 63.9 %; FORGE's own share is in the picture only. Of Ditto, LRU and SIEVE the printed shares stand beside ours on every workload: ours are ditto, \
                 shard-lru and sieve-dm; S3FIFO-DM and GLCache-DM are not in the paper's figure. Regrouping counts as eviction, as it must in the paper, which has no collection in \
                 YCSB; the SET after a miss counts as a request. Upkeep is leases and looking after other clients, which the paper does not have.",
                ycsb::OBJECT_BYTES,
            ),
            figures,
        })
    }
}

/// The shares of a system's traffic that the paper prints, which may be of another workload.
fn beside_printed(mut line: report::Series, other: usize) -> report::Series {
    let (_, printed) = OTHERS[other];
    line.points.iter_mut().zip(printed).for_each(|(point, printed)| point.paper = printed);
    line
}

fn shares(name: String, measured: &Measured, of: &dyn Fn(&Measured, Purpose) -> u64) -> report::Series {
    let total: u64 = Purpose::ALL.iter().map(|purpose| of(measured, *purpose)).sum();
    let share = |purpose: Purpose| of(measured, purpose) as f64 * 100.0 / total.max(1) as f64;
    shape::series(name, Purpose::ALL.iter().map(|purpose| (*purpose as u8 as f64, share(*purpose))))
}

/// Everything that is no request, in percent.
fn housekeeping(title: &str, measured: &[Measured]) -> report::Figure {
    let share = |of: &dyn Fn(Purpose) -> u64| {
        let total: u64 = Purpose::ALL.iter().map(|purpose| of(*purpose)).sum();
        100.0 - of(Purpose::Request) as f64 * 100.0 / total.max(1) as f64
    };
    let verbs = measured.iter().map(|each| share(&|purpose| each.traffic.of(purpose).verbs)).enumerate();
    let bytes = measured.iter().map(|each| share(&|purpose| each.traffic.of(purpose).bytes)).enumerate();
    let hits = measured.iter().map(Measured::hit_percent).enumerate();
    report::Figure {
        title: title.to_owned(),
        x: shape::categories("workload", WORKLOADS),
        y: shape::axis("share", "%"),
        series: vec![
            shape::series("housekeeping, verbs", verbs.map(|(place, share)| (place as f64, share))),
            shape::series("housekeeping, bytes", bytes.map(|(place, share)| (place as f64, share))),
            shape::series("hit ratio", hits.map(|(place, share)| (place as f64, share))),
        ],
    }
}
