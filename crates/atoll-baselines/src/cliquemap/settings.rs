//! What clients and server of a pool agree on, kept in the pool header's eight engine words.
//!
//! ```text
//! word 0   index buckets 32 | policy 32
//! ```

use super::entry::{BUCKET_ENTRIES, ENTRY_BYTES, HEAP_BYTES_MAX};
use super::record::RECORD_UNIT_BYTES;
use atoll_pool::{Fields, PoolError, PoolSettings};

/// The engine's number in the pool header.
pub const ENGINE_CLIQUEMAP: u64 = 6;
const WORD_0: Fields<2> = Fields::new([32, 32]);
/// Most buckets of an index.
const BUCKETS_MAX: u64 = 1 << 28;
/// Entries for each expected object, so that few buckets are ever full.
const ENTRIES_PER_OBJECT: u64 = 2;

/// Which objects the server evicts (Ditto, section 5.1: CM-LRU and CM-LFU).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// The object whose last access is the longest ago.
    #[default]
    Lru = 0,
    /// The object with the fewest accesses; of several, the one whose last access is the longest
    /// ago.
    Lfu = 1,
}

impl Policy {
    /// Both.
    const ALL: [Self; 2] = [Self::Lru, Self::Lfu];

    /// The name of the engine with this policy.
    pub const fn engine_name(self) -> &'static str {
        match self {
            Self::Lru => "cliquemap-lru",
            Self::Lfu => "cliquemap-lfu",
        }
    }
}

/// Choices of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CliqueMapOptions {
    /// Which objects the server evicts.
    pub policy: Policy,
    /// Expected bytes of an object (key, value and the rest of its record). The index is sized by
    /// it.
    pub object_bytes_mean: u32,
}

impl Default for CliqueMapOptions {
    fn default() -> Self {
        Self { policy: Policy::Lru, object_bytes_mean: 320 }
    }
}

impl CliqueMapOptions {
    /// Settings for a pool of so many bytes.
    pub fn for_capacity(&self, capacity_bytes: u64) -> PoolSettings {
        let objects = capacity_bytes / u64::from(self.object_bytes_mean.max(64));
        self.settings(PoolSettings::for_capacity(capacity_bytes), ENTRIES_PER_OBJECT * objects)
    }

    /// Writes the choices into a pool's settings, for an index of so many entries.
    pub fn settings(&self, settings: PoolSettings, entries: u64) -> PoolSettings {
        let buckets = entries.div_ceil(BUCKET_ENTRIES as u64).clamp(1, BUCKETS_MAX);
        settings.with_engine(ENGINE_CLIQUEMAP, [WORD_0.pack([buckets, self.policy as u64])])
    }

    /// Bytes of the pool that an object with a record of `record_bytes` needs: the record, and its
    /// entries.
    pub fn footprint_bytes(&self, record_bytes: u64) -> u64 {
        record_bytes.next_multiple_of(RECORD_UNIT_BYTES) + ENTRIES_PER_OBJECT * ENTRY_BYTES
    }
}

/// The choices of a pool, decoded and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CliqueMapSettings {
    /// Buckets of the index, at least 1.
    pub buckets: u32,
    /// Which objects the server evicts.
    pub policy: Policy,
}

impl CliqueMapSettings {
    /// Decodes a pool's settings.
    pub fn decode(settings: &PoolSettings) -> Result<Self, PoolError> {
        let [word, rest @ ..] = settings.engine_words(ENGINE_CLIQUEMAP)?;
        if settings.nodes_max != 1 {
            let wanted = "1: the server owns the memory of its own node alone".to_owned();
            return Err(PoolError::Setting { what: "the most memory nodes", found: settings.nodes_max.into(), wanted });
        }
        let [buckets, policy] = WORD_0.unpack(word);
        let policy = Policy::ALL.into_iter().find(|known| *known as u64 == policy);
        let is_possible = (1..=BUCKETS_MAX).contains(&buckets)
            && rest.iter().all(|word| *word == 0)
            && settings.capacity_bytes <= HEAP_BYTES_MAX;
        match policy.filter(|_| is_possible) {
            Some(policy) => Ok(Self { buckets: buckets as u32, policy }),
            None => Err(PoolError::ENGINE_SETTINGS),
        }
    }
}
