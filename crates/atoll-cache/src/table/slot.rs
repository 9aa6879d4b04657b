//! The slot word: one entry of the index, changed by compare-and-swap alone.
//!
//! ```text
//! 63 62 61      56 55       48 47   46 45       32 31                                      0
//! +-+-+-----------+-----------+-------+-----------+-----------------------------------------+
//! |p|d| class 6   | finger-  8| copies| tag 14    | block: heap offset in units of 64 bytes |
//! | | |           | print     |   2   |           |                                         |
//! +-+-+-----------+-----------+-------+-----------+-----------------------------------------+
//!  p = 1: pending, an insertion that is not decided yet; no lookup sees it
//!  d = 1: dead, a block that holds no object and waits for its next use; in any bucket
//!  copies: whether other processes may have copies of the object (see `index::copies`)
//!
//! 63             56 55       48 47        40 39                28 27                  0
//! +----------------+-----------+------------+--------------------+---------------------+
//! | 0              | finger-   | more of    | experts 12: which  | history id 28       |
//! |                | print     | the hash 8 | chose the victim   |                     |
//! +----------------+-----------+------------+--------------------+---------------------+
//!  a history entry of an evicted key; free to take
//! ```
//!
//! The empty word is 0. Every block of the pool is named by exactly one slot, unless one client
//! holds the block (see `stock`) or its chunk.
//!
//! The paper's history entry keeps the experts in a word of their own, which is written late. Ours
//! has them in the word that is swapped. So no client reads them before they are written.

use super::class::Class;
use crate::index::{bucket_of, fingerprint_of, slot_word};

/// Granularity of blocks.
pub const UNIT_BYTES: u64 = 64;
/// Largest heap that a slot can point into: 256 GiB.
pub const HEAP_BYTES_MAX: u64 = UNIT_BYTES << 32;
/// Most experts of a history entry.
pub const EXPERTS_MAX: usize = 12;
/// The modulus of history ids.
pub const HISTORY_IDS: u64 = 1 << ID_BITS;

const PENDING: u64 = 1 << 63;
const DEAD: u64 = 1 << 62;
const CLASS_SHIFT: u32 = 56;
const CLASS_MASK: u64 = 63;
const FINGERPRINT_SHIFT: u32 = 48;
const TAG_SHIFT: u32 = 32;
/// Bits of a tag.
pub const TAG_BITS: u32 = 14;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const SHARING_SHIFT: u32 = TAG_SHIFT + TAG_BITS;
const MORE_SHIFT: u32 = 40;
const EXPERTS_SHIFT: u32 = 28;
const ID_BITS: u32 = 28;
/// The class code of a record whose key and value are in chunks of their own.
const LARGE_CODE: u64 = 63;

/// A block: its heap offset in units of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(pub u32);

impl Block {
    /// The block at this heap offset, a multiple of [`UNIT_BYTES`] below [`HEAP_BYTES_MAX`].
    pub fn at(heap_offset: u64) -> Self {
        Self((heap_offset / UNIT_BYTES) as u32)
    }

    /// Bytes from the heap's start.
    #[inline]
    pub fn heap_offset(self) -> u64 {
        u64::from(self.0) * UNIT_BYTES
    }
}

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A whole object.
    Small,
    /// The record of an object whose key and value are in chunks of their own. The block is of the
    /// class for such records.
    Large,
}

/// A slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u64);

impl Slot {
    /// The empty slot.
    pub const EMPTY: Self = Self(0);

    /// The empty word in place of this one.
    pub fn emptied(self) -> Self {
        Self::EMPTY
    }

    /// A live word.
    #[inline]
    pub fn live(fingerprint: u8, class: Class, content: Content, block: Block, tag: u16) -> Self {
        let code = if content == Content::Large { LARGE_CODE } else { u64::from(class.code()) };
        Self(
            code << CLASS_SHIFT
                | u64::from(fingerprint) << FINGERPRINT_SHIFT
                | (u64::from(tag) & TAG_MASK) << TAG_SHIFT
                | u64::from(block.0),
        )
    }

    /// A dead block.
    pub fn dead(class: Class, block: Block, tag: u16) -> Self {
        Self(Self::live(0, class, Content::Small, block, tag).0 | DEAD)
    }

    /// The word that names the same block as dead. `large_class` is the class of large objects'
    /// records.
    pub fn buried(self, large_class: Class) -> Self {
        Self::dead(self.class(large_class), self.block(), self.tag())
    }

    /// The history entry of an evicted key. `experts` has bit `i` set if expert `i` chose it;
    /// without experts bit 0 is set.
    pub fn history(hash: KeyHash, experts: u16, id: u64) -> Self {
        let experts = u64::from(experts) & 0xfff;
        Self(
            u64::from(hash.fingerprint) << FINGERPRINT_SHIFT
                | u64::from(hash.mark & 0xff) << MORE_SHIFT
                | experts.max(1) << EXPERTS_SHIFT
                | (id % HISTORY_IDS),
        )
    }

    /// Whether an insertion may take it without taking a block.
    #[inline]
    pub fn is_free(self) -> bool {
        self.0 >> CLASS_SHIFT == 0
    }

    /// Whether a lookup sees it.
    #[inline]
    pub fn is_live(self) -> bool {
        self.0 & (PENDING | DEAD) == 0 && !self.is_free()
    }

    /// Whether it holds a dead block.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// Whether an insertion is being decided here.
    #[inline]
    pub fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// The word in state pending.
    pub fn pending(self) -> Self {
        Self(self.0 | PENDING)
    }

    /// Whether a live or pending word may be of a key with this fingerprint.
    #[inline]
    pub fn may_be(self, fingerprint: u8) -> bool {
        (self.0 >> FINGERPRINT_SHIFT) as u8 == fingerprint && !self.is_free() && !self.is_dead()
    }

    /// The fingerprint.
    pub fn fingerprint(self) -> u8 {
        (self.0 >> FINGERPRINT_SHIFT) as u8
    }

    /// The class of the block; `None` if the word is damaged.
    #[inline]
    pub fn checked_class(self, large_class: Class) -> Option<Class> {
        match self.0 >> CLASS_SHIFT & CLASS_MASK {
            LARGE_CODE => Some(large_class),
            code => Class::from_code(code as u8),
        }
    }

    /// The class of the block of a word that was checked before.
    pub fn class(self, large_class: Class) -> Class {
        self.checked_class(large_class).unwrap_or(large_class)
    }

    /// Whether key and value are in chunks of their own.
    #[inline]
    pub fn is_large(self) -> bool {
        self.0 >> CLASS_SHIFT & CLASS_MASK == LARGE_CODE
    }

    /// The block of a live, pending or dead word.
    #[inline]
    pub fn block(self) -> Block {
        Block(self.0 as u32)
    }

    /// Whether it names the block.
    pub fn names(self, block: Block) -> bool {
        !self.is_free() && self.block() == block
    }

    /// How often the block had been written when this word was written, its low [`TAG_BITS`].
    #[inline]
    pub fn tag(self) -> u16 {
        (self.0 >> TAG_SHIFT & TAG_MASK) as u16
    }

    /// The experts and the id of a history entry of this key.
    #[inline]
    pub fn history_of(self, hash: KeyHash) -> Option<(u16, u64)> {
        let (experts, id) = self.any_history()?;
        (Self::history(hash, experts, id) == self).then_some((experts, id))
    }

    /// The experts and the id of a history entry of any key.
    pub fn any_history(self) -> Option<(u16, u64)> {
        let experts = (self.0 >> EXPERTS_SHIFT) as u16 & 0xfff;
        (self.is_free() && experts != 0).then_some((experts, self.0 & (HISTORY_IDS - 1)))
    }
}

slot_word!(Slot, sharing at SHARING_SHIFT);

/// The parts of a key's hash that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    /// The bucket where the key is, if it is anywhere.
    pub bucket: u32,
    /// Eight bits, in the slot word.
    pub fingerprint: u8,
    /// Sixteen other bits. Access information is marked with them, and a history entry has eight of
    /// them.
    pub mark: u16,
    /// The whole hash; 0 where only the parts above are known.
    pub whole: u64,
}

impl KeyHash {
    /// The parts of `hash` in an index of `buckets` buckets.
    #[inline]
    pub fn new(hash: u64, buckets: u32) -> Self {
        Self {
            bucket: bucket_of(hash, buckets),
            fingerprint: fingerprint_of(hash),
            mark: (hash >> 32) as u16,
            whole: hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_packing_at_their_edges() {
        let class = Class::of(100).unwrap();
        let large = Class::of(176).unwrap();
        for (block, tag) in [(Block(0), 0), (Block(u32::MAX), TAG_MASK as u16)] {
            let live = Slot::live(0xff, class, Content::Small, block, tag);
            assert!(live.is_live() && !live.pending().is_live() && live.pending().is_pending() && !live.is_free());
            assert_eq!((live.block(), live.tag(), live.class(large), live.is_large()), (block, tag, class, false));
            let dead = live.buried(large);
            assert!(dead.is_dead() && !dead.is_live() && !dead.is_free() && !dead.may_be(0));
            assert_eq!((dead.block(), dead.tag(), dead.class(large)), (block, tag, class));
            let listed = Slot::live(1, large, Content::Large, block, tag);
            assert_eq!(
                (listed.is_large(), listed.class(large), listed.buried(large).class(large)),
                (true, large, large)
            );
        }
    }

    #[test]
    fn a_history_entry_is_free_and_known_by_its_key_alone() {
        let (hash, other) = (KeyHash::new(0x1234_5678_9abc_def0, 100), KeyHash::new(0x1234_5679_9abc_def0, 100));
        let entry = Slot::history(hash, 0xfff, HISTORY_IDS + 7);
        assert!(entry.is_free() && !entry.is_live() && !entry.may_be(hash.fingerprint) && !entry.names(Block(7)));
        assert_eq!((entry.history_of(hash), entry.history_of(other)), (Some((0xfff, 7)), None));
        assert_eq!(Slot::history(hash, 0, 0).any_history(), Some((1, 0)));
        assert_eq!(Slot::EMPTY.any_history(), None);
    }
}
