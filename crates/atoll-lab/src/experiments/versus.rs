//! FORGE beside its baselines: the same points on all of them, and by how much it is better.
//!
//! A baseline takes part as a case of [`Baseline`].
//!
//! - **Ditto** has the experts and parameters of its own paper, and the history of 1024 entries
//!   that FORGE's section 6.1 gives it. It samples a bucket of sixteen slots, about half of which
//!   hold objects, where the paper's samples have five objects.
//! - **S3FIFO-DM** is the engine `s3fifo-dm`: see [`queues`](atoll_baselines::queues). Its small
//!   queue has a tenth of the objects, and it counts to three, as FORGE's section 6.1 has it.
//! - **GLCache-DM** is a rule of FORGE's own groups: see [`glcache`](atoll_baselines::glcache).
//!
//! All caches have the same memory, metadata included, of which Ditto and S3FIFO-DM have more: 48
//! to 96 bytes a slot, and two slots an object.

use super::point::Measured;
use super::setup::Setup;
use super::shape::{METRICS, axis, categories, series};
use crate::report::{Axis, Figure, Point, Series};
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::ditto::{DittoOptions, History};
use atoll_fabric::Purpose;
use atoll_sim::network::traffic::Posted;

/// Entries of Ditto's history (FORGE 6.1).
const HISTORY_OBJECTS: u32 = 1024;

/// A system that FORGE is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Baseline {
    /// Ditto with the parameters that FORGE's paper gives it.
    Ditto,
    /// S3-FIFO on queues in the pool.
    #[value(name = "s3fifo-dm")]
    S3Fifo,
    /// GLCache on FORGE's groups.
    #[value(name = "glcache-dm")]
    Glcache,
}

impl Baseline {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 3] = [Self::Ditto, Self::S3Fifo, Self::Glcache];

    /// What its lines are called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ditto => "ditto",
            Self::S3Fifo => "s3fifo-dm",
            Self::Glcache => "glcache-dm",
        }
    }

    /// What its figures are called.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Ditto => "Ditto",
            Self::S3Fifo => "S3FIFO-DM",
            Self::Glcache => "GLCache-DM",
        }
    }

    /// The same point on it, in a cache of the same bytes on as many nodes, for objects of so many
    /// bytes.
    fn put(self, setup: &Setup, object_bytes: u32) -> Setup {
        let (bytes, nodes, setup) = (setup.pool.capacity_bytes, setup.pool.nodes, setup.clone());
        let one = match self {
            Self::Ditto => setup.on_ditto(&ditto(), bytes, object_bytes),
            Self::S3Fifo => setup.on_queues(QueueOptions::new(QueuePolicy::S3Fifo), bytes, object_bytes),
            Self::Glcache => setup.on_glcache(bytes, object_bytes),
        };
        Setup { pool: one.pool.clone().spread(nodes), ..one }
    }
}

/// What the paper prints of FORGE over a baseline in each of [`METRICS`]: the least and the most,
/// as factors; of a latency by how much lower it is. Where it prints them of several baselines
/// together, a baseline's own least may be higher and its own most lower.
pub(super) type Printed = [Option<(f64, f64)>; METRICS.len()];

/// Ditto as FORGE's section 6.1 has it.
pub(super) fn ditto() -> DittoOptions {
    let experts = "lru+lfu".parse().expect("both are policies");
    DittoOptions { history: History::Objects(HISTORY_OBJECTS), ..DittoOptions::paper(experts) }
}

/// The same points, which come with the bytes of an object, on every baseline: all points of the
/// first, then of the next; in caches of the same bytes on as many nodes.
pub(super) fn beside(baselines: &[Baseline], setups: &[(Setup, u32)]) -> Vec<Setup> {
    let on = |baseline: Baseline| setups.iter().map(move |(setup, object_bytes)| baseline.put(setup, *object_bytes));
    baselines.iter().copied().flat_map(on).collect()
}

/// The names of FORGE's lines, and of the same lines of every baseline.
pub(super) fn names(baselines: &[Baseline], forge: &[String]) -> Vec<String> {
    let of = |baseline: &Baseline| {
        let system = baseline.name();
        forge.iter().map(move |name| format!("{name}, {system}"))
    };
    forge.iter().cloned().chain(baselines.iter().flat_map(of)).collect()
}

/// How much better FORGE is than every baseline: its throughput at every point; of every metric the
/// mean over all points, the least and the most; and the verbs that all need for a request at the
/// last place along, by purpose. The lines are FORGE's, then every baseline's; `printed` is of each
/// baseline.
pub(super) fn figures(
    baselines: &[Baseline],
    x: &Axis,
    xs: &[f64],
    names: &[String],
    lines: &[&[Measured]],
    printed: fn(Baseline) -> Printed,
) -> Vec<Figure> {
    let (forge, others) = lines.split_at(names.len());
    let mut figures = Vec::new();
    for (baseline, other) in baselines.iter().zip(others.chunks(names.len())) {
        figures.extend(over(*baseline, x, xs, names, forge, other, &printed(*baseline)));
    }
    figures.push(verbs(baselines, "Verbs by purpose", names, lines, &|posted| posted.verbs));
    figures.push(verbs(baselines, "Round trips by purpose", names, lines, &|posted| posted.round_trips));
    figures
}

/// How much better FORGE is than one baseline.
fn over(
    baseline: Baseline,
    x: &Axis,
    xs: &[f64],
    names: &[String],
    forge: &[&[Measured]],
    other: &[&[Measured]],
    printed: &Printed,
) -> [Figure; 2] {
    let lines = |metric: usize| -> Vec<Vec<f64>> {
        let pairs = forge.iter().zip(other);
        pairs.map(|(forge, other)| forge.iter().zip(*other).map(|(f, o)| gain(metric, f, o)).collect()).collect()
    };
    let throughput = names.iter().zip(lines(0)).map(|(name, line)| series(name.clone(), xs.iter().copied().zip(line)));
    let all = |metric: usize| lines(metric).concat();
    let of_all = |name: &str, of: &dyn Fn(Vec<f64>) -> f64, paper: &dyn Fn((f64, f64)) -> f64| Series {
        name: name.to_owned(),
        points: (0..METRICS.len())
            .map(|metric| Point { x: metric as f64, y: of(all(metric)), paper: printed[metric].map(paper) })
            .collect(),
    };
    [
        Figure {
            title: format!("Throughput of FORGE over {}", baseline.title()),
            x: x.clone(),
            y: axis("times higher", ""),
            series: throughput.collect(),
        },
        Figure {
            title: format!("FORGE over {}", baseline.title()),
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
    ]
}

/// What each system posted for a request at the last place along, by purpose.
fn verbs(
    baselines: &[Baseline],
    title: &str,
    names: &[String],
    lines: &[&[Measured]],
    count: &dyn Fn(&Posted) -> u64,
) -> Figure {
    let systems = ["forge"].into_iter().chain(baselines.iter().map(|baseline| baseline.name()));
    let named = systems.flat_map(|system| names.iter().map(move |name| format!("{name}, {system}")));
    let line = |(name, measured): (String, &&[Measured])| {
        let measured = measured.last().expect("every line has a point");
        let of = |purpose: Purpose| count(&measured.traffic.of(purpose)) as f64 / measured.requests.max(1) as f64;
        series(name, Purpose::ALL.iter().enumerate().map(|(x, it)| (x as f64, of(*it))))
    };
    Figure {
        title: title.to_owned(),
        x: categories("purpose", Purpose::ALL.map(Purpose::name)),
        y: axis("a request", ""),
        series: named.zip(lines).map(line).collect(),
    }
}

/// By what factor FORGE is better: a latency is the better the lower it is. 1 where the other has
/// none of it.
fn gain(metric: usize, forge: &Measured, other: &Measured) -> f64 {
    let (label, _, value) = METRICS[metric];
    let (forge, other) = (value(forge), value(other));
    let (more, less) = if label.contains("latency") { (other, forge) } else { (forge, other) };
    if less > 0.0 { more / less } else { 1.0 }
}

fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).sum();
    (logarithms / values.len().max(1) as f64).exp()
}
