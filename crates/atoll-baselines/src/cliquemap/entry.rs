//! An entry of the index: which record has the object of a key.
//!
//! ```text
//! word 0  hash of the key
//! word 1  version of its object; 0: there is none
//! word 2  record: first unit of 16 B in the heap 40 | units 24
//! ```
//!
//! An object is present while its version is in an entry. A READ may tear the other two words from
//! the version. The record shows that, for it has the version too.

use super::record::{RECORD_HEADER_BYTES, RECORD_UNIT_BYTES};

/// Entries of a bucket.
pub const BUCKET_ENTRIES: usize = 8;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 24;
/// Words of an entry.
pub const ENTRY_WORDS: usize = 3;
/// Bytes of a bucket.
pub const BUCKET_BYTES: u64 = ENTRY_BYTES * BUCKET_ENTRIES as u64;
/// Bytes of heap that an entry can address.
pub const HEAP_BYTES_MAX: u64 = RECORD_UNIT_BYTES << UNIT_BITS;
/// Bytes of the longest record that an entry can address.
pub const RECORD_BYTES_MAX: u64 = RECORD_UNIT_BYTES * LENGTH_MASK;
const UNIT_BITS: u32 = 40;
const LENGTH_MASK: u64 = (1 << (64 - UNIT_BITS)) - 1;

const _: () = assert!(ENTRY_BYTES == 8 * ENTRY_WORDS as u64);

/// A span of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte; a multiple of 16.
    pub offset: u64,
    /// Its length; a multiple of 16.
    pub bytes: u64,
}

/// An entry of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The hash of its key.
    pub hash: u64,
    /// The version of its object; 0 if there is none.
    pub version: u64,
    /// Where the record is, unchecked.
    record: u64,
}

impl Entry {
    /// The entry of an object.
    pub fn new(hash: u64, version: u64, span: Span) -> Self {
        let (unit, units) = (span.offset / RECORD_UNIT_BYTES, span.bytes / RECORD_UNIT_BYTES);
        debug_assert!(unit >> UNIT_BITS == 0 && units <= LENGTH_MASK);
        Self { hash, version, record: unit | units << UNIT_BITS }
    }

    /// The entries of a bucket that was READ.
    pub fn of_bucket(words: &[u64]) -> impl Iterator<Item = Self> + '_ {
        words.chunks_exact(ENTRY_WORDS).map(|entry| Self { hash: entry[0], version: entry[1], record: entry[2] })
    }

    /// Its words.
    pub fn words(&self) -> [u64; ENTRY_WORDS] {
        [self.hash, self.version, self.record]
    }

    /// The span of its record, if that is possible and within a heap of so many bytes.
    pub fn span(&self, heap_bytes: u64) -> Option<Span> {
        let unit = self.record & ((1 << UNIT_BITS) - 1);
        let (offset, bytes) = (unit * RECORD_UNIT_BYTES, (self.record >> UNIT_BITS) * RECORD_UNIT_BYTES);
        let is_within = bytes >= RECORD_HEADER_BYTES as u64 && bytes <= heap_bytes && offset <= heap_bytes - bytes;
        is_within.then_some(Span { offset, bytes })
    }
}
