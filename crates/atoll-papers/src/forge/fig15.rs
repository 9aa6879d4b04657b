//! FORGE, Fig. 15: loads with objects of real sizes.

use super::cache_sizes::{CACHE_PERCENTS, PARTS_TOLD, figures, threads};
use super::versus::Printed;
use crate::bench::loads::{Known, real};
use crate::bench::tenants::{grouped, populated};
use crate::bench::{Baseline, Findings, Options};
use atoll_lab::LabError;

/// A full run asks for the first of so many parts of each load.
const PARTS: u64 = 9;
/// Clusters of Twitter's whose objects are small, of middle size and large; and a block trace with
/// its lengths. The most requests of a tenant.
const LOADS: [(&str, u64); 4] =
    [("twitter-19", 600_000), ("twitter-54", 400_000), LARGE, ("cloudphysics_io", u64::MAX)];
/// The load with large objects, as the paper's Meta workload has them.
pub(super) const LARGE: (&str, u64) = ("twitter-35", 300_000);

/// Over GLCache-DM, its best baseline.
const PRINTED: [Printed; 1] = [Printed {
    over: &[Baseline::Glcache],
    source: "FORGE, section 6.4",
    ranges: [Some((1.61, 1.93)), Some((1.43, 2.00)), Some((1.67, 1.95)), Some((1.02, 1.09))],
    means: [None; 4],
}];

/// A load with its own sizes, for this many threads that share a cache of this many percent.
pub(super) fn sized(
    (name, requests_max): (&str, u64),
    threads: u16,
    percent: u64,
    options: &Options,
) -> Result<Known, LabError> {
    let load = real(name, options.scaled(requests_max, 40_000.min(requests_max)), options)?;
    Ok(Known::of(options.scaled(grouped as fn(_, _, _) -> _, populated)(load, threads, percent)))
}

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let mut loads = Vec::new();
    for load in &LOADS[..options.scaled(LOADS.len(), 2)] {
        let known = sized(*load, threads(options), CACHE_PERCENTS[0], options)?;
        loads.push((load.0, known.first_of(PARTS, options)));
    }
    let told: Vec<String> = loads.iter().map(|(_, load)| load.what_with_sizes()).collect();
    Ok(Findings {
        what: format!(
            "{}. The paper has traces of Meta and Twitter, which are not here: these loads have the published statistics of clusters of Twitter's, \
             and one is a block trace with its lengths. A load of few keys is run by several tenants, each with keys of its own. {PARTS_TOLD} The paper's text prints no absolute number of this figure. Hit ratios are of GETs. Ditto and S3FIFO-DM cut blocks of 32 size classes, where the paper's enhanced ones have 24.",
            told.join("; "),
        ),
        figures: figures(&loads, &PRINTED, options)?,
    })
}
