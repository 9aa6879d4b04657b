//! Results of experiments as a page with plots and numbers, in one HTML file without anything from
//! outside, and the numbers as CSV.
//!
//! An experiment's results are one JSON file in a folder, `NAME.json`. `report.html` shows all of
//! the folder, and each figure has its `NAME-N.csv` (figures count from 1). `printed-numbers.csv`
//! has every printed number of the folder with its verdict. [`write()`] makes them all.
//! [`ReportCommand`] makes page and tables from existing JSON files.
//!
//! A figure shows what was measured beside what the paper prints, and [`verdict`] says of each
//! printed number how far the measured one is from it. Nothing is rounded in the JSON and the CSV.
//!
//! | module | concept |
//! |---|---|
//! | `page` | the page |
//! | `plot` | a figure as SVG |
//! | [`places`] | the places along a figure, and the lines over them |
//! | [`repeated`] | the same experiment with several seeds as one |
//! | [`text`] | figures as text for a terminal |
//! | [`verdict`] | what results say beside printed numbers |

mod page;
pub mod places;
mod plot;
pub mod repeated;
pub mod text;
pub mod verdict;

pub(crate) use plot::svg;

use crate::LabError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The page's file.
pub const PAGE_FILE: &str = "report.html";
/// The file of all printed numbers with their verdicts.
pub const PRINTED_FILE: &str = "printed-numbers.csv";

/// One experiment's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What files are called: small letters, digits and `-`.
    pub name: String,
    /// For people, in a few words.
    pub title: String,
    /// What was measured and how, in a paragraph. Its first two sentences are the caption; the rest
    /// is folded.
    pub what: String,
    /// The plots.
    pub figures: Vec<Figure>,
    /// What follows from what was counted, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conclusions: Vec<String>,
    /// How large the caches of its points were, and what limited them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<Reached>,
    /// How it was run; `None` for results of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
}

/// How an experiment was run: what its results can be repeated from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// A small version, which says nothing about the full one.
    pub quick: bool,
    /// Seed of loads and simulations, the first if there are several.
    pub seed: u64,
    /// How many seeds were run, each one more than the one before. Results are their means.
    #[serde(default = "one")]
    pub seeds: u32,
    /// The networks that were simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// Version of Atoll.
    pub version: String,
    /// The commit that it was built from; `None` if it was not built in a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

fn one() -> u32 {
    1
}

/// What a point of an experiment reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// The line that it is of: a system, a load or both.
    pub line: String,
    /// Its place along.
    pub at: String,
    /// Objects that the cache held at the end.
    pub objects_held: u64,
    /// Objects that a full group has, of an engine with groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects_a_group: Option<u64>,
    /// The server of the network that was busiest.
    pub busiest: String,
    /// Percent of the time that it was busy.
    pub busy_percent: f64,
    /// What limits the point: that server if it is full, else the clients.
    pub full: String,
}

/// One plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// For people, in a few words.
    pub title: String,
    /// Where the printed numbers stand: paper and section. Empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The axis along.
    pub x: Axis,
    /// The axis upwards.
    pub y: Axis,
    /// The lines, or with categories along the groups of bars.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Its unit; empty for a plain number.
    #[serde(default)]
    pub unit: String,
    /// Whether distances are ratios. All values are then above 0.
    #[serde(default)]
    pub logarithmic: bool,
    /// Whether its values say how many times one thing is better than another one: values above and
    /// below 1 then say the opposite of each other.
    #[serde(default)]
    pub factor: bool,
    /// Names of the places 0, 1, 2 and so on, for an axis of things instead of numbers. Only the
    /// axis along may have them.
    #[serde(default)]
    pub categories: Vec<String>,
}

impl Axis {
    /// Label and unit.
    pub(crate) fn caption(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }

    /// What stands at `value`: its category, else the number.
    pub fn at(&self, value: f64) -> String {
        self.categories.get(value as usize).cloned().unwrap_or_else(|| number(value))
    }
}

/// What belongs together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
}

/// One result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where it stands; a category's number where there are categories.
    pub x: f64,
    /// What was measured.
    pub y: f64,
    /// What the paper prints for it, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// The least and the most of several seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

impl Point {
    /// What was measured over what the paper prints.
    pub fn ratio(&self) -> Option<f64> {
        self.paper.filter(|paper| *paper != 0.0).map(|paper| self.y / paper)
    }
}

/// The first two sentences of a paragraph, and the rest of it.
fn caption(paragraph: &str) -> (&str, &str) {
    let begins = |rest: &str| rest.starts_with(|letter: char| letter.is_uppercase() || "\"`(".contains(letter));
    let mut ends = paragraph.match_indices(['.', '?']).filter_map(|(at, _)| {
        let rest = paragraph[at + 1..].strip_prefix(' ')?;
        begins(rest).then_some(at + 1)
    });
    let (brief, rest) = paragraph.split_at(ends.nth(1).unwrap_or(paragraph.len()));
    (brief, rest.trim_start())
}

/// Four significant digits, whole numbers as they are.
pub(crate) fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e9 {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor().clamp(-9.0, 3.0) as i32;
    format!("{value:.*}", digits.max(0) as usize)
}

impl Experiment {
    /// The title, which says whether it was a quick or a full run.
    pub fn heading(&self) -> String {
        match &self.run {
            Some(run) => format!("{} ({} run)", self.title, if run.quick { "quick" } else { "full" }),
            None => self.title.clone(),
        }
    }

    /// Why the results cannot be shown, if they cannot.
    fn check(&self) -> Result<(), String> {
        let named = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if self.name.is_empty() || !self.name.chars().all(named) {
            return Err(format!("the name {:?} is not of small letters, digits and -", self.name));
        }
        self.figures.iter().try_for_each(Figure::check)
    }
}

impl Figure {
    fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("the figure {:?} has {what}", self.title));
        let (places, limit) = (self.x.categories.len(), |axis: &Axis| if axis.logarithmic { 0.0 } else { f64::MIN });
        for point in self.series.iter().flat_map(|series| &series.points) {
            let [low, high] = point.interval.map_or([None; 2], |interval| interval.map(Some));
            let ys = [Some(point.y), point.paper, low, high];
            if !point.x.is_finite() || ys.iter().flatten().any(|y| !y.is_finite()) {
                return wrong("a value that is not finite");
            }
            if point.x <= limit(&self.x) || ys.iter().flatten().any(|y| *y <= limit(&self.y)) {
                return wrong("a value of 0 or less on a logarithmic axis");
            }
            if places > 0 && (point.x.fract() != 0.0 || !(0.0..places as f64).contains(&point.x)) {
                return wrong("a point at no category");
            }
        }
        Ok(())
    }

    fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut table = csv::Writer::from_writer(Vec::new());
        let (x, y) = (self.x.caption(), self.y.caption());
        let columns = ["series", &x, &y, "least", "most", "paper", "ratio to paper", "verdict"];
        table.write_record(columns)?;
        for series in &self.series {
            for point in &series.points {
                let x = self.x.categories.get(point.x as usize).cloned().unwrap_or_else(|| point.x.to_string());
                let optional = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
                let verdict = self.verdict(point).map(|verdict| verdict.to_string()).unwrap_or_default();
                let [low, high] = point.interval.map_or([None; 2], |interval| interval.map(Some)).map(optional);
                let numbers = [point.y.to_string(), low, high, optional(point.paper), optional(point.ratio())];
                table.write_record([series.name.clone(), x].into_iter().chain(numbers).chain([verdict]))?;
            }
        }
        Ok(table.into_inner().expect("memory takes it all"))
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    std::fs::write(path, bytes).map_err(|error| LabError::Folder { path: path.to_owned(), what: error.to_string() })
}

/// Makes a folder for results, if it is not there, and looks whether files can be written in it: a
/// run may take long.
pub fn prepare(folder: &Path) -> Result<(), LabError> {
    let wrong = |error: std::io::Error| LabError::Folder {
        path: folder.to_owned(),
        what: format!("results cannot be written there ({error}): choose another --out"),
    };
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let trial = folder.join(format!(".{}", std::process::id()));
    std::fs::write(&trial, []).and_then(|()| std::fs::remove_file(&trial)).map_err(wrong)
}

/// Writes the experiment's results into `folder`, which is made if it is not there: JSON, tables,
/// and the page of all results there.
pub fn write(folder: &Path, experiment: &Experiment) -> Result<(), LabError> {
    experiment.check().map_err(|what| LabError::Folder { path: folder.to_owned(), what })?;
    prepare(folder)?;
    let json = serde_json::to_vec_pretty(experiment).expect("an experiment is plain data");
    put(&folder.join(format!("{}.json", experiment.name)), &json)?;
    rebuild(folder).map(|_| ())
}

/// Writes page and tables of all results in `folder`; gives the page's path.
pub fn rebuild(folder: &Path) -> Result<PathBuf, LabError> {
    let experiments = read(folder)?;
    for experiment in &experiments {
        for (index, figure) in experiment.figures.iter().enumerate() {
            let path = folder.join(format!("{}-{}.csv", experiment.name, index + 1));
            let table =
                figure.csv().map_err(|error| LabError::Folder { path: path.clone(), what: error.to_string() })?;
            put(&path, &table)?;
        }
    }
    let path = folder.join(PRINTED_FILE);
    let table =
        verdict::csv(&experiments).map_err(|error| LabError::Folder { path: path.clone(), what: error.to_string() })?;
    put(&path, &table)?;
    let path = folder.join(PAGE_FILE);
    put(&path, page::render(&experiments)?.as_bytes())?;
    Ok(path)
}

/// All results in `folder`, by name.
fn read(folder: &Path) -> Result<Vec<Experiment>, LabError> {
    let wrong = |path: &Path, what: String| LabError::Folder { path: path.to_owned(), what };
    let entries = std::fs::read_dir(folder).map_err(|error| wrong(folder, error.to_string()))?;
    let mut experiments: Vec<Experiment> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| wrong(folder, error.to_string()))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|error| wrong(&path, error.to_string()))?;
        let experiment: Experiment = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(&path, format!("no results of an experiment: {error}")))?;
        experiment.check().map_err(|what| wrong(&path, what))?;
        experiments.push(experiment);
    }
    if experiments.is_empty() {
        return Err(wrong(folder, "no results (*.json) here; write some with an experiment's --out".to_owned()));
    }
    experiments.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(experiments)
}

/// Make one page of the results in a folder, and tables
#[derive(Clone, Debug, clap::Args)]
pub struct ReportCommand {
    /// Folder of results, one NAME.json an experiment
    dir: PathBuf,
}

impl ReportCommand {
    /// Writes page and tables and says where the page is.
    pub fn run(self) -> Result<(), LabError> {
        println!("{}", rebuild(&self.dir)?.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
