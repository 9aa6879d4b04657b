//! Latencies in a histogram that can be sent between processes.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies up to a minute, to three digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

const LATENCY_NS_MAX: u64 = 60_000_000_000;

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        Self { histogram: histogram.expect("the bounds are within those of the histogram") }
    }
}

impl Latencies {
    /// Counts an operation of `ns` nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Adds those of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// The latency that the share `quantile` of the operations did not exceed; 0 if there were
    /// none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.value_at_quantile(quantile) }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }
}

/// As pairs of latency and count.
impl Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latencies = Self::default();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latencies.histogram.saturating_record_n(ns, count);
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_its_way_between_processes() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|ns| latencies.record(ns));
        latencies.record(u64::MAX);
        let sent: Latencies = serde_json::from_str(&serde_json::to_string(&latencies).unwrap()).unwrap();
        assert_eq!(sent.histogram, latencies.histogram);
        assert_eq!((sent.quantile(0.5), sent.count()), (501, 1001));
    }
}
