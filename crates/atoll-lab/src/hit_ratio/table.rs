//! The table of the hit-ratio experiment.

use super::HitRatioReport;
use super::oracle::{Point, mean_gap_pp};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The algorithms that stand beside the engine in every row; the gaps are shown for all.
const BESIDE: [&str; 7] = ["FIFO", "LRU", "S3-FIFO", "ARC", "SIEVE", "W-TinyLFU", "Belady"];

/// The whole table as text.
pub(super) fn render(points: &[Point], report: &HitRatioReport) -> String {
    let mut text = String::new();
    rows(&mut text, points, report);
    gaps(&mut text, points, report);
    against_lru(&mut text, points, report);
    text
}

fn percent(miss_ratio: Option<f64>) -> String {
    miss_ratio.map_or_else(|| "-".to_owned(), |miss_ratio| format!("{:.2}", 100.0 * miss_ratio))
}

fn rows(text: &mut String, points: &[Point], report: &HitRatioReport) {
    let _ = write!(
        text,
        "Miss ratio in percent\n\n{:<24}{:>4}{:>9}{:>11}",
        "trace",
        "%",
        "objects",
        report.engine.to_string()
    );
    for algorithm in BESIDE {
        let _ = write!(text, "{algorithm:>10}");
    }
    text.push('\n');
    for (point, row) in points.iter().zip(&report.rows) {
        let name = format!("{}{}", point.trace, if point.real { "" } else { " *" });
        let _ = write!(
            text,
            "{name:<24}{:>4}{:>9}{:>11}",
            point.size_pct,
            point.cache_objects,
            percent(Some(row.miss_ratio))
        );
        for algorithm in BESIDE {
            let _ = write!(text, "{:>10}", percent(point.miss_ratio(algorithm)));
        }
        text.push('\n');
    }
    if points.iter().any(|point| !point.real) {
        text.push_str("* synthetic: not counted below\n");
    }
}

fn gaps(text: &mut String, points: &[Point], report: &HitRatioReport) {
    let count = |objects_min| points.iter().filter(|point| point.real && point.cache_objects >= objects_min).count();
    let _ = write!(
        text,
        "\nMean gap to Belady in percentage points\n\n{:<24}{:>14}{:>14}\n{:<24}{:>14}{:>14}\n",
        "",
        ">= 1000",
        ">= 100",
        "rows",
        count(1000),
        count(100),
    );
    let algorithms: BTreeSet<&String> = points.iter().flat_map(|point| point.miss_ratios.keys()).collect();
    let gap = |algorithm: &str, objects_min| mean_gap_pp(points, objects_min, |point| point.miss_ratio(algorithm));
    let mut gaps: Vec<_> = algorithms.into_iter().map(|name| (name.clone(), gap(name, 1000), gap(name, 100))).collect();
    gaps.push((format!("> {}", report.engine), report.mean_gap_1000_pp, report.mean_gap_100_pp));
    gaps.sort_by(|a, b| (a.1, a.2).partial_cmp(&(b.1, b.2)).unwrap_or(std::cmp::Ordering::Equal));
    let number = |gap: Option<f64>| gap.map_or_else(|| "-".to_owned(), |gap| format!("{gap:.2}"));
    for (name, gap_1000, gap_100) in gaps {
        let _ = writeln!(text, "{name:<24}{:>14}{:>14}", number(gap_1000), number(gap_100));
    }
}

/// The row where the engine loses most to LRU, of those that the mean gap counts.
fn against_lru(text: &mut String, points: &[Point], report: &HitRatioReport) {
    for objects_min in [1000, 100] {
        let counted =
            points.iter().zip(&report.rows).filter(|(point, _)| point.real && point.cache_objects >= objects_min);
        let losses =
            counted.filter_map(|(point, row)| Some((100.0 * (row.miss_ratio - point.miss_ratio("LRU")?), point)));
        if let Some((loss, point)) = losses.max_by(|a, b| a.0.total_cmp(&b.0)) {
            let _ = writeln!(
                text,
                "{}Worst row against LRU (>= {objects_min}): {loss:+.2} points, {} at {} %",
                if objects_min == 1000 { "\n" } else { "" },
                point.trace,
                point.size_pct,
            );
        }
    }
}
