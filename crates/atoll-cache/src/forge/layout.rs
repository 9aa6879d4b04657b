//! Where `forge` keeps its words inside the pool's engine area.
//!
//! ```text
//! +---------+---------+-------------+-------------+------------+------------+----------------------+
//! | cursors | cursors | frequencies | frequencies |    ring    |    ring    |        index         |
//! |  small  |  main   |    small    |    main     |   small    |    main    | buckets of 16 slots  |
//! +---------+---------+-------------+-------------+------------+------------+----------------------+
//! |<- hot and small: device memory, where there is some ->|
//! ```
//!
//! Cursors: one word, tail 32 | head 32, atomics only. Frequencies: for each of the ring's last `4 * window` positions one array of
//! 16-bit counters, four to a word, atomics only. Rings: see `ring`. Index: see `slot`; atomics only.

use super::settings::ForgeSettings;
use atoll_fabric::Address;
use atoll_pool::{Pool, PoolError, PoolSettings};

/// Slots of a bucket. A key has one bucket: of sixteen slots, filled to half (the other half are ghosts), one in some thousand keys finds it
/// full, and every lookup touches one place of the index.
pub const BUCKET_SLOTS: usize = 16;
/// Bytes of a bucket, two lines.
pub const BUCKET_BYTES: u64 = 8 * BUCKET_SLOTS as u64;
const LINE: u64 = 64;

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
    buckets: u32,
}

impl ForgeLayout {
    /// The layout in `pool`, after checking that its engine area is large enough.
    pub fn new(pool: &Pool, settings: &ForgeSettings) -> Result<Self, PoolError> {
        let layout = Self::sized(pool.layout.engine(), &pool.settings, settings);
        if layout.bytes() > pool.layout.engine_bytes {
            return Err(PoolError::Damaged { what: "the engine area is too small" });
        }
        Ok(layout)
    }

    fn sized(base: Address, pool: &PoolSettings, settings: &ForgeSettings) -> Self {
        let frequency_positions = (4 * settings.window).next_power_of_two();
        // Two bytes a counter; arrays start at a line.
        let frequency_bytes = u64::from(pool.group_objects_max * 2).next_multiple_of(LINE);
        Self {
            base,
            frequency_positions,
            frequency_bytes,
            ring_bytes: 8 << settings.ring_log2,
            buckets: settings.buckets,
        }
    }

    fn rings(&self) -> u64 {
        2 * LINE + 2 * u64::from(self.frequency_positions) * self.frequency_bytes
    }

    fn index(&self) -> u64 {
        (self.rings() + 2 * self.ring_bytes).next_multiple_of(BUCKET_BYTES)
    }

    fn bytes(&self) -> u64 {
        self.index() + u64::from(self.buckets) * BUCKET_BYTES
    }

    /// The packed cursors of a queue.
    pub fn cursors(&self, queue: Queue) -> Address {
        self.base.add(queue as u64 * LINE)
    }

    /// The counters of the group at a ring position.
    pub fn frequencies(&self, queue: Queue, position: u32) -> Address {
        let index =
            queue as u64 * u64::from(self.frequency_positions) + u64::from(position & (self.frequency_positions - 1));
        self.base.add(2 * LINE + index * self.frequency_bytes)
    }

    /// A queue's ring of nodes.
    pub fn ring(&self, queue: Queue) -> Address {
        self.base.add(self.rings() + queue as u64 * self.ring_bytes)
    }

    /// A bucket of the index.
    #[inline]
    pub fn bucket(&self, bucket: u32) -> Address {
        self.base.add(self.index() + u64::from(bucket) * BUCKET_BYTES)
    }

    /// What is at an address of the engine area, for whoever follows a trace.
    pub fn describe(&self, at: Address) -> Option<String> {
        let offset = at.offset().checked_sub(self.base.offset()).filter(|offset| *offset < self.bytes())?;
        let queue = |index: u64| if index == 0 { "small" } else { "main" };
        Some(if offset < 2 * LINE {
            format!("cursors {}", queue(offset / LINE))
        } else if offset < self.rings() {
            let (index, half) = ((offset - 2 * LINE) / self.frequency_bytes, u64::from(self.frequency_positions));
            format!("frequencies {} {}", queue(index / half), index % half)
        } else if offset < self.index() {
            let offset = offset - self.rings();
            format!("ring {} {}", queue(offset / self.ring_bytes), offset % self.ring_bytes / 8)
        } else {
            let slot = (offset - self.index()) / 8;
            format!("slot {slot} (bucket {})", slot / BUCKET_SLOTS as u64)
        })
    }

    /// A slot of the index by its number: bucket * 16 + place.
    #[inline]
    pub fn slot(&self, slot: u64) -> Address {
        self.base.add(self.index() + slot * 8)
    }
}

/// Bytes of engine area that a pool with these settings needs for so many chunks. (The number of chunks bounds the ring, which the settings
/// already size.)
pub fn engine_bytes(settings: &PoolSettings, _chunks: u32) -> u64 {
    match ForgeSettings::decode(settings) {
        Ok(forge) => ForgeLayout::sized(Address::new(0, 0, 0), settings, &forge).bytes(),
        Err(_) => 0,
    }
}
