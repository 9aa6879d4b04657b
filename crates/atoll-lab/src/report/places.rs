//! Results brought into figures: the places along a figure, and the lines over them.

use super::{Axis, Figure, Point, Series};

/// The places along a figure: its axis, and where each result stands on it.
#[derive(Clone, Debug)]
pub struct Places {
    axis: Axis,
    xs: Vec<f64>,
}

impl Places {
    /// Things with names, one beside the other.
    pub fn named(label: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let categories: Vec<String> = names.into_iter().map(Into::into).collect();
        let xs = (0..categories.len()).map(|place| place as f64).collect();
        Self { axis: Axis { categories, ..axis(label, "") }, xs }
    }

    /// Numbers.
    pub fn numbers(label: &str, unit: &str, xs: impl IntoIterator<Item = impl Into<f64>>) -> Self {
        Self { axis: axis(label, unit), xs: xs.into_iter().map(Into::into).collect() }
    }

    /// The same with distances that are ratios.
    pub fn logarithmic(mut self) -> Self {
        self.axis.logarithmic = true;
        self
    }

    /// How many places there are.
    pub fn count(&self) -> usize {
        self.xs.len()
    }

    /// What stands at each place.
    pub fn names(&self) -> Vec<String> {
        self.xs.iter().map(|x| self.axis.at(*x)).collect()
    }

    /// A line of results, one for each place. The paper prints nothing for them.
    pub fn line(&self, name: impl Into<String>, ys: impl IntoIterator<Item = f64>) -> Series {
        let point = |(x, y): (&f64, f64)| Point { x: *x, y, ..Point::default() };
        Series { name: name.into(), points: self.xs.iter().zip(ys).map(point).collect() }
    }

    /// A figure of such lines. `y` is the label and the unit of the axis upwards.
    pub fn figure(&self, title: impl Into<String>, y: (&str, &str), lines: impl IntoIterator<Item = Series>) -> Figure {
        Figure {
            title: title.into(),
            source: String::new(),
            x: self.axis.clone(),
            y: axis(y.0, y.1),
            series: lines.into_iter().collect(),
        }
    }

    /// The same of factors: how many times one thing is better than another one.
    pub fn factors(&self, title: impl Into<String>, label: &str, lines: impl IntoIterator<Item = Series>) -> Figure {
        let mut figure = self.figure(title, (label, ""), lines);
        figure.y.factor = true;
        figure
    }
}

fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), ..Axis::default() }
}

impl Figure {
    /// The same figure, whose printed numbers stand there: paper and section.
    pub fn from(self, source: &str) -> Self {
        Self { source: source.to_owned(), ..self }
    }
}

impl Series {
    /// The same line beside what the paper prints for each of its places.
    pub fn beside(mut self, printed: impl IntoIterator<Item = Option<f64>>) -> Self {
        self.points.iter_mut().zip(printed).for_each(|(point, printed)| point.paper = printed);
        self
    }
}

/// The figures with other titles.
pub fn retitled(mut figures: Vec<Figure>, title: impl Fn(&str) -> String) -> Vec<Figure> {
    figures.iter_mut().for_each(|figure| figure.title = title(&figure.title));
    figures
}
