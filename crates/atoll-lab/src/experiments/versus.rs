//! FORGE beside Ditto: the same points on both, and by how much the one is better.
//!
//! Ditto has the experts and parameters of its own paper, and the history of 1024 entries that FORGE's section 6.1 gives it. It samples a bucket of sixteen
//! slots, about half of which hold objects, where the paper's samples have five objects. Both caches have the same memory, metadata included, of
//! which Ditto has more: 48 bytes a slot, and two slots an object.

use super::point::Measured;
use super::setup::Setup;
use super::shape::{METRICS, axis, categories, series};
use crate::report::{Axis, Figure, Point, Series};
use atoll_cache::ditto::{DittoOptions, History};
use atoll_fabric::Purpose;
use atoll_sim::network::traffic::Posted;

/// Entries of Ditto's history (FORGE 6.1).
const HISTORY_OBJECTS: u32 = 1024;

/// What the paper prints of FORGE over its baselines in each of [`METRICS`]: the least and the most, as factors; of a latency by how much lower it is. Ditto is
/// one of several baselines, so that its own least may be higher and its own most lower.
pub(super) type Printed = [Option<(f64, f64)>; METRICS.len()];

/// Ditto as FORGE's section 6.1 has it.
pub(super) fn ditto() -> DittoOptions {
    let experts = "lru+lfu".parse().expect("both are policies");
    DittoOptions { history: History::Objects(HISTORY_OBJECTS), ..DittoOptions::paper(experts) }
}

/// The same point on Ditto, in a cache of the same bytes on as many nodes, for objects of the same size.
pub(super) fn on_ditto(setup: &Setup, object_bytes: u32) -> Setup {
    let (bytes, nodes) = (setup.pool.capacity_bytes, setup.pool.nodes);
    let one = setup.clone().on_ditto(&ditto(), bytes, object_bytes);
    Setup { pool: one.pool.clone().spread(nodes), ..one }
}

/// How much better FORGE is: its throughput at every point; of every metric the mean over all points, the least and the most; and the verbs that both need for a
/// request at the last place along, by purpose.
pub(super) fn figures(
    x: &Axis,
    xs: &[f64],
    names: &[String],
    forge: &[&[Measured]],
    ditto: &[&[Measured]],
    printed: &Printed,
) -> Vec<Figure> {
    let lines = |metric: usize| -> Vec<Vec<f64>> {
        let pairs = forge.iter().zip(ditto);
        pairs.map(|(forge, ditto)| forge.iter().zip(*ditto).map(|(f, d)| gain(metric, f, d)).collect()).collect()
    };
    let throughput = names.iter().zip(lines(0)).map(|(name, line)| series(name.clone(), xs.iter().copied().zip(line)));
    let all = |metric: usize| lines(metric).concat();
    let of_all = |name: &str, of: &dyn Fn(Vec<f64>) -> f64, paper: &dyn Fn((f64, f64)) -> f64| Series {
        name: name.to_owned(),
        points: (0..METRICS.len())
            .map(|metric| Point { x: metric as f64, y: of(all(metric)), paper: printed[metric].map(paper) })
            .collect(),
    };
    vec![
        Figure {
            title: "Throughput of FORGE over Ditto".to_owned(),
            x: x.clone(),
            y: axis("times higher", ""),
            series: throughput.collect(),
        },
        Figure {
            title: "FORGE over Ditto".to_owned(),
            x: categories("metric", METRICS.map(|(label, ..)| label)),
            y: axis("times better", ""),
            series: vec![
                of_all("least", &|all| all.into_iter().fold(f64::MAX, f64::min), &|(least, _)| least),
                Series {
                    name: "mean".to_owned(),
                    points: (0..METRICS.len())
                        .map(|metric| Point { x: metric as f64, y: geometric_mean(&all(metric)), paper: None })
                        .collect(),
                },
                of_all("most", &|all| all.into_iter().fold(0.0, f64::max), &|(_, most)| most),
            ],
        },
        verbs("Verbs by purpose", names, forge, ditto, &|posted| posted.verbs),
        verbs("Round trips by purpose", names, forge, ditto, &|posted| posted.round_trips),
    ]
}

/// What each system posted for a request at the last place along, by purpose.
fn verbs(
    title: &str,
    names: &[String],
    forge: &[&[Measured]],
    ditto: &[&[Measured]],
    count: &dyn Fn(&Posted) -> u64,
) -> Figure {
    let line = |system: &str, (name, measured): (&String, &&[Measured])| {
        let measured = measured.last().expect("every line has a point");
        let of = |purpose: Purpose| count(&measured.traffic.of(purpose)) as f64 / measured.requests.max(1) as f64;
        series(format!("{name}, {system}"), Purpose::ALL.iter().enumerate().map(|(x, it)| (x as f64, of(*it))))
    };
    let of_forge = names.iter().zip(forge).map(|each| line("forge", each));
    Figure {
        title: title.to_owned(),
        x: categories("purpose", Purpose::ALL.map(Purpose::name)),
        y: axis("a request", ""),
        series: of_forge.chain(names.iter().zip(ditto).map(|each| line("ditto", each))).collect(),
    }
}

/// By what factor FORGE is better: a latency is the better the lower it is. 1 where Ditto has none of it.
fn gain(metric: usize, forge: &Measured, ditto: &Measured) -> f64 {
    let (label, _, value) = METRICS[metric];
    let (forge, ditto) = (value(forge), value(ditto));
    let (more, less) = if label.contains("latency") { (ditto, forge) } else { (forge, ditto) };
    if less > 0.0 { more / less } else { 1.0 }
}

fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).sum();
    (logarithms / values.len().max(1) as f64).exp()
}
