//! Ditto, Fig. 15: what more cores at the memory node give CliqueMap.

use super::super::point::{Measured, measure_all};
use super::super::processor::{Processor, ServerCosts};
use super::super::setup::Setup;
use super::super::{Experiment, Options, shape};
use super::{paper, roomy_bytes, setup, without_misses, ycsb};
use crate::load::ycsb::OBJECT_BYTES;
use crate::{LabError, report};
use atoll_baselines::cliquemap::Policy;

/// Workloads, and what section 5.3 prints of Ditto's throughput in Mops at 256 clients.
const WORKLOADS: [(&str, f64); 2] = [("ycsb-a", 10.5), ("ycsb-c", 13.2)];
const CORES: [usize; 8] = [1, 2, 4, 8, 12, 16, 24, 32];
const POLICIES: [Policy; 2] = [Policy::Lru, Policy::Lfu];
const CLIENTS: u16 = 256;
/// Section 5.3, of YCSB A: Ditto's throughput over CliqueMap's, with the cores that the figure has.
const TIMES_ON_A: f64 = 3.3;
/// Section 5.3, of YCSB C: CliqueMap needs "more than 20 additional cores" for a throughput like
/// Ditto's.
const ADDITIONAL_CORES_ON_C: f64 = 20.0;

/// The experiment.
pub(crate) struct Cores;

impl Experiment for Cores {
    fn name(&self) -> &'static str {
        "ditto-fig15"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 15: CliqueMap with 1 to 32 cores at the memory node beside Ditto, YCSB A and C, 256 clients, no misses"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let (keys, requests) = options.scaled((300_000, 400_000), (2_000, 8_000));
        let (clients, cores) = options.scaled((CLIENTS, CORES.to_vec()), (16, vec![1, 4]));
        let mut setups = Vec::new();
        for (name, _) in WORKLOADS {
            let bytes = roomy_bytes(keys, clients);
            let ditto = setup(ycsb(name, keys, requests, options)?, &paper("lru+lfu"), clients, bytes, options.seed);
            let ditto = without_misses(ditto);
            setups.push(ditto.clone());
            for policy in POLICIES {
                let cliquemap = ditto.clone().on_cliquemap(policy, bytes, OBJECT_BYTES);
                setups.extend(cores.iter().map(|cores| {
                    let processor = Processor { cores: *cores, ..cliquemap.processor };
                    Setup { processor, ..cliquemap.clone() }
                }));
            }
        }
        let measured = measure_all(&setups, options.workers)?;
        let points = measured.chunks(1 + POLICIES.len() * cores.len());
        let lines: Vec<Line<'_>> = points.map(|line| (&line[0], line[1..].chunks(cores.len()).collect())).collect();
        let [lru, lfu] = POLICIES.map(ServerCosts::measured);
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million; {requests} requests. The server of CliqueMap takes {} ns for a SET and {} ns for an access that a client tells \
                 it of with LRU, {} and {} ns with LFU, and as long as a client for receiving and answering a message; which of them the paper's figure has is not said, and no cost is printed. \
                 That 21 cores reach Ditto's 13.2 Mops on YCSB C would be {:.0} ns of a core for each access. Here cores share one queue and never wait for each other: locks and the contention \
                 for the memory node's caches, which the paper's server has, are not in the model, nor are more keys than caches hold. Ditto does not depend on cores and was run once. Redis, which \
                 the paper's figure has too, is not here: its text prints no number of it.",
                lru.change_ns,
                lru.access_ns,
                lfu.change_ns,
                lfu.access_ns,
                (1.0 + ADDITIONAL_CORES_ON_C) * 1e3 / WORKLOADS[1].1,
            ),
            figures: figures(&cores, &lines, options.quick),
        })
    }
}

/// Of a workload, Ditto, and CliqueMap by policy and cores.
type Line<'m> = (&'m Measured, Vec<&'m [Measured]>);

fn figures(cores: &[usize], lines: &[Line<'_>], quick: bool) -> Vec<report::Figure> {
    let x = || shape::axis("cores at the memory node", "");
    let xs = || cores.iter().map(|cores| *cores as f64);
    let (mut throughput, mut ratios) = (Vec::new(), Vec::new());
    let mut additional =
        POLICIES.map(|policy| report::Series { name: policy.engine_name().to_owned(), points: vec![] });
    for (workload, ((name, printed), (ditto, cliquemaps))) in WORKLOADS.into_iter().zip(lines).enumerate() {
        let flat = xs().map(|x| report::Point { x, y: ditto.mops(), paper: (!quick).then_some(printed) });
        throughput.push(report::Series { name: format!("{name}, ditto"), points: flat.collect() });
        for ((policy, cliquemap), additional) in POLICIES.into_iter().zip(cliquemaps).zip(&mut additional) {
            let line = format!("{name}, {}", policy.engine_name());
            throughput.push(shape::series(line.clone(), xs().zip(cliquemap.iter().map(Measured::mops))));
            let times: Vec<f64> = cliquemap.iter().map(|each| ditto.mops() / each.mops()).collect();
            let mut ratio = shape::series(line, xs().zip(times.iter().copied()));
            let is_printed = workload == 0 && !quick;
            ratio.points.last_mut().expect("there are cores").paper = is_printed.then_some(TIMES_ON_A);
            ratios.push(ratio);
            let paper = (workload == 1 && !quick).then_some(ADDITIONAL_CORES_ON_C);
            let enough = times.iter().position(|times| *times <= 1.0).map(|place| cores[place] - 1);
            additional.points.extend(enough.map(|y| report::Point { x: workload as f64, y: y as f64, paper }));
        }
    }
    vec![
        report::Figure {
            title: "Throughput".to_owned(),
            x: x(),
            y: shape::axis("throughput", "Mops/s"),
            series: throughput,
        },
        report::Figure {
            title: "Throughput of Ditto over CliqueMap".to_owned(),
            x: x(),
            y: shape::axis("times higher", ""),
            series: ratios,
        },
        report::Figure {
            title: "Additional cores with which CliqueMap has Ditto's throughput, if any of these numbers is enough"
                .to_owned(),
            x: shape::categories("workload", WORKLOADS.map(|(name, _)| name)),
            y: shape::axis("cores", ""),
            series: additional.into(),
        },
    ]
}
