//! Loads over the sizes of the cache, on FORGE and its baselines: what FORGE's Fig. 14 and 15 have
//! in common.

use super::versus::{self, Printed};
use crate::bench::Options;
use crate::bench::loads::Known;
use crate::bench::sweep::Sweep;
use atoll_lab::LabError;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;

/// Percent of a load's footprint.
pub(super) const CACHE_PERCENTS: [u64; 3] = [5, 10, 20];

/// A full run asks for the first of several parts of each load. Full groups for 128 threads in the
/// smallest cache need so many keys that whole loads have millions of requests. What that means,
/// for people.
pub(super) const PARTS_TOLD: &str = "Of a part of a load, the keys and the cache's share are those of the whole load.";

/// Threads of a run.
pub(super) fn threads(options: &Options) -> u16 {
    options.scaled(128, 4)
}

/// Runs each load, which has a name, with caches of all sizes: a line a load and system. `printed`
/// is what the paper prints of FORGE.
pub(super) fn figures(
    loads: &[(&str, Known)],
    printed: &'static [Printed],
    options: &Options,
) -> Result<Vec<Figure>, LabError> {
    let mut sweep = Sweep::over(Places::named("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %"))));
    for (name, load) in loads {
        sweep.line(*name, CACHE_PERCENTS.map(|percent| load.point(threads(options), percent, options)));
    }
    versus::measure(sweep, printed, options).map(|versus| versus.figures())
}
