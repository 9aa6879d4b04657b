//! A figure as SVG: lines over numbers, groups of bars over categories. What the paper prints is
//! hollow, in the colour of its series.
//!
//! A plot has at most [`SERIES_MAX`] series; a figure with more has several plots over the same
//! axes: one for each load where series are named `LOAD, SYSTEM`, so that systems stand side by
//! side. Series are told apart without their colour: lines by the mark of their points, and the
//! second four of them are dashed; bars by how they are hatched. An upright line at a result is the
//! interval of several seeds.
//!
//! Names of categories that do not fit side by side stand upright.
//!
//! Axes and letters have the colour of the text around. The plot is legible on a dark and on a
//! light page.

use super::{Axis, Figure, Point, number};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
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
/// Letters of names that stand upright.
const LETTERS_UPRIGHT: u32 = 14;
/// The height of the caption below the labels.
const CAPTION: u32 = 26;
/// The width of a letter, in parts of its height.
const LETTER_WIDTH: f64 = 0.56;

/// The colour of the series of that number.
fn colour(series: usize) -> String {
    let (red, green, blue) = COLOURS[series % COLOURS.len()];
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// How the bars of each series are hatched: lines and dots on a square of 8 pixels. The first
/// series is plain.
const HATCHES: [&str; SERIES_MAX] =
    ["", "M0 8L8 0", "M0 4H8", "M4 4h.01", "M0 0L8 8", "M4 0V8", "M0 4H8M4 0V8", "M0 0L8 8M0 8L8 0"];

/// The patterns of hatched bars. A page needs them once.
pub(super) fn patterns() -> String {
    let pattern = |(series, hatch): (usize, &&str)| {
        let (id, colour) = (pattern_id(series), colour(series));
        let opacity = if hatch.is_empty() { 1.0 } else { 0.3 };
        format!(
            "<pattern id=\"{id}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" height=\"8\" \
             fill=\"{colour}\" fill-opacity=\"{opacity}\"/><path d=\"{hatch}\" stroke=\"{colour}\" stroke-width=\"3\" \
             stroke-linecap=\"round\"/></pattern>"
        )
    };
    format!("<defs>{}</defs>", HATCHES.iter().enumerate().map(pattern).collect::<String>())
}

fn pattern_id(series: usize) -> String {
    format!("bars-{series}")
}

/// The mark of a series in the legend, of a figure with lines or with bars.
pub(super) fn mark(series: usize, has_lines: bool) -> String {
    let series = series % SERIES_MAX;
    if !has_lines {
        let fill = pattern_id(series);
        return format!(
            "<svg style=\"display: inline; width: 24px; height: 16px; vertical-align: middle\"><rect width=\"24\" \
             height=\"16\" fill=\"url(#{fill})\"/></svg>"
        );
    }
    let (mark, dashes) = (MARKS[series % MARKS.len()], if series < MARKS.len() { "" } else { "┄" });
    format!("<span style=\"color: {}\">{mark}{dashes}</span>", colour(series))
}

/// How the names of categories stand below a plot.
struct Labels {
    /// The size of their letters.
    letters: u32,
    /// Whether they stand side by side.
    is_beside: bool,
    /// The height that they take.
    height: u32,
}

impl Labels {
    fn of(names: &[String]) -> Self {
        let place = f64::from(SIZE.0 - LABELS_LEFT - 2 * MARGIN) / names.len().max(1) as f64;
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        // A letter stays free between two names.
        let letters = (place / (LETTER_WIDTH * (longest + 1) as f64)) as u32;
        if letters >= LETTERS_MIN {
            return Self { letters: letters.min(LETTERS), is_beside: true, height: LETTERS + 4 };
        }
        let letters = ((place * 0.9) as u32).clamp(1, LETTERS_UPRIGHT);
        Self { letters, is_beside: false, height: 10 + (LETTER_WIDTH * f64::from(letters) * longest as f64) as u32 }
    }
}

fn shade(series: usize) -> RGBColor {
    let (red, green, blue) = COLOURS[series % COLOURS.len()];
    RGBColor(red, green, blue)
}

/// The series of each plot of a figure, by their numbers: one plot at least.
pub(super) fn parts(figure: &Figure) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..figure.series.len()).collect();
    if all.len() <= SERIES_MAX {
        return vec![all];
    }
    let load = |series: &usize| figure.series[*series].name.split_once(", ").map(|(load, _)| load);
    let mut loads: Vec<Vec<usize>> = Vec::new();
    for series in &all {
        match loads.iter_mut().find(|others| load(&others[0]) == load(series)) {
            Some(others) => others.push(*series),
            None => loads.push(vec![*series]),
        }
    }
    let is_plot = |loads: &Vec<usize>| (2..=SERIES_MAX).contains(&loads.len()) && load(&loads[0]).is_some();
    if loads.iter().all(is_plot) { loads } else { all.chunks(SERIES_MAX).map(<[usize]>::to_vec).collect() }
}

/// The plot of a figure as an SVG element, of its first series if it has too many. It is whole
/// without a page.
pub(crate) fn svg(figure: &Figure) -> Result<String, Box<dyn Error>> {
    let plot = svg_of(figure, &(0..figure.series.len().min(SERIES_MAX)).collect::<Vec<_>>())?;
    Ok(plot.replacen('>', &format!(">{}", patterns()), 1))
}

/// The plot of these series as an SVG element. Its axes are those of the whole figure.
pub(super) fn svg_of(figure: &Figure, part: &[usize]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let xs = || figure.series.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ys = || {
        figure.series.iter().flat_map(|series| &series.points).flat_map(|point| {
            let [low, high] = point.interval.map_or([None; 2], |interval| interval.map(Some));
            [Some(point.y), point.paper, low, high]
        })
    };
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
    let size = format!("<svg width=\"{}\" height=\"{}\" ", SIZE.0, height(figure));
    let mut text = text.replacen(&size, "<svg role=\"img\" ", 1).replace("\"#010203\"", "\"currentColor\"");
    if !figure.x.categories.is_empty() {
        for series in 0..SERIES_MAX {
            let filled = |with: &str| format!("fill=\"{with}\"");
            text = text.replace(&filled(&colour(series)), &filled(&format!("url(#{})", pattern_id(series))));
        }
    }
    Ok(text)
}

/// The height of a figure's plot: names that stand upright make it higher.
fn height(figure: &Figure) -> u32 {
    SIZE.1 + Labels::of(&figure.x.categories).height - Labels::of(&[]).height
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
    part: &[usize],
    (x, y, floor): (X, Y, f64),
    text: &mut String,
) -> Result<(), Box<dyn Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let labels = Labels::of(&figure.x.categories);
    let root = SVGBackend::with_string(text, (SIZE.0, height(figure))).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, LABELS_LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, labels.height + CAPTION)
        .build_cartesian_2d(x, y)?;
    let places = &figure.x.categories;
    // With as many labels as places plotters puts one at each whole number.
    let at_x = |value: &f64| match places.is_empty() {
        true => number(*value),
        false if value.fract() == 0.0 && *value >= 0.0 && labels.is_beside => {
            places.get(*value as usize).cloned().unwrap_or_default()
        }
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
        mesh.x_label_style(("sans-serif", labels.letters).into_font().color(&TEXT));
    }
    mesh.draw()?;
    if !labels.is_beside {
        let upright = ("sans-serif", labels.letters).into_font().transform(FontTransform::Rotate90).color(&TEXT);
        let upright = upright.pos(Pos::new(HPos::Left, VPos::Center));
        for (place, name) in places.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(place as f64, floor));
            root.draw(&Text::new(name.as_str(), (x, y + 8), upright.clone()))?;
        }
    }
    for (index, series) in part.iter().map(|series| &figure.series[*series]).enumerate() {
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
            let intervals = series.points.iter().filter_map(|point| Some((point.x, point.interval?)));
            for (x, [low, high]) in intervals {
                chart.draw_series([PathElement::new([(x, low), (x, high)], colour.stroke_width(2))])?;
            }
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
        let middle = |point: &Point| point.x - GROUP / 2.0 + width * (index as f64 + 0.5);
        let intervals = series.points.iter().filter_map(|point| Some((middle(point), point.interval?)));
        for (x, [low, high]) in intervals {
            chart.draw_series([PathElement::new([(x, low), (x, high)], TEXT.stroke_width(2))])?;
        }
        let printed = series.points.iter().filter_map(|point| Some(corners(point, point.paper?, 0.2)));
        chart.draw_series(printed.map(|corners| Rectangle::new(corners, TEXT.stroke_width(2))))?;
    }
    drop(chart);
    root.present()?;
    Ok(())
}
