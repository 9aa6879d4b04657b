//! Results brought into figures.

use super::point::Measured;
use crate::report::{Axis, Figure, Point, Series};

/// An axis of numbers.
pub fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), ..Axis::default() }
}

/// An axis of things.
pub fn categories(label: &str, categories: impl IntoIterator<Item = impl Into<String>>) -> Axis {
    Axis { categories: categories.into_iter().map(Into::into).collect(), ..axis(label, "") }
}

/// A result that the paper prints nothing for.
pub fn point(x: f64, y: f64) -> Point {
    Point { x, y, paper: None }
}

/// A line of results: x and y of each.
pub fn series(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series { name: name.into(), points: points.into_iter().map(|(x, y)| point(x, y)).collect() }
}

/// Something measured: its name, its unit, and how it is got from a point.
pub type Metric = (&'static str, &'static str, fn(&Measured) -> f64);

/// What FORGE's figures show of a point.
pub const METRICS: [Metric; 4] = [
    ("throughput", "Mops/s", Measured::mops),
    ("P50 latency", "us", |measured| measured.latency_us(50.0)),
    ("P99 latency", "us", |measured| measured.latency_us(99.0)),
    ("hit ratio", "%", Measured::hit_percent),
];

/// One figure for each of [`METRICS`]: a series for each name, with `results[series][x]` at the
/// places `xs`.
pub fn figures(x: &Axis, xs: &[f64], names: &[String], results: &[&[Measured]]) -> Vec<Figure> {
    figures_of(&METRICS, x, xs, names, results)
}

/// The same for other metrics.
pub fn figures_of(metrics: &[Metric], x: &Axis, xs: &[f64], names: &[String], results: &[&[Measured]]) -> Vec<Figure> {
    let figure = |(label, unit, metric): Metric| {
        let lines = names.iter().zip(results).map(|(name, measured)| {
            series(name.clone(), xs.iter().zip(*measured).map(|(x, measured)| (*x, metric(measured))))
        });
        let title = label[..1].to_uppercase() + &label[1..];
        Figure { title, x: x.clone(), y: axis(label, unit), series: lines.collect() }
    };
    metrics.iter().copied().map(figure).collect()
}
