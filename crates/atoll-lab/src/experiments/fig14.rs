//! FORGE, Fig. 14: real traces with objects of one size.

use super::cache_sizes::{CACHE_PERCENTS, figures, threads};
use super::setup::Footprint;
use super::tenants::{OneSize, populated};
use super::versus::Printed;
use super::{Experiment, Options};
use crate::load::{Load, LoadOptions, ycsb};
use crate::{LabError, report};
use std::sync::Arc;

/// Traces of the kinds that the paper has, and the most requests of a tenant.
const TRACES: [(&str, u64); 4] =
    [("cloudphysics_io", u64::MAX), ("msn_fs", u64::MAX), ("arc_p3", 2_000_000), ("scarab_recs", u64::MAX)];

/// Section 6.3: over Ditto, S3FIFO-DM and GLCache-DM.
const PRINTED: Printed = [Some((1.3, 4.5)), Some((1.2, 4.0)), Some((1.2, 7.5)), None];

/// The experiment.
pub(super) struct FixedSizes;

/// A trace with objects of the paper's size, for so many threads with the smallest cache.
pub(super) fn fixed(name: &str, requests_max: u64, threads: u16, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    fixed_for(name, requests_max, threads, CACHE_PERCENTS[0], options)
}

/// The same for a cache of so many percent.
pub(super) fn fixed_for(
    name: &str,
    requests_max: u64,
    threads: u16,
    cache_percent: u64,
    options: &Options,
) -> Result<Arc<dyn Load>, LabError> {
    let requests = Some(options.scaled(requests_max, 20_000));
    let load =
        LoadOptions { traces: Some(options.traces.clone()), requests, ..LoadOptions::named(name) }.open()?.into();
    Ok(populated(Arc::new(OneSize { load, object_bytes: ycsb::OBJECT_BYTES }), threads, cache_percent))
}

impl Experiment for FixedSizes {
    fn name(&self) -> &'static str {
        "forge-fig14"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 14: real traces, objects of 256 bytes, 5, 10 and 20 % cache, 128 threads"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let threads = threads(options);
        let traces = &TRACES[..options.scaled(TRACES.len(), 2)];
        let (mut loads, mut told) = (Vec::new(), Vec::new());
        for (name, requests_max) in traces {
            let load = fixed(name, *requests_max, threads, options)?;
            let keys = Footprint::of(&*load).objects;
            told.push(format!("{}: {} requests for {keys} keys", load.what(), load.requests()));
            loads.push((*name, load));
        }
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}. The paper's own traces (CloudPhysics, Wikimedia, MSR, IBM; up to 100 million requests) are not here: these are public ones of the same \
                 kinds, block I/O and key-value, bounded in length. A trace of few keys is run by several tenants, each with keys of its own, so that 128 threads find \
                 room. Beside FORGE stand its baselines, with as much memory, metadata included, of which all have more; what is printed of FORGE over all together stands \
                 beside what is here over each. Of this figure the paper's text prints one number, about 96 % hits of all systems in CPhy with 20 % cache; it is not set beside the trace of CloudPhysics that is \
                 here, two hours of one disk, of which 43 % of the requests are the first of their key.",
                told.join("; "),
            ),
            figures: figures(&loads, |_| PRINTED, options)?,
        })
    }
}
