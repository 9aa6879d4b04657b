//! Ditto, Fig. 16 and 17: penalized throughput and hit ratio of two experts together, of each
//! alone, and of CliqueMap, on real traces.

use super::super::fig14::fixed;
use super::super::point::{Measured, measure_all};
use super::super::setup::Footprint;
use super::super::shape::METRICS;
use super::super::{Experiment, Options, shape};
use super::{SYSTEMS as DITTO, WITH_CLIQUEMAP as SYSTEMS, names, on_all};
use crate::{LabError, report};

/// The paper's kinds: block I/O twice, key-value, and the loads like Twitter's clusters; the most
/// requests of a tenant.
const LOADS: [(&str, u64); 5] = [
    ("arc_p3", 1_000_000),
    ("cloudphysics_io", u64::MAX),
    ("scarab_recs", u64::MAX),
    ("twitter-19", 1_000_000),
    ("twitter-54", 1_000_000),
];
const CACHE_PERCENTS: [u64; 3] = [5, 10, 20];
const CLIENTS: u16 = 64;
/// The paper's abstract and introduction, of real workloads: "Ditto outperforms CliqueMap ... by up
/// to ... 3.6x".
const TIMES_MOST: f64 = 3.6;

/// The experiment.
pub(crate) struct RealTraces;

impl Experiment for RealTraces {
    fn name(&self) -> &'static str {
        "ditto-fig16"
    }

    fn what(&self) -> &'static str {
        "Ditto Fig. 16 and 17: real traces, LRU and LFU together and alone, and CliqueMap, 500 us a miss, 64 clients"
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
        figures.push(of_cliquemap(chosen, &x, &lines, "Throughput of Ditto over CliqueMap", "times higher", "", times));
        figures.push(of_cliquemap(chosen, &x, &lines, "How busy CliqueMap's core is", "busy", "%", busy_percent));
        figures.push(most(chosen, &lines, options.quick));
        Ok(report::Experiment {
            name: self.name().to_owned(),
            title: self.what().to_owned(),
            what: format!(
                "{}. Objects of 256 bytes, as in the paper. Of its traces none is here: webmail (arc_p3 in its place), an object store of IBM's (scarab_recs), CloudPhysics' \
                 (the public two hours of one disk), Twitter's (loads with the published statistics of clusters). A trace of few keys is run by several tenants, each with keys of \
                 its own. The paper warms up for 10 seconds and repeats the trace for 20; here the first fifth is the warm-up, and the trace runs once. CliqueMap \
                 has one core at the memory node, and room for the same share of the objects, each with its record and its entries. The paper's text says that Ditto outperforms CliqueMap in all \
                 workloads, for higher hit ratios and a higher limit of throughput; that CliqueMap is limited by the memory node's processor on Twitter's, where hit ratios are high; and that on webmail \
                 CM-LRU has a throughput comparable to Ditto's, as hit ratios limit all of them. Of numbers it prints that Ditto has up to {TIMES_MOST} times CliqueMap's throughput on real workloads, and that \
                 learning costs less than 5 % of the throughput where hit ratios are the same.",
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

/// Ditto's throughput over a baseline's.
fn times(ditto: &Measured, cliquemap: &Measured) -> f64 {
    ditto.mops() / cliquemap.mops().max(1e-9)
}

/// Percent of the time that the memory node's processor was busy.
fn busy_percent(_: &Measured, cliquemap: &Measured) -> f64 {
    cliquemap.traffic.processors_busy_per_mille().unwrap_or(0) as f64 / 10.0
}

/// What `value` says of Ditto and CliqueMap, for each load and policy.
fn of_cliquemap(
    loads: &[(&str, u64)],
    x: &report::Axis,
    lines: &[&[Measured]],
    title: &str,
    label: &str,
    unit: &str,
    value: fn(&Measured, &Measured) -> f64,
) -> report::Figure {
    let mut series = Vec::new();
    for ((load, _), lines) in loads.iter().zip(lines.chunks(SYSTEMS.len())) {
        for (system, line) in SYSTEMS.iter().zip(lines).skip(DITTO.len()) {
            let points = lines[0].iter().zip(*line).enumerate();
            let points = points.map(|(place, (ditto, cliquemap))| (place as f64, value(ditto, cliquemap)));
            series.push(shape::series(format!("{load}, {}", system.0), points));
        }
    }
    report::Figure { title: title.to_owned(), x: x.clone(), y: shape::axis(label, unit), series }
}

/// The most that Ditto has over CliqueMap on a load, beside the paper's, which is of all of them.
fn most(loads: &[(&str, u64)], lines: &[&[Measured]], is_quick: bool) -> report::Figure {
    let point = |(place, lines): (usize, &[&[Measured]])| {
        let all = lines[DITTO.len()..].iter().flat_map(|line| lines[0].iter().zip(*line));
        let y = all.map(|(ditto, cliquemap)| times(ditto, cliquemap)).fold(0.0, f64::max);
        report::Point { x: place as f64, y, paper: (!is_quick).then_some(TIMES_MOST) }
    };
    report::Figure {
        title: "The most that Ditto has over CliqueMap".to_owned(),
        x: shape::categories("load", loads.iter().map(|(name, _)| *name)),
        y: shape::axis("times higher", ""),
        series: vec![report::Series {
            name: "throughput".to_owned(),
            points: lines.chunks(SYSTEMS.len()).enumerate().map(point).collect(),
        }],
    }
}
