//! The misses that each expert alone would have, tried out on a sample of the keys. After
//! Waldspurger et al., "Cache modeling and optimization using miniature simulations", USENIX ATC
//! 2017.
//!
//! A regret only counts against experts that were followed, and experts that take turns evict each
//! other's objects. So a client learns little from regrets, and late. Instead it runs a small cache
//! for each expert in its own memory, on the keys whose hash falls into a share of all hashes. It
//! sees each expert as if it had always been followed. A cache of N objects and a share s of the
//! keys is like a cache of s N objects. It costs no verb.
//!
//! Every miss of an expert's miniature is a penalty for the expert. The expert with the largest
//! weight then decides alone. The first expert of the set is favoured: the misses of the other
//! experts count [`Settings::margin`] more. A change of experts loses the objects that the old
//! expert had kept.
//!
//! **Scale.** A client sees its own requests alone: with many clients, a small part of all. A
//! miniature of the whole pool would evict hardly any of so few objects, and learn nothing. So a
//! client's miniatures model its share of the cache: the objects, divided by the clients of the
//! pool. It knows the number of clients from the numbers of its own evictions among all of the
//! pool's, at no cost.
//!
//! | requests | what a miniature of a share models |
//! |---|---|
//! | clients have keys of their own, or popularity passes | what the pool does; with many clients, each follows the expert that is best for its own keys |
//! | all clients ask for the same popular keys | a cache that is too small, for all experts alike |

use super::table::Table;
use super::{ExpertSet, Settings};

/// This client's evictions between two checks of the number of clients.
const WINDOW_EVICTIONS: u64 = 256;

/// One client's miniatures, in the order of the set.
#[derive(Clone, Debug)]
pub(super) struct Miniatures {
    tables: Vec<Table>,
    settings: Settings,
    /// Objects of the pool.
    objects_max: u64,
    /// Clients that share it, including this client, as far as it knows.
    sharers: u64,
    /// This client's evictions since the window began. `first_number` is the number of the first.
    evictions: u64,
    first_number: u64,
    /// Keys whose hash, mixed, has its upper half below this are in the sample.
    sampled_below: u64,
}

impl Miniatures {
    /// Miniatures of a cache of `objects_max` objects. `None` if there is only one expert, or
    /// `settings` want none.
    pub(super) fn new(set: &ExpertSet, settings: &Settings, objects_max: u64) -> Option<Self> {
        if set.len() == 1 || settings.miniature_objects == 0 || objects_max == 0 {
            return None;
        }
        let mut miniatures = Self {
            tables: Vec::new(),
            settings: *settings,
            objects_max,
            sharers: 1,
            evictions: 0,
            first_number: 0,
            sampled_below: 0,
        };
        miniatures.begin(set, 1);
        Some(miniatures)
    }

    /// Begins a new window with empty caches, for a pool that so many clients share.
    fn begin(&mut self, set: &ExpertSet, sharers: u64) {
        let share = (self.objects_max / sharers).max(1);
        let objects = u64::from(self.settings.miniature_objects).min(share);
        let table = |&policy: &_| Table::new(ExpertSet::alone(policy), self.settings, objects as usize);
        self.tables = set.policies().iter().map(table).collect();
        self.sampled_below = ((u128::from(objects) << 32) / u128::from(share)) as u64;
        self.sharers = sharers;
    }

    /// Notes an eviction of this client, which has that number among all of the pool's. If the
    /// number of clients has doubled or halved, the miniatures begin again.
    pub(super) fn evicted(&mut self, set: &ExpertSet, number: u64) {
        if self.evictions == 0 {
            self.first_number = number;
        }
        self.evictions += 1;
        if self.evictions <= WINDOW_EVICTIONS {
            return;
        }
        let sharers = (number.saturating_sub(self.first_number) / WINDOW_EVICTIONS).max(1);
        (self.evictions, self.first_number) = (1, number);
        if sharers >= 2 * self.sharers || 2 * sharers <= self.sharers {
            self.begin(set, sharers);
        }
    }

    /// Shows the miniatures an access. Once their caches are full, it returns the experts that
    /// missed: bit i for expert i.
    pub(super) fn access(&mut self, hash: u64, bytes: u64, now_us: u64) -> u16 {
        // Bits that choose neither the bucket nor the ghost.
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
