//! A sweep: lines of points over the same places along. A line is a system, a load or both.

use super::experiment::Options;
use super::measured::{Measured, measure_all};
use super::setup::Setup;
use atoll_lab::LabError;
use atoll_lab::report::places::Places;
use atoll_lab::report::{Figure, Series};

/// Something measured: its name, its unit, and how a result tells it.
pub type Metric<M = Measured> = (&'static str, &'static str, fn(&M) -> f64);

/// What most figures show of a point.
pub const METRICS: [Metric; 4] = [
    ("throughput", "Mops/s", Measured::mops),
    ("P50 latency", "us", |measured| measured.latency_us(50.0)),
    ("P99 latency", "us", |measured| measured.latency_us(99.0)),
    ("hit ratio", "%", Measured::hit_percent),
];

/// A sweep that is to be measured.
pub struct Sweep {
    places: Places,
    lines: Vec<(String, Vec<Setup>)>,
}

impl Sweep {
    /// A sweep without lines.
    pub fn over(places: Places) -> Self {
        Self { places, lines: Vec::new() }
    }

    /// Adds a line: a point for each place.
    pub fn line(&mut self, name: impl Into<String>, points: impl IntoIterator<Item = Setup>) {
        self.lines.push((name.into(), points.into_iter().collect()));
    }

    /// The places along.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The lines so far.
    pub fn lines(&self) -> &[(String, Vec<Setup>)] {
        &self.lines
    }

    /// Measures all points.
    pub fn measure(self, options: &Options) -> Result<Swept<Measured>, LabError> {
        let points: Vec<Setup> = self.lines.iter().flat_map(|(_, points)| points).cloned().collect();
        let mut measured = measure_all(&points, options)?.into_iter();
        let lines: Vec<Vec<Measured>> =
            self.lines.iter().map(|(_, points)| measured.by_ref().take(points.len()).collect()).collect();
        for ((name, _), line) in self.lines.iter().zip(&lines) {
            self.places.names().iter().zip(line).for_each(|(at, point)| options.record.point(name, at, point));
        }
        Ok(Swept { places: self.places, names: self.lines.into_iter().map(|(name, _)| name).collect(), lines })
    }
}

/// Results in lines over the same places.
pub struct Swept<M> {
    places: Places,
    names: Vec<String>,
    lines: Vec<Vec<M>>,
}

impl<M> Swept<M> {
    /// These lines, each with its name.
    pub fn new(places: Places, names: Vec<String>, lines: Vec<Vec<M>>) -> Self {
        assert_eq!(names.len(), lines.len(), "every line has a name");
        Self { places, names, lines }
    }

    /// The places along.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The lines' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The lines.
    pub fn lines(&self) -> &[Vec<M>] {
        &self.lines
    }

    /// The lines themselves.
    pub fn into_lines(self) -> Vec<Vec<M>> {
        self.lines
    }

    /// The result of every line at one place.
    pub fn column(&self, place: usize) -> Vec<&M> {
        self.lines.iter().map(|line| &line[place]).collect()
    }

    /// The result of every line at the last place.
    pub fn last(&self) -> Vec<&M> {
        self.column(self.places.count() - 1)
    }

    /// The lines in groups of this many.
    pub fn split(self, lines: usize) -> Vec<Self> {
        let (mut names, mut all) = (self.names.into_iter(), self.lines.into_iter());
        let groups = all.len() / lines;
        let mut group = || (names.by_ref().take(lines).collect(), all.by_ref().take(lines).collect());
        let groups = (0..groups).map(|_| group());
        groups.map(|(names, lines)| Self::new(self.places.clone(), names, lines)).collect()
    }

    /// What a metric is of every line.
    pub fn series(&self, of: impl Fn(&M) -> f64) -> Vec<Series> {
        let lines = self.names.iter().zip(&self.lines);
        lines.map(|(name, line)| self.places.line(name.clone(), line.iter().map(&of))).collect()
    }

    /// The same as a figure.
    pub fn figure(&self, title: impl Into<String>, y: (&str, &str), of: impl Fn(&M) -> f64) -> Figure {
        self.places.figure(title, y, self.series(of))
    }

    /// A figure for each metric, which has its name.
    pub fn figures(&self, metrics: &[Metric<M>]) -> Vec<Figure> {
        let title = |label: &str| label[..1].to_uppercase() + &label[1..];
        metrics.iter().map(|(label, unit, of)| self.figure(title(label), (label, unit), of)).collect()
    }
}
