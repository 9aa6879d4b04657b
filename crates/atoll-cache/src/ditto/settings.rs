//! What clients of a `ditto` pool agree on, in the replacement's words of the pool header.
//!
//! ```text
//! word 0   policies: five bits each, number + 1, from bit 0 up; 0 ends them
//! word 1   history 32: percent of the expected objects, or objects where the highest bit is set
//!          | counter threshold 16 | batch of regrets 16
//! word 2   slots whose accesses a client counts locally 32 | their age, microseconds 32
//! word 3   learning rate, millionths 32
//!          | remainder of a penalty at the history's end, millionths 32
//! word 4   least weight, millionths 20 | chance of exploring, millionths 20
//!          | rate of a miniature's miss, millionths 20
//! word 5   objects of a miniature 24 | buckets of a sample 4
//!          | whether clients near the pool remember candidates 4 | margin, millionths 32
//! ```

use crate::choices::{Described, EngineChoices, EngineIdentity, EngineOption, PoolSize};
use crate::experts::{self, DEFAULT_SET, ExpertSet, ExpertSetError};
use crate::policy::PolicyId;
use crate::table::replacement::SAMPLE_BUCKETS_MAX;
use crate::table::settings::{TableOptions, TableSettings};
use crate::table::slot::{HISTORY_IDS, TAG_BITS};
use atoll_pool::{Fields, PoolError, PoolSettings};

/// The engine's number in the pool header.
pub const ENGINE_DITTO: u64 = 2;
const POLICY_BITS: u32 = 5;
const WORD_1: Fields<3> = Fields::new([32, 16, 16]);
const WORD_2: Fields<2> = Fields::new([32, 32]);
const WORD_3: Fields<2> = Fields::new([32, 32]);
const WORD_4: Fields<3> = Fields::new([20, 20, 20]);
const WORD_5: Fields<4> = Fields::new([24, 4, 4, 32]);
const MILLION: f64 = 1e6;
/// Bit of the history's half word: the other bits are a number of objects.
const COUNTED: u64 = 1 << 31;

/// For how many evictions a history entry lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// A percentage of the objects that the cache is expected to hold.
    Percent(u32),
    /// A fixed number, however large the cache is.
    Objects(u32),
}

impl History {
    /// The number of evictions for a cache of so many objects.
    pub fn evictions(self, objects_expected: u64) -> u64 {
        match self {
            Self::Percent(percent) => objects_expected.saturating_mul(percent.into()) / 100,
            Self::Objects(objects) => objects.into(),
        }
    }

    /// Half a word of the header. Numbers of 2^31 and more are cut there.
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
    /// The policies that are experts. A single expert learns nothing.
    pub experts: ExpertSet,
    /// For how many evictions a history entry lasts.
    pub history: History,
    /// Accesses of an object that a client far from the pool adds up before it publishes them.
    pub counter_threshold: u32,
    /// The most objects whose accesses a client adds up.
    pub counters: usize,
    /// The longest time before it publishes them, in microseconds.
    pub counter_age_us: u64,
    /// How experts learn.
    pub learning: experts::Settings,
    /// Random buckets that an eviction samples: 1 to 4. A bucket holds about eight objects.
    pub sample_buckets: usize,
    /// Whether a client near the pool samples again the objects that it last came nearest to
    /// evicting.
    pub remembers: bool,
    /// Expected bytes of an object (key, value and header). The index is sized by it.
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
            tag_bits: TAG_BITS,
        }
    }

    /// These experts, with the settings that are best on real traces: miniatures and larger
    /// samples.
    pub fn adaptive(experts: ExpertSet) -> Self {
        Self {
            history: History::Percent(100 * experts::HISTORY_PER_OBJECT),
            learning: experts::Settings::default(),
            sample_buckets: experts::SAMPLE_BUCKETS,
            remembers: true,
            ..Self::paper(experts)
        }
    }

    /// For how many evictions a history entry lasts, in a pool of about so many objects.
    pub fn history_evictions(&self, objects_expected: u64) -> u32 {
        self.history.evictions(objects_expected).clamp(1, HISTORY_IDS / 2) as u32
    }

    /// These choices as options of the table of objects.
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
                WORD_1.pack_most([self.history.word(), self.counter_threshold.into(), learning.batch.into()]),
                WORD_2.pack_most([self.counters as u64, self.counter_age_us]),
                WORD_3.pack([learning.learning_rate, learning.discount_total].map(millionths)),
                WORD_4.pack_most([learning.weight_min, learning.explore, learning.miniature_rate].map(millionths)),
                WORD_5.pack_most([
                    learning.miniature_objects.into(),
                    self.sample_buckets as u64,
                    self.remembers.into(),
                    millionths(learning.margin),
                ]),
            ],
            tag_bits: self.tag_bits,
            object_bytes_mean: self.object_bytes_mean,
            slots_per_object: 2,
        }
    }

    /// The choices that a pool was made with, decoded and checked. Choices that its header does not
    /// keep have the default.
    pub fn decode(settings: &TableSettings) -> Result<Self, PoolError> {
        let [mut policies, counting, counters, rates, bounds, sampling] = settings.replacement_words(ENGINE_DITTO)?;
        let [history, counter_threshold, batch] = WORD_1.unpack(counting);
        let [counters, counter_age_us] = WORD_2.unpack(counters);
        let share = |millionths: u64| millionths as f64 / MILLION;
        let [learning_rate, discount_total] = WORD_3.unpack(rates).map(share);
        let [weight_min, explore, miniature_rate] = WORD_4.unpack(bounds).map(share);
        let [miniature_objects, sample_buckets, remembers, margin] = WORD_5.unpack(sampling);
        let mut ids = Vec::new();
        while policies != 0 {
            let number = (policies & ((1 << POLICY_BITS) - 1)) as u8;
            ids.push(number.checked_sub(1).and_then(PolicyId::from_number).ok_or(PoolError::ENGINE_SETTINGS)?);
            policies >>= POLICY_BITS;
        }
        let experts = ExpertSet::new(ids).map_err(|_| PoolError::ENGINE_SETTINGS)?;
        let learning = experts::Settings {
            learning_rate,
            discount_total,
            weight_min,
            explore,
            batch: batch as u32,
            miniature_objects: miniature_objects as u32,
            miniature_rate,
            margin: share(margin),
        };
        let possible = experts.extension_words() as u64 * 8 <= settings.extension_bytes
            && settings.area_bytes >= super::shared::AREA_BYTES
            && learning.discount_total <= 1.0
            && learning.weight_min * (experts.len() as f64) < 1.0
            && learning.explore <= 1.0
            && learning.batch >= 1
            && (1..=SAMPLE_BUCKETS_MAX as u64).contains(&sample_buckets);
        if !possible {
            return Err(PoolError::ENGINE_SETTINGS);
        }
        Ok(Self {
            experts,
            history: History::of_word(history),
            counter_threshold: counter_threshold as u32,
            counters: counters as usize,
            counter_age_us,
            learning,
            sample_buckets: sample_buckets as usize,
            remembers: remembers & 1 != 0,
            ..Self::paper(experts)
        })
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

const FORMS: [Described; 2] = [
    Described {
        name: "ditto",
        what: "Random samples of objects; of several policies the one decides that misses least",
    },
    Described { name: "ditto-paper", what: "Ditto as in the paper: policies whose weights are learned from regrets" },
];
const EXPERTS: &str = "experts";
const OPTIONS: [EngineOption; 1] = [EngineOption {
    described: Described {
        name: EXPERTS,
        what: "Eviction policies that ditto weighs against each other, such as lru+lfu, or a single one",
    },
    value: Some("POLICY+POLICY"),
}];

fn experts_of(names: &str) -> Result<ExpertSet, String> {
    names.parse().map_err(|error: ExpertSetError| error.to_string())
}

impl EngineChoices for DittoOptions {
    const ENGINE: EngineIdentity =
        EngineIdentity { name: FORMS[0].name, forms: &FORMS, options: &OPTIONS, number: ENGINE_DITTO };

    fn named(name: &str) -> Option<Result<Self, String>> {
        let (form, experts) = name.split_once(':').map_or((name, None), |(form, experts)| (form, Some(experts)));
        match form {
            "ditto" => Some(experts_of(experts.unwrap_or(DEFAULT_SET)).map(Self::adaptive)),
            "ditto-paper" => Some(experts_of(experts.unwrap_or("lru+lfu")).map(Self::paper)),
            _ => None,
        }
    }

    fn name(&self) -> String {
        let experts = self.experts;
        if *self == Self::paper(experts) {
            return format!("ditto-paper:{experts}");
        }
        if experts.to_string() == DEFAULT_SET { Self::ENGINE.name.to_owned() } else { format!("ditto:{experts}") }
    }

    fn choose(&mut self, option: &str, value: &str) -> Result<(), String> {
        if option != EXPERTS {
            return Err(format!("{} has no option {option}", Self::ENGINE.name));
        }
        let experts = experts_of(value)?;
        // The candidates of an experts' set belong to it, so that the other choices are made anew.
        let is_paper = *self == Self::paper(self.experts);
        *self = if is_paper { Self::paper(experts) } else { Self::adaptive(experts) };
        Ok(())
    }

    fn experts(&self) -> Option<ExpertSet> {
        Some(self.experts)
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        self.objects().of_size(size)
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.objects().for_objects(objects_max, clients_max, record_bytes)
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
                let ditto = DittoOptions::decode(&TableSettings::decode(&settings).unwrap()).unwrap();
                assert_eq!((ditto.experts, ditto.history), (options.experts, history));
                assert_eq!((ditto.learning, ditto.counters), (options.learning, 250_000));
            }
            let objects = TableSettings::decode(&options.for_capacity(8 << 20)).unwrap();
            for bad in [31, 1 << 5 | 1] {
                let bad = TableSettings { replacement: [bad, 0, 0, 0, 0, 0], ..objects.clone() };
                assert!(DittoOptions::decode(&bad).is_err());
            }
            assert!(DittoOptions::decode(&TableSettings { engine: 1, ..objects }).is_err());
        }
    }
}
