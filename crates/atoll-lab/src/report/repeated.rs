//! The same experiment with several seeds as one: every result is the mean, with the least and the
//! most as its interval.

use super::{Experiment, Figure, Point};

/// The experiments as one; the first says what they are and how they were run. `None` if there are
/// none.
pub fn merged(experiments: Vec<Experiment>) -> Option<Experiment> {
    let mut experiments = experiments.into_iter();
    let mut first = experiments.next()?;
    let others: Vec<Experiment> = experiments.collect();
    if others.is_empty() {
        return Some(first);
    }
    for (number, figure) in first.figures.iter_mut().enumerate() {
        let same: Vec<&Figure> = others.iter().filter_map(|other| other.figures.get(number)).collect();
        for (number, series) in figure.series.iter_mut().enumerate() {
            for point in &mut series.points {
                let at = |other: &&Figure| other.series.get(number)?.points.iter().find(|it| it.x == point.x).copied();
                *point = mean(*point, &same.iter().filter_map(at).collect::<Vec<_>>());
            }
        }
    }
    if let Some(run) = &mut first.run {
        run.seeds = 1 + others.len() as u32;
    }
    Some(first)
}

/// A point with the results of other seeds at its place.
fn mean(point: Point, others: &[Point]) -> Point {
    let all = || std::iter::once(&point).chain(others).map(|point| point.y);
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)));
    Point { y: all().sum::<f64>() / (1 + others.len()) as f64, interval: Some([low, high]), ..point }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::super::places::Places;
    use super::*;

    fn seed(y: f64) -> Experiment {
        let places = Places::named("load", ["A"]);
        let figures = vec![places.figure("Throughput", ("throughput", "Mops/s"), [places.line("x", [y])])];
        let run = Some(Run { seeds: 1, ..Run::default() });
        Experiment { name: "x".to_owned(), figures, run, ..Experiment::default() }
    }

    #[test]
    fn results_of_several_seeds_are_their_mean_between_the_least_and_the_most() {
        let merged = merged([4.0, 1.0, 1.0].map(seed).to_vec()).unwrap();
        let point = merged.figures[0].series[0].points[0];
        assert_eq!((point.y, point.interval), (2.0, Some([1.0, 4.0])));
        assert_eq!(merged.run.unwrap().seeds, 3);
        assert_eq!(super::merged(vec![seed(4.0)]).unwrap().figures[0].series[0].points[0].interval, None);
    }
}
