//! The figures of the experiment: medians over rounds, and their table.

use super::workload::{Measured, Workload};
use serde::Serialize;
use std::fmt::Write;

/// What was measured of one subject, a number a round.
pub(super) struct Figures {
    name: String,
    get_zipf_p50: Vec<f64>,
    get_zipf_p99: Vec<f64>,
    get_uniform_p50: Vec<f64>,
    set_new_p50: Vec<f64>,
    set_overwrite_p50: Vec<f64>,
    set_evicting_p50: Vec<f64>,
    throughput: [Vec<f64>; 2],
    /// GETs, and those that found their key.
    gets: u64,
    hits: u64,
}

impl Figures {
    pub(super) fn new(name: &str) -> Self {
        let empty = Vec::new;
        Self {
            name: name.to_owned(),
            get_zipf_p50: empty(),
            get_zipf_p99: empty(),
            get_uniform_p50: empty(),
            set_new_p50: empty(),
            set_overwrite_p50: empty(),
            set_evicting_p50: empty(),
            throughput: [empty(), empty()],
            gets: 0,
            hits: 0,
        }
    }

    /// Adds one round's measurements of `workloads`.
    pub(super) fn add_all(&mut self, workloads: &[Workload], measured: &[Measured]) {
        for (workload, measured) in workloads.iter().zip(measured) {
            self.add(*workload, measured);
        }
    }

    fn add(&mut self, workload: Workload, measured: &Measured) {
        let p50 = measured.latencies.quantile(0.5) as f64;
        match workload {
            Workload::SetNew => self.set_new_p50.push(p50),
            Workload::GetZipf => {
                self.get_zipf_p50.push(p50);
                self.get_zipf_p99.push(measured.latencies.quantile(0.99) as f64);
            }
            Workload::GetUniform => self.get_uniform_p50.push(p50),
            Workload::SetOverwrite => self.set_overwrite_p50.push(p50),
            Workload::SetEvicting => self.set_evicting_p50.push(p50),
            Workload::Throughput { threads } => self.add_throughput(threads as usize, measured.operations_per_s),
        }
        if matches!(workload, Workload::GetZipf | Workload::GetUniform) {
            self.gets += measured.operations;
            self.hits += measured.hits;
        }
    }

    /// Adds one round's throughput of one process, or of two.
    pub(super) fn add_throughput(&mut self, processes: usize, operations_per_s: f64) {
        self.throughput[processes - 1].push(operations_per_s);
    }

    /// The medians.
    pub(super) fn row(&self) -> MicroRow {
        let [one, two] = &self.throughput;
        let pairs: Vec<f64> = one.iter().zip(two).map(|(one, two)| two / one).collect();
        MicroRow {
            name: self.name.clone(),
            get_zipf_ns_p50: median(&self.get_zipf_p50),
            get_zipf_ns_p99: median(&self.get_zipf_p99),
            get_uniform_ns_p50: median(&self.get_uniform_p50),
            set_new_ns_p50: median(&self.set_new_p50),
            set_overwrite_ns_p50: median(&self.set_overwrite_p50),
            set_evicting_ns_p50: median(&self.set_evicting_p50),
            gets_per_s_one: median(one),
            gets_per_s_two: median(two),
            two_over_one: median(&pairs),
            hit_ratio: (self.gets > 0).then(|| self.hits as f64 / self.gets as f64),
        }
    }
}

fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
    }
}

/// Medians of one subject; what was not measured is absent.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MicroRow {
    /// The subject.
    pub name: String,
    /// GET that hits, keys by Zipf's law with theta 0.99: median.
    pub get_zipf_ns_p50: Option<f64>,
    /// The same: the latency that one in a hundred passes.
    pub get_zipf_ns_p99: Option<f64>,
    /// GET that hits, keys with equal chances: median.
    pub get_uniform_ns_p50: Option<f64>,
    /// SET of a new key where there is room: median.
    pub set_new_ns_p50: Option<f64>,
    /// SET of a resident key where there is room: median.
    pub set_overwrite_ns_p50: Option<f64>,
    /// SET of a new key in a full cache: median.
    pub set_evicting_ns_p50: Option<f64>,
    /// GETs per second by Zipf's law of one process; of one thread for caches in the process.
    pub gets_per_s_one: Option<f64>,
    /// The same of two processes or threads together.
    pub gets_per_s_two: Option<f64>,
    /// The median over rounds of the quotient of the two.
    pub two_over_one: Option<f64>,
    /// The share of the timed GETs that hit; all should.
    pub hit_ratio: Option<f64>,
}

/// The experiment's result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MicroReport {
    /// Objects in the caches.
    pub objects: u64,
    /// Rounds that the medians are of.
    pub rounds: u32,
    /// Median time between two readings of the clock; contained in every latency.
    pub timer_ns: u64,
    /// Twice the engine's two over one, divided by that of the copying loops: 2 where it scales as
    /// they do.
    pub two_over_one_relative: Option<f64>,
    /// Whether there was a redis-server to measure.
    pub redis_installed: bool,
    /// The engine first, the copying loops last.
    pub rows: Vec<MicroRow>,
}

impl MicroReport {
    pub(super) fn new(objects: u64, rounds: u32, timer_ns: u64, redis_installed: bool, rows: Vec<MicroRow>) -> Self {
        let quotient = |row: Option<&MicroRow>| row.and_then(|row| row.two_over_one);
        let two_over_one_relative =
            quotient(rows.first()).zip(quotient(rows.last())).map(|(ours, copying)| 2.0 * ours / copying);
        Self { objects, rounds, timer_ns, two_over_one_relative, redis_installed, rows }
    }

    /// The table as text.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} objects, 16-byte keys, 256-byte values; medians of {} rounds in ns; reading the clock costs {} ns of each\n",
            self.objects, self.rounds, self.timer_ns
        );
        let _ = writeln!(
            text,
            "{:<20}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>11}{:>11}{:>7}{:>8}",
            "",
            "GET zipf",
            "p99",
            "uniform",
            "SET new",
            "overwrite",
            "evicting",
            "GET/s, 1",
            "GET/s, 2",
            "2 : 1",
            "hits %"
        );
        for row in &self.rows {
            render_row(&mut text, row);
        }
        if !self.redis_installed {
            text.push_str("redis-server is not installed\n");
        }
        if let Some(relative) = self.two_over_one_relative {
            let _ = writeln!(text, "\nTwo processes reach {:.2} times one, relative to copying loops", relative);
        }
        text
    }
}

fn render_row(text: &mut String, row: &MicroRow) {
    let number =
        |number: Option<f64>, digits: usize| number.map_or_else(|| "-".to_owned(), |n| format!("{n:.digits$}"));
    let _ = writeln!(
        text,
        "{:<20}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>11}{:>11}{:>7}{:>8}",
        row.name,
        number(row.get_zipf_ns_p50, 0),
        number(row.get_zipf_ns_p99, 0),
        number(row.get_uniform_ns_p50, 0),
        number(row.set_new_ns_p50, 0),
        number(row.set_overwrite_ns_p50, 0),
        number(row.set_evicting_ns_p50, 0),
        number(row.gets_per_s_one, 0),
        number(row.gets_per_s_two, 0),
        number(row.two_over_one, 2),
        number(row.hit_ratio.map(|ratio| 100.0 * ratio), 2),
    );
}
