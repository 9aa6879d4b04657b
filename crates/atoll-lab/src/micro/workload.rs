//! What is done to a subject while it is timed.

use super::subject::{Source, Subject, key_of};
use crate::LabError;
use crate::latency::Latencies;
use crate::zipf::ZipfRanks;
use atoll_deployment::random::Random;
use atoll_fabric::Clock;
use serde::{Deserialize, Serialize};
use std::sync::Barrier;

/// Keys are drawn beforehand, and drawing them is not timed. A longer run repeats them.
const DRAWN: usize = 1 << 20;
/// Operations between two looks at the time.
const STRETCH: usize = 256;
const THETA: f64 = 0.99;
/// A cache with eviction holds about this share of the objects.
const SMALL: u64 = 8;

/// How long and on how much.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Extent {
    pub(super) objects: u64,
    pub(super) seconds: f64,
    /// Differs between processes and rounds.
    pub(super) seed: u64,
}

impl Extent {
    /// Objects of a cache with eviction.
    pub(super) fn small(&self) -> u64 {
        (self.objects / SMALL).max(1)
    }

    /// Keys that are set before [`Workload::SetEvicting`] is timed, enough to fill the small cache.
    fn filling(&self) -> u64 {
        2 * self.small()
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Workload {
    /// Each key set once, in an empty cache with room for all.
    SetNew,
    /// Keys asked for by Zipf's law with theta 0.99, each operation timed.
    GetZipf,
    /// Keys asked for with equal chances, each operation timed.
    GetUniform,
    /// Resident keys set again.
    SetOverwrite,
    /// New keys set in a full cache, each operation timed.
    SetEvicting,
    /// As `GetZipf` by this many threads at once, timed as a whole.
    Throughput {
        /// The threads of this process.
        threads: u32,
    },
}

/// What one measurement gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) operations: u64,
    /// GETs that found their key.
    pub(super) hits: u64,
    pub(super) operations_per_s: f64,
    /// Of SETs, and of GETs that found their key; empty where operations were not timed by
    /// themselves.
    pub(super) latencies: Latencies,
}

/// Median time between two readings of the clock, in nanoseconds: what is in every latency besides
/// the operation.
pub(super) fn timer_ns() -> u64 {
    let clock = Clock::host();
    let mut latencies = Latencies::default();
    for _ in 0..100_000 {
        let begin_ns = clock.now_ns();
        latencies.record(clock.now_ns() - begin_ns);
    }
    latencies.quantile(0.5)
}

impl Workload {
    /// Does it.
    pub(super) fn run<S: Source>(self, source: &S, extent: &Extent) -> Result<Measured, LabError> {
        match self {
            Self::SetNew => {
                let mut numbers = 0..extent.objects;
                let next = || numbers.next();
                timed(&mut source.subject()?, f64::INFINITY, next, set)
            }
            Self::GetZipf | Self::GetUniform | Self::SetOverwrite => {
                let drawn = draw(extent, self != Self::GetZipf);
                let subject = &mut source.subject()?;
                if self == Self::SetOverwrite {
                    return timed(subject, extent.seconds, cycle(&drawn), set);
                }
                timed(subject, extent.seconds * 0.1, cycle(&drawn), get)?;
                timed(subject, extent.seconds, cycle(&drawn), get)
            }
            Self::SetEvicting => {
                let subject = &mut source.subject()?;
                // Numbers that no other process and no other round uses.
                let first = (extent.seed + 1) << 40;
                (first..first + extent.filling()).try_for_each(|number| subject.set(&key_of(number)))?;
                let mut numbers = first + extent.filling()..;
                timed(subject, extent.seconds, || numbers.next(), set)
            }
            Self::Throughput { threads } => throughput(source, extent, threads),
        }
    }
}

fn draw(extent: &Extent, uniform: bool) -> Vec<u32> {
    let mut random = Random::new(extent.seed);
    let zipf = ZipfRanks::new(extent.objects, THETA);
    let mut one = || if uniform { random.below(extent.objects) } else { zipf.sample(&mut random) - 1 };
    (0..DRAWN).map(|_| one() as u32).collect()
}

/// The drawn numbers over and over.
fn cycle(drawn: &[u32]) -> impl FnMut() -> Option<u64> + '_ {
    let mut numbers = drawn.iter().cycle();
    move || numbers.next().map(|number| u64::from(*number))
}

#[inline]
fn get<S: Subject>(subject: &mut S, number: u64) -> Result<bool, LabError> {
    subject.get(&key_of(number))
}

#[inline]
fn set<S: Subject>(subject: &mut S, number: u64) -> Result<bool, LabError> {
    subject.set(&key_of(number)).map(|()| true)
}

/// Times each operation, until `seconds` have passed or there are no more numbers.
fn timed<S: Subject>(
    subject: &mut S,
    seconds: f64,
    mut next: impl FnMut() -> Option<u64>,
    operation: impl Fn(&mut S, u64) -> Result<bool, LabError>,
) -> Result<Measured, LabError> {
    let clock = Clock::host();
    let mut latencies = Latencies::default();
    let (mut operations, mut hits) = (0, 0);
    let since_ns = clock.now_ns();
    let end_ns = since_ns.saturating_add((seconds * 1e9) as u64);
    while let Some(number) = next() {
        let begin_ns = clock.now_ns();
        let hit = operation(subject, number)?;
        let now_ns = clock.now_ns();
        operations += 1;
        if hit {
            hits += 1;
            latencies.record(now_ns - begin_ns);
        }
        if now_ns >= end_ns {
            break;
        }
    }
    let operations_per_s = operations as f64 * 1e9 / (clock.now_ns() - since_ns).max(1) as f64;
    Ok(Measured { operations, hits, operations_per_s, latencies })
}

fn throughput<S: Source>(source: &S, extent: &Extent, threads: u32) -> Result<Measured, LabError> {
    let barrier = Barrier::new(threads as usize);
    let work = |thread: u32| {
        let extent = Extent { seed: extent.seed + 1000 * u64::from(thread + 1), ..*extent };
        let ready = source.subject().map(|subject| (subject, draw(&extent, false)));
        // A thread that failed must not keep the others waiting.
        barrier.wait();
        let (mut subject, drawn) = ready?;
        let clock = Clock::host();
        let since_ns = clock.now_ns();
        let ns_max = (extent.seconds * 1e9) as u64;
        let (mut operations, mut hits) = (0_u64, 0_u64);
        for stretch in drawn.chunks(STRETCH).cycle() {
            for number in stretch {
                hits += u64::from(subject.get(&key_of(u64::from(*number)))?);
            }
            operations += stretch.len() as u64;
            if clock.now_ns() - since_ns >= ns_max {
                break;
            }
        }
        Ok((operations, hits, operations as f64 * 1e9 / (clock.now_ns() - since_ns) as f64))
    };
    let outcomes: Vec<Result<(u64, u64, f64), LabError>> = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker has a bug")).collect()
    });
    let mut total = Measured { operations: 0, hits: 0, operations_per_s: 0.0, latencies: Latencies::default() };
    for outcome in outcomes {
        let (operations, hits, operations_per_s) = outcome?;
        total.operations += operations;
        total.hits += hits;
        total.operations_per_s += operations_per_s;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::super::subject::{Copying, LibrarySource};
    use super::*;

    const EXTENT: Extent = Extent { objects: 1000, seconds: 0.02, seed: 1 };
    type Moka = LibrarySource<moka::sync::Cache<[u8; 16], std::sync::Arc<[u8]>>>;
    type QuickCache = LibrarySource<quick_cache::sync::Cache<[u8; 16], std::sync::Arc<[u8]>>>;

    fn all_hit_after_set_new<S: Source>(source: &S) {
        let measured = Workload::SetNew.run(source, &EXTENT).unwrap();
        assert_eq!((measured.operations, measured.latencies.count()), (1000, 1000));
        for workload in [Workload::GetZipf, Workload::GetUniform, Workload::Throughput { threads: 2 }] {
            let measured = workload.run(source, &EXTENT).unwrap();
            assert!(measured.operations > 0 && measured.operations_per_s > 0.0);
            assert_eq!(measured.hits, measured.operations, "{workload:?}");
        }
        assert!(Workload::SetOverwrite.run(source, &EXTENT).unwrap().operations > 0);
        assert!(Workload::SetEvicting.run(source, &EXTENT).unwrap().operations > 0);
    }

    #[test]
    fn every_workload_runs_and_gets_hit_what_was_set() {
        all_hit_after_set_new(&Moka::new(4000));
        all_hit_after_set_new(&QuickCache::new(4000));
        all_hit_after_set_new(&Copying::new(1000));
    }
}
