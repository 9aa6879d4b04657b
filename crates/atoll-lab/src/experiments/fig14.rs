//! FORGE, Fig. 14: real traces with objects of one size.

use super::point::measure_all;
use super::setup::{Footprint, Setup};
use super::tenants::{OneSize, Tenants};
use super::{Experiment, Options, shape};
use crate::load::{Load, LoadOptions, ycsb};
use crate::{LabError, report};
use std::sync::Arc;

pub(super) const THREADS: u16 = 128;
pub(super) const CACHE_PERCENTS: [u64; 3] = [5, 10, 20];
/// Bytes that a load's keys and values have at least, so that a cache of 5 % has room for what 128 threads hold open.
const FOOTPRINT_BYTES_MIN: u64 = 160 << 20;

/// Traces of the kinds that the paper has, and the most requests of a tenant.
const TRACES: [(&str, u64); 4] =
    [("cloudphysics_io", u64::MAX), ("msn_fs", u64::MAX), ("arc_p3", 2_000_000), ("scarab_recs", u64::MAX)];

/// The experiment.
pub(super) struct FixedSizes;

/// The load for as many tenants as it takes to fill the caches.
pub(super) fn populated(load: Arc<dyn Load>, options: &Options) -> Arc<dyn Load> {
    let bytes = Footprint::of(&*load).bytes.max(1);
    let tenants = options.scaled(FOOTPRINT_BYTES_MIN, 8 << 20).div_ceil(bytes);
    if tenants < 2 { load } else { Arc::new(Tenants { load, tenants }) }
}

/// A trace with objects of the paper's size.
pub(super) fn fixed(name: &str, requests_max: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let requests = Some(options.scaled(requests_max, 20_000));
    let load =
        LoadOptions { traces: Some(options.traces.clone()), requests, ..LoadOptions::named(name) }.open()?.into();
    Ok(populated(Arc::new(OneSize { load, object_bytes: ycsb::OBJECT_BYTES }), options))
}

impl Experiment for FixedSizes {
    fn name(&self) -> &'static str {
        "forge-fig14"
    }

    fn what(&self) -> &'static str {
        "FORGE Fig. 14: real traces, objects of 256 bytes, 5, 10 and 20 % cache, 128 threads"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let threads = options.scaled(THREADS, 4);
        let traces = &TRACES[..options.scaled(TRACES.len(), 2)];
        let (mut setups, mut loads) = (Vec::new(), Vec::new());
        for (name, requests_max) in traces {
            let load = fixed(name, *requests_max, options)?;
            let footprint = Footprint::of(&*load);
            for percent in CACHE_PERCENTS {
                let cache_bytes = footprint.bytes * percent / 100;
                setups.push(Setup::new(load.clone(), threads, cache_bytes, footprint.object_bytes(), options.seed));
            }
            loads.push(format!("{}: {} requests for {} keys", load.what(), load.requests(), footprint.objects));
        }
        let measured = measure_all(&setups, options.workers)?;
        let lines: Vec<_> = measured.chunks(CACHE_PERCENTS.len()).collect();
        let names: Vec<String> = traces.iter().map(|(name, _)| (*name).to_owned()).collect();
        let x = shape::categories("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %")));
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}. The paper's own traces (CloudPhysics, Wikimedia, MSR, IBM; up to 100 million requests) are not here: these are public ones of the same \
                 kinds, block I/O and key-value, bounded in length. A trace of few keys is run by several tenants, each with keys of its own, so that 128 threads find \
                 room. Of this figure the paper's text prints one number, about 96 % hits of all systems in CPhy with 20 % cache; it is not set beside the trace of CloudPhysics that is \
                 here, two hours of one disk, of which 43 % of the requests are the first of their key.",
                loads.join("; "),
            ),
            figures: shape::figures(&x, &[0.0, 1.0, 2.0], &names, &lines),
        })
    }
}
