//! What clients of a `ditto` pool agree on, in the replacement's words of the pool header.
//!
//! ```text
//! word 0   policies: five bits each, number + 1, from bit 0 up; 0 ends them
//! word 1   history: percent of the expected objects, or objects where the highest bit is set 32 | counter threshold 16 | batch of regrets 16
//! word 2   slots whose accesses a client counts at home 32 | their age, microseconds 32
//! word 3   learning rate, millionths 32 | what is left of a penalty at the history's end, millionths 32
//! word 4   least weight, millionths 20 | chance of exploring, millionths 20 | rate of a miniature's miss, millionths 20
//! word 5   objects of a miniature 24 | buckets of a sample 4 | whether clients near the pool remember candidates 4 | margin, millionths 32
//! ```

use crate::experts::{self, ExpertSet};
use crate::policy::PolicyId;
use crate::table::replacement::SAMPLE_BUCKETS_MAX;
use crate::table::settings::{TableOptions, TableSettings};
use crate::table::slot::HISTORY_IDS;
use atoll_pool::{PoolError, PoolSettings};

/// The engine's number in the pool header.
pub const ENGINE_DITTO: u64 = 2;
const POLICY_BITS: u32 = 5;
const MILLION: f64 = 1e6;
/// In the history's half word: the other bits are objects.
const COUNTED: u64 = 1 << 31;

/// For how many evictions a history entry lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// So many percent of the objects that the cache is expected to hold.
    Percent(u32),
    /// So many, however large the cache is.
    Objects(u32),
}

impl History {
    /// Evictions, for a cache of so many objects.
    pub fn evictions(self, objects_expected: u64) -> u64 {
        match self {
            Self::Percent(percent) => objects_expected.saturating_mul(percent.into()) / 100,
            Self::Objects(objects) => objects.into(),
        }
    }

    /// Half a word of the header. Numbers from 2^31 on are cut there.
    fn word(self) -> u64 {
        match self {
            Self::Percent(percent) => u64::from(percent).min(COUNTED - 1),
            Self::Objects(objects) => u64::from(objects).min(COUNTED - 1) | COUNTED,
        }
    }

    fn of_word(word: u64) -> Self {
        let number = (word & (COUNTED - 1)) as u32;
        if word & COUNTED == 0 { Self::Percent(number) } else { Self::Objects(number) }
    }
}

/// Choices of a `ditto` pool.
#[derive(Clone, Debug, PartialEq)]
pub struct DittoOptions {
    /// The policies that are experts; of one alone nothing is learnt.
    pub experts: ExpertSet,
    /// For how many evictions a history entry lasts.
    pub history: History,
    /// Accesses of an object that a client far from the pool adds up before it tells them.
    pub counter_threshold: u32,
    /// Objects whose accesses a client adds up at most.
    pub counters: usize,
    /// For how long, in microseconds.
    pub counter_age_us: u64,
    /// How experts learn.
    pub learning: experts::Settings,
    /// Random buckets that an eviction looks at: 1 to 4. One holds about eight objects.
    pub sample_buckets: usize,
    /// Whether a client near the pool looks again at what came nearest to being evicted the last
    /// time.
    pub remembers: bool,
    /// Expected bytes of an object (key, value and header), by which the index is sized.
    pub object_bytes_mean: u32,
    /// Bits of a block's tag: 16, or less to make it wrap soon in a test.
    pub tag_bits: u32,
}

impl DittoOptions {
    /// These experts, and for the rest the paper's parameters (section 5.1).
    pub fn paper(experts: ExpertSet) -> Self {
        Self {
            experts,
            history: History::Percent(100),
            counter_threshold: 10,
            // 10 MB of 40 bytes.
            counters: 250_000,
            counter_age_us: 1_000_000,
            learning: experts::Settings::paper(),
            sample_buckets: 1,
            remembers: false,
            object_bytes_mean: 320,
            tag_bits: 16,
        }
    }

    /// These experts, learning as is best on real traces: by miniatures, from larger samples.
    pub fn adaptive(experts: ExpertSet) -> Self {
        Self {
            history: History::Percent(100 * experts::HISTORY_PER_OBJECT),
            learning: experts::Settings::default(),
            sample_buckets: experts::SAMPLE_BUCKETS,
            remembers: true,
            ..Self::paper(experts)
        }
    }

    /// The same as choices of the table of objects.
    pub fn objects(&self) -> TableOptions {
        let millionths = |share: f64| (share.clamp(0.0, 4000.0) * MILLION).round() as u64;
        let policies = self.experts.policies().iter().rev();
        let policies = policies.fold(0, |word, id| word << POLICY_BITS | (u64::from(id.number()) + 1));
        let learning = &self.learning;
        TableOptions {
            engine: ENGINE_DITTO,
            extension_words: self.experts.extension_words() as u64,
            area_bytes: |_| super::shared::AREA_BYTES,
            replacement: [
                policies,
                self.history.word()
                    | u64::from(self.counter_threshold.min(0xffff)) << 32
                    | u64::from(learning.batch.min(0xffff)) << 48,
                self.counters.min(u32::MAX as usize) as u64 | self.counter_age_us.min(u32::MAX.into()) << 32,
                millionths(learning.learning_rate) | millionths(learning.discount_total) << 32,
                millionths(learning.weight_min).min(0xf_ffff)
                    | millionths(learning.explore).min(0xf_ffff) << 20
                    | millionths(learning.miniature_rate).min(0xf_ffff) << 40,
                u64::from(learning.miniature_objects.min(0xff_ffff))
                    | (self.sample_buckets as u64 & 15) << 24
                    | u64::from(self.remembers) << 28
                    | millionths(learning.margin) << 32,
            ],
            tag_bits: self.tag_bits,
            object_bytes_mean: self.object_bytes_mean,
            slots_per_object: 2,
        }
    }

    /// Settings for a pool of so many bytes.
    pub fn for_capacity(&self, capacity_bytes: u64) -> PoolSettings {
        self.objects().for_growth(capacity_bytes, 0)
    }
}

impl Default for DittoOptions {
    fn default() -> Self {
        Self::adaptive(experts::DEFAULT_SET.parse().expect("all of them are policies"))
    }
}

/// The choices of a pool, decoded and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct DittoSettings {
    /// The policies that are experts.
    pub experts: ExpertSet,
    /// For how many evictions a history entry lasts.
    pub history: History,
    /// Accesses that are told at once.
    pub counter_threshold: u32,
    /// Objects whose accesses are added up at most.
    pub counters: usize,
    /// For how long, in microseconds.
    pub counter_age_us: u64,
    /// How experts learn.
    pub learning: experts::Settings,
    /// Random buckets that an eviction looks at.
    pub sample_buckets: usize,
    /// Whether a client near the pool looks again at what came nearest to being evicted the last
    /// time.
    pub remembers: bool,
}

impl DittoSettings {
    /// For how many evictions a history entry lasts, in a pool of about so many objects.
    pub fn history_evictions(&self, objects_expected: u64) -> u32 {
        self.history.evictions(objects_expected).clamp(1, HISTORY_IDS / 2) as u32
    }

    /// What a pool's settings say.
    pub fn decode(settings: &TableSettings) -> Result<Self, PoolError> {
        if settings.engine != ENGINE_DITTO {
            return Err(PoolError::Engine { found: settings.engine, wanted: ENGINE_DITTO });
        }
        let damaged = || PoolError::Damaged { what: "the engine's settings" };
        let [mut policies, counting, counters, rates, bounds, sampling] = settings.replacement;
        let mut ids = Vec::new();
        while policies != 0 {
            let number = (policies & ((1 << POLICY_BITS) - 1)) as u8;
            ids.push(number.checked_sub(1).and_then(PolicyId::from_number).ok_or_else(damaged)?);
            policies >>= POLICY_BITS;
        }
        let experts = ExpertSet::new(ids).map_err(|_| damaged())?;
        let share = |word: u64| (word & 0xffff_ffff) as f64 / MILLION;
        let learning = experts::Settings {
            learning_rate: share(rates),
            discount_total: share(rates >> 32),
            weight_min: share(bounds & 0xf_ffff),
            explore: share(bounds >> 20 & 0xf_ffff),
            batch: (counting >> 48) as u32,
            miniature_objects: (sampling & 0xff_ffff) as u32,
            miniature_rate: share(bounds >> 40 & 0xf_ffff),
            margin: share(sampling >> 32),
        };
        let possible = experts.extension_words() as u64 * 8 <= settings.extension_bytes
            && settings.area_bytes >= super::shared::AREA_BYTES
            && learning.discount_total <= 1.0
            && learning.weight_min * (experts.len() as f64) < 1.0
            && learning.explore <= 1.0
            && learning.batch >= 1
            && (1..=SAMPLE_BUCKETS_MAX as u64).contains(&(sampling >> 24 & 15));
        if !possible {
            return Err(damaged());
        }
        Ok(Self {
            experts,
            history: History::of_word(counting & 0xffff_ffff),
            counter_threshold: (counting >> 32 & 0xffff) as u32,
            counters: (counters & 0xffff_ffff) as usize,
            counter_age_us: counters >> 32,
            learning,
            sample_buckets: (sampling >> 24 & 15) as usize,
            remembers: sampling >> 28 & 1 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_survive_the_header_and_impossible_ones_are_refused() {
        for names in ["lru", "lru+lfu", "lirs+gds+lru-k"] {
            let options = DittoOptions::adaptive(names.parse().unwrap());
            for history in [History::Percent(150), History::Objects(1024)] {
                let settings = DittoOptions { history, ..options.clone() }.for_capacity(8 << 20);
                let ditto = DittoSettings::decode(&TableSettings::decode(&settings).unwrap()).unwrap();
                assert_eq!((ditto.experts, ditto.history), (options.experts, history));
                assert_eq!((ditto.learning, ditto.counters), (options.learning, 250_000));
            }
            let objects = TableSettings::decode(&options.for_capacity(8 << 20)).unwrap();
            for bad in [31, 1 << 5 | 1] {
                let bad = TableSettings { replacement: [bad, 0, 0, 0, 0, 0], ..objects.clone() };
                assert!(DittoSettings::decode(&bad).is_err());
            }
            assert!(DittoSettings::decode(&TableSettings { engine: 1, ..objects }).is_err());
        }
    }
}
