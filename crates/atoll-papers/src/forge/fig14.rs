//! FORGE, Fig. 14: real traces with objects of one size.

use super::cache_sizes::{CACHE_PERCENTS, PARTS_TOLD, figures, threads};
use super::versus::Printed;
use crate::bench::loads::{Known, fixed_blocks};
use crate::bench::{Baseline, Findings, Options};
use atoll_lab::LabError;

/// A full run asks for the first of so many parts of each load.
const PARTS: u64 = 4;
/// Traces of the kinds that the paper has, and the most requests of a tenant.
const TRACES: [(&str, u64); 4] =
    [("cloudphysics_io", u64::MAX), ("msn_fs", u64::MAX), ("arc_p3", 2_000_000), ("scarab_recs", u64::MAX)];

/// "Compared with Ditto and GLCache-DM"; of hit ratios the mean.
const PRINTED: [Printed; 1] = [Printed {
    over: &[Baseline::Ditto, Baseline::Glcache],
    source: "FORGE, section 6.3",
    ranges: [Some((1.3, 4.5)), Some((1.2, 4.0)), Some((1.2, 7.5)), None],
    means: [None, None, None, Some(1.14)],
}];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let mut loads = Vec::new();
    for (name, requests_max) in &TRACES[..options.scaled(TRACES.len(), 2)] {
        let load = fixed_blocks(name, *requests_max, threads(options), CACHE_PERCENTS[0], options)?;
        loads.push((*name, Known::of(load).first_of(PARTS, options)));
    }
    let told: Vec<String> = loads.iter().map(|(_, load)| load.what()).collect();
    Ok(Findings {
        what: format!(
            "{}. The paper's own traces (CloudPhysics, Wikimedia, MSR, IBM; up to 100 million requests) are not here: these are public ones of the same \
             kinds, block I/O and key-value, bounded in length. A trace of few keys is run by several tenants, each with keys of its own, so that {} threads have full groups. \
             {PARTS_TOLD} All systems have as much memory, metadata included. The text also prints about 96 % hits of all systems in CPhy with 20 % cache. It is not set beside the trace of CloudPhysics that is \
             here, two hours of one disk, of which 43 % of the requests are the first of their key.",
            told.join("; "),
            threads(options),
        ),
        figures: figures(&loads, &PRINTED, options)?,
    })
}
