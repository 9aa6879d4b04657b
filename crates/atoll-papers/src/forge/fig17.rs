//! FORGE, Fig. 17: how much the size of groups and the time of a miss matter.

use super::cache_sizes::{CACHE_PERCENTS, threads};
use crate::bench::loads::{Known, fixed};
use crate::bench::setup::Setup;
use crate::bench::sizes::pool;
use crate::bench::sweep::{METRICS, Sweep};
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::{Places, retitled};

const CACHE_PERCENT: u64 = 20;
/// Of the traces that are here those with the highest and the lowest hit ratio at this cache size.
const TRACES: [&str; 2] = ["scarab_recs", "msn_fs"];
const GROUP_OBJECTS: [u32; 4] = [16, 32, 64, 128];
const PENALTIES_US: [u64; 3] = [0, 100, 500];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let threads = threads(options);
    let sizes = Places::named("objects of a group", GROUP_OBJECTS.map(|objects| objects.to_string()));
    let mut by_size = Sweep::over(sizes);
    let mut by_penalty = Sweep::over(Places::named("miss penalty", PENALTIES_US.map(|us| format!("{us} us"))));
    for name in TRACES {
        let load = Known::of(fixed(name, u64::MAX, threads, CACHE_PERCENTS[0], options)?);
        let base = load.point(threads, CACHE_PERCENT, options);
        let of_groups = |objects| pool(load.bytes(CACHE_PERCENT), base.object_bytes, threads, objects);
        by_size.line(name, GROUP_OBJECTS.map(|objects| Setup { pool: of_groups(objects), ..base.clone() }));
        by_penalty.line(name, PENALTIES_US.map(|us| Setup { miss_penalty_ns: us * 1000, ..base.clone() }));
    }
    let mut figures = Vec::new();
    for (sweep, by) in [(by_size, "group size"), (by_penalty, "miss penalty")] {
        figures.extend(retitled(sweep.measure(options)?.figures(&METRICS), |of| format!("{of} by {by}")));
    }
    Ok(Findings {
        what: "Traces as in forge-fig14, in place of the paper's CPhy and IBM: one with many hits and one with few. Groups have at most so many objects, and chunks are \
               the power of two below what these need, so that they hold a little fewer. The paper's text prints no absolute number of this figure."
            .to_owned(),
        figures,
    })
}
