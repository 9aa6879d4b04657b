//! Where the words are, inside the pool's engine area.
//!
//! ```text
//! +--------+---------+--------+--------+-------------+----------+---------+-------------------------+
//! | drains | history | sweep  | dead   | replacement | cells    | shelves | index: buckets of 768 B |
//! | 1 line | 1 line  | 1 line | 1 line |             | 32 words | 4 words | 16 slots of 8 B, 16 of  |
//! |        |         |        |        |             | a client | a class | 40 B access information |
//! +--------+---------+--------+--------+-------------+----------+---------+-------------------------+
//!
//! +---------------------------+
//! |  index, the node's share  |     on each further node that was there when the pool was made
//! +---------------------------+
//! ```
//!
//! Drains: how many chunks clients have begun to empty, atomics only. History: the next history id,
//! atomics only. Sweep: the hand of [`sweep`](crate::sweep), atomics only. Dead: bytes of dead
//! blocks, and the number of deaths when they were counted (see `dead`), atomics only. Cells: see
//! `stock`; each owned by its client while that lives, atomics only afterwards. Shelves: see
//! `shelf`; atomics only. Slots: atomics only. Access information: see `access`.
//!
//! The paper puts each slot's information beside the slot; ours has a bucket's slots together in
//! front of it, so that a lookup READs two lines and not eleven, and a sample is still one READ.

use super::class::{CLASSES, Class};
use super::settings::TableSettings;
use super::shelf::SHELVES;
use atoll_fabric::Address;
use atoll_pool::{EngineArea, Layout, Pool, PoolError, PoolSettings};

/// Slots of a bucket. A key has one bucket.
pub const BUCKET_SLOTS: usize = 16;
/// Bytes of a bucket's slots.
pub const SLOTS_BYTES: u64 = 8 * BUCKET_SLOTS as u64;
/// Bytes of a slot's access information.
pub const ACCESS_BYTES: u64 = 40;
/// Bytes of a bucket.
pub const BUCKET_BYTES: u64 = SLOTS_BYTES + BUCKET_SLOTS as u64 * ACCESS_BYTES;
/// Cells of a client: the most blocks that it can have taken from others and not used yet.
pub const CELLS: usize = 32;
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
    buckets: u32,
    /// Buckets of each node but the last, which may have fewer: all of them, with one node.
    node_buckets: u32,
}

impl TableLayout {
    /// The layout in `pool`, after checking that its engine area is large enough.
    pub fn new(pool: &Pool, settings: &TableSettings) -> Result<Self, PoolError> {
        let layout = Self::sized(pool.layout.engine(), &pool.settings, settings);
        let (needed, area) = (layout.area(), pool.layout.engine_area);
        if needed.home_bytes > area.home_bytes || needed.share_bytes > area.share_bytes {
            return Err(PoolError::Damaged { what: "the engine area is too small" });
        }
        Ok(layout)
    }

    fn sized(base: Address, pool: &PoolSettings, settings: &TableSettings) -> Self {
        Self {
            base,
            area_bytes: settings.area_bytes.next_multiple_of(LINE),
            cells_bytes: u64::from(pool.clients_max) * CELLS as u64 * 8,
            buckets: settings.buckets,
            node_buckets: settings.buckets.div_ceil(pool.nodes),
        }
    }

    fn first_shelf(&self) -> u64 {
        CONTROL_LINES * LINE + self.area_bytes + self.cells_bytes
    }

    fn index(&self) -> u64 {
        (self.first_shelf() + SHELVES_BYTES).next_multiple_of(LINE)
    }

    fn area(&self) -> EngineArea {
        let index_bytes = u64::from(self.node_buckets) * BUCKET_BYTES;
        let is_spread = self.node_buckets < self.buckets;
        EngineArea { home_bytes: self.index() + index_bytes, share_bytes: if is_spread { index_bytes } else { 0 } }
    }

    /// How many chunks somebody has begun to empty.
    pub fn drains(&self) -> Address {
        self.base
    }

    /// The next history id.
    pub fn history(&self) -> Address {
        self.base.add(LINE)
    }

    /// How far clients have come that look for expired objects.
    pub fn sweep(&self) -> Address {
        self.base.add(2 * LINE)
    }

    /// Bytes of dead blocks.
    pub fn dead(&self) -> Address {
        self.base.add(3 * LINE)
    }

    /// Clients shut out until dead bytes were counted last.
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

    /// A cell of a client. Cells of all clients are numbered through.
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

    /// A bucket of the index: its slots come first.
    #[inline(always)]
    pub fn bucket(&self, bucket: u32) -> Address {
        if bucket < self.node_buckets {
            return self.base.add(self.index() + u64::from(bucket) * BUCKET_BYTES);
        }
        self.further_bucket(bucket)
    }

    /// Out of the way of the one-node case, which it would slow down if it were inlined.
    #[cold]
    #[inline(never)]
    fn further_bucket(&self, bucket: u32) -> Address {
        let (node, index) = (bucket / self.node_buckets, bucket % self.node_buckets);
        Layout::engine_share(node as u8).add(u64::from(index) * BUCKET_BYTES)
    }

    /// How many buckets from this one on, it included, lie in one piece.
    pub fn buckets_in_a_piece(&self, bucket: u32) -> u32 {
        (self.node_buckets - bucket % self.node_buckets).min(self.buckets.saturating_sub(bucket))
    }

    /// A slot of the index by its number: bucket * 16 + place.
    #[inline]
    pub fn slot(&self, slot: u64) -> Address {
        self.bucket((slot / BUCKET_SLOTS as u64) as u32).add(slot % BUCKET_SLOTS as u64 * 8)
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

    /// What is at an address of the engine area, for whoever follows a trace.
    pub fn describe(&self, at: Address) -> Option<String> {
        let in_index = |first: u32, offset: u64| {
            let (bucket, within) = (u64::from(first) + offset / BUCKET_BYTES, offset % BUCKET_BYTES);
            if within < SLOTS_BYTES {
                return format!("slot {} (bucket {bucket})", bucket * BUCKET_SLOTS as u64 + within / 8);
            }
            let (place, word) = ((within - SLOTS_BYTES) / ACCESS_BYTES, (within - SLOTS_BYTES) % ACCESS_BYTES / 8);
            format!("access {} word {word}", bucket * BUCKET_SLOTS as u64 + place)
        };
        let area = self.area();
        if !at.is_home() {
            let offset = at.offset().checked_sub(Layout::engine_share(at.node()).offset())?;
            return (offset < area.share_bytes).then(|| in_index(u32::from(at.node()) * self.node_buckets, offset));
        }
        let offset = at.offset().checked_sub(self.base.offset()).filter(|offset| *offset < area.home_bytes)?;
        let (replacement, cells) = (CONTROL_LINES * LINE, CONTROL_LINES * LINE + self.area_bytes);
        Some(if offset < replacement {
            ["drains", "history", "sweep", "dead"][(offset / LINE) as usize].to_owned()
        } else if offset < cells {
            format!("replacement word {}", (offset - replacement) / 8)
        } else if offset < self.first_shelf() {
            let cell = (offset - cells) / 8;
            format!("cell {} of client {}", cell % CELLS as u64, cell / CELLS as u64)
        } else if offset < self.index() {
            let shelf = (offset - self.first_shelf()) / 8;
            format!("shelf {} of class {}", shelf % SHELVES as u64, shelf / SHELVES as u64 + 1)
        } else {
            in_index(0, offset - self.index())
        })
    }
}

/// What a pool with these settings needs for the engine's words.
pub fn engine_area(settings: &PoolSettings) -> EngineArea {
    match TableSettings::decode(settings) {
        Ok(objects) => TableLayout::sized(Address::new(0, 0, 0), settings, &objects).area(),
        Err(_) => EngineArea::default(),
    }
}
