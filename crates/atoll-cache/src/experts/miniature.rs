//! What every expert alone would miss, tried out on a sample of the keys (Waldspurger et al., "Cache modeling and optimization using miniature
//! simulations", USENIX ATC 2017).
//!
//! A regret only tells of experts that were followed, and experts that take turns evict each other's objects: what is learnt is little, and late. A client that
//! runs a small cache for each expert, in its own memory, on the keys whose hash falls into a share of all hashes, sees each of them as if it had always been
//! followed. A cache of N objects and a share s of the keys is like a cache of s N objects. It costs no verb.
//!
//! Every miss of an expert's miniature is a penalty for it. The expert with the largest weight then decides alone, and the first of the set is
//! the one to beat: the misses of the others count [`Settings::margin`] more, since a change of experts costs what the old one had kept.
//!
//! A client sees its own requests alone. Where each of many clients has its own keys, each follows the expert that is best for those.

use super::table::Table;
use super::{ExpertSet, Settings};

/// One client's miniatures, in the order of the set.
#[derive(Clone, Debug)]
pub(super) struct Miniatures {
    tables: Vec<Table>,
    /// Keys whose hash, mixed, has its upper half below this are in the sample.
    sampled_below: u64,
}

impl Miniatures {
    /// Of a cache of `objects_max` objects; `None` if there is nothing to choose, or `settings` want none.
    pub(super) fn new(set: &ExpertSet, settings: &Settings, objects_max: u64) -> Option<Self> {
        if set.len() == 1 || settings.miniature_objects == 0 || objects_max == 0 {
            return None;
        }
        let objects = u64::from(settings.miniature_objects).min(objects_max);
        let table = |&policy: &_| Table::new(ExpertSet::alone(policy), *settings, objects as usize);
        let sampled_below = ((u128::from(objects) << 32) / u128::from(objects_max)) as u64;
        Some(Self { tables: set.policies().iter().map(table).collect(), sampled_below })
    }

    /// Shows them an access. Gives back the experts that missed, bit i for expert i, once their caches are full.
    pub(super) fn access(&mut self, hash: u64, bytes: u64, now_us: u64) -> u16 {
        // Bits that neither the bucket nor the ghost is known by.
        if hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 >= self.sampled_below {
            return 0;
        }
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
