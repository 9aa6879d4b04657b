//! Ditto, Fig. 23: twelve policies.

use super::fig21::TRACE;
use super::testbed::{cache_bytes, paper, setup, verbs_figure};
use crate::bench::loads::{Known, fixed};
use crate::bench::sweep::{METRICS, Sweep};
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::Places;

/// The paper's, in its order (Table 3).
const POLICIES: [&str; 12] =
    ["lru", "lfu", "mru", "gds", "lirs", "fifo", "size", "gdsf", "lrfu", "lru-k", "lfuda", "hyperbolic"];
const CACHE_PERCENT: u64 = 10;
/// The smallest cache in which the clients find room.
const SMALLEST_PERCENT: u64 = 5;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let clients = options.scaled(64, 4);
    let load = Known::of(fixed(TRACE, 800_000, clients, SMALLEST_PERCENT, options)?);
    let mut sweep = Sweep::over(Places::named("policy", POLICIES));
    sweep.line(
        "ditto",
        POLICIES.map(|policy| {
            let ditto = paper(policy);
            let bytes = cache_bytes(&ditto, load.objects(CACHE_PERCENT));
            setup(load.load.clone(), &ditto, clients, bytes, options.seed)
        }),
    );
    let swept = sweep.measure(options)?;
    let mut figures = swept.figures(&METRICS);
    let all: Vec<_> = swept.lines()[0].iter().collect();
    figures.push(verbs_figure("Verbs by policy", &POLICIES.map(str::to_owned), &all));
    Ok(Findings {
        what: format!(
            "{}, of objects of one size. It is in place of the webmail trace of FIU, which cannot be had: block I/O as that, of an NT workstation. \
             There is no penalty for a miss. The paper says neither the cache size nor the number of clients of this figure: {CACHE_PERCENT} % of the objects and the {clients} of its \
             other real traces are taken. Its text prints no number, and says that SIZE is the best and MRU the worst; with objects of one size SIZE knows nothing of \
             them.",
            load.what(),
        ),
        figures,
    })
}
