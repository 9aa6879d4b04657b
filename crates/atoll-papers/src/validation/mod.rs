//! The network model beside every figure that the papers print of their hardware, and beside
//! public measurements of the same cards.
//!
//! Some figures were used to make a profile; the model predicts the others. [`Row`] says which. All
//! rows are within 10 %, by the test below, but those of the same card in another testbed than the
//! profile's: these show how far testbeds differ, and are within a factor of 2. The letters of
//! public measurements are those of [`profiles`](atoll_sim::network::profiles).
//!
//! Some printed figures are not only the network's and have no row. These are DiFache's latencies
//! of hits, misses and invalidations (its own code, under a load of a trace), and Ditto's 12 us at
//! 5 Mops (several coroutines a core). FORGE's factor between local and remote memory and SELCC's
//! "about ten times" have none either: the papers do not say how fast the local memory is.

mod cards;
mod figures;
pub(crate) mod load;

use atoll_lab::LabError;
use atoll_lab::output;
use atoll_sim::network::Profile;
use serde::Serialize;
use std::fmt::Write;
use std::ops::RangeInclusive;

/// A printed figure beside the model's.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The profile's name.
    pub profile: &'static str,
    /// What was measured, with its unit.
    pub what: &'static str,
    /// Where it is printed.
    pub source: &'static str,
    /// What is printed; of a range, the lower end.
    pub paper: f64,
    /// Of a range, the upper end; else the same.
    pub paper_max: f64,
    /// What the model gives.
    pub model: f64,
    /// The model's over the printed one; of a range, over what is nearest in it.
    pub ratio: f64,
    /// Whether a number of the profile comes from this figure. The others are foretold.
    pub used: bool,
    /// Whether the card is the profile's and the testbed is not.
    pub elsewhere: bool,
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
        Self { profile: profile.name, what, source, paper, paper_max, model, ratio, used: false, elsewhere: false }
    }

    fn used(self) -> Self {
        Self { used: true, ..self }
    }

    fn elsewhere(self) -> Self {
        Self { elsewhere: true, ..self }
    }
}

/// Measures the model: some seconds.
pub fn run() -> Vec<Row> {
    let rows = [
        figures::cx5_100g(),
        figures::cx4_100g(),
        figures::cx6_100g(),
        cards::cx3_56g(),
        cards::cx6_100g(),
        figures::links(),
        figures::latencies(),
    ];
    rows.concat()
}

/// Hold the simulated networks against what is printed of the hardware
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
    let _ = writeln!(text, "{:<66}{:>10}{:>10}{:>8}", "", "printed", "model", "ratio");
    for row in rows {
        let mark = match (row.used, row.elsewhere) {
            (true, _) => "",
            (_, true) => "  another testbed",
            _ => "  foretold",
        };
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
    fn every_printed_figure_is_met_within_ten_percent_and_of_other_testbeds_within_a_factor_of_two() {
        let rows = run();
        let allowed = |row: &Row| if row.elsewhere { 0.5..=2.0 } else { 0.9..=1.1 };
        let wrong: Vec<&Row> = rows.iter().filter(|row| !allowed(row).contains(&row.ratio)).collect();
        assert!(wrong.is_empty(), "{}\n{wrong:#?}", render(&rows));
    }
}
