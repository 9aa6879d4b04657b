//! Where `forge` keeps its words inside the pool's engine area.
//!
//! ```text
//! +---------+---------+--------+-------+-------------+-------------+-------+-------+--------------+
//! | cursors | cursors | buried | sweep | frequencies | frequencies | ring  | ring  |    index     |
//! |  small  |  main   | bytes  |       |    small    |    main     | small | main  | buckets of   |
//! |         |         |        |       |             |             |       |       | 16 slots     |
//! +---------+---------+--------+-------+-------------+-------------+-------+-------+--------------+
//! |<- hot and small: device memory, where there is some ->|
//!
//! +---------------------------+
//! |  index, the node's share  |     on each further node that was there when the pool was made
//! +---------------------------+
//! ```
//!
//! With the learned rule there is more between rings and index:
//!
//! ```text
//! +---------------------------------+----------------+-------------------------+
//! | records of groups, one a chunk: | samples so far | samples, 32 bytes each  |
//! | 24 bytes, counters of 16 bits   | one line       |                         |
//! +---------------------------------+----------------+-------------------------+
//! ```
//!
//! A record's first three words are owned by who owns the chunk, its counters atomics only; samples
//! so far: atomics only; samples: data that any client may WRITE, hints only. See `glcache`.
//!
//! | words | what they hold |
//! |---|---|
//! | cursors | one word, tail 32, head 32; atomics only |
//! | buried bytes | bytes that were ever made dead, wrapping (see `cleaning`); atomics only |
//! | sweep | the hand of the walk over the descriptors (see `sweep`); atomics only |
//! | frequencies | of each of the ring's last `4 * window` positions one array of 16-bit counters, four to a word; atomics only |
//! | rings | see `ring` |
//! | index | see `slot`; atomics only |

use super::settings::ForgeSettings;
use crate::glcache::{Sample, Written};
pub use crate::index::BUCKET_SLOTS;
use crate::index::SLOTS_BYTES;
use crate::index::buckets::{Buckets, check_area};
use atoll_fabric::Address;
use atoll_pool::{ChunkId, EngineArea, Pool, PoolError, PoolSettings};

/// Bytes of a bucket, two lines: lookups touch one place of the index.
pub const BUCKET_BYTES: u64 = SLOTS_BYTES;
const LINE: u64 = 64;
/// Bytes of the words that have a line each, in front of the counters.
const WORDS_BYTES: u64 = 4 * LINE;

/// Which of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Where new objects enter.
    Small = 0,
    /// Where objects go that have proven themselves.
    Main = 1,
}

impl Queue {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Small, Self::Main];

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Small => Self::Main,
            Self::Main => Self::Small,
        }
    }
}

/// Addresses of `forge`'s words.
#[derive(Clone, Debug)]
pub struct ForgeLayout {
    base: Address,
    frequency_positions: u32,
    frequency_bytes: u64,
    ring_bytes: u64,
    /// Of the learned rule; else there are none.
    group_records: u32,
    group_record_bytes: u64,
    samples_log2: u32,
    buckets: Buckets<BUCKET_BYTES>,
}

impl ForgeLayout {
    /// The layout in `pool`, after checking that its engine area is large enough.
    pub fn new(pool: &Pool, settings: &ForgeSettings) -> Result<Self, PoolError> {
        let layout = Self::sized(pool.layout.engine(), &pool.settings, settings);
        check_area(pool, layout.area())?;
        Ok(layout)
    }

    fn sized(base: Address, pool: &PoolSettings, settings: &ForgeSettings) -> Self {
        let frequency_positions = (4 * settings.window).next_power_of_two();
        // Two bytes a counter; arrays start at a line.
        let frequency_bytes = u64::from(pool.group_objects_max * 2).next_multiple_of(LINE);
        let mut layout = Self {
            base,
            frequency_positions,
            frequency_bytes,
            ring_bytes: 8 << settings.ring_log2,
            group_records: settings.group_records,
            group_record_bytes: Written::BYTES + u64::from(pool.group_objects_max * 2).next_multiple_of(8),
            samples_log2: settings.samples_log2,
            buckets: Buckets::new(base, settings.buckets, pool.nodes),
        };
        layout.buckets = Buckets::new(base.add(layout.index()), settings.buckets, pool.nodes);
        layout
    }

    fn rings(&self) -> u64 {
        WORDS_BYTES + 2 * u64::from(self.frequency_positions) * self.frequency_bytes
    }

    fn group_table(&self) -> u64 {
        self.rings() + 2 * self.ring_bytes
    }

    fn samples_line(&self) -> u64 {
        (self.group_table() + u64::from(self.group_records) * self.group_record_bytes).next_multiple_of(LINE)
    }

    fn index(&self) -> u64 {
        let learned_end = match self.group_records {
            0 => self.group_table(),
            _ => self.samples_line() + LINE + self.samples() * Sample::BYTES,
        };
        learned_end.next_multiple_of(BUCKET_BYTES)
    }

    fn area(&self) -> EngineArea {
        self.buckets.area(self.index())
    }

    /// The packed cursors of a queue.
    pub fn cursors(&self, queue: Queue) -> Address {
        self.base.add(queue as u64 * LINE)
    }

    /// Bytes that were ever made dead.
    pub fn buried_bytes(&self) -> Address {
        self.base.add(2 * LINE)
    }

    /// Which chunks are looked at next for expired objects.
    pub fn sweep(&self) -> Address {
        self.base.add(3 * LINE)
    }

    /// The counters of the group at a ring position.
    pub fn frequencies(&self, queue: Queue, position: u32) -> Address {
        let index =
            queue as u64 * u64::from(self.frequency_positions) + u64::from(position & (self.frequency_positions - 1));
        self.base.add(WORDS_BYTES + index * self.frequency_bytes)
    }

    /// A queue's ring of nodes.
    pub fn ring(&self, queue: Queue) -> Address {
        self.base.add(self.rings() + queue as u64 * self.ring_bytes)
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
        let at = self.base.add(self.group_table() + u64::from(chunk.0) * self.group_record_bytes);
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

    /// Where the sample with this number is, until one that is as many later as are kept takes its
    /// place.
    pub fn sample(&self, number: u64) -> Address {
        self.base.add(self.samples_line() + LINE + (number & (self.samples() - 1)) * Sample::BYTES)
    }

    /// The buckets of the index.
    pub(crate) fn buckets(&self) -> &Buckets<BUCKET_BYTES> {
        &self.buckets
    }

    /// A bucket of the index: its slots come first.
    #[inline(always)]
    pub fn bucket(&self, bucket: u32) -> Address {
        self.buckets.at(bucket)
    }

    /// What is at an address of the engine area, for people who follow a trace.
    pub fn describe(&self, at: Address) -> Option<String> {
        if let Some((bucket, within)) = self.buckets.find(at) {
            return Some(format!("slot {} (bucket {bucket})", bucket * BUCKET_SLOTS as u64 + within / 8));
        }
        let is_before = |offset: &u64| at.is_home() && *offset < self.index();
        let offset = at.offset().checked_sub(self.base.offset()).filter(is_before)?;
        let queue = |index: u64| if index == 0 { "small" } else { "main" };
        Some(if offset < 2 * LINE {
            format!("cursors {}", queue(offset / LINE))
        } else if offset < WORDS_BYTES {
            if offset < 3 * LINE { "buried bytes".to_owned() } else { "sweep".to_owned() }
        } else if offset < self.rings() {
            let (index, half) = ((offset - WORDS_BYTES) / self.frequency_bytes, u64::from(self.frequency_positions));
            format!("frequencies {} {}", queue(index / half), index % half)
        } else if offset < self.group_table() {
            let offset = offset - self.rings();
            format!("ring {} {}", queue(offset / self.ring_bytes), offset % self.ring_bytes / 8)
        } else {
            self.describe_learned(offset)
        })
    }

    /// The same for what only the learned rule has.
    fn describe_learned(&self, offset: u64) -> String {
        let (records, samples) = (self.group_table(), self.samples_line());
        match offset {
            _ if offset < samples => format!("record of group {}", (offset - records) / self.group_record_bytes),
            _ if offset < samples + LINE => "samples so far".to_owned(),
            _ => format!("sample {}", (offset - samples - LINE) / Sample::BYTES),
        }
    }

    /// A slot of the index by its number: bucket * 16 + place.
    #[inline(always)]
    pub fn slot(&self, slot: u64) -> Address {
        self.buckets.slot(slot)
    }
}

/// What a pool with these settings needs for the engine's words. (How many chunks there are bounds
/// the ring, which the settings already size.)
pub fn engine_area(settings: &PoolSettings) -> EngineArea {
    match ForgeSettings::decode(settings) {
        Ok(forge) => ForgeLayout::sized(Address::new(0, 0, 0), settings, &forge).area(),
        Err(_) => EngineArea::default(),
    }
}
