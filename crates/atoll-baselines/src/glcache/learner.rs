//! What one process knows and learns, shared by its threads.

use super::features::Written;
use super::sample::Sample;
use super::trees::Trees;
use super::watch::Watch;
use atoll_pool::ChunkId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The processor time of one inference. FORGE's section 6.2 says "hundreds of microseconds" of its
/// implementation on XGBoost; this is the least that it can mean. (Ours took 90 us for 64 groups on
/// one core, optimised.)
pub(super) const INFERENCE_NS: u64 = 200_000;
/// The processor time of learning for one sample: [`Trees::train`] took 26 ms for 1024 samples on
/// the same core.
const TRAINING_NS_PER_SAMPLE: u64 = 25_000;
/// A client learns when this part of the kept samples is new, and no fewer than the minimum.
const NEW_ONE_IN: u64 = 4;
const NEW_MIN: u64 = 32;
/// A group is watched for this part of the lookups that would turn the cache over.
const WATCHED_ONE_IN: u64 = 2;
/// Counts are flushed once in this part of those lookups.
const FLUSHED_ONE_IN: u64 = 8;
/// The shortest time of a watch or between flushes, in lookups.
const LOOKUPS_MIN: u64 = 16;
/// Lookups over which rates are taken.
const RATE_LOOKUPS: u64 = 1024;

/// The word of a chunk that was touched: this bit, and the low bits of the group's generation.
const TOUCHED: u32 = 1 << 31;

/// Rates of a process, taken over some thousand lookups.
#[derive(Debug, Default)]
struct Rates {
    begun_ns: u64,
    lookups: u64,
    misses: u64,
    written: u64,
    now: Written,
}

/// The trees in use and the trees to come.
#[derive(Default)]
struct Model {
    trees: Option<Arc<Trees>>,
    /// The trees that are being trained, and when they come into use on the process's clock.
    next: Option<(u64, Arc<Trees>)>,
    /// Samples that there had been when learning began last.
    learned_from: u64,
}

/// The knowledge of one process.
pub struct Learner {
    /// The groups that it watches.
    pub watch: Watch,
    /// Objects that the cache holds, by the samples; 0 before the first.
    resident_objects: AtomicU64,
    rates: Mutex<Rates>,
    model: Mutex<Model>,
    /// For each chunk, whether objects of it were looked up since their counts were flushed.
    touched: Vec<AtomicU32>,
    /// The chunk whose counts are flushed next.
    sweep: AtomicU32,
}

impl Learner {
    /// The learner of a pool of at most so many chunks, each a group of at most so many objects.
    pub fn new(chunks_max: u32, group_objects_max: u32) -> Self {
        Self {
            watch: Watch::new(group_objects_max),
            resident_objects: AtomicU64::new(0),
            rates: Mutex::default(),
            model: Mutex::default(),
            touched: (0..chunks_max).map(|_| AtomicU32::new(0)).collect(),
            sweep: AtomicU32::new(0),
        }
    }

    /// Notes the estimated number of objects.
    pub fn note_resident(&self, objects: u64) {
        self.resident_objects.store(objects.max(1), Ordering::Relaxed);
    }

    /// Lookups for which a group is watched.
    pub fn watched_lookups(&self) -> u64 {
        (self.resident_objects.load(Ordering::Relaxed) / WATCHED_ONE_IN).max(LOOKUPS_MIN)
    }

    /// Notes that an object of this group was looked up.
    #[inline]
    pub fn touch(&self, chunk: ChunkId, generation: u16) {
        if let Some(touched) = self.touched.get(chunk.0 as usize) {
            let word = TOUCHED | u32::from(generation);
            // Most lookups are of groups that were touched before. So they only read the line, and
            // it stays in every processor's cache.
            if touched.load(Ordering::Relaxed) != word {
                touched.store(word, Ordering::Relaxed);
            }
        }
    }

    /// The groups whose counts are to be flushed after a client's `operations`: the touched ones
    /// among the next of `chunks` chunks. There are none before a client of this process had to
    /// make room.
    pub fn to_flush(&self, operations: u32, chunks: u32) -> impl Iterator<Item = (ChunkId, u16)> + '_ {
        let resident = self.resident_objects.load(Ordering::Relaxed);
        let interval = (resident / FLUSHED_ONE_IN).max(LOOKUPS_MIN);
        let share = (u64::from(chunks) * u64::from(operations)).div_ceil(interval).min(chunks.into()) as u32;
        let share = if resident == 0 { 0 } else { share };
        let first = self.sweep.fetch_add(share, Ordering::Relaxed);
        (0..share).filter_map(move |nth| {
            let chunk = first.wrapping_add(nth) % chunks.max(1);
            let touched = self.touched.get(chunk as usize)?;
            let word = if touched.load(Ordering::Relaxed) == 0 { 0 } else { touched.swap(0, Ordering::Relaxed) };
            (word != 0).then_some((ChunkId(chunk), word as u16))
        })
    }

    /// Notes that a client has written so many objects after so many more lookups and misses.
    /// Returns the rates of the process: a record without generation, age and sizes.
    pub fn rates(&self, written: u64, lookups: u64, misses: u64, now_ns: u64) -> Written {
        let mut rates = locked(&self.rates);
        rates.written += written;
        rates.lookups += lookups;
        rates.misses += misses;
        let ns = now_ns.saturating_sub(rates.begun_ns);
        if rates.lookups >= RATE_LOOKUPS && ns > 0 {
            let a_second = |count: u64| (count as f64 * 1e9 / ns as f64) as f32;
            rates.now = Written {
                lookup_rate: a_second(rates.lookups),
                write_rate: a_second(rates.written),
                miss_ratio: rates.misses as f32 / rates.lookups as f32,
                ..Written::default()
            };
            (rates.begun_ns, rates.lookups, rates.misses, rates.written) = (now_ns, 0, 0, 0);
        }
        rates.now
    }

    /// The trees, once there are any.
    pub fn trees(&self, now_ns: u64) -> Option<Arc<Trees>> {
        let mut model = locked(&self.model);
        if model.next.as_ref().is_some_and(|(ready_ns, _)| *ready_ns <= now_ns) {
            model.trees = model.next.take().map(|(_, trees)| trees);
        }
        model.trees.clone()
    }

    /// Whether there are enough new samples to learn again, of `kept` at most. A caller that gets
    /// `true` must learn.
    pub fn wants_training(&self, samples_so_far: u64, kept: u64) -> bool {
        let mut model = locked(&self.model);
        let new = samples_so_far.wrapping_sub(model.learned_from);
        let is_worth_it = model.next.is_none() && new >= (samples_so_far.min(kept) / NEW_ONE_IN).max(NEW_MIN);
        if is_worth_it {
            model.learned_from = samples_so_far;
        }
        is_worth_it
    }

    /// Learns from samples. The trees come into use when the time of learning has passed.
    pub fn train(&self, samples: &[Sample], now_ns: u64) {
        let Some(trees) = Trees::train(samples) else { return };
        let ready_ns = now_ns.saturating_add(samples.len() as u64 * TRAINING_NS_PER_SAMPLE);
        locked(&self.model).next = Some((ready_ns, Arc::new(trees)));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of the lock panics")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glcache::features::Features;

    #[test]
    fn trees_come_into_use_when_they_are_learned_and_are_learned_anew_from_enough_that_is_new() {
        let learner = Learner::new(4, 8);
        assert!(!learner.wants_training(NEW_MIN - 1, 1024) && learner.wants_training(NEW_MIN, 1024));
        let sample = Sample { features: Features([1.0; 7]), utility_log: 2.0 };
        learner.train(&[sample; 32], 1_000);
        assert!(learner.trees(1_000).is_none() && !learner.wants_training(10_000, 1024));
        assert!(learner.trees(1_000 + 32 * TRAINING_NS_PER_SAMPLE).is_some());
        assert!(!learner.wants_training(NEW_MIN + 1, 1024) && learner.wants_training(10_000, 1024));
        assert!(!learner.wants_training(10_255, 1024) && learner.wants_training(10_256, 1024));
    }

    #[test]
    fn every_group_that_was_touched_is_flushed_within_the_interval_and_once() {
        let learner = Learner::new(100, 8);
        learner.touch(ChunkId(7), 3);
        learner.touch(ChunkId(99), u16::MAX);
        learner.touch(ChunkId(100), 0);
        assert_eq!(learner.to_flush(1 << 20, 100).count(), 0, "no client makes room yet");
        learner.note_resident(800);
        let flushed: Vec<_> = (0..10).flat_map(|_| learner.to_flush(10, 100).collect::<Vec<_>>()).collect();
        assert_eq!(flushed, [(ChunkId(7), 3), (ChunkId(99), u16::MAX)]);
        assert_eq!(learner.to_flush(u32::MAX, 100).count(), 0);
    }

    #[test]
    fn rates_are_of_the_time_since_they_were_taken_last() {
        let learner = Learner::new(1, 1);
        assert_eq!(learner.rates(5, 10, 1, 500_000_000).lookup_rate, 0.0);
        let rates = learner.rates(507, 2038, 511, 2_000_000_000);
        assert_eq!((rates.lookup_rate, rates.write_rate, rates.miss_ratio), (1024.0, 256.0, 0.25));
        assert_eq!(learner.rates(1, 1, 1, 2_000_000_000), rates);
    }
}
