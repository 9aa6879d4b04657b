//! How near the curve of hit ratio by capacity, which clients model, is to the truth.
//!
//! At every point the engine's clients model half, once and twice the capacity. The lab then
//! measures the engine at these capacities.

use super::oracle::{self, Point};
use super::{HitRatioReport, measure};
use crate::LabError;
use crate::output;
use atoll_deployment::EngineName;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// The capacities that are measured, in quarters, with their places in the modelled curve.
const MEASURED: [(u64, usize); 3] = [(2, 1), (4, 2), (8, 3)];
/// As near as the curve has to be, in percentage points.
const NEAR_PP: f64 = 2.0;

/// Hold the hit ratios that an engine's clients model at half, once and twice the capacity against
/// what the engine hits there
#[derive(Clone, Debug, clap::Args)]
pub struct CurveCommand {
    /// Folder of *.oracleGeneral.zst with oracle_miss_ratio.csv and README.md
    dir: PathBuf,
    /// The engine
    #[arg(long, default_value_t)]
    engine: EngineName,
    /// Caches of at least this many objects
    #[arg(long, default_value_t = 1000)]
    objects_min: u64,
    /// Only traces whose names hold this
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One point: hit ratios in percent at half, once and twice the capacity.
#[derive(Clone, Debug, Serialize)]
pub struct CurveRow {
    /// The trace.
    pub trace: String,
    /// The capacity in objects.
    pub cache_objects: u64,
    /// What the clients model.
    pub modelled: [f64; MEASURED.len()],
    /// What the engine hits.
    pub measured: [f64; MEASURED.len()],
}

impl CurveRow {
    /// The largest difference.
    fn distance_pp(&self) -> f64 {
        self.modelled
            .iter()
            .zip(&self.measured)
            .map(|(modelled, measured)| (modelled - measured).abs())
            .fold(0.0, f64::max)
    }
}

impl CurveCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        let mut points = oracle::read(&self.dir)?;
        points.retain(|point| point.real && point.cache_objects >= self.objects_min);
        points.retain(|point| self.only.as_ref().is_none_or(|only| point.trace.contains(only)));
        let at = |quarters: u64| -> Result<HitRatioReport, LabError> {
            let scaled = |point: &Point| Point { cache_objects: point.cache_objects * quarters / 4, ..point.clone() };
            let points: Vec<Point> = points.iter().map(scaled).collect();
            measure(&self.dir, &points, &self.engine, 1)
        };
        let reports = MEASURED.iter().map(|(quarters, _)| at(*quarters)).collect::<Result<Vec<_>, _>>()?;
        let rows = rows(&points, &reports)?;
        output::print(self.json, &rows, |rows| render(rows));
        Ok(())
    }
}

/// The rows of `reports`, which stand in the order of [`MEASURED`].
fn rows(points: &[Point], reports: &[HitRatioReport]) -> Result<Vec<CurveRow>, LabError> {
    let once = &reports[MEASURED.iter().position(|(quarters, _)| *quarters == 4).expect("it is in the list")];
    let row = |(index, point): (usize, &Point)| {
        let no_curve = || LabError::Options(format!("the clients of {} model no curve", once.engine));
        let modelled = once.rows[index].modelled.ok_or_else(no_curve)?;
        Ok(CurveRow {
            trace: point.trace.clone(),
            cache_objects: point.cache_objects,
            modelled: MEASURED.map(|(_, place)| 100.0 * modelled[place]),
            measured: std::array::from_fn(|at| 100.0 * (1.0 - reports[at].rows[index].miss_ratio)),
        })
    };
    points.iter().enumerate().map(row).collect()
}

fn render(rows: &[CurveRow]) -> String {
    let mut text = format!("Hit ratio in percent, modelled / measured\n\n{:<24}{:>9}", "trace", "objects");
    for (quarters, _) in MEASURED {
        let _ = write!(text, "{:>16}", format!("x {}", quarters as f64 / 4.0));
    }
    let _ = writeln!(text, "{:>10}", "distance");
    for row in rows {
        let _ = write!(text, "{:<24}{:>9}", row.trace, row.cache_objects);
        for (modelled, measured) in row.modelled.iter().zip(&row.measured) {
            let _ = write!(text, "{:>16}", format!("{modelled:.1} / {measured:.1}"));
        }
        let _ = writeln!(text, "{:>10.2}", row.distance_pp());
    }
    let near = rows.iter().filter(|row| row.distance_pp() <= NEAR_PP).count();
    let _ = writeln!(text, "\nwithin {NEAR_PP} points at all three capacities: {near} of {} rows", rows.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_curve_of_forge_is_within_two_points_of_what_it_hits() {
        let Some(folder) = fixtures::traces() else { return };
        let mut points = oracle::read(&folder).unwrap();
        points.retain(|point| point.trace == "cache2k_web12" && point.cache_objects >= 1000);
        let scaled = |quarters: u64| {
            let points: Vec<Point> = points
                .iter()
                .map(|point| Point { cache_objects: point.cache_objects * quarters / 4, ..point.clone() })
                .collect();
            measure(&folder, &points, &EngineName::default(), 1).unwrap()
        };
        let reports = MEASURED.map(|(quarters, _)| scaled(quarters));
        for row in rows(&points, &reports).unwrap() {
            assert!(row.distance_pp() < NEAR_PP, "{row:?}");
        }
    }
}
