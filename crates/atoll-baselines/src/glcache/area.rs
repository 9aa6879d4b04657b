//! What GLCache-DM adds to a pool of FORGE: two settings in the header, and an area between FORGE's
//! rings and its index.
//!
//! ```text
//! engine's settings, word 2:  records of groups 32 | log2 of the samples kept 8
//!
//! the area
//! +---------------------------------+----------------+-------------------------+
//! | records of groups, one a chunk: | samples so far | samples, 32 bytes each  |
//! | 24 bytes, counters of 16 bits   | one line       |                         |
//! +---------------------------------+----------------+-------------------------+
//! ```
//!
//! The owner of a chunk owns the first three words of its record. The record's counters are atomics
//! only. Samples so far: atomics only. Samples are data: any client may WRITE them, and they are
//! hints.

use super::features::Written;
use super::sample::Sample;
use atoll_fabric::Address;
use atoll_pool::{ChunkId, PoolError, PoolSettings};

/// The engine's number in the pool header.
pub const ENGINE_GLCACHE: u64 = 7;
const LINE: u64 = 64;
/// Samples that a pool keeps to learn from: as many as it has groups, within these.
const SAMPLES_LOG2: std::ops::RangeInclusive<u32> = 6..=10;

/// Addresses of the area's words.
#[derive(Clone, Debug)]
pub struct Area {
    base: Address,
    group_records: u32,
    group_record_bytes: u64,
    samples_log2: u32,
}

impl Area {
    /// The settings that the area of a new pool has.
    pub(super) fn settings_word(settings: &PoolSettings) -> u64 {
        let chunk_bytes = u64::from(settings.chunk_bytes);
        let chunks = settings.capacity_bytes / chunk_bytes;
        let chunks_max = chunks + settings.growth_bytes_max / chunk_bytes;
        // Metadata that is added later may make room for a few more chunks than the heap alone has.
        let records = (chunks_max + chunks_max / 8 + 16).min(u32::MAX.into());
        let samples_log2 =
            chunks.next_power_of_two().trailing_zeros().clamp(*SAMPLES_LOG2.start(), *SAMPLES_LOG2.end());
        records | u64::from(samples_log2) << 32
    }

    /// The area of a pool with these settings, which are checked, at an address on a line.
    pub(super) fn new(settings: &PoolSettings, base: Address) -> Result<Self, PoolError> {
        let word = settings.engine_settings[2];
        let (group_records, samples_log2) = (word as u32, (word >> 32) as u32);
        if group_records == 0 || !SAMPLES_LOG2.contains(&samples_log2) {
            return Err(PoolError::Damaged { what: "the engine's settings" });
        }
        let group_record_bytes = Written::BYTES + u64::from(settings.group_objects_max * 2).next_multiple_of(8);
        Ok(Self { base, group_records, group_record_bytes, samples_log2 })
    }

    fn samples_line(&self) -> u64 {
        (u64::from(self.group_records) * self.group_record_bytes).next_multiple_of(LINE)
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.samples_line() + LINE + self.samples() * Sample::BYTES
    }

    /// Bytes of the record of a group: what its writer knew, and the counters of its objects.
    pub fn group_record_bytes(&self) -> u64 {
        self.group_record_bytes
    }

    /// Chunks whose groups have a record: those with lower numbers.
    pub fn group_records(&self) -> u32 {
        self.group_records
    }

    /// The record of the group in a chunk, if there is one.
    pub fn group_record(&self, chunk: ChunkId) -> Option<Address> {
        let at = self.base.add(u64::from(chunk.0) * self.group_record_bytes);
        (chunk.0 < self.group_records).then_some(at)
    }

    /// The counters of the objects of a group that has a record.
    pub fn group_counters(&self, chunk: ChunkId) -> Option<Address> {
        Some(self.group_record(chunk)?.add(Written::BYTES))
    }

    /// How many samples there have been.
    pub fn samples_so_far(&self) -> Address {
        self.base.add(self.samples_line())
    }

    /// Samples that are kept.
    pub fn samples(&self) -> u64 {
        1 << self.samples_log2
    }

    /// Where the sample with this number is. The sample that is later by as many as are kept
    /// overwrites it.
    pub fn sample(&self, number: u64) -> Address {
        self.base.add(self.samples_line() + LINE + (number & (self.samples() - 1)) * Sample::BYTES)
    }

    /// Names the word at an offset.
    pub(super) fn describe(&self, offset: u64) -> String {
        let samples = self.samples_line();
        match offset {
            _ if offset < samples => format!("record of group {}", offset / self.group_record_bytes),
            _ if offset < samples + LINE => "samples so far".to_owned(),
            _ => format!("sample {}", (offset - samples - LINE) / Sample::BYTES),
        }
    }
}
