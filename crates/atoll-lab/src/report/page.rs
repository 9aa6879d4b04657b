//! The page: one HTML file that contains everything, well-formed as XML too.

use super::verdict::Tally;
use super::{Experiment, Figure, Reached, Run, caption, number, plot};
use crate::LabError;
use std::fmt::{self, Write};

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1d2129; --faint: #667085; --back: #ffffff; --card: #f6f7f9; --line: #d8dce3; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8ec; --faint: #98a2b3; --back: #14161a; --card: #1c1f25; --line: #343a44; }
}
body { margin: 0 auto; padding: 2rem 1rem; max-width: 60rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 3rem; } h3 { font-size: 1.05rem; margin: 0; }
p, .faint { color: var(--faint); } p.verdict { color: var(--text); margin: .25rem 0; } a { color: inherit; }
figure { margin: 1.5rem 0; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
svg { display: block; width: 100%; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .5rem 0; font-size: .9rem; }
.legend i { font-style: normal; margin-right: .4em; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } summary { cursor: pointer; }
";

/// `text` where HTML expects text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The page of these experiments.
pub(super) fn render(experiments: &[Experiment]) -> Result<String, LabError> {
    let mut page = String::new();
    write_page(&mut page, experiments)
        .map_err(|error| LabError::Failed(format!("the report cannot be drawn: {error}")))?;
    Ok(page)
}

fn write_page(page: &mut String, experiments: &[Experiment]) -> Result<(), Box<dyn std::error::Error>> {
    let head = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Atoll: results</title>\n";
    writeln!(page, "{head}<style>{STYLE}</style>\n</head>\n<body>\n<h1>Atoll: results</h1>")?;
    writeln!(page, "<svg width=\"0\" height=\"0\" style=\"position: absolute\">{}</svg>\n<ul>", plot::patterns())?;
    for experiment in experiments {
        let (name, tally) = (&experiment.name, experiment.tally());
        let told = if tally.printed() > 0 { format!(": {tally}") } else { String::new() };
        writeln!(page, "<li><a href=\"#{name}\">{}</a>{told}</li>", escaped(&experiment.heading()))?;
    }
    writeln!(page, "</ul>")?;
    let total: Tally = experiments.iter().map(Experiment::tally).sum();
    if total.printed() > 0 {
        writeln!(page, "<p class=\"verdict\">Together: {total}.</p>")?;
        printed_numbers(page, experiments)?;
    }
    for experiment in experiments {
        let Experiment { name, what, figures, run, .. } = experiment;
        writeln!(page, "<section id=\"{name}\">\n<h2>{}</h2>", escaped(&experiment.heading()))?;
        for line in experiment.verdict() {
            writeln!(page, "<p class=\"verdict\">{}</p>", escaped(&line))?;
        }
        let (brief, rest) = caption(what);
        writeln!(page, "<p>{}</p>", escaped(brief))?;
        if !rest.is_empty() {
            writeln!(page, "<details><summary>More</summary><p>{}</p></details>", escaped(rest))?;
        }
        if let Some(run) = run {
            writeln!(page, "<p class=\"faint\">{}</p>", escaped(&told(run)))?;
        }
        for (index, figure) in figures.iter().enumerate() {
            writeln!(page, "<figure id=\"{name}-{}\">\n<h3>{}</h3>", index + 1, escaped(&figure.title))?;
            for part in plot::parts(figure) {
                writeln!(page, "{}", plot::svg_of(figure, &part)?)?;
                legend(page, figure, &part)?;
            }
            writeln!(page, "<details>\n<summary>Numbers</summary>")?;
            table(page, figure)?;
            writeln!(page, "</details>\n</figure>")?;
        }
        sizes(page, &experiment.reached)?;
        writeln!(page, "</section>")?;
    }
    writeln!(page, "</body>\n</html>")?;
    Ok(())
}

/// How an experiment was run.
fn told(run: &Run) -> String {
    let Run { quick, seed, seeds, profiles, version, commit } = run;
    let (kind, commit) = (if *quick { "Quick" } else { "Full" }, commit.as_deref().unwrap_or("unknown"));
    let seeds = match seeds {
        0 | 1 => format!("seed {seed}"),
        _ => format!("seeds {seed} to {}, whose least and most are the intervals", seed + u64::from(*seeds) - 1),
    };
    let networks = if profiles.is_empty() { String::new() } else { format!(", network {}", profiles.join(" and ")) };
    format!("{kind} run with {seeds}{networks}, Atoll {version}, commit {commit}.")
}

/// A table of what the points reached.
fn sizes(page: &mut String, reached: &[Reached]) -> fmt::Result {
    if reached.is_empty() {
        return Ok(());
    }
    writeln!(page, "<details>\n<summary>Sizes reached, and what was full</summary>\n<div class=\"wide\"><table>")?;
    writeln!(page, "<tr><th>line</th><th>at</th><th>objects held</th><th>objects a group</th><th>busiest server</th>")?;
    writeln!(page, "<th>busy (%)</th><th>full</th></tr>")?;
    for Reached { line, at, objects_held, objects_a_group, busiest, busy_percent, full } in reached {
        let group = objects_a_group.map(|objects| objects.to_string()).unwrap_or_default();
        let cells = [at.clone(), objects_held.to_string(), group, busiest.clone(), number(*busy_percent), full.clone()];
        let cells = cells.map(|cell| escaped(&cell)).join("</td><td>");
        writeln!(page, "<tr><td>{}</td><td>{cells}</td></tr>", escaped(line))?;
    }
    writeln!(page, "</table></div>\n</details>")
}

/// A table of every printed number of these experiments.
fn printed_numbers(page: &mut String, experiments: &[Experiment]) -> fmt::Result {
    writeln!(page, "<details>\n<summary>All printed numbers</summary>\n<div class=\"wide\"><table>")?;
    writeln!(page, "<tr><th>figure</th><th>at</th><th>source</th><th>paper</th><th>ours</th><th>ratio</th>")?;
    writeln!(page, "<th>verdict</th></tr>")?;
    for experiment in experiments {
        for (figure, series, point, verdict) in experiment.judged() {
            let what = escaped(&format!("{}: {}", experiment.name, figure.title));
            let (at, optional) = (figure.x.at(point.x), |value: Option<f64>| value.map(number).unwrap_or_default());
            let source = figure.source.clone();
            let (paper, ratio) = (optional(point.paper), optional(point.ratio()));
            let cells = [format!("{series}, {at}"), source, paper, number(point.y), ratio, verdict.to_string()];
            let cells = cells.map(|cell| escaped(&cell)).join("</td><td>");
            writeln!(page, "<tr><td>{what}</td><td>{cells}</td></tr>")?;
        }
    }
    writeln!(page, "</table></div>\n</details>")
}

fn legend(page: &mut String, figure: &Figure, part: &[usize]) -> fmt::Result {
    writeln!(page, "<div class=\"legend\">")?;
    let shown = || part.iter().map(|series| &figure.series[*series]);
    for (index, series) in shown().enumerate() {
        let mark = plot::mark(index, figure.x.categories.is_empty());
        writeln!(page, "<span><i>{mark}</i>{}</span>", escaped(&series.name))?;
    }
    if shown().flat_map(|series| &series.points).any(|point| point.paper.is_some()) {
        let source = if figure.source.is_empty() { "the paper" } else { &figure.source };
        writeln!(page, "<span class=\"faint\">hollow: what is printed in {}</span>", escaped(source))?;
    }
    writeln!(page, "</div>")
}

fn table(page: &mut String, figure: &Figure) -> fmt::Result {
    let captions = [figure.x.caption(), figure.y.caption()].map(|caption| escaped(&caption));
    writeln!(page, "<div class=\"wide\"><table>\n<tr><th>series</th><th>{}</th><th>{}</th>", captions[0], captions[1])?;
    writeln!(page, "<th>paper</th><th>ratio</th><th>verdict</th></tr>")?;
    for series in &figure.series {
        for point in &series.points {
            let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
            let verdict = figure.verdict(point).map(|verdict| verdict.to_string()).unwrap_or_default();
            let cells = [number(point.y), optional(point.paper), optional(point.ratio()), verdict].join("</td><td>");
            let at = escaped(&figure.x.at(point.x));
            writeln!(page, "<tr><td>{}</td><td>{at}</td><td>{cells}</td></tr>", escaped(&series.name))?;
        }
    }
    writeln!(page, "</table></div>")
}
