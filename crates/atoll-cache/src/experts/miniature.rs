//! The misses that each expert alone would have, tried out on a [`Sample`] of the keys: see
//! [`miniature`](crate::miniature).
//!
//! A regret only counts against experts that were followed, and experts that take turns evict each
//! other's objects. So a client learns little from regrets, and late. Instead it runs a small cache
//! for each expert in its own memory. It sees each expert as if it had always been followed.
//!
//! Every miss of an expert's miniature is a penalty for the expert. The expert with the largest
//! weight then decides alone. The first expert of the set is favoured: the misses of the other
//! experts count [`Settings::margin`] more. A change of experts loses the objects that the old
//! expert had kept.

use super::table::Table;
use super::{ExpertSet, Settings};
use crate::miniature::sample::{Sample, Scale};

/// At most one key in eight is in the sample: an access to all miniatures costs up to half of what
/// an operation costs in near memory.
const SHIFT_MIN: u32 = 3;

/// One client's miniatures, in the order of the set.
#[derive(Clone, Debug)]
pub(super) struct Miniatures {
    tables: Vec<Table>,
    settings: Settings,
    sample: Sample,
}

impl Miniatures {
    /// Miniatures of a cache of `objects_max` objects. `None` if there is only one expert, or
    /// `settings` want none.
    pub(super) fn new(set: &ExpertSet, settings: &Settings, objects_max: u64) -> Option<Self> {
        if set.len() == 1 || settings.miniature_objects == 0 || objects_max == 0 {
            return None;
        }
        let scale = Scale { objects: settings.miniature_objects.into(), shift_min: SHIFT_MIN };
        let mut miniatures = Self { tables: Vec::new(), settings: *settings, sample: Sample::new(scale, objects_max) };
        miniatures.begin(set);
        Some(miniatures)
    }

    /// Begins with empty caches.
    fn begin(&mut self, set: &ExpertSet) {
        let objects = self.sample.objects() as usize;
        let table = |&policy: &_| Table::new(ExpertSet::alone(policy), self.settings, objects).miniature();
        self.tables = set.policies().iter().map(table).collect();
    }

    /// Notes an eviction of this client, which has that number among all of the pool's. If the
    /// number of clients has doubled or halved, the miniatures begin again.
    pub(super) fn evicted(&mut self, set: &ExpertSet, number: u64) {
        if self.sample.evicted(number) {
            self.begin(set);
        }
    }

    /// Shows the miniatures an access. Once their caches are full, it returns the experts that
    /// missed: bit i for expert i.
    #[inline]
    pub(super) fn access(&mut self, hash: u64, bytes: u64, now_us: u64) -> u16 {
        if self.sample.has(hash) { self.sampled_access(hash, bytes, now_us) } else { 0 }
    }

    #[cold]
    fn sampled_access(&mut self, hash: u64, bytes: u64, now_us: u64) -> u16 {
        // All keys of the sample agree in some bits: they must not choose the bucket.
        let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        let mut missed = 0;
        for (expert, table) in self.tables.iter_mut().enumerate() {
            if !table.touch(hash, now_us) {
                missed |= u16::from(table.is_full()) << expert;
                table.insert(hash, bytes, now_us);
            }
        }
        missed
    }
}
