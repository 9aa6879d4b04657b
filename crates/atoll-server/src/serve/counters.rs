//! The workers' counters, which any thread may read.
//!
//! A worker counts in its own plain numbers ([`Tally`]). It publishes them to its [`Counters`] once
//! a second and before it answers `INFO`. So a count costs a request no atomic operation, and a
//! reader sees counts that are at most a second old.
//!
//! Latency is sampled: one command in [`SAMPLE_EVERY`] is timed, from its dispatch until its reply
//! is in memory. That is the cache's share of a peer's waiting time. It excludes the network and
//! the queue in the socket.

use super::facts::PoolFacts;
use super::limits::Limits;
use super::options::ServerOptions;
use atoll_cache::Stats;
use atoll_cache::miniature::choice::CURVE;
use atoll_cache::stats::{MODELLED_MISSES, curve};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One command in this many has its time taken.
pub const SAMPLE_EVERY: u64 = 64;
/// Bucket `i` counts the commands that took less than `250 ns << i`; a last one those that took
/// longer.
pub const LATENCY_BUCKETS: usize = 20;
/// The first bucket's bound in nanoseconds.
pub const LATENCY_FIRST_NS: u64 = 250;

/// The upper bound of bucket `index` in nanoseconds; `None` for the last one, which has none.
pub const fn latency_bound_ns(index: usize) -> Option<u64> {
    if index < LATENCY_BUCKETS { Some(LATENCY_FIRST_NS << index) } else { None }
}

const STATS: usize = Stats::COUNT;

/// What one worker counts.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Commands that were run, in the order of
    /// [`Protocol::COMMANDS`](super::protocol::Protocol::COMMANDS).
    pub calls: Box<[u64]>,
    /// Replies that were errors.
    pub errors: u64,
    /// Sampled commands, by how long they took.
    pub latency: [u64; LATENCY_BUCKETS + 1],
    /// The time of all sampled commands.
    pub latency_sum_ns: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    commands: u64,
}

impl Tally {
    /// Nothing counted, of this many commands.
    pub fn new(commands: usize) -> Self {
        Self {
            calls: vec![0; commands].into(),
            errors: 0,
            latency: [0; LATENCY_BUCKETS + 1],
            latency_sum_ns: 0,
            bytes_in: 0,
            bytes_out: 0,
            commands: 0,
        }
    }

    /// Counts a command that begins; gives the time if it is one to be sampled.
    #[inline]
    pub fn begin(&mut self) -> Option<Instant> {
        self.commands += 1;
        self.commands.is_multiple_of(SAMPLE_EVERY).then(Instant::now)
    }

    /// The time, if one of so many commands that begin together is to be sampled.
    #[inline]
    pub fn begin_many(&self, commands: usize) -> Option<Instant> {
        (self.commands / SAMPLE_EVERY != (self.commands + commands as u64) / SAMPLE_EVERY).then(Instant::now)
    }

    /// Counts commands that ran together, and their mean time if they began at a time.
    #[inline]
    pub fn end_many(&mut self, commands: usize, began: Option<Instant>) {
        self.commands += commands as u64;
        if let (Some(began), 1..) = (began, commands) {
            self.sampled(began.elapsed() / commands as u32);
        }
    }

    /// Counts the time of a sampled command.
    pub fn sampled(&mut self, took: Duration) {
        let ns = took.as_nanos() as u64;
        let bucket = (0..LATENCY_BUCKETS).find(|&index| ns < LATENCY_FIRST_NS << index).unwrap_or(LATENCY_BUCKETS);
        self.latency[bucket] += 1;
        self.latency_sum_ns += ns;
    }
}

/// What one worker has published.
#[derive(Debug)]
pub struct Counters {
    calls: Box<[AtomicU64]>,
    errors: AtomicU64,
    latency: [AtomicU64; LATENCY_BUCKETS + 1],
    latency_sum_ns: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    stats: [AtomicU64; STATS],
    objects: AtomicU64,
}

impl Counters {
    /// Nothing published, of this many commands.
    pub fn new(commands: usize) -> Self {
        Self {
            calls: (0..commands).map(|_| AtomicU64::new(0)).collect(),
            errors: AtomicU64::new(0),
            latency: [const { AtomicU64::new(0) }; LATENCY_BUCKETS + 1],
            latency_sum_ns: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            stats: [const { AtomicU64::new(0) }; STATS],
            objects: AtomicU64::new(0),
        }
    }

    /// Publishes what the worker has counted, what its client has, and the objects that its client
    /// sees in the pool.
    pub fn publish(&self, tally: &Tally, stats: &Stats, objects: u64) {
        let store =
            |to: &[AtomicU64], from: &[u64]| to.iter().zip(from).for_each(|(to, from)| to.store(*from, Relaxed));
        store(&self.calls, &tally.calls);
        store(&self.latency, &tally.latency);
        store(&self.stats, &stats.named().map(|(_, number)| number));
        self.errors.store(tally.errors, Relaxed);
        self.latency_sum_ns.store(tally.latency_sum_ns, Relaxed);
        self.bytes_in.store(tally.bytes_in, Relaxed);
        self.bytes_out.store(tally.bytes_out, Relaxed);
        self.objects.store(objects, Relaxed);
    }
}

/// The server as all its threads see it.
#[derive(Debug)]
pub struct Shared {
    /// The names of the protocol's commands.
    pub commands: &'static [&'static str],
    /// The pool's facts.
    pub facts: PoolFacts,
    /// One for each worker.
    pub workers: Vec<Counters>,
    /// Connections being served.
    pub clients: AtomicUsize,
    /// Connections accepted since the start.
    pub accepted: AtomicU64,
    /// Connections refused because there were too many.
    pub refused: AtomicU64,
    /// The limits of connections.
    pub limits: Limits,
    /// What the server was started with; the port is the one that it has.
    pub options: ServerOptions,
    /// When the server started.
    pub started: Instant,
}

/// The sum over all workers.
#[derive(Clone, Debug)]
pub struct Totals {
    /// What the workers counted.
    pub tally: Tally,
    /// What their clients counted, as [`Stats::named`] names it.
    pub stats: Vec<(&'static str, u64)>,
    /// Objects in the pool.
    pub objects: u64,
    /// Bytes of the pool in use.
    pub used_bytes: u64,
}

impl Totals {
    /// A number of the clients' by its name.
    pub fn stat(&self, name: &str) -> u64 {
        self.stats.iter().find(|(other, _)| *other == name).map_or(0, |(_, number)| *number)
    }

    /// Lookups that did not find their key.
    pub fn misses(&self) -> u64 {
        self.stat("misses_absent") + self.stat("misses_expired")
    }

    /// Parts of the pool's capacity, each with the hit ratio that the clients' miniatures model
    /// there. `None` without reads, or without miniatures.
    pub fn curve(&self) -> Option<impl Iterator<Item = (f64, f64)>> {
        let ratios = curve(self.stat("hits") + self.misses(), MODELLED_MISSES.map(|name| self.stat(name)))?;
        Some(CURVE.into_iter().map(|quarters| quarters as f64 / 4.0).zip(ratios))
    }

    /// Takes away what was counted before `earlier`.
    pub fn forget(&mut self, earlier: &Self) {
        let less = |now: &mut [u64], then: &[u64]| {
            now.iter_mut().zip(then).for_each(|(now, then)| *now = now.saturating_sub(*then));
        };
        let (tally, then) = (&mut self.tally, &earlier.tally);
        less(&mut tally.calls, &then.calls);
        less(&mut tally.latency, &then.latency);
        for (now, then) in [
            (&mut tally.errors, then.errors),
            (&mut tally.latency_sum_ns, then.latency_sum_ns),
            (&mut tally.bytes_in, then.bytes_in),
            (&mut tally.bytes_out, then.bytes_out),
        ] {
            *now = now.saturating_sub(then);
        }
        for ((_, now), (_, then)) in self.stats.iter_mut().zip(&earlier.stats) {
            *now = now.saturating_sub(*then);
        }
    }

    /// Commands run.
    pub fn commands(&self) -> u64 {
        self.tally.calls.iter().sum()
    }
}

impl Shared {
    /// Milliseconds since the server started.
    pub fn uptime_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// The sum over all workers, as last published.
    pub fn totals(&self) -> Totals {
        let tally = Tally::new(self.commands.len());
        let mut totals = Totals { tally, stats: Vec::new(), objects: 0, used_bytes: 0 };
        let mut stats = [0; STATS];
        let add = |to: &mut [u64], from: &[AtomicU64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from.load(Relaxed))
        };
        for worker in &self.workers {
            add(&mut totals.tally.calls, &worker.calls);
            add(&mut totals.tally.latency, &worker.latency);
            add(&mut stats, &worker.stats);
            totals.tally.errors += worker.errors.load(Relaxed);
            totals.tally.latency_sum_ns += worker.latency_sum_ns.load(Relaxed);
            totals.tally.bytes_in += worker.bytes_in.load(Relaxed);
            totals.tally.bytes_out += worker.bytes_out.load(Relaxed);
            // Every client sees the same pool; one that has not looked for a while may have seen
            // fewer.
            totals.objects = totals.objects.max(worker.objects.load(Relaxed));
        }
        totals.stats = Stats::default().named().iter().zip(stats).map(|((name, _), number)| (*name, number)).collect();
        totals.used_bytes = (self.facts.used_bytes)();
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_is_what_the_miniatures_miss_of_all_reads() {
        let counted = [60, 30, 10].into_iter().chain([80, 60, 40, 20, 0]);
        let names = ["hits", "misses_absent", "misses_expired"].into_iter().chain(MODELLED_MISSES);
        let stats = names.zip(counted).collect();
        let totals = Totals { tally: Tally::new(0), stats, objects: 0, used_bytes: 0 };
        let curve: Vec<(f64, f64)> = totals.curve().unwrap().collect();
        assert_eq!(curve.iter().map(|(capacity, _)| *capacity).collect::<Vec<_>>(), [0.25, 0.5, 1.0, 2.0, 4.0]);
        for ((_, ratio), expected) in curve.iter().zip([0.2, 0.4, 0.6, 0.8, 1.0]) {
            assert!((ratio - expected).abs() < 1e-9, "{curve:?}");
        }
        let silent = Totals { tally: Tally::new(0), stats: vec![("hits", 60)], objects: 0, used_bytes: 0 };
        assert!(silent.curve().is_none());
    }

    #[test]
    fn a_sample_falls_below_the_bound_of_its_bucket() {
        let mut tally = Tally::new(1);
        for (ns, bucket) in [(0, 0), (249, 0), (250, 1), (499, 1), (500, 2), (u64::MAX / 2, LATENCY_BUCKETS)] {
            tally.latency = [0; LATENCY_BUCKETS + 1];
            tally.sampled(Duration::from_nanos(ns));
            assert_eq!(tally.latency[bucket], 1, "{ns}");
        }
    }
}
