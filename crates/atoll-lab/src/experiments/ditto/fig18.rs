//! Ditto, Fig. 18: hit ratios over those of random eviction, on all real traces.

use super::super::fig14::fixed_for;
use super::super::point::{Measured, measure_all};
use super::super::setup::{Footprint, objects_footprint};
use super::super::{Experiment, Options, shape};
use super::{SYSTEMS, System, on_all};
use crate::hit_ratio::oracle;
use crate::load::{Load, ycsb::OBJECT_BYTES};
use crate::{LabError, report};
use std::sync::Arc;

/// What they are compared with.
const RANDOM: System = ("random", |setup, objects| {
    let bytes = objects * objects_footprint(&atoll_baselines::kvs::options(), OBJECT_BYTES);
    setup.on_kvs(bytes, OBJECT_BYTES)
});
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

/// The experiment.
pub(crate) struct RelativeHits;

impl Experiment for RelativeHits {
    fn name(&self) -> &'static str {
        "ditto-fig18"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 18: hit ratios over random eviction's on all real traces, LRU and LFU together and alone, 10 % cache"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let clients = options.scaled(CLIENTS, 4);
        let mut traces: Vec<String> =
            oracle::read(&options.traces)?.into_iter().filter(|point| point.real).map(|point| point.trace).collect();
        traces.dedup();
        traces.truncate(options.scaled(traces.len(), 2));
        let systems = [SYSTEMS.as_slice(), &[RANDOM]].concat();
        let (mut setups, mut tenants) = (Vec::new(), 0);
        for trace in &traces {
            let load = bounded(trace, clients, options)?;
            let objects = Footprint::of(&*load).objects;
            tenants += u64::from(load.what().contains("tenants"));
            setups.extend(on_all(&systems, &load, clients, objects * CACHE_PERCENT / 100, options.seed));
        }
        let measured = measure_all(&setups, options.workers)?;
        let relative = |(trace, measured): (String, &[Measured])| {
            let hits = |system: usize| measured[system].hit_percent();
            let random = hits(SYSTEMS.len());
            let [both, lru, lfu, by_miniatures] = [0, 1, 2, 3].map(|system| hits(system) / random);
            // Nothing is a multiple of nothing.
            (random > 0.0).then_some((trace, Hits { both, lru, lfu, by_miniatures }))
        };
        let all = traces.len();
        let hits: Vec<(String, Hits)> =
            traces.into_iter().zip(measured.chunks(systems.len())).filter_map(relative).collect();
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
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
}

/// A trace with objects of the paper's size, cut to a number of requests that can be afforded.
fn bounded(trace: &str, clients: u16, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let whole = fixed_for(trace, REQUESTS_MAX, clients, CACHE_PERCENT, options)?;
    if whole.requests() <= REQUESTS_MAX * 5 / 4 {
        return Ok(whole);
    }
    fixed_for(trace, REQUESTS_MAX * REQUESTS_MAX / whole.requests(), clients, CACHE_PERCENT, options)
}

fn boxes(hits: &[(String, Hits)]) -> report::Figure {
    let quantile = |of: fn(&Hits) -> f64, share: f64| {
        let mut all: Vec<f64> = hits.iter().map(|(_, hits)| of(hits)).collect();
        all.sort_by(f64::total_cmp);
        // Between two values in proportion to the distance.
        let place = share * all.len().saturating_sub(1) as f64;
        let (below, above) = (all[place.floor() as usize], all[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    let line = |(name, share): (&str, f64)| {
        let points = BOXES.iter().enumerate().map(|(place, (_, of))| (place as f64, quantile(*of, share)));
        shape::series(name, points)
    };
    report::Figure {
        title: "Boxes of all traces".to_owned(),
        x: shape::categories("system", BOXES.map(|(name, _)| name)),
        y: shape::axis("hit ratio over random eviction's", ""),
        series: QUANTILES.into_iter().map(line).collect(),
    }
}

fn by_trace(hits: &[(String, Hits)]) -> report::Figure {
    let line = |(name, of): Boxed| {
        shape::series(name, hits.iter().enumerate().map(|(place, (_, hits))| (place as f64, of(hits))))
    };
    report::Figure {
        title: "Trace by trace".to_owned(),
        x: shape::categories("trace", hits.iter().map(|(trace, _)| trace.clone())),
        y: shape::axis("hit ratio over random eviction's", ""),
        series: BOXES.into_iter().map(line).collect(),
    }
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
