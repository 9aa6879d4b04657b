//! Where the words are.
//!
//! ```text
//! the pool's engine area                                       the pool's heap
//! 0          8        16        24     64
//! +---------+--------+---------+------+----------------------+ +--------------------------------+
//! | mailbox | server | objects |      | buckets of 192 B:    | | records, at multiples of 16 B, |
//! |         | epoch  |         |      | 8 entries of 3 words | | wherever the server found room |
//! +---------+--------+---------+------+----------------------+ +--------------------------------+
//!
//! an entry   word 0  hash of the key
//!            word 1  version of its object; 0: there is none
//!            word 2  record: first unit of 16 B in the heap 40 | units 24
//! ```
//!
//! All of it is owned by the server, which alone WRITEs it; clients READ. The word of the version
//! is the one that counts: an object is there from the moment when its version stands in an entry
//! to the moment when another number does. The other two words may be READ torn from it, which the
//! record tells.

use super::record::{RECORD_HEADER_BYTES, RECORD_UNIT_BYTES};
use super::settings::CliqueMapSettings;
use atoll_fabric::Address;
use atoll_pool::{ChunkId, EngineArea, Pool, PoolSettings};

/// Entries of a bucket.
pub const BUCKET_ENTRIES: usize = 8;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 24;
/// Words of an entry.
pub const ENTRY_WORDS: usize = 3;
/// Bytes of a bucket.
pub const BUCKET_BYTES: u64 = ENTRY_BYTES * BUCKET_ENTRIES as u64;
/// Bytes of heap that an entry can tell of.
pub const HEAP_BYTES_MAX: u64 = RECORD_UNIT_BYTES << UNIT_BITS;
/// Bytes of the longest record that an entry can tell of.
pub const RECORD_BYTES_MAX: u64 = RECORD_UNIT_BYTES * LENGTH_MASK;
const LINE: u64 = 64;
const UNIT_BITS: u32 = 40;
const LENGTH_MASK: u64 = (1 << (64 - UNIT_BITS)) - 1;

const _: () = assert!(BUCKET_BYTES.is_multiple_of(LINE) && ENTRY_BYTES == 8 * ENTRY_WORDS as u64);

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

    /// Where its record is, if that is within a heap of so many bytes and can be one.
    pub fn span(&self, heap_bytes: u64) -> Option<Span> {
        let unit = self.record & ((1 << UNIT_BITS) - 1);
        let (offset, bytes) = (unit * RECORD_UNIT_BYTES, (self.record >> UNIT_BITS) * RECORD_UNIT_BYTES);
        let is_within = bytes >= RECORD_HEADER_BYTES as u64 && bytes <= heap_bytes && offset <= heap_bytes - bytes;
        is_within.then_some(Span { offset, bytes })
    }
}

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub struct CliqueMapLayout {
    buckets: u32,
    engine: Address,
    heap: Address,
    /// Bytes of the heap.
    pub heap_bytes: u64,
}

impl CliqueMapLayout {
    /// That of a pool with these choices.
    pub fn new(pool: &Pool, settings: &CliqueMapSettings) -> Self {
        let (heap, heap_bytes) = (pool.layout.chunk(ChunkId(0)), pool.layout.heap_bytes());
        Self { buckets: settings.buckets, engine: pool.layout.engine(), heap, heap_bytes }
    }

    /// Buckets of the index.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The bucket of a key.
    #[inline]
    pub fn bucket_of(&self, hash: u64) -> u32 {
        // The high half, by multiplication: the low bits choose the server's shard.
        (((hash >> 32) * u64::from(self.buckets)) >> 32) as u32
    }

    /// Where the server receives; 0 while there is none.
    pub fn mailbox(&self) -> Address {
        self.engine
    }

    /// How many servers there have been.
    pub fn server_epoch(&self) -> Address {
        self.engine.add(8)
    }

    /// How many objects there are.
    pub fn objects(&self) -> Address {
        self.engine.add(16)
    }

    /// A bucket.
    #[inline]
    pub fn bucket(&self, bucket: u32) -> Address {
        self.engine.add(LINE + u64::from(bucket) * BUCKET_BYTES)
    }

    /// An entry by its number: bucket * 8 + place.
    pub fn entry(&self, entry: u32) -> Address {
        self.engine.add(LINE + u64::from(entry) * ENTRY_BYTES)
    }

    /// The word of an entry's version.
    pub fn version(&self, entry: u32) -> Address {
        self.entry(entry).add(8)
    }

    /// The first byte of a span of the heap.
    #[inline]
    pub fn record(&self, span: Span) -> Address {
        self.heap.add(span.offset)
    }

    /// What is at an address, for whoever follows a trace.
    pub fn describe(&self, at: Address) -> Option<String> {
        let index_bytes = u64::from(self.buckets) * BUCKET_BYTES;
        let offset = at.offset().checked_sub(self.engine.offset()).filter(|_| at.is_home())?;
        match offset.checked_sub(LINE) {
            None => Some(["mailbox", "server epoch", "objects"].get(offset as usize / 8)?.to_string()),
            Some(offset) if offset < index_bytes => {
                let word = ["hash", "version", "record"][(offset % ENTRY_BYTES / 8) as usize];
                Some(format!("entry {} {word} (bucket {})", offset / ENTRY_BYTES, offset / BUCKET_BYTES))
            }
            Some(_) => None,
        }
    }
}

/// What a pool with these settings needs for the engine's words.
pub fn engine_area(settings: &PoolSettings) -> EngineArea {
    let home_bytes =
        CliqueMapSettings::decode(settings).map_or(0, |settings| LINE + u64::from(settings.buckets) * BUCKET_BYTES);
    EngineArea { home_bytes, share_bytes: 0 }
}
