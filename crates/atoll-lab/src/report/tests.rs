//! The page holds the plots and the numbers.

use super::*;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeSet;

fn experiment() -> Experiment {
    let point = |x, y, paper| Point { x, y, paper, ..Point::default() };
    let axis = |label: &str, unit: &str| Axis { label: label.to_owned(), unit: unit.to_owned(), ..Axis::default() };
    let lines = Figure {
        title: "Throughput & <latency>".to_owned(),
        x: Axis { logarithmic: true, ..axis("threads", "") },
        y: axis("throughput", "Mops"),
        series: vec![
            Series {
                name: "forge".to_owned(),
                points: vec![
                    point(16.0, 3.25, Some(3.5)),
                    point(64.0, 11.126, Some(12.0)),
                    point(256.0, 20.0, Some(22.5)),
                ],
            },
            Series { name: "a \"baseline\"".to_owned(), points: vec![point(16.0, 1.5, None), point(256.0, 2.5, None)] },
        ],
        ..Figure::default()
    };
    let categories = ["A", "B", "C"].map(str::to_owned).to_vec();
    let bars = Figure {
        title: "Hit ratio".to_owned(),
        x: Axis { categories, ..axis("YCSB", "") },
        y: axis("hit ratio", "%"),
        series: ["forge", "ditto"]
            .map(|name| Series {
                name: name.to_owned(),
                points: (0..3).map(|place| point(f64::from(place), 60.0 + f64::from(place), Some(61.0))).collect(),
            })
            .to_vec(),
        ..Figure::default()
    };
    let logarithms = Figure { y: Axis { logarithmic: true, ..lines.y.clone() }, ..lines.clone() };
    let empty = Figure { series: Vec::new(), ..logarithms.clone() };
    Experiment {
        name: "forge-fig13".to_owned(),
        title: "FORGE Fig. 13".to_owned(),
        what: "YCSB with 20 % cache.".to_owned(),
        figures: vec![lines, bars, logarithms, empty],
        ..Experiment::default()
    }
}

fn text(node: Node) -> String {
    node.descendants().filter_map(|part| part.is_text().then(|| part.text()).flatten()).collect()
}

/// The plots in a part of the page.
fn plots<'a, 'input>(within: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    within.descendants().filter(|node| node.attribute("role") == Some("img"))
}

#[test]
fn the_page_has_every_plot_and_every_number_and_nothing_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &experiment()).unwrap();
    let page = std::fs::read_to_string(folder.path().join(PAGE_FILE)).unwrap();
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&page, options).unwrap();
    let named = |node: Node, name: &str| node.descendants().filter(|part| part.has_tag_name(name)).count();
    let figures: Vec<Node> = document.descendants().filter(|node| node.has_tag_name("figure")).collect();
    assert_eq!(figures.len(), 4);
    for (figure, shown) in experiment().figures.iter().zip(&figures) {
        let text = text(*shown);
        assert!(text.contains(&figure.title) && text.contains(&figure.y.caption()), "{text}");
        assert_eq!(plots(*shown).count(), 1);
        let points: usize = figure.series.iter().map(|series| series.points.len()).sum();
        assert_eq!(named(*shown, "tr"), 1 + points);
    }
    let marks = |node: &Node, name: &str| node.descendants().filter(|part| part.tag_name().name() == name).count();
    // Of the first line three points measured and three printed, of the second two squares; six
    // bars of each.
    assert_eq!((marks(&figures[0], "circle"), marks(&figures[0], "rect")), (6, 2));
    assert!(marks(&figures[1], "rect") >= 12);
    let numbers = text(figures[0]);
    for number in ["11.13", "20", "22.5", "0.9286", "256"] {
        assert!(numbers.contains(number), "{number} in {numbers}");
    }
    let places = plots(figures[1]).next().map(text).unwrap();
    assert!(["A", "B", "C"].iter().all(|place| places.contains(place)), "{places}");
    let outside =
        ["href", "src"].iter().flat_map(|name| document.descendants().filter_map(move |node| node.attribute(*name)));
    assert!(outside.into_iter().all(|link| link.starts_with('#')));
    assert!(page.matches("url(").count() == page.matches("url(#bars-").count());
    assert!(!page.contains("@import") && !page.contains("<script"));
}

#[test]
fn results_survive_as_json_and_tables_have_all_digits() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &experiment()).unwrap();
    assert_eq!(read(folder.path()).unwrap(), [experiment()]);
    let mut table = csv::Reader::from_path(folder.path().join("forge-fig13-1.csv")).unwrap();
    assert_eq!(
        table.headers().unwrap(),
        ["series", "threads", "throughput (Mops)", "least", "most", "paper", "ratio to paper", "verdict"].as_slice()
    );
    let rows: Vec<_> = table.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 5);
    assert_eq!((&rows[1][2], &rows[1][7]), ("11.126", "within 30 %"));
    assert_eq!((&rows[3][0], &rows[3][5]), ("a \"baseline\"", ""));
    let bars = std::fs::read_to_string(folder.path().join("forge-fig13-2.csv")).unwrap();
    assert!(bars.contains("ditto,C,62,,,61,"), "{bars}");
}

#[test]
fn a_second_experiment_joins_the_page() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &experiment()).unwrap();
    write(folder.path(), &Experiment { name: "other".to_owned(), ..experiment() }).unwrap();
    let page = std::fs::read_to_string(rebuild(folder.path()).unwrap()).unwrap();
    assert!(page.contains("id=\"forge-fig13\"") && page.contains("id=\"other\""));
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(rebuild(folder.path()).unwrap_err().to_string().contains("no results"));
    let mut wrong = experiment();
    wrong.figures[0].series[0].points[0].x = 0.0;
    assert!(write(folder.path(), &wrong).unwrap_err().to_string().contains("logarithmic"));
    wrong = experiment();
    wrong.figures[1].series[0].points[0].x = 3.0;
    assert!(write(folder.path(), &wrong).unwrap_err().to_string().contains("category"));
    wrong = Experiment { name: "../x".to_owned(), ..experiment() };
    assert!(write(folder.path(), &wrong).unwrap_err().to_string().contains("small letters"));
    std::fs::write(folder.path().join("x.json"), "{}").unwrap();
    assert!(rebuild(folder.path()).unwrap_err().to_string().contains("no results of an experiment"));
}

#[test]
fn a_plot_has_at_most_eight_series_and_lines_differ_without_their_colours() {
    let folder = tempfile::tempdir().unwrap();
    let mut many = experiment();
    many.figures.truncate(1);
    let point = |x: f64| Point { x, y: x, ..Point::default() };
    many.figures[0].series = (0..11)
        .map(|number| Series { name: format!("engine {number}"), points: vec![point(16.0), point(256.0)] })
        .collect();
    write(folder.path(), &many).unwrap();
    let page = std::fs::read_to_string(folder.path().join(PAGE_FILE)).unwrap();
    let document =
        Document::parse_with_options(&page, ParsingOptions { allow_dtd: true, ..Default::default() }).unwrap();
    assert_eq!(plots(document.root()).count(), 2);
    let legends: Vec<Node> = document.descendants().filter(|node| node.attribute("class") == Some("legend")).collect();
    let marks =
        |legend: &Node| legend.descendants().filter(|node| node.has_tag_name("i")).map(text).collect::<Vec<_>>();
    let (first, second) = (marks(&legends[0]), marks(&legends[1]));
    assert_eq!((first.len(), second.len()), (8, 3));
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 8, "{first:?}");
    assert!(text(legends[1]).contains("engine 10") && !text(legends[0]).contains("engine 8"));
}

#[test]
fn many_systems_stand_side_by_side_in_one_plot_a_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut many = experiment();
    many.figures.truncate(1);
    let systems = ["forge", "ditto", "glcache-dm"];
    let name = |system: &str, load: usize| format!("ycsb-{load}, {system}");
    many.figures[0].series = systems
        .iter()
        .flat_map(|system| (0..4).map(move |load| name(system, load)))
        .map(|name| Series { name, points: vec![Point { x: 16.0, y: 1.0, ..Point::default() }] })
        .collect();
    write(folder.path(), &many).unwrap();
    let page = std::fs::read_to_string(folder.path().join(PAGE_FILE)).unwrap();
    let document =
        Document::parse_with_options(&page, ParsingOptions { allow_dtd: true, ..Default::default() }).unwrap();
    let legends: Vec<Node> = document.descendants().filter(|node| node.attribute("class") == Some("legend")).collect();
    assert_eq!((plots(document.root()).count(), legends.len()), (4, 4));
    for (load, legend) in legends.into_iter().enumerate() {
        let shown = text(legend);
        assert!(systems.iter().all(|system| shown.contains(&name(system, load))), "{shown}");
    }
}

#[test]
fn names_of_categories_do_not_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let mut wide = experiment();
    let name = |place: usize| format!("mooncake_conversation_number_{place}");
    wide.figures.drain(..1);
    wide.figures.truncate(1);
    wide.figures[0].x.categories = (0..12).map(name).collect();
    write(folder.path(), &wide).unwrap();
    let page = std::fs::read_to_string(folder.path().join(PAGE_FILE)).unwrap();
    let document =
        Document::parse_with_options(&page, ParsingOptions { allow_dtd: true, ..Default::default() }).unwrap();
    let labels = document.descendants().filter(|node| node.tag_name().name() == "text");
    let labels: Vec<Node> = labels.filter(|node| text(*node).contains("mooncake")).collect();
    assert_eq!(labels.len(), 12);
    let mut end = f64::NEG_INFINITY;
    for (place, node) in labels.into_iter().enumerate() {
        assert_eq!(text(node).trim(), name(place));
        // It stands upright: its letters' height is what it takes of the width.
        assert!(node.attribute("transform").unwrap().starts_with("rotate(90"));
        let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
        let (middle, letters) = (number("x"), number("font-size"));
        assert!(middle - letters / 2.0 > end, "{:?} begins before the name before it ends", text(node));
        end = middle + letters / 2.0;
    }
}

#[test]
fn bars_differ_without_their_colours() {
    let folder = tempfile::tempdir().unwrap();
    let mut many = experiment();
    many.figures.drain(..1);
    many.figures.truncate(1);
    let names = |number: usize| format!("engine {number}");
    let points = many.figures[0].series[0].points.clone();
    many.figures[0].series = (0..8).map(|number| Series { name: names(number), points: points.clone() }).collect();
    write(folder.path(), &many).unwrap();
    let page = std::fs::read_to_string(folder.path().join(PAGE_FILE)).unwrap();
    let hatches: BTreeSet<&str> = page.split("<path d=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(hatches.len(), 8, "{hatches:?}");
    for number in 0..8 {
        // In the legend, and at least once in the plot.
        assert!(page.matches(&format!("url(#bars-{number})")).count() > 1, "{number}");
    }
}

#[test]
fn a_caption_has_two_sentences_and_the_rest_is_folded() {
    let folder = tempfile::tempdir().unwrap();
    let what = "The first. The second, v. 1.5. The third. The fourth.".to_owned();
    write(folder.path(), &Experiment { what, ..experiment() }).unwrap();
    let page = std::fs::read_to_string(folder.path().join(PAGE_FILE)).unwrap();
    assert!(page.contains("<p>The first. The second, v. 1.5.</p>"));
    assert!(page.contains("<details><summary>More</summary><p>The third. The fourth.</p></details>"));
}

#[test]
fn the_page_says_how_it_was_run_and_shows_intervals_printed_numbers_and_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let mut repeated = experiment();
    repeated.figures.drain(2..);
    repeated.figures[0].source = "FORGE, section 6.2".to_owned();
    let before = plot_lines(&repeated);
    repeated.figures[0].series[0].points[0].interval = Some([3.0, 3.5]);
    let profiles = vec!["cx5-100g".to_owned()];
    repeated.run = Some(Run { seed: 1, seeds: 3, profiles, version: "1".to_owned(), ..Run::default() });
    repeated.conclusions = vec!["The atomics unit is full.".to_owned()];
    let reached =
        Reached { line: "ycsb-c, forge".to_owned(), at: "16".to_owned(), objects_held: 12_345, ..Reached::default() };
    repeated.reached = vec![Reached { objects_a_group: Some(64), full: "atomics unit".to_owned(), ..reached }];
    assert_eq!(plot_lines(&repeated), before + 1);
    write(folder.path(), &repeated).unwrap();
    let page = std::fs::read_to_string(folder.path().join(PAGE_FILE)).unwrap();
    for told in [
        "FORGE Fig. 13 (full run)",
        "Full run with seeds 1 to 3",
        "network cx5-100g",
        "9 of 9 printed numbers are in the right direction",
        "<td>12345</td><td>64</td>",
        "The atomics unit is full.",
        "what is printed in FORGE, section 6.2",
    ] {
        assert!(page.contains(told), "{told}");
    }
    let table = std::fs::read_to_string(folder.path().join(PRINTED_FILE)).unwrap();
    assert_eq!(table.lines().count(), 1 + 9, "{table}");
    assert_eq!(read(folder.path()).unwrap(), [repeated]);
}

/// Lines in the plot of an experiment's first figure.
fn plot_lines(experiment: &Experiment) -> usize {
    svg(&experiment.figures[0]).unwrap().matches("<polyline").count()
}
