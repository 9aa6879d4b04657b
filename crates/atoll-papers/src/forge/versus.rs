//! FORGE beside its baselines: the same points on all of them, and by how much FORGE is better.
//!
//! FORGE stands here twice. `forge-paper` is the paper's: its rule and its verbs. The
//! printed numbers stand beside it. `forge` is the engine that Atoll ships.
//!
//! The paper prints ranges over several baselines and all points together. So the least and the
//! most here are those over the same baselines together.

use crate::bench::measured::Measured;
use crate::bench::sweep::{METRICS, Sweep, Swept};
use crate::bench::{Baseline, Options};
use atoll_fabric::Purpose;
use atoll_lab::LabError;
use atoll_lab::report::Figure;
use atoll_lab::report::places::Places;
use atoll_sim::network::traffic::Posted;

/// The forms of FORGE, the paper's first.
const FORMS: [&str; 2] = ["forge-paper", "forge"];

/// What the paper prints of FORGE over some baselines together, in each of [`METRICS`], as factors.
/// Of a latency it is by how much lower it is.
pub(super) struct Printed {
    /// The baselines.
    pub(super) over: &'static [Baseline],
    /// Where it stands.
    pub(super) source: &'static str,
    /// The least and the most.
    pub(super) ranges: [Option<(f64, f64)>; METRICS.len()],
    /// The mean.
    pub(super) means: [Option<f64>; METRICS.len()],
}

/// Both forms of FORGE, and the same lines on every baseline.
pub(super) struct Versus {
    /// The lines of each of [`FORMS`].
    pub(super) forms: [Swept<Measured>; 2],
    /// Each baseline's, in caches of the same bytes on as many nodes.
    pub(super) others: Vec<(Baseline, Swept<Measured>)>,
    /// All lines, with the system's name in each of its lines'.
    pub(super) all: Vec<Figure>,
    /// The loads that the lines are of.
    loads: Vec<String>,
    printed: &'static [Printed],
}

/// Measures a sweep of FORGE in both forms, and the same on every baseline.
pub(super) fn measure(sweep: Sweep, printed: &'static [Printed], options: &Options) -> Result<Versus, LabError> {
    let lines: Vec<_> = sweep.lines().to_vec();
    let mut all = Sweep::over(sweep.places().clone());
    for (name, points) in &lines {
        let on_paper = points.iter().map(|point| {
            let one = point.clone().on_forge_paper(point.pool.capacity_bytes);
            one.spread(point.pool.nodes)
        });
        all.line(format!("{name}, {}", FORMS[0]), on_paper);
    }
    for (name, points) in &lines {
        all.line(format!("{name}, {}", FORMS[1]), points.iter().cloned());
    }
    for baseline in &options.baselines {
        for (name, points) in &lines {
            all.line(format!("{name}, {}", baseline.name()), points.iter().map(|point| baseline.put(point)));
        }
    }
    let all = all.measure(options)?;
    let figures = all.figures(&METRICS);
    let mut groups = all.split(lines.len()).into_iter();
    let forms = FORMS.map(|_| groups.next().expect("each form has lines"));
    let others = options.baselines.iter().copied().zip(groups).collect();
    let loads = lines.into_iter().map(|(name, _)| name).collect();
    Ok(Versus { forms, others, all: figures, loads, printed })
}

impl Versus {
    /// Every system with its lines: FORGE's forms, then the baselines.
    pub(super) fn systems(&self) -> impl Iterator<Item = (&'static str, &Swept<Measured>)> {
        let others = self.others.iter().map(|(baseline, swept)| (baseline.name(), swept));
        FORMS.into_iter().zip(&self.forms).chain(others)
    }

    /// All results, and how much better FORGE is.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = self.all.clone();
        figures.extend(self.gains());
        figures
    }

    /// How much better FORGE is: beside what is printed; over each baseline; the shipped form over
    /// the paper's; and the verbs that all need for a request at the last place along, by purpose.
    pub(super) fn gains(&self) -> Vec<Figure> {
        let mut figures: Vec<Figure> = self.printed.iter().filter_map(|printed| self.beside(printed)).collect();
        let none = Printed { over: &[], source: "", ranges: [None; METRICS.len()], means: [None; METRICS.len()] };
        for (baseline, other) in &self.others {
            figures.push(self.throughput(baseline.title(), &self.forms, other));
            figures.push(self.range(baseline.title(), &[other], &none));
        }
        figures.push(self.throughput("forge-paper", &self.forms[1..], &self.forms[0]));
        figures.push(self.verbs("Verbs by purpose", |posted| posted.verbs));
        figures.push(self.verbs("Round trips by purpose", |posted| posted.round_trips));
        figures.push(self.verbs("Bytes by purpose", |posted| posted.bytes));
        figures
    }

    /// FORGE over the baselines that a printed range is of, if all of them were measured.
    fn beside(&self, printed: &Printed) -> Option<Figure> {
        let of = |baseline: &Baseline| Some(&self.others.iter().find(|(other, _)| other == baseline)?.1);
        let others: Vec<&Swept<Measured>> = printed.over.iter().map(of).collect::<Option<_>>()?;
        let titles: Vec<&str> = printed.over.iter().map(|baseline| baseline.title()).collect();
        Some(self.range(&format!("{} together", titles.join(", ")), &others, printed).from(printed.source))
    }

    /// The throughput of forms of FORGE over another system's, at every point.
    fn throughput(&self, title: &str, forms: &[Swept<Measured>], other: &Swept<Measured>) -> Figure {
        let names = &FORMS[FORMS.len() - forms.len()..];
        let lines = names.iter().zip(forms).flat_map(|(form, swept)| {
            let pairs = self.loads.iter().zip(swept.lines().iter().zip(other.lines()));
            pairs.map(move |(load, (ours, other))| {
                let gains = ours.iter().zip(other).map(|(ours, other)| gain(0, ours, other));
                swept.places().line(format!("{load}, {form}"), gains)
            })
        });
        other.places().factors(format!("Throughput of FORGE over {title}"), "times higher", lines)
    }

    /// Of every metric the least, the mean and the most over all points of some baselines together.
    fn range(&self, title: &str, others: &[&Swept<Measured>], printed: &Printed) -> Figure {
        let metrics = Places::named("metric", METRICS.map(|(label, ..)| label));
        let mut lines = Vec::new();
        for (number, (form, swept)) in FORMS.into_iter().zip(&self.forms).enumerate() {
            let all = |metric: usize| -> Vec<f64> {
                let pairs =
                    others.iter().flat_map(|other| swept.lines().iter().flatten().zip(other.lines().iter().flatten()));
                pairs.map(|(ours, other)| gain(metric, ours, other)).collect()
            };
            let line = |name: &str, of: fn(Vec<f64>) -> f64, told: [Option<f64>; METRICS.len()]| {
                let told = told.map(|printed| printed.filter(|_| number == 0));
                metrics.line(format!("{form}, {name}"), (0..METRICS.len()).map(|metric| of(all(metric)))).beside(told)
            };
            lines.push(line(
                "least",
                |all| all.into_iter().fold(f64::MAX, f64::min),
                printed.ranges.map(|it| it.map(|of| of.0)),
            ));
            lines.push(line("mean", geometric_mean, printed.means));
            lines.push(line(
                "most",
                |all| all.into_iter().fold(0.0, f64::max),
                printed.ranges.map(|it| it.map(|of| of.1)),
            ));
        }
        metrics.factors(format!("FORGE over {title}"), "times better", lines)
    }

    /// What each system posted for a request at the last place along, by purpose.
    fn verbs(&self, title: &str, count: fn(&Posted) -> u64) -> Figure {
        let places = Places::named("purpose", Purpose::ALL.map(Purpose::name));
        let lines = self.systems().flat_map(|(system, swept)| {
            self.loads.iter().zip(swept.last()).map(move |(load, measured)| {
                let of =
                    |purpose: Purpose| count(&measured.traffic.of(purpose)) as f64 / measured.requests.max(1) as f64;
                (format!("{load}, {system}"), Purpose::ALL.map(of))
            })
        });
        places.figure(title, ("a request", ""), lines.map(|(name, counts)| places.line(name, counts)))
    }
}

/// By what factor FORGE is better: a latency is the better the lower it is. 1 where the other has
/// none of it.
pub(super) fn gain(metric: usize, forge: &Measured, other: &Measured) -> f64 {
    let (label, _, value) = METRICS[metric];
    let (forge, other) = (value(forge), value(other));
    let (more, less) = if label.contains("latency") { (other, forge) } else { (forge, other) };
    if less > 0.0 { more / less } else { 1.0 }
}

fn geometric_mean(values: Vec<f64>) -> f64 {
    let logarithms: f64 = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).sum();
    (logarithms / values.len().max(1) as f64).exp()
}
