//! How long operations took, and how long of that the thread waited for the cache and not for a
//! core.
//!
//! On a machine with fewer cores than busy threads, most of the longest latencies are the
//! scheduler's. The kernel counts, thread by thread, the time that one was ready and had no core
//! (see `scheduled`); what remains of an operation's time is the operation's.

use crate::latency::Latencies;
use crate::scheduled::Scheduled;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What one thread measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) reads: Latencies,
    pub(super) writes: Latencies,
    /// The longest read, less the time without a core.
    pub(super) read_wait_ns_max: u64,
    /// The longest write, likewise.
    pub(super) write_wait_ns_max: u64,
}

/// One thread's measurements, or none.
pub(super) struct Timings {
    measured: Option<Measured>,
    scheduled: Scheduled,
}

/// An operation under way: when it began, and for how long its thread had been without a core by
/// then.
pub(super) type Begun = Option<(Instant, u64)>;

impl Timings {
    /// Measures nothing.
    pub(super) fn none() -> Self {
        Self { measured: None, scheduled: Scheduled::nothing() }
    }

    /// Measures the operations of the calling thread.
    pub(super) fn of_this_thread() -> Self {
        let (reads, writes) = (Latencies::new(), Latencies::new());
        let measured = Measured { reads, writes, read_wait_ns_max: 0, write_wait_ns_max: 0 };
        Self { measured: Some(measured), scheduled: Scheduled::this_thread() }
    }

    /// What was measured.
    pub(super) fn into_measured(self) -> Option<Measured> {
        self.measured
    }

    pub(super) fn begin(&self) -> Begun {
        self.measured.as_ref()?;
        let (_, without_core_ns) = self.scheduled.ns();
        Some((Instant::now(), without_core_ns))
    }

    pub(super) fn end_read(&mut self, begun: Begun) {
        let Some((ns, wait_ns)) = self.end(begun) else { return };
        let measured = self.measured.as_mut().expect("there is something under way");
        measured.reads.record(ns);
        measured.read_wait_ns_max = measured.read_wait_ns_max.max(wait_ns);
    }

    pub(super) fn end_write(&mut self, begun: Begun) {
        let Some((ns, wait_ns)) = self.end(begun) else { return };
        let measured = self.measured.as_mut().expect("there is something under way");
        measured.writes.record(ns);
        measured.write_wait_ns_max = measured.write_wait_ns_max.max(wait_ns);
    }

    fn end(&self, begun: Begun) -> Option<(u64, u64)> {
        let (since, without_core_ns) = begun?;
        let ns = since.elapsed().as_nanos() as u64;
        Some((ns, ns.saturating_sub(self.scheduled.ns().1.saturating_sub(without_core_ns))))
    }
}
