//! FORGE, Fig. 17: how much the size of groups and the time of a miss matter.

use super::cache_sizes::threads;
use super::fig14::fixed;
use super::point::measure_all;
use super::setup::{Footprint, Setup, pool};
use super::{Experiment, Options, shape};
use crate::{LabError, report};

const CACHE_PERCENT: u64 = 20;
/// Of the traces that are here those with the highest and the lowest hit ratio at this cache size.
const TRACES: [(&str, u64); 2] = [("scarab_recs", u64::MAX), ("msn_fs", u64::MAX)];
const GROUP_OBJECTS: [u32; 4] = [16, 32, 64, 128];
const PENALTIES_US: [u64; 3] = [0, 100, 500];

/// The experiment.
pub(super) struct Sensitivity;

impl Experiment for Sensitivity {
    fn name(&self) -> &'static str {
        "forge-fig17"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 17: group size, and miss penalties of 100 and 500 us, 20 % cache, 128 threads"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let threads = threads(options);
        let mut setups = Vec::new();
        for (name, requests_max) in TRACES {
            let load = fixed(name, requests_max, threads, options)?;
            let footprint = Footprint::of(&*load);
            let (bytes, object_bytes) = (footprint.bytes * CACHE_PERCENT / 100, footprint.object_bytes());
            let base = Setup::new(load, threads, bytes, object_bytes, options.seed);
            for objects in GROUP_OBJECTS {
                setups.push(Setup { pool: pool(bytes, object_bytes, threads, objects), ..base.clone() });
            }
            setups.extend(PENALTIES_US.map(|us| Setup { miss_penalty_ns: us * 1000, ..base.clone() }));
        }
        let measured = measure_all(&setups, options.workers)?;
        let each = GROUP_OBJECTS.len() + PENALTIES_US.len();
        let (sizes, penalties): (Vec<_>, Vec<_>) =
            measured.chunks(each).map(|measured| measured.split_at(GROUP_OBJECTS.len())).unzip();
        let names = TRACES.map(|(name, _)| name.to_owned());
        let mut figures = Vec::new();
        let places = |count: usize| (0..count).map(|place| place as f64).collect::<Vec<f64>>();
        let by_size = shape::categories("objects of a group", GROUP_OBJECTS.map(|objects| objects.to_string()));
        for mut figure in shape::figures(&by_size, &places(GROUP_OBJECTS.len()), &names, &sizes) {
            figure.title += " by group size";
            figures.push(figure);
        }
        let by_penalty = shape::categories("miss penalty", PENALTIES_US.map(|us| format!("{us} us")));
        for mut figure in shape::figures(&by_penalty, &places(PENALTIES_US.len()), &names, &penalties) {
            figure.title += " by miss penalty";
            figures.push(figure);
        }
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: "Traces as in forge-fig14, in place of the paper's CPhy and IBM: one with many hits and one with few. Groups have at most so many objects, and chunks are \
                   the power of two below what these need, so that they hold a little fewer. The paper's text prints no absolute number of this figure."
                .to_owned(),
            figures,
        })
    }
}
