//! Loads over the sizes of the cache, on FORGE and on Ditto: what FORGE's Fig. 14 and 15 have in common.

use super::point::measure_all;
use super::setup::{Footprint, Setup};
use super::versus::{self, Printed};
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

/// Runs each load, which has a name, with caches of all sizes: a line a load and system. `printed` is what the paper prints of FORGE over Ditto.
pub(super) fn figures(
    loads: &[(&str, Arc<dyn Load>)],
    printed: &Printed,
    options: &Options,
) -> Result<Vec<report::Figure>, LabError> {
    let (mut setups, mut beside) = (Vec::new(), Vec::new());
    for (_, load) in loads {
        let footprint = Footprint::of(&**load);
        for percent in CACHE_PERCENTS {
            let cache_bytes = footprint.bytes * percent / 100;
            let object_bytes = footprint.object_bytes();
            let forge = Setup::new(load.clone(), threads(options), cache_bytes, object_bytes, options.seed);
            beside.push(versus::on_ditto(&forge, object_bytes));
            setups.push(forge);
        }
    }
    let points = setups.len();
    setups.extend(beside);
    let measured = measure_all(&setups, options.workers)?;
    let lines: Vec<_> = measured.chunks(CACHE_PERCENTS.len()).collect();
    let mut names: Vec<String> = loads.iter().map(|(name, _)| (*name).to_owned()).collect();
    let x = shape::categories("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %")));
    let xs = [0.0, 1.0, 2.0];
    let (forge, ditto) = lines.split_at(points / CACHE_PERCENTS.len());
    let over = versus::figures(&x, &xs, &names, forge, ditto, printed);
    names.extend(loads.iter().map(|(name, _)| format!("{name}, ditto")));
    let mut figures = shape::figures(&x, &xs, &names, &lines);
    figures.extend(over);
    Ok(figures)
}
