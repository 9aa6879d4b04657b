//! The network model beside every figure that the papers print of their hardware.
//!
//! Some figures were used to make a profile; the model predicts the others. [`Row`] says which. All
//! rows are within 10 %, by the test below.
//!
//! Some printed figures are not only the network's and have no row. These are DiFache's latencies
//! of hits, misses and invalidations (its own code, under a load of a trace), and Ditto's 12 us at
//! 5 Mops (several coroutines a core). FORGE's factor between local and remote memory and SELCC's
//! "about ten times" have none either: the papers do not say how fast the local memory is.

mod figures;
pub(crate) mod load;

use atoll_lab::LabError;
use atoll_lab::output;
use atoll_sim::network::Profile;
use serde::Serialize;
use std::fmt::Write;
use std::ops::RangeInclusive;

/// A figure of a paper beside the model's.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The profile's name.
    pub profile: &'static str,
    /// What was measured, with its unit.
    pub what: &'static str,
    /// Where the paper prints it.
    pub source: &'static str,
    /// What it prints; of a range, the lower end.
    pub paper: f64,
    /// Of a range, the upper end; else the same.
    pub paper_max: f64,
    /// What the model gives.
    pub model: f64,
    /// The model's over the paper's; of a range, over what is nearest in it.
    pub ratio: f64,
    /// Whether a number of the profile comes from this figure. The others are foretold.
    pub used: bool,
}

impl Row {
    fn new(
        profile: &Profile,
        what: &'static str,
        source: &'static str,
        paper: RangeInclusive<f64>,
        model: f64,
    ) -> Self {
        let (paper, paper_max) = (*paper.start(), *paper.end());
        let ratio = model / model.clamp(paper, paper_max);
        Self { profile: profile.name, what, source, paper, paper_max, model, ratio, used: false }
    }

    fn used(self) -> Self {
        Self { used: true, ..self }
    }
}

/// Measures the model: some seconds.
pub fn run() -> Vec<Row> {
    [figures::cx5_100g(), figures::cx4_100g(), figures::cx6_100g(), figures::links(), figures::latencies()].concat()
}

/// Hold the simulated networks against every figure that the papers print of their hardware
#[derive(Clone, Debug, clap::Args)]
pub struct ValidateCommand {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// All rows.
#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
}

impl ValidateCommand {
    /// Measures and prints the rows.
    pub fn run(self) -> Result<(), LabError> {
        let rows = run();
        output::print(self.json, &Report { rows }, |report| render(&report.rows));
        Ok(())
    }
}

fn render(rows: &[Row]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{:<66}{:>10}{:>10}{:>8}", "", "paper", "model", "ratio");
    for row in rows {
        let mark = if row.used { "" } else { "  foretold" };
        let Row { profile, what, source, paper, paper_max, model, ratio, .. } = row;
        let paper = if paper < paper_max { format!("{paper:.1}..{paper_max:.1}") } else { format!("{paper:.2}") };
        let _ = writeln!(text, "{profile:<11}{what:<55}{paper:>10}{model:>10.2}{ratio:>8.3}{mark}  ({source})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_that_a_paper_prints_is_met_within_ten_percent() {
        let rows = run();
        let wrong: Vec<&Row> = rows.iter().filter(|row| !(0.9..=1.1).contains(&row.ratio)).collect();
        assert!(wrong.is_empty(), "{}\n{wrong:#?}", render(&rows));
    }
}
