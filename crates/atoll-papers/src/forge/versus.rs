//! FORGE beside its baselines: the same points on all of them, and by how much it is better.

use crate::bench::measured::Measured;
use crate::bench::sweep::{METRICS, Sweep, Swept};
use crate::bench::{Baseline, Options};
use atoll_fabric::Purpose;
use atoll_lab::LabError;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use atoll_sim::network::traffic::Posted;

/// What the paper prints of FORGE over a baseline in each of [`METRICS`]: the least and the most,
/// as factors. Of a latency it is by how much lower it is. Where the paper prints them of several
/// baselines together, a baseline's own least may be higher and its own most lower.
pub(super) type Printed = [Option<(f64, f64)>; METRICS.len()];

/// FORGE's lines, and the same lines on every baseline.
pub(super) struct Versus {
    /// FORGE's.
    pub(super) forge: Swept<Measured>,
    /// Each baseline's, in caches of the same bytes on as many nodes.
    pub(super) others: Vec<(Baseline, Swept<Measured>)>,
    /// All lines, with the baseline's name in each of its lines'.
    pub(super) all: Vec<Figure>,
    printed: fn(Baseline) -> Printed,
}

/// Measures a sweep of FORGE, and the same on every baseline.
pub(super) fn measure(
    mut sweep: Sweep,
    printed: fn(Baseline) -> Printed,
    options: &Options,
) -> Result<Versus, LabError> {
    let forge: Vec<_> = sweep.lines().to_vec();
    for baseline in &options.baselines {
        for (name, points) in &forge {
            sweep.line(format!("{name}, {}", baseline.name()), points.iter().map(|point| baseline.put(point)));
        }
    }
    let all = sweep.measure(options)?;
    let figures = all.figures(&METRICS);
    let mut groups = all.split(forge.len()).into_iter();
    let forge = groups.next().expect("FORGE has lines");
    Ok(Versus { forge, others: options.baselines.iter().copied().zip(groups).collect(), all: figures, printed })
}

impl Versus {
    /// All results, and how much better FORGE is.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = self.all.clone();
        figures.extend(self.gains());
        figures
    }

    /// How much better FORGE is than every baseline: its throughput at every point; of every metric
    /// the mean over all points, the least and the most; and the verbs that all need for a request
    /// at the last place along, by purpose.
    pub(super) fn gains(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (baseline, other) in &self.others {
            figures.extend(over(*baseline, &self.forge, other, &(self.printed)(*baseline)));
        }
        figures.push(self.verbs("Verbs by purpose", |posted| posted.verbs));
        figures.push(self.verbs("Round trips by purpose", |posted| posted.round_trips));
        figures.push(self.verbs("Bytes by purpose", |posted| posted.bytes));
        figures
    }

    /// What each system posted for a request at the last place along, by purpose.
    fn verbs(&self, title: &str, count: fn(&Posted) -> u64) -> Figure {
        let others = self.others.iter().map(|(baseline, other)| (baseline.name(), other));
        let places = Places::named("purpose", Purpose::ALL.map(Purpose::name));
        let lines = [("forge", &self.forge)].into_iter().chain(others).flat_map(|(system, swept)| {
            self.forge.names().iter().zip(swept.last()).map(move |(name, measured)| {
                let of =
                    |purpose: Purpose| count(&measured.traffic.of(purpose)) as f64 / measured.requests.max(1) as f64;
                (format!("{name}, {system}"), Purpose::ALL.map(of))
            })
        });
        places.figure(title, ("a request", ""), lines.map(|(name, counts)| places.line(name, counts)))
    }
}

/// How much better FORGE is than one baseline.
fn over(baseline: Baseline, forge: &Swept<Measured>, other: &Swept<Measured>, printed: &Printed) -> [Figure; 2] {
    let lines = |metric: usize| -> Vec<Vec<f64>> {
        let pairs = forge.lines().iter().zip(other.lines());
        pairs.map(|(forge, other)| forge.iter().zip(other).map(|(f, o)| gain(metric, f, o)).collect()).collect()
    };
    let throughput = forge.names().iter().zip(lines(0)).map(|(name, line)| forge.places().line(name.clone(), line));
    let metrics = Places::named("metric", METRICS.map(|(label, ..)| label));
    let of_all = |name: &str, of: fn(Vec<f64>) -> f64| {
        metrics.line(name, (0..METRICS.len()).map(|metric| of(lines(metric).concat())))
    };
    let least = of_all("least", |all| all.into_iter().fold(f64::MAX, f64::min));
    let most = of_all("most", |all| all.into_iter().fold(0.0, f64::max));
    [
        forge.places().factors(format!("Throughput of FORGE over {}", baseline.title()), "times higher", throughput),
        metrics.factors(
            format!("FORGE over {}", baseline.title()),
            "times better",
            [
                least.beside(printed.map(|of| of.map(|(least, _)| least))),
                of_all("mean", geometric_mean),
                most.beside(printed.map(|of| of.map(|(_, most)| most))),
            ],
        ),
    ]
}

/// By what factor FORGE is better: a latency is the better the lower it is. 1 where the other has
/// none of it.
fn gain(metric: usize, forge: &Measured, other: &Measured) -> f64 {
    let (label, _, value) = METRICS[metric];
    let (forge, other) = (value(forge), value(other));
    let (more, less) = if label.contains("latency") { (other, forge) } else { (forge, other) };
    if less > 0.0 { more / less } else { 1.0 }
}

fn geometric_mean(values: Vec<f64>) -> f64 {
    let logarithms: f64 = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).sum();
    (logarithms / values.len().max(1) as f64).exp()
}
