//! Figures as text: a row for each place along, a column for each series. Beside a result stand the
//! paper's number and the ratio, if the paper prints one. A table that is too wide for a terminal
//! is several tables.

use super::{Experiment, Figure, Point, caption, number};
use std::fmt::Write;

/// No line is longer, unless a single series is.
const COLUMNS: usize = 120;

/// The text for a terminal.
pub fn render(experiment: &Experiment) -> String {
    let mut text = String::new();
    let heading = format!("{}: {}", experiment.name, experiment.heading());
    let (brief, _) = caption(&experiment.what);
    let verdict = experiment.verdict();
    let told = [heading.as_str()].into_iter().chain(verdict.iter().map(String::as_str)).chain([brief]);
    for line in told.flat_map(|told| wrapped(told, COLUMNS)) {
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
        _ => match point.interval {
            Some([low, high]) => format!("{} ({} to {})", number(point.y), number(low), number(high)),
            None => number(point.y),
        },
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
    let mut first = 1;
    while first < widths.len() {
        // As many series as there is room for, one at least.
        let mut taken = 2 + widths[0];
        let fits = widths[first..].iter().take_while(|width| {
            taken += 2 + **width;
            taken <= COLUMNS
        });
        let end = first + fits.count().max(1);
        if first > 1 {
            text.push('\n');
        }
        for row in &rows {
            let _ = write!(text, "  {:<width$}", row[0], width = widths[0]);
            for (cell, width) in row[first..end].iter().zip(&widths[first..end]) {
                let _ = write!(text, "  {cell:>width$}");
            }
            let _ = writeln!(text);
        }
        first = end;
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
            ..Experiment::default()
        };
        let text = render(&experiment);
        assert!(text.contains("one   50 (paper 40, ratio 1.25)"), "{text}");
        assert!(text.contains("2.500"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }

    #[test]
    fn a_wide_table_is_several_and_a_long_caption_its_first_two_sentences() {
        let places = Places::named("part", ["one", "two"]);
        let names: Vec<String> = (0..20).map(|number| format!("an engine, number {number:02}")).collect();
        let lines = names.iter().map(|name| places.line(name, [1.0, 2.0]));
        let figure = places.figure("Shares", ("share", "%"), lines);
        let what = "The first. The second, v. 1.5. The third.".to_owned();
        let (name, title) = ("x".to_owned(), "a test".to_owned());
        let experiment = Experiment { name, title, what, figures: vec![figure], ..Experiment::default() };
        let text = render(&experiment);
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        assert!(names.iter().all(|name| text.contains(name.as_str())), "{text}");
        assert!(text.contains("v. 1.5.\n") && !text.contains("third"), "{text}");
    }
}
