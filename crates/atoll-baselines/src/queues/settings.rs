//! What clients of a pool with queues agree on, in the replacement's words of the pool header.
//!
//! ```text
//! word 0   policy 8 | lists 8
//! ```

use super::area;
pub use super::area::LISTS_MAX;
use atoll_cache::engines::{Described, EngineChoices, EngineIdentity, PoolSize};
use atoll_cache::table::settings::{REPLACEMENT_WORDS, TableOptions, TableSettings};
use atoll_cache::table::slot::TAG_BITS;
use atoll_pool::fields::Numbers;
use atoll_pool::{Fields, PoolError, PoolSettings};
use std::fmt;
use std::str::FromStr;

/// The engine's number in the pool header.
pub const ENGINE_QUEUES: u64 = 4;
/// The default number of lists that slots are divided into by hash (Ditto, section 5.1; FORGE,
/// section 2.2).
pub const LISTS: u32 = 32;
const WORD_0: Fields<2> = Fields::new([8, 8]);
/// The policies by their numbers in the pool header.
const POLICIES: Numbers<QueuePolicy, 4> =
    Numbers([(1, QueuePolicy::ShardLru), (2, QueuePolicy::Lru), (3, QueuePolicy::Sieve), (4, QueuePolicy::S3Fifo)]);

/// Which queues a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePolicy {
    /// LRU lists as in Ditto's baseline: every step of a hit is awaited.
    ShardLru,
    /// The same lists with batches, and hits that are published together.
    Lru,
    /// SIEVE.
    Sieve,
    /// S3-FIFO.
    S3Fifo,
}

impl QueuePolicy {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::ShardLru, Self::Lru, Self::Sieve, Self::S3Fifo];

    /// Its name, as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShardLru => "shard-lru",
            Self::Lru => "lru-dm",
            Self::Sieve => "sieve-dm",
            Self::S3Fifo => "s3fifo-dm",
        }
    }
}

/// Choices of a pool with queues. Users write the policy, then a colon and the number of lists if
/// that is not 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Which queues.
    pub policy: QueuePolicy,
    /// Lists that the buckets are divided into, at least 1 and at most [`LISTS_MAX`].
    pub lists: u32,
}

impl QueueOptions {
    /// The choices of the papers.
    pub fn new(policy: QueuePolicy) -> Self {
        Self { policy, lists: LISTS }
    }

    /// These choices as options of the table of objects.
    pub fn objects(&self) -> TableOptions {
        let mut replacement = [0; REPLACEMENT_WORDS];
        replacement[0] = WORD_0.pack([POLICIES.number(self.policy), self.lists.into()]);
        TableOptions {
            engine: ENGINE_QUEUES,
            extension_words: 0,
            area_bytes: if self.policy == QueuePolicy::S3Fifo { area::rings_bytes } else { area::lists_bytes },
            replacement,
            tag_bits: TAG_BITS,
            object_bytes_mean: 320,
            slots_per_object: 2,
        }
    }

    /// Settings for a pool of so many bytes.
    pub fn for_capacity(&self, capacity_bytes: u64) -> PoolSettings {
        self.objects().for_growth(capacity_bytes, 0)
    }
}

impl Default for QueueOptions {
    /// LRU lists as in Ditto's baseline.
    fn default() -> Self {
        Self::new(QueuePolicy::ShardLru)
    }
}

const FORMS: [Described; 4] = [
    Described {
        name: QueuePolicy::ShardLru.name(),
        what: "LRU lists in the pool, every step awaited; :LISTS if not 32",
    },
    Described { name: QueuePolicy::Lru.name(), what: "LRU lists in the pool, in batches; :LISTS if not 32" },
    Described { name: QueuePolicy::Sieve.name(), what: "SIEVE over lists in the pool; :LISTS if not 32" },
    Described { name: QueuePolicy::S3Fifo.name(), what: "S3-FIFO over rings in the pool" },
];

impl EngineChoices for QueueOptions {
    const ENGINE: EngineIdentity =
        EngineIdentity { name: "queues", forms: &FORMS, options: &[], number: ENGINE_QUEUES };

    fn named(name: &str) -> Option<Result<Self, String>> {
        let policy = name.split(':').next();
        let is_known = QueuePolicy::ALL.into_iter().any(|known| policy == Some(known.name()));
        is_known.then(|| name.parse())
    }

    fn name(&self) -> String {
        self.to_string()
    }

    fn of_size(&self, size: PoolSize) -> PoolSettings {
        self.objects().of_size(size)
    }

    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings {
        self.objects().for_objects(objects_max, clients_max, record_bytes)
    }
}

impl fmt::Display for QueueOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lists {
            LISTS => f.pad(self.policy.name()),
            lists => write!(f, "{}:{lists}", self.policy.name()),
        }
    }
}

impl FromStr for QueueOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, lists) = text.split_once(':').map_or((text, None), |(name, lists)| (name, Some(lists)));
        let policy = QueuePolicy::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| {
            let names = QueuePolicy::ALL.map(QueuePolicy::name).join(", ");
            format!("there are no queues {name:?}; there are {names}")
        })?;
        let Some(lists) = lists else { return Ok(Self::new(policy)) };
        if policy == QueuePolicy::S3Fifo {
            return Err(format!("{name} has no lists: leave the number out"));
        }
        match lists.parse() {
            Ok(lists) if (1..=LISTS_MAX).contains(&lists) => Ok(Self { policy, lists }),
            _ => Err(format!("{name} has 1 to {LISTS_MAX} lists, not {lists:?}")),
        }
    }
}

/// The choices of a pool, decoded and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Which queues.
    pub policy: QueuePolicy,
    /// Lists that the buckets are divided into.
    pub lists: u32,
    /// Slots of the index.
    pub slots: u64,
}

impl QueueSettings {
    /// Decodes a pool's settings.
    pub fn decode(settings: &TableSettings) -> Result<Self, PoolError> {
        let [number, lists] = WORD_0.unpack(settings.replacement_words(ENGINE_QUEUES)?[0]);
        let (policy, lists) = (POLICIES.value(number).ok_or(PoolError::ENGINE_SETTINGS)?, lists as u32);
        let slots = u64::from(settings.buckets) * atoll_cache::table::layout::BUCKET_SLOTS as u64;
        let wanted = QueueOptions { policy, lists }.objects();
        if !(1..=LISTS_MAX).contains(&lists) || settings.area_bytes < (wanted.area_bytes)(slots) {
            return Err(PoolError::ENGINE_SETTINGS);
        }
        Ok(Self { policy, lists, slots })
    }

    /// The choices of these settings.
    pub fn options(&self) -> QueueOptions {
        QueueOptions { policy: self.policy, lists: self.lists }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_survive_the_header_and_their_names_and_impossible_ones_are_refused() {
        let names = ["shard-lru", "shard-lru:1", "shard-lru:64", "lru-dm", "sieve-dm", "sieve-dm:2", "s3fifo-dm"];
        for options in names.map(|name| name.parse::<QueueOptions>().unwrap()) {
            let objects = TableSettings::decode(&options.for_capacity(4 << 20)).unwrap();
            assert_eq!(QueueSettings::decode(&objects).unwrap().options(), options);
            assert_eq!(options.to_string().parse(), Ok(options));
            let policy = POLICIES.number(options.policy);
            for bad in [0, 99, policy, policy | 65 << 8] {
                let bad = TableSettings { replacement: [bad, 0, 0, 0, 0, 0], ..objects.clone() };
                assert!(QueueSettings::decode(&bad).is_err(), "{bad:?}");
            }
            assert!(QueueSettings::decode(&TableSettings { area_bytes: 64, ..objects.clone() }).is_err());
            assert!(QueueSettings::decode(&TableSettings { engine: 3, ..objects }).is_err());
        }
        for bad in ["", "lru", "shard-lru:0", "shard-lru:65", "shard-lru:", "s3fifo-dm:3"] {
            assert!(bad.parse::<QueueOptions>().is_err(), "{bad}");
        }
    }
}
