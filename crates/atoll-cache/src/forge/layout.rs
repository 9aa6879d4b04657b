//! Where `forge` keeps its words inside the pool's engine area.
//!
//! ```text
//! +---------+---------+--------+-------+--------+-------------+-------------+
//! | cursors | cursors |  dead  | sweep | splits | frequencies | frequencies |
//! |  small  |  main   | bytes  |       |        |    small    |    main     |
//! +---------+---------+--------+-------+--------+-------------+-------------+
//! |<-       hot and small: device memory, where there is some             ->|
//!
//! +-------+-------+-----------+------------+
//! | ring  | ring  | directory | index      |
//! | small | main  |           | buckets of |
//! |       |       |           | 16 slots   |
//! +-------+-------+-----------+------------+
//!
//! +---------------------------+
//! |  index, the node's share  |     on each further node that was there when the pool was made
//! +---------------------------+
//! ```
//!
//! Another form of the engine may have a region of its own between rings and index: see `annex`.
//!
//! | words | what they hold |
//! |---|---|
//! | cursors | one word, tail 32, head 32; atomics only |
//! | dead bytes | bytes that were ever made dead, less those reclaimed, and until when clients evict (see `cleaning`); atomics only |
//! | sweep | the hand of the walk over the descriptors (see `sweep`); atomics only |
//! | frequencies | of each of the ring's last `4 * window` positions one array of 16-bit counters, four to a word; atomics only |
//! | rings | see `ring` |
//! | splits | how many buckets were added to the index (see `growth`); atomics only |
//! | directory | the chunks that hold them; atomics only |
//! | index | see `slot`; atomics only |

use super::annex::Annex;
use super::settings::ForgeSettings;
pub use crate::index::BUCKET_SLOTS;
use crate::index::SLOTS_BYTES;
use crate::index::buckets::{Buckets, check_area};
use crate::index::directory::Directory;
use atoll_fabric::Address;
use atoll_pool::{EngineArea, Pool, PoolError, PoolSettings};

/// Bytes of a bucket, two lines: lookups touch one place of the index.
pub const BUCKET_BYTES: u64 = SLOTS_BYTES;
const LINE: u64 = 64;
/// Bytes of the words that have a line each, in front of the counters.
const WORDS_BYTES: u64 = 5 * LINE;

/// Which of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Where new objects enter.
    Small = 0,
    /// The queue of objects that have proven themselves.
    Main = 1,
}

impl Queue {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Small, Self::Main];

    /// The other queue.
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
    /// Where the directory of the index begins, behind the annex.
    directory: u64,
    /// Where the index begins, behind its directory.
    index: u64,
    /// Rounds in which the index may grow.
    index_rounds: u32,
    buckets: Buckets<BUCKET_BYTES>,
}

impl ForgeLayout {
    /// The layout in `pool`, after checking that its engine area is large enough.
    pub fn new(pool: &Pool, settings: &ForgeSettings) -> Result<Self, PoolError> {
        Self::with_annex(pool, settings, 0)
    }

    /// The layout with an annex of so many bytes.
    pub fn with_annex(pool: &Pool, settings: &ForgeSettings, annex_bytes: u64) -> Result<Self, PoolError> {
        let layout = Self::sized(pool.layout.engine(), &pool.settings, settings, annex_bytes);
        check_area(pool, layout.area())?;
        Ok(layout)
    }

    /// The layout of a pool with these settings whose engine area begins at `base`.
    #[cfg(test)]
    pub(crate) fn of(base: Address, pool: &PoolSettings, settings: &ForgeSettings) -> Self {
        Self::sized(base, pool, settings, 0)
    }

    /// Bytes of the counters of both queues' eviction windows in a pool with these settings. The
    /// first is [`frequencies`](Self::frequencies) of the small queue at position 0.
    pub fn window_counter_bytes(pool: &PoolSettings, settings: &ForgeSettings) -> u64 {
        Self::sized(Address::new(0, 0, 0), pool, settings, 0).rings() - WORDS_BYTES
    }

    fn sized(base: Address, pool: &PoolSettings, settings: &ForgeSettings, annex_bytes: u64) -> Self {
        let frequency_positions = (4 * settings.window).next_power_of_two();
        // Two bytes a counter; arrays start at a line.
        let frequency_bytes = u64::from(pool.group_objects_max * 2).next_multiple_of(LINE);
        let mut layout = Self {
            base,
            frequency_positions,
            frequency_bytes,
            ring_bytes: 8 << settings.ring_log2,
            directory: 0,
            index: 0,
            index_rounds: settings.index_rounds,
            buckets: Buckets::new(base, settings.buckets, pool.nodes),
        };
        layout.directory = (layout.rings_end() + annex_bytes).next_multiple_of(LINE);
        let entries =
            Directory::entries(settings.buckets, settings.index_rounds, chunk_buckets(pool.chunk_bytes.into()));
        layout.index = (layout.directory + 8 * u64::from(entries)).next_multiple_of(BUCKET_BYTES);
        layout.buckets = Buckets::new(base.add(layout.index), settings.buckets, pool.nodes);
        layout
    }

    fn rings(&self) -> u64 {
        WORDS_BYTES + 2 * u64::from(self.frequency_positions) * self.frequency_bytes
    }

    fn rings_end(&self) -> u64 {
        self.rings() + 2 * self.ring_bytes
    }

    fn area(&self) -> EngineArea {
        self.buckets.area(self.index)
    }

    /// The packed cursors of a queue.
    pub fn cursors(&self, queue: Queue) -> Address {
        self.base.add(queue as u64 * LINE)
    }

    /// Bytes that were ever made dead, less those that were reclaimed.
    pub fn dead_bytes(&self) -> Address {
        self.base.add(2 * LINE)
    }

    /// The number of dead bytes up to which clients evict, as the last pass of cleaning set it.
    pub fn evict_until(&self) -> Address {
        self.dead_bytes().add(8)
    }

    /// The chunks that are looked at next for expired objects.
    pub fn sweep(&self) -> Address {
        self.base.add(3 * LINE)
    }

    /// How many buckets were ever added to the index.
    pub fn splits(&self) -> Address {
        self.base.add(4 * LINE)
    }

    /// An entry of the index's directory.
    pub(crate) fn directory_entry(&self, entry: usize) -> Address {
        self.base.add(self.directory + 8 * entry as u64)
    }

    /// The directory of a new index, in a pool with chunks of so many bytes.
    pub(crate) fn directory(&self, chunk_bytes: u64) -> Directory {
        Directory::new(self.buckets.count(), self.index_rounds, chunk_buckets(chunk_bytes))
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

    /// Where the annex begins, if there is one: on a line.
    pub fn annex(&self) -> Address {
        self.base.add(self.rings_end())
    }

    /// The offset of an address in the annex, if it is there.
    pub fn annex_offset(&self, at: Address) -> Option<u64> {
        let offset = at.offset().checked_sub(self.annex().offset()).filter(|_| at.is_home())?;
        (offset < self.directory - self.rings_end()).then_some(offset)
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

    /// Names the word at an address of the engine area, for people who follow a trace.
    pub fn describe(&self, at: Address) -> Option<String> {
        if let Some((bucket, within)) = self.buckets.find(at) {
            return Some(format!("slot {} (bucket {bucket})", bucket * BUCKET_SLOTS as u64 + within / 8));
        }
        let is_before = |offset: &u64| at.is_home() && *offset < self.index;
        let offset = at.offset().checked_sub(self.base.offset()).filter(is_before)?;
        let queue = |index: u64| if index == 0 { "small" } else { "main" };
        Some(if offset < 2 * LINE {
            format!("cursors {}", queue(offset / LINE))
        } else if offset < WORDS_BYTES {
            ["dead bytes", "sweep", "splits"][(offset / LINE) as usize - 2].to_owned()
        } else if offset < self.rings() {
            let (index, half) = ((offset - WORDS_BYTES) / self.frequency_bytes, u64::from(self.frequency_positions));
            format!("frequencies {} {}", queue(index / half), index % half)
        } else if offset < self.rings_end() {
            let offset = offset - self.rings();
            format!("ring {} {}", queue(offset / self.ring_bytes), offset % self.ring_bytes / 8)
        } else if offset >= self.directory {
            format!("directory {}", (offset - self.directory) / 8)
        } else {
            format!("annex {}", offset - self.rings_end())
        })
    }

    /// A slot of the index by its number: bucket * 16 + place.
    #[inline(always)]
    pub fn slot(&self, slot: u64) -> Address {
        self.buckets.slot(slot)
    }
}

/// Buckets that a chunk holds.
fn chunk_buckets(chunk_bytes: u64) -> u32 {
    (chunk_bytes / BUCKET_BYTES) as u32
}

/// The size of the engine's words in a pool with these settings. (The number of chunks bounds the
/// ring, which the settings already size.)
pub fn engine_area(settings: &PoolSettings) -> EngineArea {
    engine_area_with::<()>(settings)
}

/// As [`engine_area`], for a form with this annex.
pub fn engine_area_with<A: Annex>(settings: &PoolSettings) -> EngineArea {
    match (ForgeSettings::decode_with::<A>(settings), A::area_bytes(settings)) {
        (Ok(forge), Ok(annex)) => ForgeLayout::sized(Address::new(0, 0, 0), settings, &forge, annex).area(),
        _ => EngineArea::default(),
    }
}
