//! The slot word: one entry of the index, changed by compare-and-swap alone.
//!
//! ```text
//! 63 62      56 55       48 47 46   44 43     42 41                  pointer_bits           0
//! +-+----------+-----------+--+-------+---------+--------------------+----------------------+
//! |p| length 7 | finger- 8 |f | depth | copies  | tag: low bits of   | pointer: heap offset |
//! | | code     | print     |  |   3   |    2    | chunk's generation | in units of 16 bytes |
//! +-+----------+-----------+--+-------+---------+--------------------+----------------------+
//!  p = 1: pending, an insertion that is not decided yet; no lookup sees it
//!  f = 1: frozen, while the bucket is split (see `index::split`)
//!  depth: how often the bucket has been split, or its parent before its birth
//!  copies: whether other processes may have copies of the object (see `index::copies`)
//!
//! 63       56 55       48 47 46   44 43 39  38 33 32                                        0
//! +-+--------+-----------+--+-------+-----+------+------------------------------------------+
//! |0| 0      | finger-   |f | depth |  0  | more | when: position of the small queue's head |
//! | |        | print     |  |       |     |  6   | at eviction, low 32 bits, plus bit 32 set|
//! +-+--------+-----------+--+-------+-----+------+------------------------------------------+
//!  a ghost: a key evicted from the small queue; free to take
//! ```
//!
//! The empty word is 0 but for its depth. A pool of up to 64 GiB has 32 pointer bits and 10 tag
//! bits, a pool of up to 16 TiB has two tag bits or more. In a pool beyond 32 TiB there is none,
//! and 64 TiB is the most.
//!
//! ```text
//! a tag:  | edition | low bits of the chunk's generation |
//! ```
//!
//! The **edition** counts the records that a place has had in a life of its chunk: see
//! `vacancies`. It has three bits in a pool of up to 4 GiB, one in a pool of up to 64 GiB, and
//! none beyond.
//!
//! The paper's slot has a second word with group and number. Ours keeps both in the object's
//! header, which a hit reads anyway. So there is no second word to be late.

use crate::index::split::SplitWord;
use crate::index::{bucket_of, fingerprint_of, slot_word, split_of};
use crate::record::LARGE_RECORD_BYTES;

/// Largest heap that a slot can point into: 64 TiB.
pub const HEAP_BYTES_MAX: u64 = UNIT_BYTES << POINTER_AND_TAG_BITS;
/// Granularity of records in a chunk.
pub const UNIT_BYTES: u64 = 16;
const PENDING: u64 = 1 << 63;
const LENGTH_SHIFT: u32 = 56;
const FINGERPRINT_SHIFT: u32 = 48;
const FROZEN: u64 = 1 << 47;
const DEPTH_SHIFT: u32 = 44;
const DEPTH: u64 = 7 << DEPTH_SHIFT;
const SHARING_SHIFT: u32 = DEPTH_SHIFT - 2;
const POINTER_AND_TAG_BITS: u32 = SHARING_SHIFT;
const GHOST: u64 = 1 << 32;
/// The generation has at least so many bits of a tag, if the tag has as many.
const GENERATION_BITS_LEAST: u32 = 8;
/// The edition has at most so many.
const EDITION_BITS_MAX: u32 = 3;
/// The bits of [`KeyHash::more`] that a ghost has. With bucket and fingerprint, one insertion in
/// some thousand finds another key's ghost.
pub const GHOST_MORE_MAX: u16 = 0x3f;
/// The length code of a record whose key and value are in chunks of their own.
const LARGE_CODE: u64 = 127;
/// Codes up to this count units; above it there are eight codes to a doubling.
const CODE_LINEAR_MAX: u64 = 64;

/// How a pool's slot words divide 42 bits between pointer and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotFormat {
    pointer_bits: u32,
    tag_mask: u64,
    generation_bits: u32,
}

impl SlotFormat {
    /// The format for a heap of so many bytes.
    pub fn new(heap_bytes: u64) -> Self {
        let units = heap_bytes.div_ceil(UNIT_BYTES).max(2);
        let pointer_bits = 64 - (units - 1).leading_zeros();
        let tag_bits = (POINTER_AND_TAG_BITS - pointer_bits).min(16);
        let edition_bits = (tag_bits.saturating_sub(GENERATION_BITS_LEAST) / 2).min(EDITION_BITS_MAX);
        Self { pointer_bits, tag_mask: (1 << tag_bits) - 1, generation_bits: tag_bits - edition_bits }
    }

    /// A live word of depth 0.
    #[inline]
    pub fn live(&self, fingerprint: u8, length: RecordLength, heap_offset: u64, tag: u16) -> Slot {
        let tag = u64::from(tag) & self.tag_mask;
        let pointer = heap_offset / UNIT_BYTES;
        Slot(
            length.0 << LENGTH_SHIFT | u64::from(fingerprint) << FINGERPRINT_SHIFT | tag << self.pointer_bits | pointer,
        )
    }

    /// Bytes from the heap's start to the record.
    #[inline]
    pub fn heap_offset(&self, slot: Slot) -> u64 {
        (slot.0 & ((1 << self.pointer_bits) - 1)) * UNIT_BYTES
    }

    /// The tag of the first record of a place in a chunk of this generation.
    #[inline]
    pub fn tag(&self, generation: u32) -> u16 {
        (u64::from(generation) & self.generation_mask()) as u16
    }

    #[inline]
    fn generation_mask(&self) -> u64 {
        (1 << self.generation_bits) - 1
    }

    /// How many values the generation has in a tag.
    pub fn generations(&self) -> u64 {
        1 << self.generation_bits
    }

    /// The tag of the next record of a place whose record has this tag, if the place may have
    /// another one.
    #[inline]
    pub fn next_edition(&self, tag: u16) -> Option<u16> {
        let next = u64::from(tag) + self.generations();
        (next <= self.tag_mask).then_some(next as u16)
    }

    /// Whether a place may have several records in one life of its chunk.
    #[inline]
    pub fn has_editions(&self) -> bool {
        self.tag_mask >= self.generations()
    }

    /// Which of the records of its place has this tag, from 0 up.
    #[inline]
    pub fn edition(&self, tag: u16) -> u16 {
        ((u64::from(tag) & self.tag_mask) >> self.generation_bits) as u16
    }

    /// The tags of all records that a place may have in a chunk of this generation.
    pub fn editions(&self, generation: u32) -> impl Iterator<Item = u16> + use<> {
        let format = *self;
        std::iter::successors(Some(self.tag(generation)), move |tag| format.next_edition(*tag))
    }

    /// Whether a tag is of a chunk of this generation.
    #[inline]
    pub fn is_of_generation(&self, tag: u16, generation: u32) -> bool {
        (u64::from(tag) ^ u64::from(generation)) & self.generation_mask() == 0
    }

    /// The tag of a word.
    #[inline]
    pub fn tag_of(&self, slot: Slot) -> u16 {
        (slot.0 >> self.pointer_bits & self.tag_mask) as u16
    }

    /// Whether the word was written when the record's chunk had this generation, as far as the tag
    /// shows.
    #[inline]
    pub fn has_generation(&self, slot: Slot, generation: u32) -> bool {
        self.is_of_generation(self.tag_of(slot), generation)
    }
}

/// A record's length as a slot word has it: never less than the record, at most an eighth more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLength(u64);

impl RecordLength {
    /// The record of a large object.
    pub const LARGE: Self = Self(LARGE_CODE);

    /// The code for a record of `bytes`, at least 1 and at most 128 KiB.
    pub fn of(bytes: u64) -> Self {
        let units = bytes.div_ceil(UNIT_BYTES).max(1);
        if units <= CODE_LINEAR_MAX {
            return Self(units);
        }
        // units lies in (2^octave, 2^(octave + 1)]; each octave has eight steps.
        let octave = 63 - (units - 1).leading_zeros() as u64;
        let step = 1u64 << (octave - 3);
        let steps = (units - (1 << octave)).div_ceil(step);
        let code = CODE_LINEAR_MAX + (octave - 6) * 8 + steps;
        assert!(code < LARGE_CODE, "a record in a group is shorter than that");
        Self(code)
    }

    /// Bytes to READ.
    pub fn bytes(self) -> u64 {
        match self.0 {
            LARGE_CODE => LARGE_RECORD_BYTES,
            code if code <= CODE_LINEAR_MAX => code * UNIT_BYTES,
            code => {
                let (octave, steps) = ((code - CODE_LINEAR_MAX - 1) / 8 + 6, (code - CODE_LINEAR_MAX - 1) % 8 + 1);
                ((1 << octave) + (steps << (octave - 3))) * UNIT_BYTES
            }
        }
    }
}

/// A slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u64);

impl Slot {
    /// The empty slot.
    pub const EMPTY: Self = Self(0);

    /// A ghost of a key with this hash, evicted when the small queue's head was at `position`.
    pub fn ghost(hash: KeyHash, position: u32) -> Self {
        let more = u64::from(hash.more & GHOST_MORE_MAX);
        Self(u64::from(hash.fingerprint) << FINGERPRINT_SHIFT | more << 33 | GHOST | u64::from(position))
    }

    /// The empty word in place of this one.
    #[inline]
    pub fn emptied(self) -> Self {
        Self(self.0 & DEPTH)
    }

    /// This word, of depth 0, at the depth of the word that it replaces.
    #[inline]
    pub fn in_place_of(self, before: Self) -> Self {
        Self(self.0 | before.0 & DEPTH)
    }

    /// How often its bucket has been split.
    #[inline]
    pub fn depth(self) -> u32 {
        ((self.0 & DEPTH) >> DEPTH_SHIFT) as u32
    }

    /// Whether its bucket is being split, so that no client may replace it.
    #[inline]
    pub fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// Whether an insertion may take it.
    #[inline]
    pub fn is_free(self) -> bool {
        self.0 >> LENGTH_SHIFT == 0
    }

    /// Whether a lookup sees it.
    #[inline]
    pub fn is_live(self) -> bool {
        !self.is_free() && !self.is_pending()
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

    /// The word, decided.
    pub fn decided(self) -> Self {
        Self(self.0 & !PENDING)
    }

    /// Whether a live or pending word may be of a key with this fingerprint.
    #[inline]
    pub fn may_be(self, fingerprint: u8) -> bool {
        (self.0 >> FINGERPRINT_SHIFT) as u8 == fingerprint && !self.is_free()
    }

    /// Whether a live word that is not frozen may be of a key with this fingerprint.
    #[inline]
    pub fn is_live_of(self, fingerprint: u8) -> bool {
        let differing = self.0 ^ u64::from(fingerprint) << FINGERPRINT_SHIFT;
        (differing & (PENDING | FROZEN | 0xff << FINGERPRINT_SHIFT) == 0) & !self.is_free()
    }

    /// The fingerprint.
    #[inline]
    pub fn fingerprint(self) -> u8 {
        (self.0 >> FINGERPRINT_SHIFT) as u8
    }

    /// The record's length.
    #[inline]
    pub fn length(self) -> RecordLength {
        RecordLength(self.0 >> LENGTH_SHIFT & 127)
    }

    /// Whether key and value are in chunks of their own.
    pub fn is_large(self) -> bool {
        self.length() == RecordLength::LARGE
    }

    /// The position at which a ghost of this key was evicted, if that is what the word is.
    pub fn ghost_position(self, hash: KeyHash) -> Option<u32> {
        let same = Self::ghost(hash, self.0 as u32).0 == self.0 & !(FROZEN | DEPTH);
        same.then_some(self.0 as u32)
    }

    /// The position at which a ghost of any key was evicted.
    pub fn any_ghost_position(self) -> Option<u32> {
        (self.is_free() && self.0 & GHOST != 0).then_some(self.0 as u32)
    }
}

slot_word!(Slot, sharing at SHARING_SHIFT);

impl SplitWord for Slot {
    #[inline]
    fn settled(depth: u32) -> u64 {
        u64::from(depth) << DEPTH_SHIFT
    }

    const STATE: u64 = FROZEN | DEPTH;

    fn depth(self) -> u32 {
        Self::depth(self)
    }

    fn is_frozen(self) -> bool {
        Self::is_frozen(self)
    }

    fn frozen(self) -> Self {
        match self.is_pending() {
            true => Self(self.0 & DEPTH | FROZEN),
            false => Self(self.0 | FROZEN),
        }
    }

    fn moved_to(self, depth: u32) -> Self {
        Self(self.0 & !(FROZEN | DEPTH) | u64::from(depth) << DEPTH_SHIFT)
    }
}

/// The parts of a key's hash that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    /// The bucket where the key is while the index has its first size.
    pub bucket: u32,
    /// The bits that choose among the buckets that this one is split into.
    pub split: u8,
    /// Eight bits, in the slot word.
    pub fingerprint: u8,
    /// Fifteen bits. Ghosts have the low six of them.
    pub more: u16,
}

impl KeyHash {
    /// The parts that a word and an entry of a map have. They name no bucket.
    pub(super) fn of_parts(fingerprint: u8, more: u16) -> Self {
        Self { bucket: 0, split: 0, fingerprint, more }
    }

    /// All parts in one word. Keys with different words are different; keys with the same word
    /// rarely are.
    pub fn identity(self) -> u64 {
        u64::from(self.bucket) << 24 | u64::from(self.more) << 8 | u64::from(self.fingerprint)
    }

    /// The parts of `hash` in an index of `buckets` buckets.
    #[inline]
    pub fn new(hash: u64, buckets: u32) -> Self {
        let (bucket, split) = (bucket_of(hash, buckets), split_of(hash));
        Self { bucket, split, fingerprint: fingerprint_of(hash), more: (hash >> 32) as u16 & 0x7fff }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::SlotWord;
    use crate::index::copies::Sharing;

    #[test]
    fn a_length_code_never_cuts_a_record_and_wastes_at_most_an_eighth() {
        for bytes in 1..=(64 << 10) {
            let read = RecordLength::of(bytes).bytes();
            assert!(read >= bytes && read <= bytes.next_multiple_of(16) * 9 / 8 + 16, "{bytes} {read}");
            assert_ne!(RecordLength::of(bytes), RecordLength::LARGE);
        }
    }

    #[test]
    fn fields_survive_packing_at_their_edges() {
        for heap_bytes in [1 << 12, 1 << 30, 1 << 36, 1 << 42, 1 << 46] {
            let format = SlotFormat::new(heap_bytes);
            let slot = format.live(0xff, RecordLength::of(300), heap_bytes - 16, format.tag(0xffff_fff7));
            assert_eq!(format.heap_offset(slot), heap_bytes - 16);
            assert!(format.has_generation(slot, 0xffff_fff7));
            assert!(heap_bytes == 1 << 46 || !format.has_generation(slot, 0xffff_fff6));
            let deep = SplitWord::moved_to(slot, 7);
            assert!(deep.is_live_of(0xff) && !deep.is_live_of(0xfe));
            assert!(!SplitWord::frozen(deep).is_live_of(0xff) && !deep.pending().is_live_of(0xff));
            assert_eq!((deep.depth(), SplitWord::moved_to(SplitWord::frozen(deep), 0)), (7, slot));
            for sharing in [Sharing::None, Sharing::Copied, Sharing::Closed] {
                let shared = deep.shared_as(sharing);
                assert_eq!((shared.sharing(), shared.shared_as(Sharing::None)), (sharing, deep));
                assert_eq!(SplitWord::frozen(shared).sharing(), sharing, "a split keeps it");
                assert_eq!((format.heap_offset(shared), shared.emptied()), (heap_bytes - 16, deep.emptied()));
                assert!(format.has_generation(shared, 0xffff_fff7) && shared.is_live_of(0xff));
            }
            assert!(slot.is_live() && !slot.pending().is_live() && slot.pending().decided() == slot);
            assert_eq!(slot.length().bytes(), 304);
        }
    }

    #[test]
    fn a_ghost_is_free_and_known_by_its_key_alone() {
        let (hash, other) = (KeyHash::new(0x1234_5678_9abc_def0, 100), KeyHash::new(0x1234_5679_9abc_def0, 100));
        let ghost = Slot::ghost(hash, u32::MAX);
        assert!(ghost.is_free() && !ghost.is_live() && !ghost.may_be(hash.fingerprint));
        assert_eq!((ghost.ghost_position(hash), ghost.ghost_position(other)), (Some(u32::MAX), None));
    }
}
