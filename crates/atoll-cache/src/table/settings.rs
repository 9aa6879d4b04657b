//! What clients of a pool agree on, kept in the pool header's eight engine words.
//!
//! ```text
//! word 0   index buckets 32 | bits of a tag 8 | extension words 8
//! word 1   bytes of the replacement's area
//! word 2.. the replacement's own
//! ```

use super::class::Class;
use super::slot::{HEAP_BYTES_MAX, TAG_BITS};
use crate::choices::PoolSize;
use crate::index::BUCKET_SLOTS;
use crate::record::LARGE_RECORD_BYTES;
use crate::record::OVERHEAD_BYTES;
use atoll_pool::{Fields, PoolError, PoolSettings};

const WORD_0: Fields<3> = Fields::new([32, 8, 8]);
/// Most buckets of an index.
pub const BUCKETS_MAX: u64 = 1 << 30;
/// Most words of an extension.
pub const EXTENSION_WORDS_MAX: u64 = 8;
/// Words of the pool's settings that belong to the replacement.
pub const REPLACEMENT_WORDS: usize = 6;
/// Smallest chunk: the record of a large object must fit.
pub const CHUNK_BYTES_MIN: u32 = 512;

/// Choices of a pool.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The engine's number in the pool header.
    pub engine: u64,
    /// Words beside every object that the replacement needs.
    pub extension_words: u64,
    /// Bytes of the pool that the replacement needs, given the slots of the index.
    pub area_bytes: fn(slots: u64) -> u64,
    /// The replacement's own choices.
    pub replacement: [u64; REPLACEMENT_WORDS],
    /// Bits of a block's tag: [`TAG_BITS`], or fewer (at least 2) to make it wrap soon in a test.
    pub tag_bits: u32,
    /// Expected bytes of an object (key, value and header). The index is sized by it.
    pub object_bytes_mean: u32,
    /// Slots for each expected object: one for itself, the rest for history.
    pub slots_per_object: u64,
}

impl TableOptions {
    /// Settings for a pool of this size.
    pub fn of_size(mut self, size: PoolSize) -> PoolSettings {
        if let Some(bytes) = size.body_bytes_mean {
            self.object_bytes_mean = bytes.saturating_add(OVERHEAD_BYTES);
        }
        self.for_growth(size.capacity_bytes, size.growth_bytes_max)
    }

    /// Settings for a pool of `capacity_bytes` that may grow by more bytes.
    pub fn for_growth(&self, capacity_bytes: u64, growth_bytes_max: u64) -> PoolSettings {
        let bytes_max = capacity_bytes.saturating_add(growth_bytes_max);
        let slots = bytes_max.saturating_mul(self.slots_per_object) / u64::from(self.object_bytes_mean.max(96));
        self.settings(PoolSettings::for_capacity(capacity_bytes).growing(growth_bytes_max), slots)
    }

    /// Writes the choices into a pool's settings, for an index of `slots`.
    pub fn settings(&self, mut settings: PoolSettings, slots: u64) -> PoolSettings {
        let buckets = slots.div_ceil(BUCKET_SLOTS as u64).clamp(2, BUCKETS_MAX);
        settings.chunk_bytes = settings.chunk_bytes.max(CHUNK_BYTES_MIN);
        settings.group_objects_max = settings.group_objects_max.min(settings.chunk_bytes / 16);
        let word = WORD_0.pack([buckets, self.tag_bits.into(), self.extension_words]);
        let area_bytes = (self.area_bytes)(buckets * BUCKET_SLOTS as u64);
        let mut words = [word, area_bytes, 0, 0, 0, 0, 0, 0];
        words[2..].copy_from_slice(&self.replacement);
        settings.with_engine(self.engine, words)
    }
}

/// The choices of a pool, decoded and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// The engine's number in the pool header.
    pub engine: u64,
    /// Buckets of the index, at least 2.
    pub buckets: u32,
    /// Bits of a tag that count.
    pub tag_mask: u16,
    /// Bytes of the extension in front of every record.
    pub extension_bytes: u64,
    /// Bytes of the replacement's area.
    pub area_bytes: u64,
    /// The replacement's own words, unchecked.
    pub replacement: [u64; REPLACEMENT_WORDS],
    /// The class of blocks for records of large objects.
    pub large_class: Class,
}

impl TableSettings {
    /// Decodes a pool's settings. The caller checks that they are this engine's.
    pub fn decode(settings: &PoolSettings) -> Result<Self, PoolError> {
        let [word, area_bytes, replacement @ ..] = settings.engine_settings;
        let [buckets, tag_bits, extension_words] = WORD_0.unpack(word);
        let extension_bytes = 8 * extension_words;
        let possible = (2..=BUCKETS_MAX).contains(&buckets)
            && (2..=u64::from(TAG_BITS)).contains(&tag_bits)
            && extension_words <= EXTENSION_WORDS_MAX
            && settings.chunk_bytes >= CHUNK_BYTES_MIN
            && area_bytes < HEAP_BYTES_MAX;
        let large_class = Class::of(LARGE_RECORD_BYTES + extension_bytes).filter(|_| possible);
        let large_class = large_class.ok_or(PoolError::ENGINE_SETTINGS)?;
        Ok(Self {
            engine: settings.engine,
            buckets: buckets as u32,
            tag_mask: ((1u32 << tag_bits) - 1) as u16,
            extension_bytes,
            area_bytes,
            replacement,
            large_class,
        })
    }

    /// The replacement's own words; an error if the pool is for an engine other than `wanted`.
    pub fn replacement_words(&self, wanted: u64) -> Result<[u64; REPLACEMENT_WORDS], PoolError> {
        if self.engine == wanted { Ok(self.replacement) } else { Err(PoolError::Engine { found: self.engine, wanted }) }
    }

    /// The tag after this one.
    pub fn next_tag(&self, tag: u16) -> u16 {
        tag.wrapping_add(1) & self.tag_mask
    }
}
