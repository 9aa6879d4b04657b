//! Where the words of lists are, in the replacement's area. The words of rings: [`RingsArea`].
//!
//! ```text
//! +------------------------+---------------------------------+
//! | 64 lists, 64 B each    | nodes, 32 B for every slot      |
//! +------------------------+---------------------------------+
//!
//! a list    word 0   lock: the holder's place + 1, 32 | its epoch 32; 0: free   atomics only
//!           word 1   head: slot + 1, or 0                                       data, the holder's
//!           word 2   tail: slot + 1, or 0                                       data, the holder's
//!           word 3   turn: how often the list was reset                         data, the holder's
//!           word 4   hand: slot + 1, or 0                                       data, the holder's
//!           word 5   how often the hand has begun at the tail                   data, the holder's
//!
//! a node    word 0   prev, towards the head: slot + 1, or 0                     data, the holder's
//!           word 1   next, towards the tail: slot + 1, or 0                     data, the holder's
//!           word 2   turn 16 | microseconds of the pool's clock when it was
//!                    linked 48; 0: in no list                                   data, the holder's
//!           word 3   not 0: visited                                             atomics only
//! ```
//!
//! A node belongs to its slot, for any object that the slot holds. The list of a slot is its
//! bucket's. The holder is the client that the list's lock names. It alone WRITEs the list's data
//! and that of its nodes. A node is in its list if it has the list's turn. So one WRITE resets a
//! list.
//!
//! Invariants while the lock is free: a walk from the tail along `prev` meets every node of the
//! list once. A walk from the head along `next` meets them in the other order. No client relies on
//! them: a client that finds them broken resets the list.

use atoll_cache::table::layout::BUCKET_SLOTS;
use atoll_fabric::Address;

/// Most lists of a pool.
pub const LISTS_MAX: u32 = 64;
const LIST_WORDS: u64 = 8;
pub(super) const NODE_WORDS: usize = 4;
/// Words of a list that are read.
pub(super) const LIST_READ_WORDS: usize = 6;
/// The holder's words of a node.
pub(super) const NODE_DATA_WORDS: usize = 3;
const TURN_SHIFT: u32 = 48;
/// Turns are compared modulo this; 0 means no list.
const TURNS: u64 = (1 << (64 - TURN_SHIFT)) - 1;

/// Bytes of the area, given the slots of the index.
pub(super) fn lists_bytes(slots: u64) -> u64 {
    8 * (u64::from(LISTS_MAX) * LIST_WORDS + slots * NODE_WORDS as u64)
}

/// Words of a list, by their numbers.
pub(super) mod list_word {
    pub(in super::super) const HEAD: u64 = 1;
    pub(in super::super) const TAIL: u64 = 2;
    pub(in super::super) const TURN: u64 = 3;
    pub(in super::super) const HAND: u64 = 4;
    pub(in super::super) const SWEEPS: u64 = 5;
}

/// Words of a node, by their numbers.
pub(super) mod node_word {
    pub(in super::super) const PREV: u64 = 0;
    pub(in super::super) const NEXT: u64 = 1;
    pub(in super::super) const MARK: u64 = 2;
    pub(in super::super) const VISITED: u64 = 3;
}

const _: () = assert!(list_word::SWEEPS < LIST_READ_WORDS as u64 && LIST_READ_WORDS as u64 <= LIST_WORDS);
const _: () = assert!(node_word::MARK < NODE_DATA_WORDS as u64 && node_word::VISITED < NODE_WORDS as u64);

/// Addresses of the words, and their bounds.
#[derive(Clone, Debug)]
pub(super) struct Area {
    base: Address,
    lists: u32,
    slots: u64,
}

impl Area {
    pub(super) fn new(base: Address, lists: u32, slots: u64) -> Self {
        assert!((1..=LISTS_MAX).contains(&lists));
        Self { base, lists, slots }
    }

    /// How many lists there are.
    pub(super) fn lists(&self) -> u32 {
        self.lists
    }

    /// Slots of the index.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// The list of a slot.
    pub(super) fn list_of(&self, slot: u64) -> u32 {
        (slot / BUCKET_SLOTS as u64 % u64::from(self.lists)) as u32
    }

    /// The number of a word of a list in the area.
    pub(super) fn list_word(&self, list: u32, word: u64) -> u64 {
        u64::from(list) * LIST_WORDS + word
    }

    /// The number of a word of a node in the area.
    pub(super) fn node_word(&self, slot: u64, word: u64) -> u64 {
        u64::from(LISTS_MAX) * LIST_WORDS + slot * NODE_WORDS as u64 + word
    }

    /// Where a word of the area is.
    pub(super) fn at(&self, word: u64) -> Address {
        self.base.add(8 * word)
    }

    /// The slot that a link of this list names; `Err` if it names no slot of the list.
    pub(super) fn linked(&self, list: u32, link: u64) -> Result<Option<u64>, Broken> {
        match link.checked_sub(1) {
            None => Ok(None),
            Some(slot) if slot < self.slots && self.list_of(slot) == list => Ok(Some(slot)),
            Some(_) => Err(Broken),
        }
    }
}

/// A list breaks its invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// A link to a slot, or to none.
pub(super) fn link(slot: Option<u64>) -> u64 {
    slot.map_or(0, |slot| slot + 1)
}

/// The mark of a node that is linked now, in a list with this turn.
pub(super) fn mark(turn: u64, now_us: u64) -> u64 {
    (turn % TURNS + 1) << TURN_SHIFT | now_us & ((1 << TURN_SHIFT) - 1)
}

/// Whether a node with this mark is in a list with this turn.
pub(super) fn is_linked(mark: u64, turn: u64) -> bool {
    mark >> TURN_SHIFT == turn % TURNS + 1
}

/// When the node with this mark was linked, by the low bits.
pub(super) fn linked_us(mark: u64) -> u64 {
    mark & ((1 << TURN_SHIFT) - 1)
}

const LINE: u64 = 64;
const RINGS: u64 = 2;
const RINGS_NODE_BYTES: u64 = 16;

/// Entries of a ring, given the slots of the index. Either ring has room for every object.
fn entries(slots: u64) -> u64 {
    slots.next_power_of_two()
}

/// Bytes of the area for rings, given the slots of the index.
pub(super) fn rings_bytes(slots: u64) -> u64 {
    2 * RINGS * LINE + slots * RINGS_NODE_BYTES + RINGS * 8 * entries(slots)
}

/// Where the words of rings are, in the replacement's area.
///
/// ```text
/// +--------------------------------------------+------------------------+-----------------------+
/// | small head, small tail, main head,         | nodes, 16 B for a slot | small ring, main ring |
/// | main tail: a line each                     |                        | a word for an entry   |
/// +--------------------------------------------+------------------------+-----------------------+
/// ```
///
/// Heads, tails and entries: atomics only (see `ring`). Nodes: data (see `s3_fifo`).
#[derive(Clone, Debug)]
pub(super) struct RingsArea {
    base: Address,
    slots: u64,
}

/// Where one ring is.
#[derive(Clone, Debug)]
pub(super) struct RingAt {
    head: Address,
    base: Address,
    entries: u64,
}

impl RingAt {
    /// The head.
    pub(super) fn head(&self) -> Address {
        self.head
    }

    /// The tail: the line behind the head.
    pub(super) fn tail(&self) -> Address {
        self.head.add(LINE)
    }

    /// How many entries there are.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// The entry that has a ticket.
    pub(super) fn entry(&self, ticket: u64) -> Address {
        self.base.add(8 * (ticket % self.entries))
    }
}

impl RingsArea {
    pub(super) fn new(base: Address, slots: u64) -> Self {
        Self { base, slots }
    }

    /// Slots of the index.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// The first ring, or the second.
    pub(super) fn ring(&self, number: u64) -> RingAt {
        let entries = entries(self.slots);
        let nodes_end = 2 * RINGS * LINE + self.slots * RINGS_NODE_BYTES;
        let head = self.base.add(2 * number * LINE);
        RingAt { head, base: self.base.add(nodes_end + number * 8 * entries), entries }
    }

    /// The node of a slot.
    pub(super) fn node(&self, slot: u64) -> Address {
        self.base.add(2 * RINGS * LINE + slot * RINGS_NODE_BYTES)
    }
}
