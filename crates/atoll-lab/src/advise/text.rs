//! The advice for people: a table with a small picture, and sentences.

use super::{Advice, Point};
use bytesize::ByteSize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Letters of a full bar.
const BAR: usize = 40;
/// Parts of a letter.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A bar for a ratio.
fn bar(ratio: f64) -> String {
    let eighths = (ratio.clamp(0.0, 1.0) * 8.0 * BAR as f64).round() as usize;
    let rest = if eighths.is_multiple_of(8) { String::new() } else { EIGHTHS[eighths % 8].to_string() };
    "█".repeat(eighths / 8) + &rest
}

/// The hit ratio of the engine that fits.
fn advised(advice: &Advice, point: &Point) -> f64 {
    let of_engine = advice.engine.as_ref().and_then(|engine| point.hit_ratios.get(engine)).copied();
    of_engine.unwrap_or_else(|| point.hit_ratios.values().copied().fold(0.0, f64::max))
}

/// The whole advice.
pub(super) fn render(advice: &Advice) -> String {
    let mut text = String::new();
    write(&mut text, advice).expect("memory takes what is written");
    text
}

fn write(text: &mut String, advice: &Advice) -> std::fmt::Result {
    write!(text, "{}: {} requests", advice.source, advice.requests)?;
    if let Some(objects) = advice.objects {
        write!(text, ", {objects} objects")?;
    }
    if let Some(bytes) = advice.object_bytes_mean {
        write!(text, " of {bytes} bytes")?;
    }
    writeln!(text, "\nfrom {}\n", advice.learnt_from)?;
    let engines: BTreeSet<&String> = advice.points.iter().flat_map(|point| point.hit_ratios.keys()).collect();
    write!(text, "{:>12}{:>12}", "capacity", "objects")?;
    engines.iter().try_for_each(|engine| write!(text, "{engine:>9}"))?;
    writeln!(text)?;
    for point in &advice.points {
        let objects = point.capacity_objects.map_or_else(|| "-".to_owned(), |objects| objects.to_string());
        write!(text, "{:>12}{objects:>12}", ByteSize(point.capacity_bytes).to_string())?;
        for engine in &engines {
            match point.hit_ratios.get(*engine) {
                Some(ratio) => write!(text, "{:>7.1} %", 100.0 * ratio)?,
                None => write!(text, "{:>9}", "-")?,
            }
        }
        writeln!(text, "  {}", bar(advised(advice, point)))?;
    }
    writeln!(text)?;
    sentences(text, advice)
}

fn sentences(text: &mut String, advice: &Advice) -> std::fmt::Result {
    let best = |point: &Point| advised(advice, point);
    if let Some(engine) = &advice.engine {
        writeln!(text, "The engine that fits: {engine}. The bars are its hits.")?;
    }
    if advice.object_bytes_mean.is_some() {
        writeln!(
            text,
            "A capacity here is that of the objects alone, all of the mean size. A pool needs more for its index, and \
             loads of mixed sizes differ: `atoll replay` measures an engine with all that."
        )?;
    }
    if let Some(capacity) = advice.capacity_bytes {
        let at = |bytes: u64| advice.points.iter().min_by_key(|point| point.capacity_bytes.abs_diff(bytes)).map(best);
        if let (Some(half), Some(once), Some(twice)) = (at(capacity / 2), at(capacity), at(2 * capacity)) {
            let change = |ratio: f64| 100.0 * (ratio - once);
            writeln!(
                text,
                "With {}: {:.1} % hits. Twice as much: {:+.1} points. Half: {:+.1} points.",
                ByteSize(capacity),
                100.0 * once,
                change(twice),
                change(half)
            )?;
        }
        return Ok(());
    }
    // The last step that still brings a point for every doubling.
    let mut gains = advice.points.windows(2).filter_map(|pair| {
        let doublings = (pair[1].capacity_bytes as f64 / pair[0].capacity_bytes.max(1) as f64).log2();
        let gain = 100.0 * (best(&pair[1]) - best(&pair[0]));
        (gain >= doublings).then_some(&pair[1])
    });
    match gains.next_back() {
        Some(point) => writeln!(
            text,
            "Up to {}, each doubling brings a point or more: {:.1} % hits there.",
            ByteSize(point.capacity_bytes),
            100.0 * best(point)
        ),
        None => writeln!(text, "More capacity than the smallest here brings hardly any hits."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_grows_with_the_ratio_and_the_sentences_name_the_change() {
        assert_eq!([bar(0.0), bar(1.0)].map(|bar| bar.chars().count()), [0, BAR]);
        let point = |capacity_bytes: u64, ratio: f64| Point {
            capacity_bytes,
            capacity_objects: None,
            hit_ratios: [("forge".to_owned(), ratio)].into(),
        };
        let advice = Advice {
            source: "here".to_owned(),
            learnt_from: "a test".to_owned(),
            requests: 9,
            objects: None,
            object_bytes_mean: None,
            capacity_bytes: Some(1000),
            points: vec![point(500, 0.25), point(1000, 0.5), point(2000, 0.625)],
            engine: Some("forge".to_owned()),
        };
        let text = render(&advice);
        assert!(text.contains("50.0 % hits. Twice as much: +12.5 points. Half: -25.0 points."), "{text}");
        assert!(text.contains("The engine that fits: forge."), "{text}");
        let unsized_load = Advice { capacity_bytes: None, ..advice };
        assert!(render(&unsized_load).contains("brings a point or more: 62.5 % hits"), "{}", render(&unsized_load));
    }
}
