//! Which of several engines to ship, chosen without the trace that judges the choice.
//!
//! For each trace the engine with the least mean gap to Belady on all *other* real traces is
//! chosen. Only its misses on the trace itself count. A configuration that was tuned to one trace
//! gains nothing there.

use super::oracle::{self, Point};
use super::{HitRatioReport, measure};
use crate::LabError;
use atoll_deployment::EngineName;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The caches that count: as in the figure of all engines.
const OBJECTS_MIN: u64 = 1000;

/// Choose among engines by their hit ratios, for every trace by the others
#[derive(Clone, Debug, clap::Args)]
pub struct ChooseCommand {
    /// Folder of *.oracleGeneral.zst with oracle_miss_ratio.csv and README.md
    dir: PathBuf,
    /// The engines to choose among
    #[arg(long, required = true, value_delimiter = ',')]
    engines: Vec<EngineName>,
}

impl ChooseCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        let mut points = oracle::read(&self.dir)?;
        points.retain(|point| point.real && point.cache_objects >= OBJECTS_MIN);
        let mut reports = Vec::new();
        for engine in self.engines {
            let report = measure(&self.dir, &points, &engine, 1)?;
            println!(
                "{:<60} {:.3} points from Belady",
                engine.to_string(),
                report.mean_gap_1000_pp.unwrap_or(f64::NAN)
            );
            reports.push(report);
        }
        let chosen = leave_one_out(&points, &reports);
        for (trace, engine) in &chosen.engines {
            println!("without {trace:<24} {}", reports[*engine].engine);
        }
        println!("chosen without the trace that is judged: {:.3} points from Belady", chosen.mean_gap_pp);
        Ok(())
    }
}

/// The chosen engine, and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// For every trace, the engine that is best on the others.
    pub engines: Vec<(String, usize)>,
    /// The mean over all points of the gap of the engine that was chosen for their trace.
    pub mean_gap_pp: f64,
}

/// Chooses among `reports` over `points`, which stand in the same order in each.
pub fn leave_one_out(points: &[Point], reports: &[HitRatioReport]) -> Chosen {
    let gap = |point: usize, engine: usize| {
        100.0 * (reports[engine].rows[point].miss_ratio - points[point].miss_ratio("Belady").unwrap_or(f64::NAN))
    };
    let traces: BTreeSet<&String> = points.iter().map(|point| &point.trace).collect();
    let (mut engines, mut sum) = (Vec::new(), 0.0);
    for trace in traces {
        let elsewhere = |engine: usize| -> f64 {
            (0..points.len()).filter(|&point| points[point].trace != *trace).map(|point| gap(point, engine)).sum()
        };
        let best = (0..reports.len()).min_by(|&a, &b| elsewhere(a).total_cmp(&elsewhere(b))).unwrap_or(0);
        sum +=
            (0..points.len()).filter(|&point| points[point].trace == *trace).map(|point| gap(point, best)).sum::<f64>();
        engines.push((trace.clone(), best));
    }
    Chosen { engines, mean_gap_pp: sum / points.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;

    fn report(points: &[Point], miss_ratios: &[f64]) -> HitRatioReport {
        let rows = points.iter().zip(miss_ratios).map(|(point, misses)| Row::of(point, *misses)).collect();
        HitRatioReport { engine: EngineName::default(), rows, mean_gap_1000_pp: None, mean_gap_100_pp: None }
    }

    #[test]
    fn what_is_good_on_one_trace_alone_is_not_chosen_for_it() {
        let points = ["a", "b", "c"].map(|trace| Point::missed_by_a_quarter(trace, 1));
        // The first is best on average, by its figure on a alone.
        let chosen =
            leave_one_out(&points, &[report(&points, &[0.25, 0.5, 0.5]), report(&points, &[0.75, 0.375, 0.375])]);
        assert_eq!(chosen.engines.iter().map(|(_, engine)| *engine).collect::<Vec<_>>(), [1, 0, 0]);
        assert!((chosen.mean_gap_pp - 100.0 * (0.5 + 0.25 + 0.25) / 3.0).abs() < 1e-9);
    }
}
