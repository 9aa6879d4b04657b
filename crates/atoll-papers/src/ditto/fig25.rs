//! Ditto, Fig. 25: the size of the frequency-counter cache.

use super::testbed::{paper, roomy_bytes, setup, verbs_figure, without_misses};
use crate::bench::loads::ycsb;
use crate::bench::sweep::{METRICS, Sweep};
use crate::bench::{Findings, Options};
use atoll_cache::ditto::DittoOptions;
use atoll_lab::LabError;
use atoll_lab::load::ycsb::{KEYS, OBJECT_BYTES};
use atoll_lab::report::places::Places;

const SIZES_MB: [u64; 6] = [0, 1, 2, 5, 8, 10];
/// Bytes of an entry: the paper's 10 MB are the engine's 250 000 entries.
const ENTRY_BYTES: u64 = 40;
/// What section 5.6 prints at the smallest and at the largest size: throughput in Mops, P99 latency
/// in us.
const PRINTED: [(f64, f64); 2] = [(10.0, 28.0), (13.2, 21.0)];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (keys, requests, clients) = options.scaled((300_000, 4_000_000, 256), (2_000, 16_000, 8));
    let (load, bytes) = (ycsb("ycsb-c", keys, requests, options)?, roomy_bytes(keys, clients));
    let entries = |mb: u64| (mb * 1_000_000 / ENTRY_BYTES * keys / KEYS) as usize;
    let names = SIZES_MB.map(|mb| format!("{mb} MB"));
    let mut sweep = Sweep::over(Places::named("FC cache", names.clone()));
    sweep.line(
        "ditto",
        SIZES_MB.map(|mb| {
            let ditto = DittoOptions { counters: entries(mb), ..paper("lru+lfu") };
            without_misses(setup(load.clone(), &ditto, clients, bytes, options.seed))
        }),
    );
    let swept = sweep.measure(options)?;
    let mut figures = swept.figures(&METRICS);
    if !options.quick {
        let ends = [0, SIZES_MB.len() - 1];
        for (end, (mops, p99_us)) in ends.into_iter().zip(PRINTED) {
            figures[0].series[0].points[end].paper = Some(mops);
            figures[2].series[0].points[end].paper = Some(p99_us);
        }
    }
    figures.push(verbs_figure("Verbs by FC cache size", &names, &swept.lines()[0].iter().collect::<Vec<_>>()));
    Ok(Findings {
        what: format!(
            "{keys} keys of {OBJECT_BYTES} bytes in place of 10 million, and entries of a client's cache fewer in the same proportion: 10 MB, which are 250000 entries there, are {} \
             here. {requests} requests. With 0 MB every access is a FAA of its own, which stands beside the paper's smallest size. It prints the throughput and the tail latency of \
             the smallest and the largest size alone. A GET of ours has one READ less than the paper's (see ditto-fig14).",
            entries(10),
        ),
        figures,
    })
}
