//! Figures as text: a row for each place along, a column for each series. Beside a result stand the
//! paper's number and the ratio, if the paper prints one.

use super::{Experiment, Figure, Point, number};
use std::fmt::Write;

/// The text for a terminal.
pub fn render(experiment: &Experiment) -> String {
    let mut text = format!("{}: {}\n", experiment.name, experiment.heading());
    for line in experiment.verdict().iter().chain([&experiment.what]).flat_map(|told| wrapped(told, 120)) {
        let _ = writeln!(text, "{line}");
    }
    for figure in &experiment.figures {
        let caption = figure.y.caption();
        let (title, unit) = (&figure.title, &figure.y.unit);
        let same = title.to_lowercase() == figure.y.label.to_lowercase();
        let _ = writeln!(text, "\n{title} ({})", if same { unit } else { &caption });
        render_figure(&mut text, figure);
    }
    text
}

fn render_figure(text: &mut String, figure: &Figure) {
    let mut places: Vec<f64> = figure.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let cell = |point: &Point| match (point.paper, point.ratio()) {
        (Some(paper), Some(ratio)) => format!("{} (paper {}, ratio {ratio:.2})", number(point.y), number(paper)),
        _ => number(point.y),
    };
    let mut rows = vec![vec![figure.x.caption()]];
    rows[0].extend(figure.series.iter().map(|series| series.name.clone()));
    for place in places {
        let mut row = vec![figure.x.at(place)];
        for series in &figure.series {
            row.push(series.points.iter().find(|point| point.x == place).map(cell).unwrap_or_default());
        }
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in rows {
        let _ = write!(text, "  {:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        let _ = writeln!(text);
    }
}

fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the beginning");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::places::Places;

    #[test]
    fn a_result_stands_beside_what_the_paper_prints() {
        let places = Places::named("part", ["one", "two"]);
        let line = places.line("forge", [50.0, 2.5]).beside([Some(40.0), None]);
        let figure = places.figure("Shares", ("share", "%"), [line]);
        let experiment = Experiment {
            name: "x".to_owned(),
            title: "a test".to_owned(),
            what: "word ".repeat(60),
            figures: vec![figure],
            run: None,
        };
        let text = render(&experiment);
        assert!(text.contains("one   50 (paper 40, ratio 1.25)"), "{text}");
        assert!(text.contains("2.500"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }
}
