//! FORGE, Fig. 15: loads with objects of real sizes.

use super::fig14::{CACHE_PERCENTS, THREADS, populated};
use super::point::measure_all;
use super::setup::{Footprint, Setup};
use super::{Experiment, Options, shape};
use crate::load::{Load, LoadOptions};
use crate::{LabError, report};
use std::sync::Arc;

/// Clusters of Twitter's whose objects are small, of middle size and large; and a block trace with its lengths. The most requests of a tenant.
const LOADS: [(&str, u64); 4] =
    [("twitter-19", 3_000_000), ("twitter-45", 3_000_000), ("twitter-7", 1_000_000), ("cloudphysics_io", u64::MAX)];

/// The experiment.
pub(super) struct RealSizes;

/// A load with its own sizes.
pub(super) fn real(name: &str, requests_max: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let requests = Some(options.scaled(requests_max, 40_000.min(requests_max)));
    let load =
        LoadOptions { traces: Some(options.traces.clone()), requests, seed: options.seed, ..LoadOptions::named(name) };
    Ok(populated(load.open()?.into(), options))
}

impl Experiment for RealSizes {
    fn name(&self) -> &'static str {
        "forge-fig15"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 15: objects of real sizes, 5, 10 and 20 % cache, 128 threads"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let threads = options.scaled(THREADS, 4);
        let chosen = &LOADS[..options.scaled(LOADS.len(), 2)];
        let (mut setups, mut loads) = (Vec::new(), Vec::new());
        for (name, requests_max) in chosen {
            let load = real(name, *requests_max, options)?;
            let footprint = Footprint::of(&*load);
            for percent in CACHE_PERCENTS {
                let cache_bytes = footprint.bytes * percent / 100;
                setups.push(Setup::new(load.clone(), threads, cache_bytes, footprint.object_bytes(), options.seed));
            }
            let (what, requests, keys) = (load.what(), load.requests(), footprint.objects);
            loads.push(format!(
                "{what}: {requests} requests for {keys} keys of {} bytes in the mean",
                footprint.object_bytes()
            ));
        }
        let measured = measure_all(&setups, options.workers)?;
        let lines: Vec<_> = measured.chunks(CACHE_PERCENTS.len()).collect();
        let names: Vec<String> = chosen.iter().map(|(name, _)| (*name).to_owned()).collect();
        let x = shape::categories("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %")));
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}. The paper has traces of Meta and Twitter, which are not here: these loads have the published statistics of clusters of Twitter's, \
                 and one is a block trace with its lengths. A load of few keys is run by several tenants, each with keys of its own. The paper's text prints no absolute number of this figure. Hit ratios are of GETs.",
                loads.join("; "),
            ),
            figures: shape::figures(&x, &[0.0, 1.0, 2.0], &names, &lines),
        })
    }
}
