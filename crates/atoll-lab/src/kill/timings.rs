//! How long operations took, and how long of that the thread waited for the cache and not for a
//! core.
//!
//! On a machine with fewer cores than busy threads, the scheduler causes most of the longest
//! latencies. The kernel counts for every thread the time that it was ready and had no core (see
//! `scheduled`). The rest of an operation's time belongs to the operation.

use crate::latency::Latencies;
use crate::scheduled::Scheduled;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What one thread measured of one kind of operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Timed {
    pub(super) latencies: Latencies,
    /// The longest operation, less the time without a core.
    pub(super) wait_ns_max: u64,
}

impl Timed {
    fn record(&mut self, (ns, wait_ns): (u64, u64)) {
        self.latencies.record(ns);
        self.wait_ns_max = self.wait_ns_max.max(wait_ns);
    }
}

/// What one thread measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) reads: Timed,
    pub(super) writes: Timed,
}

/// One thread's measurements, or none.
pub(super) struct Timings {
    measured: Option<Measured>,
    scheduled: Scheduled,
}

/// An operation in flight: when it began, and how long its thread had been without a core by then.
pub(super) type Begun = Option<(Instant, u64)>;

impl Timings {
    /// Measures nothing.
    pub(super) fn none() -> Self {
        Self { measured: None, scheduled: Scheduled::nothing() }
    }

    /// Measures the operations of the calling thread.
    pub(super) fn of_this_thread() -> Self {
        Self { measured: Some(Measured::default()), scheduled: Scheduled::this_thread() }
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
        if let (Some(took), Some(measured)) = (self.end(begun), &mut self.measured) {
            measured.reads.record(took);
        }
    }

    pub(super) fn end_write(&mut self, begun: Begun) {
        if let (Some(took), Some(measured)) = (self.end(begun), &mut self.measured) {
            measured.writes.record(took);
        }
    }

    fn end(&self, begun: Begun) -> Option<(u64, u64)> {
        let (since, without_core_ns) = begun?;
        let ns = since.elapsed().as_nanos() as u64;
        Some((ns, ns.saturating_sub(self.scheduled.ns().1.saturating_sub(without_core_ns))))
    }
}
