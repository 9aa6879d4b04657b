//! FORGE, Fig. 14: real traces with objects of one size.

use super::cache_sizes::{CACHE_PERCENTS, figures, threads};
use super::versus::Printed;
use crate::bench::loads::{Known, fixed};
use crate::bench::{Findings, Options};
use atoll_lab::LabError;

/// Traces of the kinds that the paper has, and the most requests of a tenant.
const TRACES: [(&str, u64); 4] =
    [("cloudphysics_io", u64::MAX), ("msn_fs", u64::MAX), ("arc_p3", 2_000_000), ("scarab_recs", u64::MAX)];

/// Section 6.3: over Ditto, S3FIFO-DM and GLCache-DM.
const PRINTED: Printed = [Some((1.3, 4.5)), Some((1.2, 4.0)), Some((1.2, 7.5)), None];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let mut loads = Vec::new();
    for (name, requests_max) in &TRACES[..options.scaled(TRACES.len(), 2)] {
        loads.push((*name, Known::of(fixed(name, *requests_max, threads(options), CACHE_PERCENTS[0], options)?)));
    }
    let told: Vec<String> = loads.iter().map(|(_, load)| load.what()).collect();
    Ok(Findings {
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
