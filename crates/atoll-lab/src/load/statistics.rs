//! Statistics of a load: its mix of operations, its objects, their sizes, times to live and
//! frequencies.

use super::{Load, fit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is known of one object.
#[derive(Clone, Copy, Debug)]
struct Object {
    requests: u64,
    /// Of its first request.
    ttl_s: u32,
}

/// A mean of lengths, over requests and over objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Mean {
    /// Each request counts.
    pub of_requests: f64,
    /// Each object counts once, as its first request has it.
    pub of_objects: f64,
}

/// A load's statistics; the JSON form is for scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// What the load is.
    pub what: String,
    /// Keys that are set before the first request.
    pub keys_loaded: u64,
    /// Requests, a scan being one.
    pub requests: u64,
    /// Objects that were asked for; of a scan only the first key is counted.
    pub objects: u64,
    /// Shares of the requests, by operation.
    pub operations: BTreeMap<&'static str, f64>,
    /// Mean keys of a scan; 0 without scans.
    pub scan_keys: f64,
    /// Bytes of a key.
    pub key_bytes: Mean,
    /// Bytes of a value.
    pub value_bytes: Mean,
    /// Shares of the objects, by seconds to live; 0 is for ever.
    pub ttl_s: BTreeMap<u32, f64>,
    /// The share of the objects that are asked for once.
    pub one_hit_wonders: f64,
    /// Requests over objects.
    pub frequency_mean: f64,
    /// The share of the requests that ask for the hottest object.
    pub hottest: f64,
    /// The line through ln rank and ln frequency; `None` for fewer than two objects.
    pub zipf: Option<fit::Fit>,
    /// From the first request to the last on the load's clock, in seconds.
    pub duration_s: f64,
}

/// Looks at a load's requests.
#[derive(Default)]
struct Counts {
    objects: rapidhash::RapidHashMap<u64, Object>,
    operations: BTreeMap<&'static str, u64>,
    requests: u64,
    scans: [u64; 2],
    key_bytes: [u64; 2],
    value_bytes: [u64; 2],
    /// Times of the first request and the latest.
    times_ns: Option<[u64; 2]>,
}

impl Counts {
    fn add(&mut self, request: &super::Request) {
        self.requests += 1;
        let [first, latest] = self.times_ns.unwrap_or([request.time_ns; 2]);
        self.times_ns = Some([first, latest.max(request.time_ns)]);
        *self.operations.entry(request.kind.name()).or_default() += 1;
        if request.kind == super::Kind::Scan {
            self.scans = [self.scans[0] + 1, self.scans[1] + u64::from(request.keys)];
        }
        let mut new = false;
        let object = self.objects.entry(request.key).or_insert_with(|| {
            new = true;
            Object { requests: 0, ttl_s: request.ttl_s }
        });
        object.requests += 1;
        let lengths = [(&mut self.key_bytes, request.key_bytes), (&mut self.value_bytes, request.value_bytes)];
        for ([of_requests, of_objects], bytes) in lengths {
            *of_requests += u64::from(bytes);
            *of_objects += u64::from(bytes) * u64::from(new);
        }
    }

    fn finish(self, load: &dyn Load) -> Statistics {
        let (requests, objects) = (self.requests.max(1) as f64, self.objects.len().max(1) as f64);
        let mut frequencies: BTreeMap<u64, u64> = BTreeMap::new();
        let mut ttls: BTreeMap<u32, u64> = BTreeMap::new();
        for object in self.objects.values() {
            *frequencies.entry(object.requests).or_default() += 1;
            *ttls.entry(object.ttl_s).or_default() += 1;
        }
        let mean = |[of_requests, of_objects]: [u64; 2]| Mean {
            of_requests: of_requests as f64 / requests,
            of_objects: of_objects as f64 / objects,
        };
        Statistics {
            what: load.what(),
            keys_loaded: load.keys_loaded(),
            requests: self.requests,
            objects: self.objects.len() as u64,
            operations: self.operations.iter().map(|(name, count)| (*name, *count as f64 / requests)).collect(),
            scan_keys: self.scans[1] as f64 / self.scans[0].max(1) as f64,
            key_bytes: mean(self.key_bytes),
            value_bytes: mean(self.value_bytes),
            ttl_s: ttls.iter().map(|(ttl_s, count)| (*ttl_s, *count as f64 / objects)).collect(),
            one_hit_wonders: frequencies.get(&1).copied().unwrap_or(0) as f64 / objects,
            frequency_mean: requests / objects,
            hottest: frequencies.last_key_value().map_or(0.0, |(frequency, _)| *frequency as f64 / requests),
            zipf: fit::fit(frequencies.iter().rev().map(|(frequency, count)| (*frequency as f64, *count as f64))),
            duration_s: self.times_ns.map_or(0, |[first, latest]| latest - first) as f64 / 1e9,
        }
    }
}

impl Statistics {
    /// Makes all requests of `load`, as one client, and looks at them; calls `progress` now and
    /// then with how many were made.
    pub fn of(load: &dyn Load, progress: impl Fn(u64)) -> Self {
        let mut counts = Counts::default();
        for request in load.stream(0, 1) {
            counts.add(&request);
            if counts.requests.is_multiple_of(1 << 14) {
                progress(counts.requests);
            }
        }
        counts.finish(load)
    }

    /// A table for people.
    pub(super) fn render(&self) -> String {
        let mut text = format!("{}\n", self.what);
        let mut line = |name: &str, value: String| writeln!(text, "{name:<22}{value}").expect("a string takes it all");
        let listed = |shares: Vec<(String, f64)>| {
            let mut shares = shares;
            shares.sort_by(|one, other| other.1.total_cmp(&one.1));
            let more = shares.len().saturating_sub(10);
            let mut shown: Vec<_> =
                shares.iter().take(10).map(|(name, share)| format!("{name} {:.2} %", 100.0 * share)).collect();
            shown.extend((more > 0).then(|| format!("and {more} more")));
            shown.join(", ")
        };
        line("keys loaded first", self.keys_loaded.to_string());
        line("requests", self.requests.to_string());
        line("objects asked for", self.objects.to_string());
        line("operations", listed(self.operations.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect()));
        if self.scan_keys > 0.0 {
            line("keys of a scan", format!("{:.1}", self.scan_keys));
        }
        let mean = |mean: &Mean| format!("{:.1} (mean of objects {:.1})", mean.of_requests, mean.of_objects);
        line("key bytes", mean(&self.key_bytes));
        line("value bytes", mean(&self.value_bytes));
        let ttl = |ttl_s: u32| if ttl_s == 0 { "none".to_owned() } else { format!("{ttl_s} s") };
        line("time to live", listed(self.ttl_s.iter().map(|(ttl_s, share)| (ttl(*ttl_s), *share)).collect()));
        line("one-hit wonders", format!("{:.2} % of the objects", 100.0 * self.one_hit_wonders));
        line("mean frequency", format!("{:.2}", self.frequency_mean));
        line("hottest object", format!("{:.2} % of the requests", 100.0 * self.hottest));
        if let Some(fit) = &self.zipf {
            line("zipf, fitted", format!("alpha {:.4}, R2 {:.3}", fit.alpha, fit.r_squared));
        }
        line("duration", format!("{:.1} s of the load's clock", self.duration_s));
        text
    }
}
