//! DiFache, Fig. 1: why a near cache has to be coherent, and a central manager does not scale.

use super::point::Measured;
use super::scaling::{CMCACHE, Scaling};
use super::systems::statements;
use crate::bench::{Findings, Options};
use atoll_lab::LabError;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let scaling = Scaling::measure(options)?;
    let swept = &scaling.swept;
    let last = scaling.last();
    let figures = vec![
        statements(
            "What the paper's text says",
            &[("serialization, of cmcache's median cache operation, most nodes", last.serialization(), 0.9)],
        ),
        swept.figure("(left) Throughput", ("throughput", "Mops/s"), Measured::mops),
        swept.figure("(left) Throughput over that of one compute node", ("throughput", ""), |measured| {
            let line = swept.lines().iter().find(|line| line.iter().any(|one| std::ptr::eq(one, measured)));
            measured.mops() / line.map_or(1.0, |line| line[0].mops()).max(1e-9)
        }),
        swept.figure("(right) Median latency of reads", ("latency", "us"), |measured| measured.median_of(true)),
        swept.figure("(right) Median latency of writes", ("latency", "us"), |measured| measured.median_of(false)),
    ];
    let what = format!(
        "{} The paper does not say which trace it runs. Of {}'s accesses, {:.1} % ask the manager with all nodes.",
        scaling.what,
        swept.names()[CMCACHE],
        100.0 * last.asks,
    );
    Ok(Findings { what, figures })
}
