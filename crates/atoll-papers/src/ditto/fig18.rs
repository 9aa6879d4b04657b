//! Ditto, Fig. 18: hit ratios over those of random eviction, on all real traces.

use super::systems::{self, LFU, LRU, RANDOM};
use crate::bench::loads::{Known, fixed};
use crate::bench::measured::{Measured, measure_all};
use crate::bench::{Findings, Options};
use atoll_lab::LabError;
use atoll_lab::hit_ratio::oracle;
use atoll_lab::load::Load;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use std::sync::Arc;

const CACHE_PERCENT: u64 = 10;
const CLIENTS: u16 = 16;
/// Of all tenants of a trace together.
const REQUESTS_MAX: u64 = 300_000;

/// What has a box: its name, and what it is of.
type Boxed = (&'static str, fn(&Hits) -> f64);

/// Both experts together, and the better and the worse one alone.
const BOXES: [Boxed; 4] = [
    ("ditto", |hits| hits.both),
    ("ditto, miniatures", |hits| hits.by_miniatures),
    ("max(ditto-lru, ditto-lfu)", |hits| hits.lru.max(hits.lfu)),
    ("min(ditto-lru, ditto-lfu)", |hits| hits.lru.min(hits.lfu)),
];
/// Parts of a box.
const QUANTILES: [(&str, f64); 5] =
    [("minimum", 0.0), ("first quartile", 0.25), ("median", 0.5), ("third quartile", 0.75), ("maximum", 1.0)];

/// Hit ratios on a trace over random eviction's.
struct Hits {
    both: f64,
    lru: f64,
    lfu: f64,
    by_miniatures: f64,
}

/// Label and unit of both figures.
const Y: (&str, &str) = ("hit ratio over random eviction's", "");

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let clients = options.scaled(CLIENTS, 4);
    let mut traces: Vec<String> =
        oracle::read(&options.traces)?.into_iter().filter(|point| point.real).map(|point| point.trace).collect();
    traces.dedup();
    traces.truncate(options.scaled(traces.len(), 2));
    let mut systems = systems::ditto(|options| options);
    systems.push(RANDOM);
    let (mut setups, mut tenants) = (Vec::new(), 0);
    for trace in &traces {
        let load = Known::of(bounded(trace, clients, options)?);
        tenants += u64::from(load.load.what().contains("tenants"));
        setups.extend(systems.iter().map(|system| system.share(&load, clients, CACHE_PERCENT, options.seed)));
    }
    let measured = measure_all(&setups, options)?;
    let relative = |(trace, measured): (String, &[Measured])| {
        let hits: Vec<f64> = measured.iter().map(Measured::hit_percent).collect();
        let random = hits[hits.len() - 1];
        let [both, lru, lfu, by_miniatures] = [0, LRU, LFU, 3].map(|system| hits[system] / random);
        // Nothing is a multiple of nothing.
        (random > 0.0).then_some((trace, Hits { both, lru, lfu, by_miniatures }))
    };
    let all = traces.len();
    let hits: Vec<(String, Hits)> =
        traces.into_iter().zip(measured.chunks(systems.len())).filter_map(relative).collect();
    Ok(Findings {
        what: format!(
            "All {all} real traces that are here, in place of the paper's 23 of IBM's object store and 10 of CloudPhysics: block and file I/O, databases, web, key-value, addresses of processors and blocks of language models, \
             many of them small. Where random eviction hits nothing there is no ratio: {} are left. Objects of 256 bytes; {clients} clients and a cache of {CACHE_PERCENT} % of the objects, neither of which the \
             paper says of this figure. Of {tenants} traces of few keys there are several tenants, each with keys of its own, so that the clients find room; each trace is cut so that it has about {REQUESTS_MAX} requests \
             of all tenants. The first fifth is the warm-up, and a miss takes 500 us. Random eviction is the table of objects without any tracking. The paper's text prints no number of \
             this figure, and says that the box of both experts together comes near to that of the better one.",
            hits.len(),
        ),
        figures: vec![boxes(&hits), by_trace(&hits)],
    })
}

/// A trace with objects of the paper's size, cut to a number of requests that can be afforded.
fn bounded(trace: &str, clients: u16, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let whole = fixed(trace, REQUESTS_MAX, clients, CACHE_PERCENT, options)?;
    if whole.requests() <= REQUESTS_MAX * 5 / 4 {
        return Ok(whole);
    }
    fixed(trace, REQUESTS_MAX * REQUESTS_MAX / whole.requests(), clients, CACHE_PERCENT, options)
}

fn boxes(hits: &[(String, Hits)]) -> Figure {
    let quantile = |of: fn(&Hits) -> f64, share: f64| {
        let mut all: Vec<f64> = hits.iter().map(|(_, hits)| of(hits)).collect();
        all.sort_by(f64::total_cmp);
        // Between two values in proportion to the distance.
        let place = share * all.len().saturating_sub(1) as f64;
        let (below, above) = (all[place.floor() as usize], all[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    let places = Places::named("system", BOXES.map(|(name, _)| name));
    let lines = QUANTILES.map(|(name, share)| places.line(name, BOXES.map(|(_, of)| quantile(of, share))));
    places.figure("Boxes of all traces", Y, lines)
}

fn by_trace(hits: &[(String, Hits)]) -> Figure {
    let places = Places::named("trace", hits.iter().map(|(trace, _)| trace.clone()));
    let lines = BOXES.map(|(name, of)| places.line(name, hits.iter().map(|(_, hits)| of(hits))));
    places.figure("Trace by trace", Y, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_has_the_quartiles_of_all_traces() {
        let one = |both: f64| (both.to_string(), Hits { both, lru: 2.0 * both, lfu: both / 2.0, by_miniatures: both });
        let figure = boxes(&[4.0, 1.0, 2.0, 3.0].map(one));
        let of_ditto: Vec<f64> = figure.series.iter().map(|series| series.points[0].y).collect();
        assert_eq!(of_ditto, [1.0, 1.75, 2.5, 3.25, 4.0]);
        let medians: Vec<f64> = figure.series[2].points.iter().map(|point| point.y).collect();
        assert_eq!(medians, [2.5, 2.5, 5.0, 1.25]);
    }
}
