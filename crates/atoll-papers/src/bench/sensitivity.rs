//! How much an experiment's factors depend on what the profiles assume: the experiment once more at
//! half and at twice each assumed constant.
//!
//! Its results are another experiment: a figure for each figure of factors, with a place for each
//! change of a constant. Nothing printed stands beside them, so that no number is judged twice. The
//! conclusions say of each printed factor (of a sweep, of each factor) between which values it
//! lies, which constant moves it most, and whether its direction depends on one.

use super::experiment::Options;
use super::networks::{Constant, Networks, Scale};
use super::record::Record;
use atoll_lab::LabError;
use atoll_lab::report::places::Places;
use atoll_lab::report::{self, Figure, Point};

/// Runs of an experiment: one as it is, and one for each change.
pub const RUNS: u32 = 1 + (Constant::ALL.len() * Scale::ALL.len()) as u32;

/// A change of a constant with its name, or none.
type Change = Option<(Constant, Scale)>;

fn name(change: Change) -> String {
    change.map_or_else(|| "as assumed".to_owned(), |(constant, scale)| format!("{}, {}", constant.name(), scale.name()))
}

/// Of which factors the conclusions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factors {
    /// Those beside which a printed number stands.
    Printed,
    /// All of them: of a sweep nothing is printed.
    All,
}

/// Runs an experiment at every change, by `measure`. Each run is announced by `tell`.
///
/// # Errors
/// The first error of a run.
pub fn run(
    options: &Options,
    factors: Factors,
    tell: impl Fn(&str),
    measure: impl Fn(&Options) -> Result<report::Experiment, LabError>,
) -> Result<report::Experiment, LabError> {
    let all = Constant::ALL.into_iter().flat_map(|constant| Scale::ALL.map(|scale| Some((constant, scale))));
    let changes: Vec<Change> = [None].into_iter().chain(all).collect();
    let mut runs = Vec::new();
    for change in &changes {
        tell(&name(*change));
        let networks = Networks { changed: *change, ..options.networks };
        runs.push(measure(&Options { networks, record: Record::default(), ..options.clone() })?);
    }
    Ok(compared(runs, &changes.into_iter().map(name).collect::<Vec<_>>(), factors))
}

/// The runs as one experiment; the first is the one without a change.
fn compared(runs: Vec<report::Experiment>, changes: &[String], factors: Factors) -> report::Experiment {
    let places = Places::named("constant", changes.iter().cloned());
    let (mut figures, mut conclusions) = (Vec::new(), Vec::new());
    for (number, figure) in runs[0].figures.iter().enumerate().filter(|(_, figure)| figure.y.factor) {
        let mut series = Vec::new();
        for (line, of) in figure.series.iter().enumerate() {
            for (place, point) in of.points.iter().enumerate() {
                let at = |run: &report::Experiment| -> Option<Point> {
                    run.figures.get(number)?.series.get(line)?.points.get(place).copied()
                };
                let values: Option<Vec<f64>> = runs.iter().map(|run| Some(at(run)?.y)).collect();
                let Some(values) = values else { continue };
                let name = format!("{}, {}", of.name, figure.x.at(point.x));
                // Without a printed number the direction is that of the factor as assumed.
                let direction = point.paper.or((factors == Factors::All).then_some(values[0]));
                conclusions.extend(direction.map(|than| conclusion(figure, &name, (&values, changes), than)));
                series.push(places.line(name, values));
            }
        }
        figures.push(places.factors(figure.title.clone(), &figure.y.label, series));
    }
    let first = &runs[0];
    report::Experiment {
        name: format!("{}-sensitivity", first.name),
        title: format!("{}: at half and twice of each assumed constant", first.title),
        what: format!(
            "The factors of {} at half and at twice of each constant that the profile assumes. Where a factor stays, the assumption does not decide it.",
            first.name
        ),
        figures,
        conclusions,
        reached: Vec::new(),
        run: first.run.clone(),
    }
}

/// What a printed factor's values at all changes say.
fn conclusion(figure: &Figure, name: &str, (values, changes): (&[f64], &[String]), paper: f64) -> String {
    let distance = |value: f64| (value.max(1e-9) / values[0].max(1e-9)).ln().abs();
    let furthest = (0..values.len()).max_by(|one, other| distance(values[*one]).total_cmp(&distance(values[*other])));
    let furthest = furthest.unwrap_or_default();
    let is_right = |value: f64| (paper - 1.0) * (value - 1.0) >= 0.0;
    let other: Vec<&str> = values
        .iter()
        .zip(changes)
        .filter(|(value, _)| is_right(**value) != is_right(values[0]))
        .map(|(_, change)| change.as_str())
        .collect();
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    let direction = match other.is_empty() {
        true => "Its direction depends on no constant".to_owned(),
        false => format!("Its direction changes with {}", other.join("; ")),
    };
    format!(
        "{}, {name}: {:.2}, from {low:.2} to {high:.2}; {} moves it most. {direction}.",
        figure.title, values[0], changes[furthest]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(factor: f64) -> report::Experiment {
        let places = Places::named("load", ["A"]);
        let line = places.line("most", [factor]).beside([Some(2.0)]);
        let figures = vec![places.factors("Over ditto", "times higher", [line])];
        report::Experiment { name: "x".to_owned(), figures, ..report::Experiment::default() }
    }

    #[test]
    fn factors_stand_at_every_change_and_a_direction_that_depends_on_one_is_told() {
        let changes = ["as assumed", "turn, half", "turn, twice"].map(str::to_owned);
        let compared = compared([1.5, 0.8, 1.6].map(run).to_vec(), &changes, Factors::Printed);
        assert_eq!(compared.figures[0].series[0].name, "most, A");
        assert_eq!(compared.figures[0].x.categories, changes);
        assert_eq!(compared.tally().printed(), 0);
        let told = &compared.conclusions[0];
        assert!(told.contains("1.50, from 0.80 to 1.60; turn, half moves it most"), "{told}");
        assert!(told.contains("changes with turn, half."), "{told}");
    }
}
