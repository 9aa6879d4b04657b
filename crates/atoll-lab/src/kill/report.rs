//! The result of the experiment.

use super::ledger::{Ledger, Total};
use super::timings::Measured;
use atoll_deployment::AuditSummary;
use atoll_pool::Repaired;
use serde::Serialize;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What was done to the workers and their surroundings.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// Processes killed.
    pub(super) kills: u64,
    /// Processes stopped and resumed.
    pub(super) stops: u64,
    /// Links between a worker's host and the memory node that were cut and mended.
    pub(super) partitions: u64,
    /// Memory nodes killed and started again.
    pub(super) node_kills: u64,
    /// Memory nodes stopped and resumed.
    pub(super) node_stops: u64,
}

/// The workers' throughput over some time.
pub(super) struct Window {
    since: Instant,
    operations: u64,
    core_ns: u64,
    time: Duration,
}

impl Window {
    pub(super) fn begin(ledger: &Ledger) -> Self {
        let (operations, core_ns) = (ledger.total(Total::Operations), ledger.total(Total::CoreNs));
        Self { since: Instant::now(), operations, core_ns, time: Duration::ZERO }
    }

    pub(super) fn end(self, ledger: &Ledger) -> Self {
        let operations = ledger.total(Total::Operations) - self.operations;
        let core_ns = ledger.total(Total::CoreNs) - self.core_ns;
        Self { operations, core_ns, time: self.since.elapsed(), ..self }
    }

    fn per_s(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64().max(1e-9)
    }

    fn per_core_s(&self) -> f64 {
        self.operations as f64 * 1e9 / (self.core_ns as f64).max(1.0)
    }
}

/// What the processes counted together.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Checked {
    /// Values and misses that were checked.
    pub reads_checked: u64,
    /// Changes made.
    pub writes: u64,
    /// Changes refused because the pool had no room, or the key's memory node was away.
    pub refused: u64,
    /// Checks that failed, operations that failed, processes that did not end.
    pub wrong: u64,
}

/// The workers' throughput beside that before the kills.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Throughput {
    /// Operations a second after the kills, divided by those before.
    pub throughput_ratio: f64,
    /// The same during the kills.
    pub throughput_ratio_during: f64,
    /// The first by the time that the workers had a core, so that other work on the machine counts
    /// less.
    pub throughput_ratio_per_core: f64,
    /// The second, likewise.
    pub throughput_ratio_per_core_during: f64,
    /// Operations a second: before, during, after.
    pub operations_per_s: [f64; 3],
}

impl Throughput {
    fn of([before, during, after]: &[Window; 3]) -> Self {
        Self {
            throughput_ratio: after.per_s() / before.per_s(),
            throughput_ratio_during: during.per_s() / before.per_s(),
            throughput_ratio_per_core: after.per_core_s() / before.per_core_s(),
            throughput_ratio_per_core_during: during.per_core_s() / before.per_core_s(),
            operations_per_s: [before.per_s(), during.per_s(), after.per_s()],
        }
    }
}

/// How long the checker waited.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct CheckerTimes {
    /// Its longest read, less the time that it was ready and had no core.
    pub read_wait_ms_max: f64,
    /// Its longest write, likewise.
    pub write_wait_ms_max: f64,
    /// Its longest read as the wall clock has it.
    pub read_ms_max: f64,
    /// The read that one in a thousand exceeds, in microseconds.
    pub read_us_p999: f64,
    /// The median, in microseconds.
    pub read_us_p50: f64,
}

impl CheckerTimes {
    fn of(measured: &Measured) -> Self {
        let of_reads = |quantile| measured.reads.latencies.quantile(quantile) as f64;
        Self {
            read_wait_ms_max: measured.reads.wait_ns_max as f64 / 1e6,
            write_wait_ms_max: measured.writes.wait_ns_max as f64 / 1e6,
            read_ms_max: of_reads(1.0) / 1e6,
            read_us_p999: of_reads(0.999) / 1e3,
            read_us_p50: of_reads(0.5) / 1e3,
        }
    }
}

/// What near caches did.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct NearCounts {
    /// Lookups that a near cache answered. All are among the reads that were checked.
    pub near_hits: u64,
    /// Copies that a lookup found outdated.
    pub near_outdated: u64,
    /// Copies that were made.
    pub near_copies: u64,
    /// Changes that ended copies first.
    pub copies_ended: u64,
}

impl NearCounts {
    fn of(ledger: &Ledger) -> Self {
        Self {
            near_hits: ledger.total(Total::NearHits),
            near_outdated: ledger.total(Total::NearOutdated),
            near_copies: ledger.total(Total::NearCopies),
            copies_ended: ledger.total(Total::CopiesEnded),
        }
    }

    /// Why the run says nothing of near caches, if it does not.
    fn untested(&self) -> Option<&'static str> {
        match self {
            Self { near_hits: 0, .. } => Some("no near cache answered a lookup, so nothing of them was tested"),
            Self { near_outdated: 0, .. } => Some("no copy became outdated, so nothing of its end was tested"),
            Self { .. } => None,
        }
    }
}

/// The experiment's result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KillReport {
    /// What was done to the workers.
    #[serde(flatten)]
    pub counts: Counts,
    /// What the processes counted.
    #[serde(flatten)]
    pub checked: Checked,
    /// The first things that were wrong, in words.
    pub notes: Vec<String>,
    /// Whether every invariant held, full and empty.
    pub verify_ok: bool,
    /// What did not hold.
    pub faults: Vec<String>,
    /// Bytes that neither are free nor belong to a queued group after everything was removed.
    pub lost_bytes: u64,
    /// The workers' throughput.
    #[serde(flatten)]
    pub throughput: Throughput,
    /// How long the checker waited.
    #[serde(flatten)]
    pub times: CheckerTimes,
    /// Clients found dead and shut out while the load ran. Those of workers that were killed before
    /// they added them are not counted.
    pub clients_fenced: u64,
    /// Clients that were lost while their process lived: it was stopped, or its link was cut. Only
    /// over a network.
    pub clients_lost: u64,
    /// Chunks that came back from dead clients, likewise.
    pub chunks_repaired: u64,
    /// Clients shut out in the pass at the end.
    pub clients_fenced_at_end: u64,
    /// Chunks that came back in the pass at the end.
    pub chunks_repaired_at_end: u64,
    /// Objects in the pool when the load had ended.
    pub objects: u64,
    /// What near caches did, if processes had them.
    #[serde(flatten)]
    pub near: Option<NearCounts>,
}

const NOTES_MAX: usize = 50;

impl KillReport {
    /// `audits` are of the full and of the empty cache, `repaired` is what the pass at the end
    /// gave.
    pub(super) fn new(
        counts: Counts,
        ledger: &Ledger,
        windows: &[Window; 3],
        mut notes: Vec<String>,
        measured: Option<Measured>,
        audits: &[AuditSummary; 2],
        repaired: Repaired,
    ) -> Self {
        let total = |total| ledger.total(total);
        let [full, empty] = audits;
        let mut faults = full.faults.clone();
        faults.extend(empty.faults.iter().map(|fault| format!("emptied: {fault}")));
        if empty.objects > 0 || empty.clients > 0 {
            let AuditSummary { objects, clients, .. } = empty;
            faults.push(format!("{objects} objects and {clients} clients remain after everything was removed"));
        }
        if measured.is_none() {
            notes.push("the checker did not tell what it measured".to_owned());
        }
        let wrong = total(Total::Wrong).max(notes.len() as u64);
        notes.truncate(NOTES_MAX);
        Self {
            counts,
            checked: Checked {
                reads_checked: total(Total::Checked),
                writes: total(Total::Writes),
                refused: total(Total::Refused),
                wrong,
            },
            notes,
            verify_ok: faults.is_empty(),
            faults,
            lost_bytes: empty.lost_bytes,
            throughput: Throughput::of(windows),
            times: measured.as_ref().map(CheckerTimes::of).unwrap_or_default(),
            clients_fenced: total(Total::Fenced) + repaired.clients,
            clients_lost: total(Total::Lost),
            chunks_repaired: total(Total::Repaired) + repaired.chunks,
            clients_fenced_at_end: repaired.clients,
            chunks_repaired_at_end: repaired.chunks,
            objects: full.objects,
            near: None,
        }
    }

    /// The same of processes with near caches, where a change may take so long besides for a core.
    pub(super) fn with_near(mut self, ledger: &Ledger, change_max: Duration) -> Self {
        let counts = NearCounts::of(ledger);
        let (took_ms, most_ms) = (self.times.write_wait_ms_max, change_max.as_secs_f64() * 1e3);
        let late = || format!("a change took {took_ms:.0} ms, and {most_ms:.0} ms is the most with near caches");
        let wrong = [counts.untested().map(str::to_owned), (took_ms > most_ms).then(late)];
        for what in wrong.into_iter().flatten() {
            self.checked.wrong += 1;
            self.notes.push(what);
        }
        Self { near: Some(counts), ..self }
    }

    /// Whether nothing was wrong and nothing was lost. Throughput on a machine with other work is
    /// reported, not judged.
    pub(super) fn is_clean(&self) -> bool {
        self.checked.wrong == 0 && self.verify_ok && self.lost_bytes == 0
    }

    /// The report as text.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        let Self { counts, checked, throughput, times, .. } = self;
        let [before, during, after] = throughput.operations_per_s;
        let _ = writeln!(
            text,
            "{} kills, {} stops, {} partitions, {} memory nodes killed, {} stopped",
            counts.kills, counts.stops, counts.partitions, counts.node_kills, counts.node_stops
        );
        let _ = writeln!(
            text,
            "{} values and misses checked, {} changes ({} refused for want of room or of a memory node): {} wrong",
            checked.reads_checked, checked.writes, checked.refused, checked.wrong
        );
        let _ = writeln!(
            text,
            "{} clients shut out ({} of them at the end, {} while their process lived), {} chunks back ({} at the end)",
            self.clients_fenced,
            self.clients_fenced_at_end,
            self.clients_lost,
            self.chunks_repaired,
            self.chunks_repaired_at_end
        );
        let _ = writeln!(
            text,
            "operations/s: {before:.0} before, {during:.0} during ({:.3}; {:.3} a core), {after:.0} after ({:.3}; {:.3} a core)",
            throughput.throughput_ratio_during,
            throughput.throughput_ratio_per_core_during,
            throughput.throughput_ratio,
            throughput.throughput_ratio_per_core
        );
        let _ = writeln!(
            text,
            "a reader waited at most {:.1} ms besides for a core ({:.1} ms in all; median {:.1} us, p99.9 {:.0} us), a writer {:.1} ms",
            times.read_wait_ms_max, times.read_ms_max, times.read_us_p50, times.read_us_p999, times.write_wait_ms_max
        );
        if let Some(NearCounts { near_hits, near_outdated, near_copies, copies_ended }) = self.near {
            let _ = writeln!(
                text,
                "near caches answered {near_hits} lookups; {near_copies} copies were made, {near_outdated} found outdated; {copies_ended} changes ended copies"
            );
        }
        let _ = writeln!(
            text,
            "at the end: {} objects, {} bytes lost, {}",
            self.objects,
            self.lost_bytes,
            if self.verify_ok { "sound" } else { "NOT SOUND" }
        );
        for fault in &self.faults {
            let _ = writeln!(text, "fault: {fault}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "wrong: {note}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_which_no_near_cache_was_tested_says_so() {
        let counts = NearCounts { near_hits: 9, near_outdated: 2, near_copies: 3, copies_ended: 1 };
        assert_eq!(counts.untested(), None);
        assert!(NearCounts { near_hits: 0, ..counts }.untested().unwrap().contains("answered"));
        assert!(NearCounts { near_outdated: 0, ..counts }.untested().unwrap().contains("outdated"));
    }
}
