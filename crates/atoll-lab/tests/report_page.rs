//! A browser opens the page of results.

use atoll_lab::report::{self, Axis, Experiment, Figure, Point, Series};
use atoll_sim::requirement::offered;
use std::path::Path;
use std::process::Command;

/// What the script ends with where there is no browser.
const SKIPPED: i32 = 77;

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

fn experiment() -> Experiment {
    let series = |name: &str, by: f64| {
        let points = (1..=5).map(|x| Point {
            x: f64::from(x),
            y: f64::from(x) * by,
            paper: Some(f64::from(x)),
            ..Point::default()
        });
        Series { name: name.to_owned(), points: points.collect() }
    };
    let lines = Figure {
        title: "Throughput".to_owned(),
        x: Axis { logarithmic: true, ..axis("threads") },
        y: axis("throughput"),
        series: vec![series("forge", 1.1), series("other", 0.5)],
        ..Figure::default()
    };
    let places = (0..6).map(|place| format!("place {place}")).collect();
    let bars = Figure { x: Axis { categories: places, ..axis("cache") }, ..lines.clone() };
    // Names that do not fit side by side.
    let traces = (0..12).map(|place| format!("mooncake_conversation_{place}")).collect();
    let upright = Figure { x: Axis { categories: traces, ..axis("trace") }, ..lines.clone() };
    let (name, title) = ("page".to_owned(), "A page".to_owned());
    Experiment {
        name,
        title,
        what: "A page for a browser.".to_owned(),
        figures: vec![lines, bars, upright],
        ..Experiment::default()
    }
}

#[test]
fn a_browser_shows_every_plot_of_the_page_and_nothing_on_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    report::write(folder.path(), &experiment()).unwrap();
    let page = folder.path().join(report::PAGE_FILE);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/look-at-report");
    let look = |page: &Path| Command::new(&script).arg(page).output().unwrap();
    let seen = look(&page);
    let (said, errors) = (String::from_utf8_lossy(&seen.stdout), String::from_utf8_lossy(&seen.stderr));
    let found = if seen.status.code() == Some(SKIPPED) { Err(errors.trim().to_owned()) } else { Ok(()) };
    let Some(()) = offered("chromium", found) else { return };
    assert!(seen.status.success() && said.contains("3 plots"), "{said}{errors}");

    let broken = folder.path().join("broken.html");
    let text = std::fs::read_to_string(&page).unwrap().replacen("<svg role", "<svg style=\"display: none\" role", 1);
    std::fs::write(&broken, text).unwrap();
    let seen = look(&broken);
    assert_eq!(seen.status.code(), Some(1), "a plot that cannot be seen is noticed");
}
