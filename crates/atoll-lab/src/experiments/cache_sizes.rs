//! Loads over the sizes of the cache, on FORGE and its baselines: what FORGE's Fig. 14 and 15 have
//! in common.

use super::point::measure_all;
use super::setup::{Footprint, Setup};
use super::versus::{self, Baseline, Printed};
use super::{Options, shape};
use crate::load::Load;
use crate::{LabError, report};
use std::sync::Arc;

pub(super) const THREADS: u16 = 128;
/// Of a load's footprint.
pub(super) const CACHE_PERCENTS: [u64; 3] = [5, 10, 20];

/// Threads of a run.
pub(super) fn threads(options: &Options) -> u16 {
    options.scaled(THREADS, 4)
}

/// Runs each load, which has a name, with caches of all sizes: a line a load and system. `printed`
/// is what the paper prints of FORGE over each baseline.
pub(super) fn figures(
    loads: &[(&str, Arc<dyn Load>)],
    printed: fn(Baseline) -> Printed,
    options: &Options,
) -> Result<Vec<report::Figure>, LabError> {
    let mut points = Vec::new();
    for (_, load) in loads {
        let footprint = Footprint::of(&**load);
        for percent in CACHE_PERCENTS {
            let cache_bytes = footprint.bytes * percent / 100;
            let object_bytes = footprint.object_bytes();
            let forge = Setup::new(load.clone(), threads(options), cache_bytes, object_bytes, options.seed);
            points.push((forge, object_bytes));
        }
    }
    let mut setups: Vec<Setup> = points.iter().map(|(forge, _)| forge.clone()).collect();
    setups.extend(versus::beside(&options.baselines, &points));
    let measured = measure_all(&setups, options.workers)?;
    let lines: Vec<_> = measured.chunks(CACHE_PERCENTS.len()).collect();
    let names: Vec<String> = loads.iter().map(|(name, _)| (*name).to_owned()).collect();
    let x = shape::categories("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %")));
    let xs = [0.0, 1.0, 2.0];
    let mut figures = shape::figures(&x, &xs, &versus::names(&options.baselines, &names), &lines);
    figures.extend(versus::figures(&options.baselines, &x, &xs, &names, &lines, printed));
    Ok(figures)
}
