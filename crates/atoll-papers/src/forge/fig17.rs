//! FORGE, Fig. 17: how much the size of groups and the time of a miss matter.

use super::cache_sizes::threads;
use super::versus::{self, Versus, gain};
use crate::bench::loads::{Known, fixed_blocks};
use crate::bench::measured::Measured;
use crate::bench::setup::Setup;
use crate::bench::sizes::BLOCK_OBJECT_BYTES;
use crate::bench::sweep::{METRICS, Sweep};
use crate::bench::{Baseline, Findings, Options};
use atoll_lab::LabError;
use atoll_lab::report::places::{Places, retitled};
use atoll_lab::report::{Figure, Series};

const CACHE_PERCENT: u64 = 20;
/// Of the traces that are here those with the highest and the lowest hit ratio at this cache size,
/// in place of the paper's CPhy and IBM; and the most requests of a tenant.
const TRACES: [(&str, u64); 2] = [("scarab_recs", u64::MAX), ("msn_fs", u64::MAX)];
const GROUP_OBJECTS: [u32; 4] = [16, 32, 64, 128];
const PENALTIES_US: [u64; 3] = [0, 100, 500];

/// By trace and penalty, "all baselines": the least and the most of FORGE's throughput over theirs.
const PRINTED: [[Option<(f64, f64)>; PENALTIES_US.len()]; TRACES.len()] =
    [[None, Some((1.68, 2.64)), Some((1.78, 2.66))], [None, Some((1.52, 6.94)), Some((1.17, 2.68))]];
const SOURCE: &str = "FORGE, section 6.6";

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let threads = threads(options);
    let mut by_size =
        Sweep::over(Places::named("objects of a group", GROUP_OBJECTS.map(|objects| objects.to_string())));
    let mut by_penalty = Sweep::over(Places::named("miss penalty", PENALTIES_US.map(|us| format!("{us} us"))));
    let mut told = Vec::new();
    for (name, requests_max) in TRACES {
        // The largest groups are twice as large as those of the other figures.
        let load = Known::of(fixed_blocks(name, requests_max, 2 * threads, CACHE_PERCENT, options)?);
        told.push(load.what());
        let base = load.point(threads, CACHE_PERCENT, options);
        let bytes = load.bytes(CACHE_PERCENT);
        let paper = |objects: &u32| base.clone().on_forge_paper(bytes).with_groups(*objects, bytes);
        by_size.line(format!("{name}, forge-paper"), GROUP_OBJECTS.iter().map(paper));
        by_size.line(
            format!("{name}, forge"),
            GROUP_OBJECTS.iter().map(|objects| base.clone().with_groups(*objects, bytes)),
        );
        by_penalty.line(name, PENALTIES_US.map(|us| Setup { miss_penalty_ns: us * 1000, ..base.clone() }));
    }
    let mut figures = retitled(by_size.measure(options)?.figures(&METRICS), |of| format!("{of} by group size"));
    let versus = versus::measure(by_penalty, &[], options)?;
    figures.extend(retitled(versus.all.clone(), |of| format!("{of} by miss penalty")));
    figures.push(over_all(&versus, options));
    Ok(Findings {
        what: format!(
            "{}, of objects of {BLOCK_OBJECT_BYTES} bytes: in place of the paper's CPhy and IBM one with many hits and one with few. Every size of groups has chunks of its own size, which \
             such groups fill. The paper's text prints no number of the group size's part of this figure.",
            told.join("; "),
        ),
        figures,
    })
}

/// The least and the most of FORGE's throughput over all baselines, by trace and penalty.
fn over_all(versus: &Versus, options: &Options) -> Figure {
    let places = versus.forms[0].places();
    let is_whole = options.baselines.len() == Baseline::ALL.len();
    let mut series: Vec<Series> = Vec::new();
    for (system, swept) in versus.systems().take(versus.forms.len()) {
        let is_paper = system == "forge-paper";
        for (trace, (name, _)) in TRACES.iter().enumerate() {
            let line = swept.lines()[trace].iter();
            let gains = |place: usize, forge: &Measured| -> Vec<f64> {
                versus.others.iter().map(|(_, other)| gain(0, forge, &other.lines()[trace][place])).collect()
            };
            let gains: Vec<Vec<f64>> = line.enumerate().map(|(place, forge)| gains(place, forge)).collect();
            let told = |of: fn((f64, f64)) -> f64| PRINTED[trace].map(|it| it.map(of).filter(|_| is_paper && is_whole));
            let least = gains.iter().map(|all| all.iter().copied().reduce(f64::min).unwrap_or(1.0));
            series.push(places.line(format!("{name}, {system}, least"), least).beside(told(|of| of.0)));
            let most = gains.iter().map(|all| all.iter().copied().reduce(f64::max).unwrap_or(1.0));
            series.push(places.line(format!("{name}, {system}, most"), most).beside(told(|of| of.1)));
        }
    }
    places.factors("Throughput of FORGE over all baselines", "times higher", series).from(SOURCE)
}
