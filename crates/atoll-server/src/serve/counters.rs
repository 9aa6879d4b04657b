//! The workers' counters, which any thread may read.
//!
//! A worker counts in its own plain numbers ([`Tally`]). It publishes them to its [`Counters`] once
//! a second and before it answers `INFO`. So a count costs a request no atomic operation, and a
//! reader sees counts that are at most a second old.
//!
//! A command's time is from its dispatch until its reply is in memory. That is the cache's share of
//! a peer's waiting time. It excludes the network and the queue in the socket. Of brief commands
//! one in [`SAMPLE_EVERY`] is timed, and its time counts for all of them.

use super::Stopper;
use super::facts::PoolFacts;
use super::limits::Limits;
use super::options::ServerOptions;
use atoll_cache::Stats;
use atoll_cache::miniature::choice::CURVE;
use atoll_cache::stats::{MODELLED_MISSES, curve};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One brief command in this many has its time taken.
pub const SAMPLE_EVERY: u64 = 64;
/// Bucket `i` counts the commands that took less than `250 ns << i`; a last one those that took
/// longer.
pub const LATENCY_BUCKETS: usize = 26;
/// The first bucket's bound in nanoseconds.
pub const LATENCY_FIRST_NS: u64 = 250;

/// The upper bound of bucket `index` in nanoseconds; `None` for the last one, which has none.
pub const fn latency_bound_ns(index: usize) -> Option<u64> {
    if index < LATENCY_BUCKETS { Some(LATENCY_FIRST_NS << index) } else { None }
}

const STATS: usize = Stats::COUNT;
/// How the names of the counters of misses begin.
pub const MISSES: &str = "misses_";
const TIMED_WORDS: usize = LATENCY_BUCKETS + 2;

/// How long the calls of one command took.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    /// How many fell into each bucket.
    pub buckets: [u64; LATENCY_BUCKETS + 1],
    /// Their time together.
    pub sum_ns: u64,
}

impl Timed {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn add(&mut self, took: Duration, calls: u64) {
        let ns = took.as_nanos() as u64;
        let bucket = (0..LATENCY_BUCKETS).find(|&index| ns < LATENCY_FIRST_NS << index).unwrap_or(LATENCY_BUCKETS);
        self.buckets[bucket] += calls;
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(calls));
    }
}

/// Codes of errors that are counted apart, at most.
const CODES_MAX: usize = 128;

/// What one worker counts.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Commands that were run, in the order of
    /// [`Protocol::commands`](super::protocol::Protocol::commands).
    pub calls: Box<[u64]>,
    /// Commands that ended in an error, in the same order.
    pub failed: Box<[u64]>,
    /// Commands that were refused before they ran, in the same order.
    pub rejected: Box<[u64]>,
    /// Commands that did not find their key, in the same order, of a protocol that says so.
    pub missed: Box<[u64]>,
    /// How long the calls of each command took, in the same order.
    pub timed: Box<[Timed]>,
    /// Keys that commands read and found. Those that write only are not counted, as in Redis.
    pub keys_found: u64,
    /// Keys that commands were to read and that were not there.
    pub keys_missed: u64,
    /// memcached's values that were too large.
    pub stores_too_large: u64,
    /// memcached's values that found no room.
    pub stores_without_room: u64,
    /// Replies that were errors.
    pub errors: u64,
    /// How many of them had each code: the first 128 codes.
    pub errors_by_code: BTreeMap<String, u64>,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Reads of sockets that found bytes.
    pub reads: u64,
    /// Times that replies or messages were sent.
    pub writes: u64,
    commands: u64,
}

impl Tally {
    /// Nothing counted, of this many commands.
    pub fn new(commands: usize) -> Self {
        Self {
            calls: vec![0; commands].into(),
            failed: vec![0; commands].into(),
            rejected: vec![0; commands].into(),
            missed: vec![0; commands].into(),
            timed: vec![Timed::default(); commands].into(),
            keys_found: 0,
            keys_missed: 0,
            stores_too_large: 0,
            stores_without_room: 0,
            errors: 0,
            errors_by_code: BTreeMap::new(),
            bytes_in: 0,
            bytes_out: 0,
            reads: 0,
            writes: 0,
            commands: 0,
        }
    }

    /// Counts a command that begins. Gives the time if it is one of [`SAMPLE_EVERY`].
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
    /// They are all the same command.
    #[inline]
    pub fn end_many(&mut self, command: usize, commands: usize, began: Option<Instant>) {
        self.commands += commands as u64;
        if let (Some(began), 1..) = (began, commands) {
            let took = began.elapsed() / commands as u32;
            self.timed(command, took, SAMPLE_EVERY.max(commands as u64));
        }
    }

    /// One of so many calls of this command was timed. Counts its time for all of them.
    pub fn timed(&mut self, command: usize, took: Duration, calls: u64) {
        self.timed[command].add(took, calls);
    }

    /// Counts a key that a command was to read.
    #[inline]
    pub fn looked(&mut self, is_there: bool) {
        self.keys_found += u64::from(is_there);
        self.keys_missed += u64::from(!is_there);
    }

    /// Counts a reply that is an error with this code.
    #[cold]
    pub fn error(&mut self, code: &str) {
        self.errors += 1;
        if let Some(count) = self.errors_by_code.get_mut(code) {
            *count += 1;
        } else if self.errors_by_code.len() < CODES_MAX {
            self.errors_by_code.insert(code.to_owned(), 1);
        }
    }
}

/// What one worker has published.
#[derive(Debug)]
pub struct Counters {
    calls: Box<[AtomicU64]>,
    failed: Box<[AtomicU64]>,
    rejected: Box<[AtomicU64]>,
    missed: Box<[AtomicU64]>,
    /// For each command its buckets, and behind them its time.
    timed: Box<[AtomicU64]>,
    errors_by_code: Mutex<BTreeMap<String, u64>>,
    keys_found: AtomicU64,
    keys_missed: AtomicU64,
    stores_too_large: AtomicU64,
    stores_without_room: AtomicU64,
    errors: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    stats: [AtomicU64; STATS],
    objects: AtomicU64,
}

impl Counters {
    /// Nothing published, of this many commands.
    pub fn new(commands: usize) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            calls: zeros(commands),
            failed: zeros(commands),
            rejected: zeros(commands),
            missed: zeros(commands),
            timed: zeros(commands * TIMED_WORDS),
            errors_by_code: Mutex::default(),
            keys_found: AtomicU64::new(0),
            keys_missed: AtomicU64::new(0),
            stores_too_large: AtomicU64::new(0),
            stores_without_room: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
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
        store(&self.failed, &tally.failed);
        store(&self.rejected, &tally.rejected);
        store(&self.missed, &tally.missed);
        for (to, from) in self.timed.chunks(TIMED_WORDS).zip(&tally.timed) {
            store(to, &from.buckets);
            to[TIMED_WORDS - 1].store(from.sum_ns, Relaxed);
        }
        if tally.errors != self.errors.load(Relaxed) {
            *self.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner) = tally.errors_by_code.clone();
        }
        store(&self.stats, &stats.named().map(|(_, number)| number));
        self.keys_found.store(tally.keys_found, Relaxed);
        self.keys_missed.store(tally.keys_missed, Relaxed);
        self.stores_too_large.store(tally.stores_too_large, Relaxed);
        self.stores_without_room.store(tally.stores_without_room, Relaxed);
        self.errors.store(tally.errors, Relaxed);
        self.bytes_in.store(tally.bytes_in, Relaxed);
        self.bytes_out.store(tally.bytes_out, Relaxed);
        self.reads.store(tally.reads, Relaxed);
        self.writes.store(tally.writes, Relaxed);
        self.objects.store(objects, Relaxed);
    }
}

/// The server as all its threads see it.
#[derive(Debug)]
pub struct Shared {
    /// The names of the protocol's commands.
    pub commands: Box<[&'static str]>,
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
    /// What the server did in the last second.
    pub rates: Meter,
    /// The limits of connections.
    pub limits: Limits,
    /// What the server was started with; the ports are those that it has.
    pub options: ServerOptions,
    /// When the server started.
    pub started: Instant,
    /// Stops it.
    pub stopper: Stopper,
}

/// What all workers did in the last second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Commands.
    pub commands: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// Measures [`Rates`].
#[derive(Debug, Default)]
pub struct Meter(Mutex<(Rates, Option<(Instant, Rates)>)>);

impl Meter {
    /// The rates, as last measured.
    pub fn get(&self) -> Rates {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Measures from the sums so far. One worker calls it once a second.
    pub fn measure(&self, totals: &Totals) {
        let now = Instant::now();
        let sums =
            Rates { commands: totals.commands(), bytes_in: totals.tally.bytes_in, bytes_out: totals.tally.bytes_out };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, earlier)) = state.1 {
            let seconds = (now - then).as_secs_f64().max(0.001);
            let rate = |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds).round() as u64;
            state.0 = Rates {
                commands: rate(sums.commands, earlier.commands),
                bytes_in: rate(sums.bytes_in, earlier.bytes_in),
                bytes_out: rate(sums.bytes_out, earlier.bytes_out),
            };
        }
        state.1 = Some((now, sums));
    }
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
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because there were too many, or because of where their peers are.
    pub refused: u64,
}

impl Totals {
    /// A number of the clients' by its name.
    pub fn stat(&self, name: &str) -> u64 {
        self.stats.iter().find(|(other, _)| *other == name).map_or(0, |(_, number)| *number)
    }

    /// Lookups that did not find their key.
    pub fn misses(&self) -> u64 {
        self.misses_by_reason().map(|(_, count)| count).sum()
    }

    /// The reasons why lookups did not find their key, each with their number.
    pub fn misses_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.stats.iter().filter_map(|(name, count)| Some((name.strip_prefix(MISSES)?, *count)))
    }

    /// Parts of the pool's capacity, each with the hit ratio that the clients' miniatures model
    /// there. `None` without reads, or without miniatures.
    pub fn curve(&self) -> Option<impl Iterator<Item = (f64, f64)>> {
        let ratios = curve(self.stat("hits"), self.misses(), MODELLED_MISSES.map(|name| self.stat(name)))?;
        Some(CURVE.into_iter().map(|quarters| quarters as f64 / 4.0).zip(ratios))
    }

    /// Takes away what was counted before `earlier`.
    pub fn forget(&mut self, earlier: &Self) {
        let less = |now: &mut [u64], then: &[u64]| {
            now.iter_mut().zip(then).for_each(|(now, then)| *now = now.saturating_sub(*then));
        };
        let (tally, then) = (&mut self.tally, &earlier.tally);
        less(&mut tally.calls, &then.calls);
        less(&mut tally.failed, &then.failed);
        less(&mut tally.rejected, &then.rejected);
        less(&mut tally.missed, &then.missed);
        for (now, then) in tally.timed.iter_mut().zip(&then.timed) {
            less(&mut now.buckets, &then.buckets);
            now.sum_ns = now.sum_ns.saturating_sub(then.sum_ns);
        }
        for (code, count) in &mut tally.errors_by_code {
            *count = count.saturating_sub(then.errors_by_code.get(code).copied().unwrap_or(0));
        }
        for (now, then) in [
            (&mut tally.keys_found, then.keys_found),
            (&mut tally.keys_missed, then.keys_missed),
            (&mut tally.stores_too_large, then.stores_too_large),
            (&mut tally.stores_without_room, then.stores_without_room),
            (&mut tally.errors, then.errors),
            (&mut tally.bytes_in, then.bytes_in),
            (&mut tally.bytes_out, then.bytes_out),
            (&mut tally.reads, then.reads),
            (&mut tally.writes, then.writes),
            (&mut self.accepted, earlier.accepted),
            (&mut self.refused, earlier.refused),
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
        let (accepted, refused) = (self.accepted.load(Relaxed), self.refused.load(Relaxed));
        let mut totals = Totals { tally, stats: Vec::new(), objects: 0, used_bytes: 0, accepted, refused };
        let mut stats = [0; STATS];
        let add = |to: &mut [u64], from: &[AtomicU64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from.load(Relaxed))
        };
        for worker in &self.workers {
            add(&mut totals.tally.calls, &worker.calls);
            add(&mut totals.tally.failed, &worker.failed);
            add(&mut totals.tally.rejected, &worker.rejected);
            add(&mut totals.tally.missed, &worker.missed);
            for (to, from) in totals.tally.timed.iter_mut().zip(worker.timed.chunks(TIMED_WORDS)) {
                add(&mut to.buckets, from);
                to.sum_ns += from[TIMED_WORDS - 1].load(Relaxed);
            }
            for (code, count) in &*worker.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner) {
                *totals.tally.errors_by_code.entry(code.clone()).or_default() += count;
            }
            add(&mut stats, &worker.stats);
            totals.tally.keys_found += worker.keys_found.load(Relaxed);
            totals.tally.keys_missed += worker.keys_missed.load(Relaxed);
            totals.tally.stores_too_large += worker.stores_too_large.load(Relaxed);
            totals.tally.stores_without_room += worker.stores_without_room.load(Relaxed);
            totals.tally.errors += worker.errors.load(Relaxed);
            totals.tally.bytes_in += worker.bytes_in.load(Relaxed);
            totals.tally.bytes_out += worker.bytes_out.load(Relaxed);
            totals.tally.reads += worker.reads.load(Relaxed);
            totals.tally.writes += worker.writes.load(Relaxed);
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
    fn the_curve_is_what_the_miniatures_miss_of_all_reads_and_right_at_the_pool_s_own_capacity() {
        // Ten too many, as the misses at the own capacity show.
        let counted = [60, 30, 10].into_iter().chain([90, 70, 50, 30, 10]);
        let names = ["hits", "misses_absent", "misses_expired"].into_iter().chain(MODELLED_MISSES);
        let counted_by_clients =
            |stats| Totals { tally: Tally::new(0), stats, objects: 0, used_bytes: 0, accepted: 0, refused: 0 };
        let totals = counted_by_clients(names.zip(counted).collect());
        let curve: Vec<(f64, f64)> = totals.curve().unwrap().collect();
        assert_eq!(curve.iter().map(|(capacity, _)| *capacity).collect::<Vec<_>>(), [0.25, 0.5, 1.0, 2.0, 4.0]);
        for ((_, ratio), expected) in curve.iter().zip([0.2, 0.4, 0.6, 0.8, 1.0]) {
            assert!((ratio - expected).abs() < 1e-9, "{curve:?}");
        }
        assert!(counted_by_clients(vec![("hits", 60)]).curve().is_none());
    }

    #[test]
    fn a_sample_falls_below_the_bound_of_its_bucket() {
        for (ns, bucket) in [(0, 0), (249, 0), (250, 1), (499, 1), (500, 2), (u64::MAX / 2, LATENCY_BUCKETS)] {
            let mut timed = Timed::default();
            timed.add(Duration::from_nanos(ns), 3);
            assert_eq!((timed.buckets[bucket], timed.count()), (3, 3), "{ns}");
        }
    }
}
