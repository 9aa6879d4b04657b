//! Whether caching pays for an object: DiFache's profit model (section 5.2).
//!
//! With the read ratio *r* and the hit ratio *h*, an access takes on average
//!
//! ```text
//!   cached     r (h hit + (1 - h) miss) + (1 - r) write_invalidating
//!   uncached   r read_bypassing         + (1 - r) write_bypassing
//! ```
//!
//! Both are equal at the **threshold** of *r*. Above it caching pays. The latencies are medians of
//! what the client has measured lately. The ratios are those of the stripe on this compute node. A
//! node can measure *h* only while the stripe is cached, so it remembers the threshold from then.

use std::cell::RefCell;

/// The kinds of accesses whose latency is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Hit,
    Miss,
    ReadBypassing,
    WriteInvalidating,
    WriteBypassing,
}

const KINDS: usize = 5;
/// Latencies that are kept of each kind.
const SAMPLES: usize = 16;

/// The read ratio, per mille, from which on caching pays, before any latency is known: 75 %
/// (section 5.3).
pub(crate) const THRESHOLD_DEFAULT: u64 = 750;
/// Accesses until the first look, and at most between two (section 5.3). In the paper the second
/// interval follows the first switch. Here each look doubles the interval, so that a switch by
/// chance does not last.
pub(crate) const INTERVAL_FIRST: u64 = 8;
pub(crate) const INTERVAL: u64 = 255;

/// The interval after a look.
pub(crate) fn next_interval(interval: u64) -> u64 {
    (2 * interval).min(INTERVAL)
}

/// Whether so many reads among so many accesses speak for caching, against the present mode. One
/// access more is counted for the present mode, because few accesses say little: 7 reads of 8 speak
/// for caching, and 6 do not.
pub(crate) fn pays(is_on: bool, reads: u64, operations: u64, threshold: u64) -> bool {
    1000 * (reads + u64::from(is_on)) / (operations + 1) >= threshold
}

/// The latest latencies of one kind, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    ns: [u32; SAMPLES],
    count: usize,
}

impl Recent {
    fn add(&mut self, ns: u64) {
        self.ns[self.count % SAMPLES] = u32::try_from(ns).unwrap_or(u32::MAX);
        self.count += 1;
    }

    fn median(&self) -> Option<u64> {
        let mut sorted = self.ns;
        let known = &mut sorted[..self.count.min(SAMPLES)];
        known.sort_unstable();
        known.get(known.len() / 2).map(|ns| u64::from(*ns))
    }
}

/// What a client has measured lately.
#[derive(Debug, Default)]
pub(crate) struct Latencies(RefCell<[Recent; KINDS]>);

impl Latencies {
    #[inline]
    pub(crate) fn add(&self, access: Access, ns: u64) {
        self.0.borrow_mut()[access as usize].add(ns);
    }

    /// The threshold, per mille, given reads and hits among them; the default until all latencies
    /// are known.
    pub(crate) fn threshold(&self, reads: u64, hits: u64) -> u64 {
        let recent = self.0.borrow();
        let median = |access: Access| recent[access as usize].median();
        let all = (|| {
            Some(Medians {
                hit: median(Access::Hit)?,
                miss: median(Access::Miss)?,
                read_bypassing: median(Access::ReadBypassing)?,
                write_invalidating: median(Access::WriteInvalidating)?,
                write_bypassing: median(Access::WriteBypassing)?,
            })
        })();
        all.map_or(THRESHOLD_DEFAULT, |medians| medians.threshold(reads, hits))
    }
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Medians {
    hit: u64,
    miss: u64,
    read_bypassing: u64,
    write_invalidating: u64,
    write_bypassing: u64,
}

impl Medians {
    /// The read ratio, per mille, at which caching brings nothing; 1001 if it never pays.
    fn threshold(&self, reads: u64, hits: u64) -> u64 {
        let reads = reads.max(1);
        let cached = (hits.min(reads) * self.hit + (reads - hits.min(reads)) * self.miss) / reads;
        let gain = self.read_bypassing.saturating_sub(cached);
        let loss = self.write_invalidating.saturating_sub(self.write_bypassing);
        if gain == 0 { 1001 } else { 1000 * loss / (gain + loss) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEDIANS: Medians =
        Medians { hit: 100, miss: 2100, read_bypassing: 2000, write_invalidating: 6000, write_bypassing: 2000 };

    #[test]
    fn at_the_threshold_both_ways_take_the_same_time() {
        for hits in [300, 500, 900, 1000] {
            let threshold = MEDIANS.threshold(1000, hits);
            let read_cached = (hits * 100 + (1000 - hits) * 2100) / 1000;
            let cached = threshold * read_cached + (1000 - threshold) * 6000;
            let uncached = threshold * 2000 + (1000 - threshold) * 2000;
            assert!(cached.abs_diff(uncached) < 6000, "{hits} hits: {cached} and {uncached} at {threshold}");
        }
        assert!(MEDIANS.threshold(1000, 900) < MEDIANS.threshold(1000, 500), "hits make caching pay sooner");
    }

    #[test]
    fn caching_that_never_pays_has_no_threshold_and_unknown_latencies_the_papers() {
        assert_eq!(MEDIANS.threshold(1000, 0), 1001);
        let latencies = Latencies::default();
        assert_eq!(latencies.threshold(10, 10), THRESHOLD_DEFAULT);
        latencies.add(Access::Hit, 100);
        assert_eq!(latencies.threshold(10, 10), THRESHOLD_DEFAULT);
    }

    #[test]
    fn few_accesses_speak_for_the_present_mode() {
        let pays = |is_on, reads, operations| pays(is_on, reads, operations, THRESHOLD_DEFAULT);
        assert!(pays(false, 7, 8) && !pays(false, 6, 8));
        assert!(pays(true, 6, 8) && !pays(true, 5, 8));
        assert!(pays(false, 190, 250) && !pays(true, 180, 250));
        let mut interval = INTERVAL_FIRST;
        (0..20).for_each(|_| interval = next_interval(interval));
        assert_eq!(interval, INTERVAL);
    }

    #[test]
    fn the_median_is_of_the_latest() {
        let mut recent = Recent::default();
        assert_eq!(recent.median(), None);
        (0..SAMPLES).for_each(|_| recent.add(1_000_000));
        (0..SAMPLES).for_each(|_| recent.add(7));
        assert_eq!(recent.median(), Some(7));
    }
}
