//! FORGE, Fig. 15: loads with objects of real sizes.

use super::cache_sizes::{CACHE_PERCENTS, figures, threads};
use super::setup::Footprint;
use super::tenants::populated;
use super::versus::{Baseline, Printed};
use super::{Experiment, Options};
use crate::load::{Load, LoadOptions};
use crate::{LabError, report};
use std::sync::Arc;

/// Clusters of Twitter's whose objects are small, of middle size and large; and a block trace with
/// its lengths. The most requests of a tenant.
const LOADS: [(&str, u64); 4] =
    [("twitter-19", 3_000_000), ("twitter-54", 3_000_000), ("twitter-35", 1_500_000), ("cloudphysics_io", u64::MAX)];

/// Section 6.4: over GLCache-DM, its best baseline; over the others alone nothing is printed.
fn printed(baseline: Baseline) -> Printed {
    match baseline {
        Baseline::Glcache => [Some((1.61, 1.93)), Some((1.43, 2.00)), Some((1.67, 1.95)), Some((1.02, 1.09))],
        Baseline::Ditto | Baseline::S3Fifo => Printed::default(),
    }
}

/// The experiment.
pub(super) struct RealSizes;

/// A load with its own sizes.
pub(super) fn real(name: &str, requests_max: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let requests = Some(options.scaled(requests_max, 40_000.min(requests_max)));
    let load =
        LoadOptions { traces: Some(options.traces.clone()), requests, seed: options.seed, ..LoadOptions::named(name) };
    Ok(load.open()?.into())
}

impl Experiment for RealSizes {
    fn name(&self) -> &'static str {
        "forge-fig15"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 15: objects of real sizes, 5, 10 and 20 % cache, 128 threads"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let chosen = &LOADS[..options.scaled(LOADS.len(), 2)];
        let (mut loads, mut told) = (Vec::new(), Vec::new());
        for (name, requests_max) in chosen {
            let load = populated(real(name, *requests_max, options)?, threads(options), CACHE_PERCENTS[0]);
            let (what, requests, footprint) = (load.what(), load.requests(), Footprint::of(&*load));
            let (keys, bytes) = (footprint.objects, footprint.object_bytes());
            told.push(format!("{what}: {requests} requests for {keys} keys of {bytes} bytes in the mean"));
            loads.push((*name, load));
        }
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}. The paper has traces of Meta and Twitter, which are not here: these loads have the published statistics of clusters of Twitter's, \
                 and one is a block trace with its lengths. A load of few keys is run by several tenants, each with keys of its own. The paper's text prints no absolute number of this figure. Hit ratios are of GETs. Ditto and S3FIFO-DM cut blocks of 32 size classes, where the paper's enhanced ones have 24; over them alone nothing is printed, over GLCache-DM the paper's own loads are.",
                told.join("; "),
            ),
            figures: figures(&loads, printed, options)?,
        })
    }
}
