//! FORGE, Fig. 16: more memory nodes, more threads.

use super::fig15::real;
use super::point::{Measured, measure_all};
use super::setup::{Footprint, Setup};
use super::tenants::populated;
use super::versus::{self, Baseline, Printed};
use super::{Experiment, Options, shape};
use crate::{LabError, report};

const CACHE_PERCENT: u64 = 20;
const THREADS: [u16; 3] = [100, 200, 300];
const MEMORY_NODES: [u32; 3] = [1, 2, 3];
/// Of the loads of Fig. 15 the one with large objects, as the paper's Meta workload has them;
/// requests of a tenant.
const LOAD: (&str, u64) = ("twitter-35", 1_500_000);

/// Section 6.5: over GLCache-DM, its best baseline.
fn printed(baseline: Baseline) -> Printed {
    match baseline {
        Baseline::Glcache => [Some((1.54, 2.02)), None, None, None],
        Baseline::Ditto | Baseline::S3Fifo => Printed::default(),
    }
}

/// The experiment.
pub(super) struct MemoryNodes;

impl Experiment for MemoryNodes {
    fn name(&self) -> &'static str {
        "forge-fig16"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 16: 1 to 3 memory nodes, 100 to 300 threads, objects of real sizes, 20 % cache"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let threads = options.scaled(THREADS, [2, 4, 6]);
        let load = populated(real(LOAD.0, LOAD.1, options)?, threads[2], CACHE_PERCENT);
        let footprint = Footprint::of(&*load);
        let (bytes, object_bytes) = (footprint.bytes * CACHE_PERCENT / 100, footprint.object_bytes());
        let mut points = Vec::new();
        for nodes in MEMORY_NODES {
            for threads in threads {
                let one = Setup::new(load.clone(), threads, bytes, object_bytes, options.seed);
                let forge = Setup { pool: one.pool.clone().spread(nodes), ..one };
                points.push((forge, object_bytes));
            }
        }
        let mut setups: Vec<Setup> = points.iter().map(|(forge, _)| forge.clone()).collect();
        setups.extend(versus::beside(&options.baselines, &points));
        let measured = measure_all(&setups, options.workers)?;
        let lines: Vec<&[Measured]> = measured.chunks(threads.len()).collect();
        let forge_names =
            MEMORY_NODES.map(|nodes| if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") });
        let names = versus::names(&options.baselines, &forge_names);
        let x = shape::categories("threads", threads.map(|threads| threads.to_string()));
        let mut figures = shape::figures(&x, &[0.0, 1.0, 2.0], &names, &lines);
        let gain = |measured: &[Measured], one: &[Measured]| -> Vec<(f64, f64)> {
            let over_one = measured.iter().zip(one).map(|(more, one)| more.mops() / one.mops());
            over_one.enumerate().map(|(place, ratio)| (place as f64, ratio)).collect()
        };
        figures.push(report::Figure {
            title: "Throughput over that of one memory node".to_owned(),
            x: x.clone(),
            y: shape::axis("ratio", ""),
            series: names
                .iter()
                .zip(lines.iter().enumerate())
                .map(|(name, (line, measured))| {
                    // Each system's own first line is the one of a single node.
                    let one = lines[line / MEMORY_NODES.len() * MEMORY_NODES.len()];
                    shape::series(name.clone(), gain(measured, one))
                })
                .collect(),
        });
        figures.extend(versus::figures(&options.baselines, &x, &[0.0, 1.0, 2.0], &forge_names, &lines, printed));
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}: {} requests for {} keys of {object_bytes} bytes in the mean, in place of the paper's Meta workload. The cache has the same size on one node and on three. \
                 The paper's text prints no absolute number of this figure, and has no Ditto in it, whose prototype knows one memory node; ours knows several. The paper's threads share cores beyond 156 (Hyper-Threading); these do not. \
                 More threads gain nothing here: the more share a cache of this size, the smaller are its chunks, and \
                 whoever empties one READs what all clients protect, 64 bytes each.",
                load.what(),
                load.requests(),
                footprint.objects,
            ),
            figures,
        })
    }
}
