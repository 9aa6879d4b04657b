//! Ditto, Fig. 15: what more cores at the memory node give CliqueMap.

use super::redis::Cluster;
use super::testbed::{paper, roomy_bytes, setup, without_misses};
use crate::bench::loads::ycsb;
use crate::bench::measured::{Measured, measure_all};
use crate::bench::processor::{Processor, ServerCosts};
use crate::bench::setup::Setup;
use crate::bench::sweep::{Sweep, Swept};
use crate::bench::{Findings, Options};
use atoll_baselines::cliquemap::Policy;
use atoll_lab::LabError;
use atoll_lab::load::ycsb::OBJECT_BYTES;
use atoll_lab::report::places::Places;
use atoll_lab::report::{Figure, Point};

/// Workloads, and what section 5.3 prints of Ditto's throughput in Mops at 256 clients.
const WORKLOADS: [(&str, f64); 2] = [("ycsb-a", 10.5), ("ycsb-c", 13.2)];
const CORES: [usize; 8] = [1, 2, 4, 8, 12, 16, 24, 32];
const POLICIES: [Policy; 2] = [Policy::Lru, Policy::Lfu];
const CLIENTS: u16 = 256;
const REDIS_KEYS: u64 = 10_000_000;
/// How long the model of Redis runs at each point.
const REDIS_NS: u64 = 100_000_000;
/// Section 5.3, of YCSB A: Ditto's throughput over CliqueMap's, with the cores that the figure has.
const TIMES_ON_A: f64 = 3.3;
/// Section 5.3, of YCSB C: CliqueMap needs "more than 20 additional cores" for a throughput like
/// Ditto's.
const ADDITIONAL_CORES_ON_C: f64 = 20.0;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
    let (clients, cores) = options.scaled((CLIENTS, CORES.to_vec()), (16, vec![1, 4]));
    let bytes = roomy_bytes(keys, clients);
    let (mut alone, mut redis) = (Vec::new(), Vec::new());
    let mut sweep =
        Sweep::over(Places::numbers("cores at the memory node", "", cores.iter().map(|cores| *cores as u32)));
    for (name, _) in WORKLOADS {
        let load = ycsb(name, keys, requests, options)?;
        let ditto = without_misses(setup(load, &paper("lru+lfu"), clients, bytes, options.seed));
        for policy in POLICIES {
            let costs = ServerCosts::measured(policy);
            let cliquemap = ditto.clone().on_cliquemap(policy, bytes);
            let with =
                |cores: &usize| Setup { processor: Some(Processor { cores: *cores, costs }), ..cliquemap.clone() };
            sweep.line(policy.engine_name(), cores.iter().map(with));
        }
        alone.push(ditto);
        let load = ycsb(name, options.scaled(REDIS_KEYS, keys), 1 << 40, options)?;
        let mops = |cores: &usize| Cluster::new(&*load, *cores as u16, clients, 1).serve(REDIS_NS).mops;
        redis.push(cores.iter().map(mops).collect::<Vec<f64>>());
    }
    let ditto = measure_all(&alone, options)?;
    let cliquemap = sweep.measure(options)?;
    let [lru, lfu] = POLICIES.map(ServerCosts::measured);
    Ok(Findings {
        what: format!(
            "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million; {requests} requests. The server of CliqueMap takes {} ns for a SET and {} ns for an access that a client tells \
             it of with LRU, {} and {} ns with LFU, and as long as a client for receiving and answering a message; which of them the paper's figure has is not said, and no cost is printed. \
             That 21 cores reach Ditto's 13.2 Mops on YCSB C would be {:.0} ns of a core for each access. Here cores share one queue and never wait for each other: locks and the contention \
             for the memory node's caches, which the paper's server has, are not in the model, nor are more keys than caches hold. Ditto does not depend on cores and was run once. Redis \
             is a model (ditto/redis.rs) of a process for each core, over 10 million keys; the paper's text prints no number of it, but that the hottest shard bounds it.",
            lru.change_ns,
            lru.access_ns,
            lfu.change_ns,
            lfu.access_ns,
            (1.0 + ADDITIONAL_CORES_ON_C) * 1e3 / WORKLOADS[1].1,
        ),
        figures: figures(&cores, &ditto, &cliquemap.split(POLICIES.len()), &redis, options.quick),
    })
}

/// The figures of Ditto and, with all numbers of cores, of CliqueMap and Redis, each by workload.
fn figures(
    cores: &[usize],
    ditto: &[Measured],
    cliquemaps: &[Swept<Measured>],
    redis: &[Vec<f64>],
    quick: bool,
) -> Vec<Figure> {
    let (mut throughput, mut ratios) = (Vec::new(), Vec::new());
    let workloads = Places::named("workload", WORKLOADS.map(|(name, _)| name));
    let mut additional = POLICIES.map(|policy| workloads.line(policy.engine_name(), []));
    let places = cliquemaps[0].places();
    for (workload, (name, printed)) in WORKLOADS.into_iter().enumerate() {
        let (ditto, cliquemap) = (ditto[workload].mops(), &cliquemaps[workload]);
        let flat = places.line(format!("{name}, ditto"), cores.iter().map(|_| ditto));
        let places_printed = (1..=cores.len()).map(|place| (!quick && place == cores.len()).then_some(printed));
        throughput.push(flat.beside(places_printed));
        throughput.push(places.line(format!("{name}, redis, model"), redis[workload].iter().copied()));
        for (policy, additional) in additional.iter_mut().enumerate() {
            let line = format!("{name}, {}", cliquemap.names()[policy]);
            let mops = cliquemap.lines()[policy].iter().map(Measured::mops);
            let times: Vec<f64> = mops.clone().map(|mops| ditto / mops).collect();
            throughput.push(places.line(line.clone(), mops));
            let mut ratio = places.line(line, times.iter().copied());
            let is_printed = workload == 0 && !quick;
            ratio.points.last_mut().expect("there are cores").paper = is_printed.then_some(TIMES_ON_A);
            ratios.push(ratio);
            let paper = (workload == 1 && !quick).then_some(ADDITIONAL_CORES_ON_C);
            let enough = times.iter().position(|times| *times <= 1.0).map(|place| cores[place] - 1);
            additional.points.extend(enough.map(|y| Point {
                x: workload as f64,
                y: y as f64,
                paper,
                ..Point::default()
            }));
        }
    }
    vec![
        places.figure("Throughput", ("throughput", "Mops/s"), throughput),
        places.factors("Throughput of Ditto over CliqueMap", "times higher", ratios),
        workloads.figure(
            "Additional cores with which CliqueMap has Ditto's throughput, if any of these numbers is enough",
            ("cores", ""),
            additional,
        ),
    ]
}
