//! A figure as SVG: lines over numbers, groups of bars over categories. What the paper prints is
//! hollow, in the colour of its series.
//!
//! A plot has at most [`SERIES_MAX`] series; a figure with more has several plots over the same
//! axes. Lines are told apart without their colour: by the mark of their points, and the second
//! four of them are dashed. Bars stand in the order of the legend.
//!
//! Axes and letters have the colour of the text around. The plot is legible on a dark and on a
//! light page.

use super::{Axis, Figure, Point, number};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;

/// Series of one plot at most.
const SERIES_MAX: usize = 8;
/// Marks of points, as the legend shows them.
const MARKS: [&str; 4] = ["●", "■", "▲", "✕"];
/// Colours of series, legible on dark and light.
const COLOURS: [(u8, u8, u8); SERIES_MAX] = [
    (59, 130, 246),
    (234, 106, 20),
    (16, 165, 115),
    (225, 60, 100),
    (160, 90, 240),
    (190, 140, 10),
    (10, 160, 190),
    (130, 130, 130),
];
/// Stands for the colour of the text in what plotters writes; no series has it.
const TEXT: RGBColor = RGBColor(1, 2, 3);
const SIZE: (u32, u32) = (760, 400);
/// The part of a category's place that its bars take.
const GROUP: f64 = 0.8;
/// Left of the axes, and around the plot.
const LABELS_LEFT: u32 = 76;
const MARGIN: u32 = 8;
/// Letters of labels, in pixels.
const LETTERS: u32 = 16;
const LETTERS_MIN: u32 = 10;
/// The width of a letter, in parts of its height.
const LETTER_WIDTH: f64 = 0.56;

/// The colour of the series of that number.
pub(super) fn colour(series: usize) -> String {
    let (red, green, blue) = COLOURS[series % COLOURS.len()];
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The mark of a series in the legend, of a figure with lines or with bars.
pub(super) fn mark(series: usize, has_lines: bool) -> &'static str {
    match (has_lines, series % SERIES_MAX >= MARKS.len()) {
        (false, _) => MARKS[1],
        (true, false) => MARKS[series % MARKS.len()],
        (true, true) => ["●┄", "■┄", "▲┄", "✕┄"][series % MARKS.len()],
    }
}

/// The names of categories as there is room for them side by side, and the size of their letters.
/// Names that are too long lose their middle; the table below the plot has them whole.
fn labels(names: &[String]) -> (Vec<String>, u32) {
    let place = f64::from(SIZE.0 - LABELS_LEFT - 2 * MARGIN) / names.len().max(1) as f64;
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    // A letter stays free between two names.
    let letters = (place / (LETTER_WIDTH * (longest + 1) as f64)) as u32;
    let letters = letters.clamp(LETTERS_MIN, LETTERS);
    let room = ((place / (LETTER_WIDTH * f64::from(letters))) as usize).saturating_sub(1).max(1);
    let shortened = |name: &String| {
        let (count, kept) = (name.chars().count(), room.saturating_sub(1));
        if count <= room {
            return name.clone();
        }
        let head = name.chars().take(kept.div_ceil(2));
        head.chain(['…']).chain(name.chars().skip(count - kept / 2)).collect()
    };
    (names.iter().map(shortened).collect(), letters)
}

fn shade(series: usize) -> RGBColor {
    let (red, green, blue) = COLOURS[series % COLOURS.len()];
    RGBColor(red, green, blue)
}

/// The series of each plot of a figure, by their numbers: one plot at least.
pub(super) fn parts(figure: &Figure) -> impl Iterator<Item = Range<usize>> {
    let count = figure.series.len();
    (0..count.max(1)).step_by(SERIES_MAX).map(move |first| first..count.min(first + SERIES_MAX))
}

/// The plot of a figure as an SVG element, of its first series if it has too many.
pub(crate) fn svg(figure: &Figure) -> Result<String, Box<dyn Error>> {
    svg_of(figure, &(0..figure.series.len().min(SERIES_MAX)))
}

/// The plot of these series as an SVG element. Its axes are those of the whole figure.
pub(super) fn svg_of(figure: &Figure, part: &Range<usize>) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let xs = || figure.series.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ys = || figure.series.iter().flat_map(|series| &series.points).flat_map(|point| [Some(point.y), point.paper]);
    let (x, y) = if figure.x.categories.is_empty() {
        (range(&figure.x, xs(), false), range(&figure.y, ys().flatten(), true))
    } else {
        (-0.5..figure.x.categories.len() as f64 - 0.5, range(&figure.y, ys().flatten(), true))
    };
    match (figure.x.logarithmic, figure.y.logarithmic) {
        (false, false) => draw(figure, part, (x, y.clone(), y.start), &mut text)?,
        (true, false) => draw(figure, part, (x.log_scale().base(2.0), y.clone(), y.start), &mut text)?,
        (false, true) => draw(figure, part, (x, y.clone().log_scale(), y.start), &mut text)?,
        (true, true) => draw(figure, part, (x.log_scale().base(2.0), y.clone().log_scale(), y.start), &mut text)?,
    }
    // Scales to the page; a reader of the page by ear gets the title.
    let size = format!("<svg width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    let text = text.replacen(&size, "<svg role=\"img\" ", 1);
    Ok(text.replace("\"#010203\"", "\"currentColor\""))
}

/// What an axis spans.
fn range(axis: &Axis, values: impl Iterator<Item = f64>, upwards: bool) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return if axis.logarithmic { 1.0..10.0 } else { 0.0..1.0 };
    }
    match (axis.logarithmic, upwards) {
        (true, true) => low * 0.8..high * 1.25,
        (true, false) => low * 0.95..high * 1.05,
        // Heights are compared, so that they begin at 0.
        (false, true) => low.min(0.0)..if high > 0.0 { high * 1.08 } else { 1.0 },
        (false, false) if low == high => low - 0.5..high + 0.5,
        (false, false) => low - 0.02 * (high - low)..high + 0.02 * (high - low),
    }
}

fn draw<X, Y>(
    figure: &Figure,
    part: &Range<usize>,
    (x, y, floor): (X, Y, f64),
    text: &mut String,
) -> Result<(), Box<dyn Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, LABELS_LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, 46)
        .build_cartesian_2d(x, y)?;
    let (places, small) = labels(&figure.x.categories);
    // With as many labels as places plotters puts one at each whole number.
    let at_x = |value: &f64| match places.is_empty() {
        true => number(*value),
        false if value.fract() == 0.0 && *value >= 0.0 => places.get(*value as usize).cloned().unwrap_or_default(),
        false => String::new(),
    };
    let (caption_x, caption_y) = (figure.x.caption(), figure.y.caption());
    let letters = ("sans-serif", LETTERS).into_font().color(&TEXT);
    let mut mesh = chart.configure_mesh();
    mesh.axis_style(TEXT.mix(0.6)).bold_line_style(TEXT.mix(0.13)).light_line_style(TRANSPARENT);
    mesh.label_style(letters.clone()).axis_desc_style(letters).x_desc(caption_x).y_desc(caption_y);
    mesh.x_label_formatter(&at_x).y_label_formatter(&|value| number(*value)).y_labels(8);
    if places.is_empty() {
        mesh.x_labels(9);
    } else {
        mesh.disable_x_mesh().x_labels(2 * places.len() + 1);
        mesh.x_label_style(("sans-serif", small).into_font().color(&TEXT));
    }
    mesh.draw()?;
    for (index, series) in figure.series[part.clone()].iter().enumerate() {
        let colour = shade(index);
        if places.is_empty() {
            let measured = series.points.iter().map(|point| (point.x, point.y));
            match index < MARKS.len() {
                true => chart.draw_series(LineSeries::new(measured.clone(), colour.stroke_width(2)))?,
                false => chart.draw_series(DashedLineSeries::new(measured.clone(), 6, 4, colour.stroke_width(2)))?,
            };
            let (filled, around) = (colour.filled(), [(-4, -4), (4, 4)]);
            match index % MARKS.len() {
                0 => chart.draw_series(measured.map(|at| Circle::new(at, 4, filled)))?,
                1 => chart.draw_series(measured.map(|at| EmptyElement::at(at) + Rectangle::new(around, filled)))?,
                2 => chart.draw_series(measured.map(|at| TriangleMarker::new(at, 6, filled)))?,
                _ => chart.draw_series(measured.map(|at| Cross::new(at, 4, colour.stroke_width(2))))?,
            };
            let printed = series.points.iter().filter_map(|point| Some((point.x, point.paper?)));
            chart.draw_series(LineSeries::new(printed.clone(), colour.mix(0.5).stroke_width(1)))?;
            chart.draw_series(printed.map(|at| Circle::new(at, 5, colour.stroke_width(2))))?;
            continue;
        }
        let width = GROUP / part.len() as f64;
        let corners = |point: &Point, to: f64, slack: f64| {
            let left = point.x - GROUP / 2.0 + width * index as f64;
            [(left + width * slack, floor), (left + width * (1.0 - slack), to)]
        };
        let measured = series.points.iter().map(|point| Rectangle::new(corners(point, point.y, 0.06), colour.filled()));
        chart.draw_series(measured)?;
        let printed = series.points.iter().filter_map(|point| Some(corners(point, point.paper?, 0.2)));
        chart.draw_series(printed.map(|corners| Rectangle::new(corners, TEXT.stroke_width(2))))?;
    }
    drop(chart);
    root.present()?;
    Ok(())
}
