//! Where the words are.
//!
//! ```text
//! the pool's engine area                                       the pool's heap
//! 0          8        16        24     64
//! +---------+--------+---------+------+----------------------+ +--------------------------------+
//! | mailbox | server | objects |      | buckets of 192 B:    | | records, at multiples of 16 B, |
//! |         | epoch  |         |      | 8 entries of 3 words | | wherever the server found room |
//! +---------+--------+---------+------+----------------------+ +--------------------------------+
//! ```
//!
//! The server owns all of it and alone WRITEs it; clients READ. Entries: [`entry`](super::entry).

use super::entry::{BUCKET_BYTES, ENTRY_BYTES, Span};
use super::settings::CliqueMapSettings;
use atoll_fabric::Address;
use atoll_pool::{ChunkId, EngineArea, Pool, PoolSettings};

const LINE: u64 = 64;

const _: () = assert!(BUCKET_BYTES.is_multiple_of(LINE));

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
    /// The layout of a pool with these choices.
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

    /// The server's mailbox; 0 while there is none.
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

    /// Names the word at an address, for a trace.
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

/// The size of the engine's words in a pool with these settings.
pub fn engine_area(settings: &PoolSettings) -> EngineArea {
    let home_bytes =
        CliqueMapSettings::decode(settings).map_or(0, |settings| LINE + u64::from(settings.buckets) * BUCKET_BYTES);
    EngineArea { home_bytes, share_bytes: 0 }
}
