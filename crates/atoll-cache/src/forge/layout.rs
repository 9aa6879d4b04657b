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
//! Another form of the engine may have an area of its own between rings and index: see `annex`.
//!
//! Buried bytes: bytes that were ever made dead, wrapping (see `cleaning`). Sweep: the hand
//! that goes round the descriptors (see `sweep`). Both atomics only.
//!
//! Cursors: one word, tail 32 | head 32, atomics only. Frequencies: for each of the ring's last `4 *
//! window` positions one array of 16-bit counters, four to a word, atomics only. Rings: see `ring`.
//! Index: see `slot`; atomics only. Every node has equally many buckets, in the order of their
//! numbers; a hash chooses among all.

use super::annex::Annex;
use super::settings::ForgeSettings;
use atoll_fabric::Address;
use atoll_pool::{EngineArea, Layout, Pool, PoolError, PoolSettings};

/// Slots of a bucket. A key has one bucket: of sixteen slots, filled to half (the other half are
/// ghosts), one in some thousand keys finds it full, and every lookup touches one place of the
/// index.
pub const BUCKET_SLOTS: usize = 16;
/// Bytes of a bucket, two lines.
pub const BUCKET_BYTES: u64 = 8 * BUCKET_SLOTS as u64;
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
    /// Where the index begins, behind the annex.
    index: u64,
    buckets: u32,
    /// Buckets of each node but the last, which may have fewer: all of them, with one node.
    node_buckets: u32,
}

impl ForgeLayout {
    /// The layout in `pool`, after checking that its engine area is large enough.
    pub fn new(pool: &Pool, settings: &ForgeSettings) -> Result<Self, PoolError> {
        Self::with_annex(pool, settings, 0)
    }

    /// The same with an annex of so many bytes.
    pub fn with_annex(pool: &Pool, settings: &ForgeSettings, annex_bytes: u64) -> Result<Self, PoolError> {
        let layout = Self::sized(pool.layout.engine(), &pool.settings, settings, annex_bytes);
        let (needed, area) = (layout.area(), pool.layout.engine_area);
        if needed.home_bytes > area.home_bytes || needed.share_bytes > area.share_bytes {
            return Err(PoolError::Damaged { what: "the engine area is too small" });
        }
        Ok(layout)
    }

    fn sized(base: Address, pool: &PoolSettings, settings: &ForgeSettings, annex_bytes: u64) -> Self {
        let frequency_positions = (4 * settings.window).next_power_of_two();
        // Two bytes a counter; arrays start at a line.
        let frequency_bytes = u64::from(pool.group_objects_max * 2).next_multiple_of(LINE);
        let layout = Self {
            base,
            frequency_positions,
            frequency_bytes,
            ring_bytes: 8 << settings.ring_log2,
            index: 0,
            buckets: settings.buckets,
            node_buckets: settings.buckets.div_ceil(pool.nodes),
        };
        Self { index: (layout.rings_end() + annex_bytes).next_multiple_of(BUCKET_BYTES), ..layout }
    }

    fn rings(&self) -> u64 {
        WORDS_BYTES + 2 * u64::from(self.frequency_positions) * self.frequency_bytes
    }

    fn rings_end(&self) -> u64 {
        self.rings() + 2 * self.ring_bytes
    }

    fn area(&self) -> EngineArea {
        let index_bytes = u64::from(self.node_buckets) * BUCKET_BYTES;
        let is_spread = self.node_buckets < self.buckets;
        EngineArea { home_bytes: self.index + index_bytes, share_bytes: if is_spread { index_bytes } else { 0 } }
    }

    /// The packed cursors of a queue.
    pub fn cursors(&self, queue: Queue) -> Address {
        self.base.add(queue as u64 * LINE)
    }

    /// Bytes that were ever made dead.
    pub fn buried_bytes(&self) -> Address {
        self.base.add(2 * LINE)
    }

    /// Until how many bytes were made dead clients evict, by the last pass of cleaning.
    pub fn evict_until(&self) -> Address {
        self.buried_bytes().add(8)
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

    /// Where the annex begins, if there is one: on a line.
    pub fn annex(&self) -> Address {
        self.base.add(self.rings_end())
    }

    /// The offset of an address in the annex, if it is there.
    pub fn annex_offset(&self, at: Address) -> Option<u64> {
        let offset = at.offset().checked_sub(self.annex().offset()).filter(|_| at.is_home())?;
        (offset < self.index - self.rings_end()).then_some(offset)
    }

    /// A bucket of the index.
    #[inline(always)]
    pub fn bucket(&self, bucket: u32) -> Address {
        if bucket < self.node_buckets {
            return self.base.add(self.index + u64::from(bucket) * BUCKET_BYTES);
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

    /// What is at an address of the engine area, for whoever follows a trace.
    pub fn describe(&self, at: Address) -> Option<String> {
        let slot_name = |first: u32, offset: u64| {
            let slot = u64::from(first) * BUCKET_SLOTS as u64 + offset / 8;
            format!("slot {slot} (bucket {})", slot / BUCKET_SLOTS as u64)
        };
        let area = self.area();
        if !at.is_home() {
            let share = Layout::engine_share(at.node());
            let offset = at.offset().checked_sub(share.offset()).filter(|offset| *offset < area.share_bytes)?;
            return Some(slot_name(u32::from(at.node()) * self.node_buckets, offset));
        }
        let offset = at.offset().checked_sub(self.base.offset()).filter(|offset| *offset < area.home_bytes)?;
        let queue = |index: u64| if index == 0 { "small" } else { "main" };
        Some(if offset < 2 * LINE {
            format!("cursors {}", queue(offset / LINE))
        } else if offset < WORDS_BYTES {
            if offset < 3 * LINE { "buried bytes".to_owned() } else { "sweep".to_owned() }
        } else if offset < self.rings() {
            let (index, half) = ((offset - WORDS_BYTES) / self.frequency_bytes, u64::from(self.frequency_positions));
            format!("frequencies {} {}", queue(index / half), index % half)
        } else if offset < self.rings_end() {
            let offset = offset - self.rings();
            format!("ring {} {}", queue(offset / self.ring_bytes), offset % self.ring_bytes / 8)
        } else if offset < self.index {
            format!("annex {}", offset - self.rings_end())
        } else {
            slot_name(0, offset - self.index)
        })
    }

    /// A slot of the index by its number: bucket * 16 + place.
    #[inline]
    pub fn slot(&self, slot: u64) -> Address {
        let (bucket, place) = (slot / BUCKET_SLOTS as u64, slot % BUCKET_SLOTS as u64);
        // A slot's number has at most 34 bits, or was checked against the index.
        self.bucket(bucket as u32).add(place * 8)
    }
}

/// What a pool with these settings needs for the engine's words. (How many chunks there are bounds
/// the ring, which the settings already size.)
pub fn engine_area(settings: &PoolSettings) -> EngineArea {
    engine_area_with::<()>(settings)
}

/// The same of a form with this annex.
pub fn engine_area_with<A: Annex>(settings: &PoolSettings) -> EngineArea {
    match (ForgeSettings::decode_with::<A>(settings), A::area_bytes(settings)) {
        (Ok(forge), Ok(annex)) => ForgeLayout::sized(Address::new(0, 0, 0), settings, &forge, annex).area(),
        _ => EngineArea::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::ForgeOptions;

    #[test]
    fn buckets_lie_in_pieces_one_a_node_and_slots_in_their_buckets() {
        for (nodes, slots) in [(1, 64), (2, 64), (3, 160), (4, 48), (3, 16 * 1000)] {
            let settings = ForgeOptions::default().settings(PoolSettings::for_capacity(8 << 20), slots).spread(nodes);
            let forge = ForgeSettings::decode(&settings).unwrap();
            let layout = ForgeLayout::sized(Address::new(0, 0, 4096), &settings, &forge, 0);
            let (mut pieces, mut first, area) = (0, 0, engine_area(&settings));
            while first < forge.buckets {
                let piece = layout.buckets_in_a_piece(first);
                for bucket in first..first + piece {
                    let at = layout.bucket(bucket);
                    assert_eq!(at, layout.bucket(first).add(u64::from(bucket - first) * BUCKET_BYTES));
                    assert_eq!(layout.slot(u64::from(bucket) * 16 + 5), at.add(40));
                    assert_eq!(layout.describe(at.add(8)), Some(format!("slot {} (bucket {bucket})", bucket * 16 + 1)));
                    let end = if at.is_home() {
                        4096 + area.home_bytes
                    } else {
                        Layout::engine_share(1).offset() + area.share_bytes
                    };
                    assert!(at.offset() + BUCKET_BYTES <= end);
                }
                (pieces, first) = (pieces + 1, first + piece);
            }
            assert_eq!(pieces, nodes.min(forge.buckets), "{nodes} nodes, {slots} slots");
        }
    }
}
