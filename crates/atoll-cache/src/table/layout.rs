//! Where the words are, inside the pool's engine area.
//!
//! ```text
//! +--------+---------+-------+------+-------------+----------+---------+------------------------+
//! | drains | history | sweep | dead | replacement | cells    | shelves | index: buckets of 768 B|
//! | line   | line    | line  | line |             | 32 words | 4 words | 16 slots of 8 B, 16 of |
//! |        |         |       |      |             | a client | a class | 40 B access information|
//! +--------+---------+-------+------+-------------+----------+---------+------------------------+
//!
//! +---------------------------+
//! |  index, the node's share  |     on each further node that was there when the pool was made
//! +---------------------------+
//! ```
//!
//! | words | what they hold |
//! |---|---|
//! | drains | how many chunks clients have begun to empty; atomics only |
//! | history | the next history id; atomics only |
//! | sweep | the hand of [`sweep`](crate::sweep); atomics only |
//! | dead | bytes of dead blocks, and the number of deaths when they were counted (see `dead`); atomics only |
//! | cells | see `cell`; each owned by its client while the client lives, atomics only afterwards |
//! | shelves | see `shelf`; atomics only |
//! | slots | atomics only |
//! | access information | see `access` |
//!
//! The paper puts each slot's information beside the slot. Ours has a bucket's slots together in
//! front of it. So a lookup READs two lines and not eleven, and a sample is still one READ.

pub use super::cell::CELLS;
use super::class::{CLASSES, Class};
use super::settings::TableSettings;
use super::shelf::SHELVES;
use crate::index::buckets::{Buckets, check_area};
pub use crate::index::{BUCKET_SLOTS, SLOTS_BYTES};
use atoll_fabric::Address;
use atoll_pool::{EngineArea, Pool, PoolError, PoolSettings};

/// Bytes of a slot's access information.
pub const ACCESS_BYTES: u64 = 40;
/// Bytes of a bucket.
pub const BUCKET_BYTES: u64 = SLOTS_BYTES + BUCKET_SLOTS as u64 * ACCESS_BYTES;
/// Words of a slot's access information behind the counter, by their numbers.
const LAST_ACCESS_WORD: u64 = 1;
const EXPIRY_WORD: u64 = 3;
const LINE: u64 = 64;

const _: () = assert!(8 * EXPIRY_WORD < ACCESS_BYTES && LAST_ACCESS_WORD < EXPIRY_WORD);
const CONTROL_LINES: u64 = 4;
const SHELVES_BYTES: u64 = 8 * (CLASSES * SHELVES) as u64;

/// Addresses of the engine's words.
#[derive(Clone, Debug)]
pub struct TableLayout {
    base: Address,
    area_bytes: u64,
    cells_bytes: u64,
    buckets: Buckets<BUCKET_BYTES>,
}

impl TableLayout {
    /// The layout in `pool`, after checking that its engine area is large enough.
    pub fn new(pool: &Pool, settings: &TableSettings) -> Result<Self, PoolError> {
        let layout = Self::sized(pool.layout.engine(), &pool.settings, settings);
        check_area(pool, layout.area())?;
        Ok(layout)
    }

    fn sized(base: Address, pool: &PoolSettings, settings: &TableSettings) -> Self {
        let mut layout = Self {
            base,
            area_bytes: settings.area_bytes.next_multiple_of(LINE),
            cells_bytes: u64::from(pool.clients_max) * CELLS as u64 * 8,
            buckets: Buckets::new(base, settings.buckets, pool.nodes),
        };
        layout.buckets = Buckets::new(base.add(layout.index()), settings.buckets, pool.nodes);
        layout
    }

    fn first_shelf(&self) -> u64 {
        CONTROL_LINES * LINE + self.area_bytes + self.cells_bytes
    }

    fn index(&self) -> u64 {
        (self.first_shelf() + SHELVES_BYTES).next_multiple_of(LINE)
    }

    fn area(&self) -> EngineArea {
        self.buckets.area(self.index())
    }

    /// How many chunks clients have begun to empty.
    pub fn drains(&self) -> Address {
        self.base
    }

    /// The next history id.
    pub fn history(&self) -> Address {
        self.base.add(LINE)
    }

    /// The hand of the clients that look for expired objects.
    pub fn sweep(&self) -> Address {
        self.base.add(2 * LINE)
    }

    /// Bytes of dead blocks.
    pub fn dead(&self) -> Address {
        self.base.add(3 * LINE)
    }

    /// The number of clients shut out when dead bytes were last counted.
    pub fn dead_deaths(&self) -> Address {
        self.dead().add(8)
    }

    /// The replacement's area.
    pub fn replacement(&self) -> Address {
        self.base.add(CONTROL_LINES * LINE)
    }

    /// A client's cells.
    pub fn cells(&self, client: u32) -> Address {
        self.base.add(CONTROL_LINES * LINE + self.area_bytes + u64::from(client) * CELLS as u64 * 8)
    }

    /// A cell of a client. The cells of all clients are numbered through.
    pub fn cell(&self, client: u32, cell: u64) -> Address {
        self.cells(client).add(8 * cell)
    }

    /// A shelf of a class.
    pub fn shelf(&self, class: Class, shelf: u64) -> Address {
        self.shelves(class).add(8 * shelf)
    }

    /// A class's shelves.
    pub fn shelves(&self, class: Class) -> Address {
        self.base.add(self.first_shelf() + 8 * (class.index() * SHELVES) as u64)
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

    /// A slot of the index by its number: bucket * 16 + place.
    #[inline]
    pub fn slot(&self, slot: u64) -> Address {
        self.buckets.slot(slot)
    }

    /// When a slot's object was last accessed: the first of the words that an insertion WRITEs.
    #[inline]
    pub fn last_access(&self, slot: u64) -> Address {
        self.access(slot).add(8 * LAST_ACCESS_WORD)
    }

    /// When a slot's object expires.
    pub fn expiry(&self, slot: u64) -> Address {
        self.access(slot).add(8 * EXPIRY_WORD)
    }

    /// The access information of a slot: its counter comes first.
    #[inline]
    pub fn access(&self, slot: u64) -> Address {
        let bucket = self.bucket((slot / BUCKET_SLOTS as u64) as u32);
        bucket.add(SLOTS_BYTES + slot % BUCKET_SLOTS as u64 * ACCESS_BYTES)
    }

    /// Names the word at an address of the engine area, for people who follow a trace.
    pub fn describe(&self, at: Address) -> Option<String> {
        if let Some((bucket, within)) = self.buckets.find(at) {
            if within < SLOTS_BYTES {
                return Some(format!("slot {} (bucket {bucket})", bucket * BUCKET_SLOTS as u64 + within / 8));
            }
            let (place, word) = ((within - SLOTS_BYTES) / ACCESS_BYTES, (within - SLOTS_BYTES) % ACCESS_BYTES / 8);
            return Some(format!("access {} word {word}", bucket * BUCKET_SLOTS as u64 + place));
        }
        let is_before = |offset: &u64| at.is_home() && *offset < self.index();
        let offset = at.offset().checked_sub(self.base.offset()).filter(is_before)?;
        let (replacement, cells) = (CONTROL_LINES * LINE, CONTROL_LINES * LINE + self.area_bytes);
        Some(if offset < replacement {
            ["drains", "history", "sweep", "dead"][(offset / LINE) as usize].to_owned()
        } else if offset < cells {
            format!("replacement word {}", (offset - replacement) / 8)
        } else if offset < self.first_shelf() {
            let cell = (offset - cells) / 8;
            format!("cell {} of client {}", cell % CELLS as u64, cell / CELLS as u64)
        } else {
            let shelf = (offset - self.first_shelf()) / 8;
            format!("shelf {} of class {}", shelf % SHELVES as u64, shelf / SHELVES as u64 + 1)
        })
    }
}

/// The size of the engine's words in a pool with these settings.
pub fn engine_area(settings: &PoolSettings) -> EngineArea {
    match TableSettings::decode(settings) {
        Ok(objects) => TableLayout::sized(Address::new(0, 0, 0), settings, &objects).area(),
        Err(_) => EngineArea::default(),
    }
}
