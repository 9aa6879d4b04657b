//! Ditto, Fig. 16 and 17: penalized throughput and hit ratio of two experts together and of each alone, on real traces.

use super::super::fig14::fixed;
use super::super::point::{Measured, measure_all};
use super::super::setup::Footprint;
use super::super::shape::METRICS;
use super::super::{Experiment, Options, shape};
use super::{SYSTEMS, names, on_all};
use crate::{LabError, report};

/// The paper's kinds: block I/O twice, key-value, and the loads like Twitter's clusters; the most requests of a tenant.
const LOADS: [(&str, u64); 5] = [
    ("arc_p3", 1_000_000),
    ("cloudphysics_io", u64::MAX),
    ("scarab_recs", u64::MAX),
    ("twitter-19", 1_000_000),
    ("twitter-54", 1_000_000),
];
const CACHE_PERCENTS: [u64; 3] = [5, 10, 20];
const CLIENTS: u16 = 64;

/// The experiment.
pub(crate) struct RealTraces;

impl Experiment for RealTraces {
    fn name(&self) -> &'static str {
        "ditto-fig16"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 16 and 17: real traces, LRU and LFU together and alone, 500 us a miss, 64 clients"
    }

    fn run(&self, options: &Options) -> Result<report::Experiment, LabError> {
        let clients = options.scaled(CLIENTS, 4);
        let chosen = &LOADS[..options.scaled(LOADS.len(), 2)];
        let (mut setups, mut told) = (Vec::new(), Vec::new());
        for (name, requests_max) in chosen {
            let load = fixed(name, *requests_max, clients, options)?;
            let objects = Footprint::of(&*load).objects;
            told.push(format!("{}: {} requests for {objects} keys", load.what(), load.requests()));
            for system in &SYSTEMS {
                let one = |percent| on_all(&[*system], &load, clients, objects * percent / 100, options.seed);
                setups.extend(CACHE_PERCENTS.into_iter().flat_map(one));
            }
        }
        let measured = measure_all(&setups, options.workers)?;
        let lines: Vec<&[Measured]> = measured.chunks(CACHE_PERCENTS.len()).collect();
        let x = shape::categories("cache", CACHE_PERCENTS.map(|percent| format!("{percent} %")));
        let names = names(&SYSTEMS);
        let mut figures = Vec::new();
        for ((load, _), lines) in chosen.iter().zip(lines.chunks(SYSTEMS.len())) {
            for mut figure in shape::figures_of(&[METRICS[0], METRICS[3]], &x, &[0.0, 1.0, 2.0], &names, lines) {
                figure.title = format!("{}, {load}", figure.title);
                figures.push(figure);
            }
        }
        figures.push(distance(chosen, &x, &lines));
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}. Objects of 256 bytes, as in the paper. Of its traces none is here: webmail (arc_p3 in its place), an object store of IBM's (scarab_recs), CloudPhysics' \
                 (the public two hours of one disk), Twitter's (loads with the published statistics of clusters). A trace of few keys is run by several tenants, each with keys of \
                 its own. The paper warms up for 10 seconds and repeats the trace for 20; here the first fifth is the warm-up, and the trace runs once. CliqueMap is \
                 not here yet. The paper's text prints no number of these figures but that learning costs less than 5 % of the throughput where hit ratios are the same.",
                told.join("; "),
            ),
            figures,
        })
    }
}

/// How far both experts together are from the better one alone.
fn distance(loads: &[(&str, u64)], x: &report::Axis, lines: &[&[Measured]]) -> report::Figure {
    let series = loads.iter().zip(lines.chunks(SYSTEMS.len())).map(|((name, _), lines)| {
        let points = (0..CACHE_PERCENTS.len()).map(|place| {
            let hits = |line: usize| lines[line][place].hit_percent();
            let better = hits(1).max(hits(2));
            // Where nobody hits, nobody is worse.
            (place as f64, if better > 0.0 { hits(0) * 100.0 / better } else { 100.0 })
        });
        shape::series(*name, points)
    });
    report::Figure {
        title: "Hit ratio over the better expert's alone".to_owned(),
        x: x.clone(),
        y: shape::axis("share", "%"),
        series: series.collect(),
    }
}
