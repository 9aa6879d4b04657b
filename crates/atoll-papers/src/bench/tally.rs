//! What the threads of a point count together, until the first of them has no request left.

use atoll_lab::LabError;
use atoll_lab::latency::Latencies;

/// What was counted of requests.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) requests: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
}

/// What the threads of a point count.
#[derive(Default)]
pub(crate) struct Tally {
    counted: Counted,
    latencies: Latencies,
    /// When the first thread had no request left. Counting ends there.
    ended_ns: Option<u64>,
    /// The first failure.
    failed: Option<LabError>,
}

impl Tally {
    /// What was counted.
    pub(crate) fn counted(&self) -> &Counted {
        &self.counted
    }

    /// What was counted, the latencies, and when counting ended.
    pub(crate) fn into_counted(self) -> (Counted, Latencies, Option<u64>) {
        (self.counted, self.latencies, self.ended_ns)
    }

    /// Whether counting has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// A thread has no request left.
    pub(crate) fn end(&mut self, now_ns: u64) {
        self.ended_ns.get_or_insert(now_ns);
    }

    /// Counts a request that took so long.
    pub(crate) fn count_request(&mut self, ns: u64) {
        if !self.has_ended() {
            self.counted.requests += 1;
            self.latencies.record(ns);
        }
    }

    /// Counts a GET.
    pub(crate) fn count_get(&mut self, hit: bool) {
        if !self.has_ended() {
            self.counted.gets += 1;
            self.counted.hits += u64::from(hit);
        }
    }

    /// A thread failed.
    pub(crate) fn fail(&mut self, error: LabError) {
        self.failed.get_or_insert(error);
    }

    /// The first failure, which is then forgotten.
    pub(crate) fn take_failure(&mut self) -> Option<LabError> {
        self.failed.take()
    }
}
