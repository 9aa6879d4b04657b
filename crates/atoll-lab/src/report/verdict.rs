//! What results say beside the numbers that a paper prints. Everything here is computed from the
//! results.
//!
//! | verdict | if |
//! |---|---|
//! | wrong direction | the figure's values are factors, and the paper has one above 1 where ours is below, or the other way round |
//! | within 30 % | the measured number is 0.7 to 1.3 times the printed one |
//! | off | otherwise |

use super::{Experiment, Figure, Point, number};
use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// How far a measured number may be from the printed one, as a share of that, to be near it.
const NEAR: f64 = 0.3;

/// What a result says beside the printed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is within 30 % of the printed number.
    Near,
    /// It is further away.
    Off,
    /// It says the opposite.
    Opposite,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Near => "within 30 %",
            Self::Off => "off",
            Self::Opposite => "wrong direction",
        })
    }
}

impl Figure {
    /// What a point of this figure says beside what the paper prints; `None` if it prints nothing.
    pub fn verdict(&self, point: &Point) -> Option<Verdict> {
        let (paper, ratio) = (point.paper?, point.ratio()?);
        Some(match () {
            () if self.y.factor && (paper - 1.0) * (point.y - 1.0) < 0.0 => Verdict::Opposite,
            () if (ratio - 1.0).abs() <= NEAR => Verdict::Near,
            () => Verdict::Off,
        })
    }
}

/// How many printed numbers have results near them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Results within 30 %.
    pub near: usize,
    /// Results in the right direction, further away.
    pub off: usize,
    /// Results in the wrong direction.
    pub opposite: usize,
}

impl Tally {
    fn of(verdict: Verdict) -> Self {
        let count = |wanted| usize::from(verdict == wanted);
        Self { near: count(Verdict::Near), off: count(Verdict::Off), opposite: count(Verdict::Opposite) }
    }

    /// Printed numbers that have a result beside them.
    pub fn printed(&self) -> usize {
        self.near + self.off + self.opposite
    }

    /// Results in the right direction.
    pub fn right(&self) -> usize {
        self.near + self.off
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { near: self.near + other.near, off: self.off + other.off, opposite: self.opposite + other.opposite }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), Self::add)
    }
}

/// `8 of 9 printed numbers are in the right direction, 7 are within 30 %, 1 is off, 1 is in the
/// wrong direction`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = |count: usize| if count == 1 { "is" } else { "are" };
        let Self { near, off, opposite } = *self;
        let right = self.right();
        write!(f, "{right} of {} printed numbers {} in the right direction", self.printed(), are(right))?;
        write!(f, ", {near} {} within 30 %, {off} {} off", are(near), are(off))?;
        write!(f, ", {opposite} {} in the wrong direction", are(opposite))
    }
}

/// A table of every printed number of these experiments, with its verdict.
pub(super) fn csv(experiments: &[Experiment]) -> Result<Vec<u8>, csv::Error> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(["experiment", "figure", "series", "at", "source", "paper", "ours", "ratio", "verdict"])?;
    for experiment in experiments {
        for (figure, series, point, verdict) in experiment.judged() {
            let numbers = [point.paper.unwrap_or_default(), point.y, point.ratio().unwrap_or_default()];
            let at = figure.x.at(point.x);
            let told = [&experiment.name, &figure.title, series, &at, &figure.source].map(str::to_owned);
            table.write_record(
                told.into_iter().chain(numbers.map(|number| number.to_string())).chain([verdict.to_string()]),
            )?;
        }
    }
    Ok(table.into_inner().expect("memory takes it all"))
}

impl Experiment {
    /// Every printed number with its result: figure, series, point and verdict. A quick run is not
    /// judged.
    pub(super) fn judged(&self) -> impl Iterator<Item = (&Figure, &str, &Point, Verdict)> {
        let is_full = !self.run.as_ref().is_some_and(|run| run.quick);
        let figures = self.figures.iter().filter(move |_| is_full);
        figures.flat_map(|figure| {
            let points =
                figure.series.iter().flat_map(|series| series.points.iter().map(|point| (&*series.name, point)));
            points.filter_map(move |(name, point)| Some((figure, name, point, figure.verdict(point)?)))
        })
    }

    /// How many printed numbers have results near them; none in a quick run, which says nothing
    /// about the paper.
    pub fn tally(&self) -> Tally {
        self.judged().map(|(.., verdict)| Tally::of(verdict)).sum()
    }

    /// The verdict in words, a line for each result in the wrong direction, and the conclusions.
    pub fn verdict(&self) -> Vec<String> {
        let tally = self.tally();
        if tally.printed() == 0 {
            return self.conclusions.clone();
        }
        let opposite = self.judged().filter(|(.., verdict)| *verdict == Verdict::Opposite);
        let lines = opposite.map(|(figure, series, point, _)| {
            let (at, paper) = (figure.x.at(point.x), number(point.paper.unwrap_or_default()));
            format!(
                "wrong direction: {}, {series}, {at}: {} {}, paper {paper}",
                figure.title,
                number(point.y),
                figure.y.label
            )
        });
        std::iter::once(format!("{tally}.")).chain(lines).chain(self.conclusions.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::super::places::Places;
    use super::*;

    fn experiment(quick: bool) -> Experiment {
        let places = Places::named("load", ["A", "B", "C", "D"]);
        let factors = places.line("most", [2.5, 2.7, 0.9, 5.0]).beside([Some(2.0), Some(2.0), Some(1.3), None]);
        let shares = places.line("share", [0.9, 0.5, 0.2, 0.1]).beside([Some(1.1), None, Some(0.5), Some(0.0)]);
        Experiment {
            name: "x".to_owned(),
            title: "Times".to_owned(),
            what: String::new(),
            figures: vec![
                places.factors("Over ditto", "times higher", [factors]),
                places.figure("Shares", ("share", ""), [shares]),
            ],
            conclusions: vec!["The link is full.".to_owned()],
            run: Some(Run { quick, seed: 1, version: "1".to_owned(), ..Run::default() }),
            ..Experiment::default()
        }
    }

    #[test]
    fn each_printed_number_is_judged_and_directions_only_of_factors() {
        let experiment = experiment(false);
        let verdicts: Vec<Verdict> = experiment.judged().map(|(.., verdict)| verdict).collect();
        // Nothing is so many times a printed 0.
        assert_eq!(verdicts, [Verdict::Near, Verdict::Off, Verdict::Opposite, Verdict::Near, Verdict::Off]);
        assert_eq!(experiment.tally(), Tally { near: 2, off: 2, opposite: 1 });
        let told = experiment.verdict();
        let tally = "4 of 5 printed numbers are in the right direction, 2 are within 30 %, 2 are off, 1 is in the wrong direction.";
        assert_eq!(told[0], tally);
        assert_eq!(told[1], "wrong direction: Over ditto, most, C: 0.9000 times higher, paper 1.300");
        assert_eq!(told[2..], ["The link is full."]);
        let table = String::from_utf8(csv(&[experiment]).unwrap()).unwrap();
        assert!(table.contains("x,Over ditto,most,C,,1.3,0.9,0.6923"), "{table}");
        assert_eq!(table.lines().count(), 1 + 5);
    }

    #[test]
    fn a_quick_run_says_that_it_is_one_and_is_not_judged() {
        let quick = experiment(true);
        assert_eq!((quick.tally(), quick.verdict()), (Tally::default(), vec!["The link is full.".to_owned()]));
        assert_eq!(quick.heading(), "Times (quick run)");
        assert_eq!(experiment(false).heading(), "Times (full run)");
    }
}
