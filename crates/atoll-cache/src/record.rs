//! A record: an object as it lies in a chunk.
//!
//! ```text
//! word 0   from bit 0 up: checksum of the rest of the record 40 | number in the group 12
//!          | key length, low 8 | form 2 | main queue 1 | blind 1
//! word 1   token: a number that no other write has 48 | value length, low 15 | 0 1
//! word 2   expiry, ms since 1970 48 | the chunk's generation, low 16       from form 1 on
//! word 3   key length, high 9 | value length, high 15 | kind 8 | flags 32   from form 2 on
//! then     the key, then the value, without a gap                    a small object
//! word 4   checksum of the body          word 5  hash of the key     form 3: a large object
//! word 6.. sixteen extents, each: chunk 32 | the chunk's generation 32
//!          they are the object's, or of chunks full of such words if the object has more
//! ```
//!
//! | form | bytes in front of the key | used for |
//! |---|---|---|
//! | 0 brief | 16 | a small object that never expires, with a key of at most 255 bytes |
//! | 1 dated | 24 | a small object that expires; every small object on the table of objects |
//! | 2 long | 32 | a small object with a longer key, or with attributes |
//! | 3 large | | a large object |
//!
//! A brief record does not hold the chunk's generation. Its checksum covers the generation, and a
//! reader knows from the slot's tag which one it must be.
//!
//! A client writes a record once, before any slot points to it, and never changes it. A new value
//! or a new expiry is a new record. A READ that the chunk's reuse tears fails the checksum. A READ
//! that finds a later record of the same key at the same place fails the generation. With the
//! slot's tag this is the paper's version match, done with one READ.
//!
//! Records are decoded from remote bytes: [`Record::decode`] is the only checked constructor.

use crate::{Attributes, Meta, Value};
use atoll_fabric::Buffer;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// Bytes in front of the key of a brief record: the shortest header.
pub const HEADER_BYTES: usize = 16;
/// Bytes in front of the key, by the record's form. A large record has its key in extents.
const KEY_AT: [usize; 4] = [HEADER_BYTES, 24, 32, LARGE_END];
/// What a typical object has besides key and value: its header, and its entry in the map of a group
/// or what its class rounds up.
pub const OVERHEAD_BYTES: u32 = 24;
/// Extents listed in a large object's record.
pub const LARGE_EXTENTS: usize = 16;
/// Bytes of a large object's record.
pub const LARGE_RECORD_BYTES: u64 = LARGE_END.next_multiple_of(16) as u64;
const LARGE_END: usize = 48 + 8 * LARGE_EXTENTS;
/// Bytes of a large object's value that are hashed at a time; the last piece may be shorter. So few
/// are still in the processor's first cache when they are hashed after their copy.
pub(crate) const PIECE_BYTES: usize = 4 << 10;
const EXPIRY_MAX: u64 = (1 << 48) - 1;
/// Tokens have so many bits in a record. A pool that writes a million objects a second gives the
/// same token again after nine years.
const TOKEN_MASK: u64 = (1 << 48) - 1;
const CHECKSUM_MASK: u64 = (1 << 40) - 1;
const BRIEF_KEY_BYTES_MAX: usize = 255;
/// Lengths have their low bits in the first two words, and the others in the fourth.
const KEY_LOW_BITS: u32 = 8;
const VALUE_LOW_BITS: u32 = 15;
const VALUE_LOW_MASK: usize = (1 << VALUE_LOW_BITS) - 1;
const KEY_HIGH_BITS: u32 = 9;
const KEY_HIGH_MASK: usize = (1 << KEY_HIGH_BITS) - 1;
const KIND_SHIFT: u32 = KEY_HIGH_BITS + VALUE_LOW_BITS;
const FLAGS_SHIFT: u32 = KIND_SHIFT + 8;
const MAIN: u64 = 1 << 62;
const BLIND: u64 = 1 << 63;

/// The form of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Form {
    Brief = 0,
    Dated = 1,
    Long = 2,
    Large = 3,
}

/// The pool's seeded hash, for keys and for checksums.
#[derive(Clone, Copy, Debug)]
pub struct Hasher(RapidSecrets);

impl Hasher {
    /// The hash of the pool with this seed.
    pub fn new(seed: u64) -> Self {
        Self(RapidSecrets::seed(seed))
    }

    /// The hash of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, false, false>(bytes, &self.0)
    }

    /// The checksum of a large object's body: of its key, by the key's hash, and of its value. The
    /// value is hashed in pieces, so that a copy and the hash take turns.
    pub(crate) fn body_checksum(&self, key_hash: u64, value: &[u8]) -> u64 {
        value.chunks(PIECE_BYTES).fold(key_hash, |sum, piece| self.with_piece(sum, piece))
    }

    /// The checksum so far, continued with the value's next piece.
    pub(crate) fn with_piece(&self, sum: u64, piece: &[u8]) -> u64 {
        // Both steps are one to one, so that the order of the pieces matters and none is lost.
        (sum.rotate_left(29) ^ self.hash(piece)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The checksum of a record: of its first word, of the bytes behind that, and of a generation
    /// that only the checksum has.
    #[inline]
    fn checksum(&self, first: u64, rest: &[u8], generation: u16) -> u64 {
        let first = first & !CHECKSUM_MASK | u64::from(generation);
        // Both multipliers are odd, so that every bit of the word reaches the upper bits.
        let mixed = (self.hash(rest) ^ first.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed >> 24
    }
}

/// A record's fields besides key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the key.
    pub key_bytes: usize,
    /// Length of the value.
    pub value_bytes: usize,
    /// The object's number in its group, below 4096.
    pub number: u16,
    /// Whether the group was made for the main queue.
    pub main: bool,
    /// Whether key and value are in extents.
    pub large: bool,
    /// Whether a [blind](crate::Change::is_blind) change put its value.
    pub blind: bool,
    /// When it expires; `None` for never.
    pub expiry_ms: Option<u64>,
    /// Whether the record holds its generation, also if it could be brief.
    pub tagged: bool,
    /// Low bits of the chunk's generation.
    pub generation: u16,
    /// A number that no other write has.
    pub token: u64,
    /// What was said of the value.
    pub attributes: Attributes,
}

impl Meta {
    /// The metadata in a record's header.
    #[inline]
    pub(crate) fn of(header: &Header) -> Self {
        let Header { expiry_ms, token, value_bytes, attributes, .. } = *header;
        Self { expiry_ms, token, value_bytes, attributes }
    }
}

impl Header {
    /// The header of a new object that has no place yet.
    #[inline]
    pub(crate) fn of_new(
        key_bytes: usize,
        value_bytes: usize,
        blind: bool,
        (expiry_ms, attributes): (Option<u64>, Attributes),
        token: u64,
    ) -> Self {
        let (number, generation, main, large, tagged) = (0, 0, false, false, false);
        Self { key_bytes, value_bytes, number, main, large, blind, expiry_ms, tagged, generation, token: 0, attributes }
            .with_token(token)
    }

    /// The same header with the token of a write.
    #[inline]
    pub(crate) fn with_token(self, token: u64) -> Self {
        Self { token: (token & TOKEN_MASK).max(1), ..self }
    }

    /// Whether key or attributes have no room in the shorter forms.
    #[inline]
    fn is_long(&self) -> bool {
        self.key_bytes > BRIEF_KEY_BYTES_MAX || self.attributes != Attributes::NONE
    }

    /// The form of its record.
    #[inline]
    fn form(&self) -> Form {
        match () {
            () if self.large => Form::Large,
            () if self.is_long() => Form::Long,
            () if self.tagged || self.expiry_ms.is_some() => Form::Dated,
            () => Form::Brief,
        }
    }

    /// The bits by which its record says which form it has.
    #[inline]
    pub fn form_bits(&self) -> u64 {
        self.form() as u64
    }

    /// Where the key begins in a small object's record.
    #[inline]
    pub fn key_at(&self) -> usize {
        KEY_AT[self.form() as usize]
    }

    /// Where the value begins in a small object's record.
    #[inline]
    pub fn value_at(&self) -> usize {
        self.key_at() + self.key_bytes
    }

    /// Where the record ends, before it is rounded up to units.
    #[inline]
    fn end(&self) -> usize {
        if self.large { LARGE_END } else { self.value_at() + self.value_bytes }
    }

    /// The generation that only the checksum has: a brief record's.
    #[inline]
    fn sealed_generation(&self) -> u16 {
        if self.form() == Form::Brief { self.generation } else { 0 }
    }

    /// Copies the value out of a small object's record.
    pub(crate) fn copy_value(&self, record: &Buffer, into: &mut Value) {
        assert!(!self.large, "a large object's value is in its extents");
        into.assign(&record.bytes()[self.value_at()..self.end()], Meta::of(self));
    }

    /// Puts the header's words in front of a record, with a checksum of zero.
    #[inline]
    fn put(&self, words: &mut [u64]) {
        let form = self.form();
        words[0] = u64::from(self.number & 0xfff) << 40
            | (self.key_bytes as u64 & 0xff) << 52
            | (form as u64) << 60
            | if self.main { MAIN } else { 0 }
            | if self.blind { BLIND } else { 0 };
        words[1] = self.token & TOKEN_MASK | ((self.value_bytes & VALUE_LOW_MASK) as u64) << 48;
        if form != Form::Brief {
            let expiry_ms = self.expiry_ms.map_or(0, |ms| ms.clamp(1, EXPIRY_MAX));
            words[2] = expiry_ms | u64::from(self.generation) << 48;
        }
        if matches!(form, Form::Long | Form::Large) {
            let Attributes { kind, flags } = self.attributes;
            words[3] = (self.key_bytes as u64) >> KEY_LOW_BITS
                | (self.value_bytes as u64) >> VALUE_LOW_BITS << KEY_HIGH_BITS
                | u64::from(kind) << KIND_SHIFT
                | u64::from(flags) << FLAGS_SHIFT;
        }
    }

    /// The header that the words have, unchecked. A brief record's generation is the given one.
    #[inline]
    fn from_words(words: &[u64], generation: u16) -> Self {
        let word = |nth: usize| words.get(nth).copied().unwrap_or(0);
        let (first, form) = (word(0), word(0) >> 60 & 3);
        let mut header = Self {
            key_bytes: (first >> 52) as usize & 0xff,
            value_bytes: (word(1) >> 48) as usize & VALUE_LOW_MASK,
            number: (first >> 40) as u16 & 0xfff,
            main: first & MAIN != 0,
            large: form == Form::Large as u64,
            blind: first & BLIND != 0,
            expiry_ms: None,
            tagged: false,
            generation,
            token: word(1) & TOKEN_MASK,
            attributes: Attributes::NONE,
        };
        if form != Form::Brief as u64 {
            let expiry_ms = word(2) & EXPIRY_MAX;
            header.expiry_ms = (expiry_ms != 0).then_some(expiry_ms);
            header.tagged = true;
            header.generation = (word(2) >> 48) as u16;
        }
        if form >= Form::Long as u64 {
            let high = word(3) as usize;
            header.key_bytes |= (high & KEY_HIGH_MASK) << KEY_LOW_BITS;
            header.value_bytes |= (high >> KEY_HIGH_BITS & VALUE_LOW_MASK) << VALUE_LOW_BITS;
            header.attributes =
                Attributes { kind: (word(3) >> KIND_SHIFT) as u8, flags: (word(3) >> FLAGS_SHIFT) as u32 };
        }
        header
    }

    /// Whether the object has expired.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }

    /// Bytes of the record of an object with such a key and value, rounded up to units.
    pub fn record_bytes(&self) -> u64 {
        (self.end() as u64).next_multiple_of(16)
    }

    /// Bytes of a small object's record with this key, value and attributes, rounded up to units,
    /// if it holds its generation.
    pub(crate) fn small_record_bytes(&self) -> u64 {
        Self { large: false, tagged: true, ..*self }.record_bytes()
    }

    /// Bytes of the object's record and, if it is large, of its key and value in extents.
    pub fn held_bytes(&self) -> u64 {
        self.record_bytes() + if self.large { self.body_bytes() as u64 } else { 0 }
    }

    /// Length of key and value together.
    pub fn body_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }
}

/// Bytes of a small object's record without attributes, rounded up to units, if it holds its
/// generation.
pub fn small_record_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    let form = if key_bytes > BRIEF_KEY_BYTES_MAX { Form::Long } else { Form::Dated };
    ((KEY_AT[form as usize] + key_bytes + value_bytes) as u64).next_multiple_of(16)
}

/// Bytes of the record of a small object that never expires, whose key is short.
pub fn brief_record_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    ((KEY_AT[Form::Brief as usize] + key_bytes + value_bytes) as u64).next_multiple_of(16)
}

/// Where a large object's key and value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeBody {
    /// Checksum of key and value.
    pub checksum: u64,
    /// Hash of the key, by which the object's bucket is found without its extents.
    pub key_hash: u64,
    /// The words of the extents, unchecked.
    pub extents: [u64; LARGE_EXTENTS],
}

/// A record whose checksum and lengths have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The fields besides key and value.
    pub header: Header,
    /// The key; empty if the object is large.
    pub key: &'a [u8],
    /// Where the value begins; behind the record if the object is large.
    pub value_at: usize,
    /// The record's own words.
    words: &'a [u64],
}

impl<'a> Record<'a> {
    /// The header that the words would have as a record, unchecked. For the holes that trust remote
    /// bytes, and for searches that check the record next.
    pub fn unchecked_header(words: &Buffer) -> Header {
        Header::from_words(words.words(), 0)
    }

    /// Bytes of which header and key of a small object with such a key are the first, if no more of
    /// its record is wanted.
    pub fn head_bytes(key_bytes: usize) -> usize {
        KEY_AT[Form::Long as usize] + key_bytes
    }

    /// The header and the key at the start of `words`, where only the head of a small object's
    /// record was READ: its checksum is not checked. `None` for a key that does not end in `words`,
    /// and for a large object's. A brief record has this generation.
    pub fn head(words: &'a Buffer, generation: u16) -> (Header, Option<&'a [u8]>) {
        let header = Header::from_words(words.words(), generation);
        let form = (words.words().first().map_or(0, |first| first >> 60 & 3)) as usize;
        let key = words.bytes().get(KEY_AT[form]..KEY_AT[form] + header.key_bytes);
        (header, key.filter(|_| !header.large))
    }

    /// The record at the start of `words`, if it is whole and its checksum is right. A brief record
    /// must be of this generation. `words` may be longer than the record.
    #[inline(always)]
    pub fn decode(words: &'a Buffer, hasher: &Hasher, generation: u16) -> Option<Self> {
        let (bytes, words) = (words.bytes(), words.words());
        if words.len() < HEADER_BYTES / 8 {
            return None;
        }
        let header = Header::from_words(words, generation);
        let form = (words[0] >> 60 & 3) as usize;
        // The form in the word, not the one that its fields would have: a record is as it was
        // written.
        let (key_at, is_brief) = (KEY_AT[form], form == Form::Brief as usize);
        let end = if header.large { LARGE_END } else { key_at + header.body_bytes() };
        let sealed = if is_brief { generation } else { 0 };
        if end > bytes.len() || words[0] & CHECKSUM_MASK != hasher.checksum(words[0], &bytes[8..end], sealed) {
            return None;
        }
        if form == Form::Long as usize && !header.is_long() {
            // No client writes this form for such an object.
            return None;
        }
        let value_at = key_at + if header.large { 0 } else { header.key_bytes };
        Some(Self { header, key: &bytes[key_at..value_at], value_at, words })
    }

    /// The place of key and value, if the object is large.
    #[inline]
    pub fn large(&self) -> Option<LargeBody> {
        self.header.large.then(|| {
            let extents = std::array::from_fn(|index| self.words[6 + index]);
            LargeBody { checksum: self.words[4], key_hash: self.words[5], extents }
        })
    }
}

/// Writes a small object's record into `buffer`.
pub fn encode_small(buffer: &mut Buffer, hasher: &Hasher, header: &Header, key: &[u8], value: &[u8]) {
    assert!(!header.large && value.len() <= VALUE_LOW_MASK, "a small object");
    debug_assert_eq!((header.key_bytes, header.value_bytes), (key.len(), value.len()));
    let (key_at, value_at, end) = (header.key_at(), header.value_at(), header.end());
    buffer.resize(end.next_multiple_of(8));
    header.put(buffer.words_mut());
    let bytes = buffer.bytes_mut();
    bytes[key_at..value_at].copy_from_slice(key);
    bytes[value_at..end].copy_from_slice(value);
    bytes[end..].fill(0);
    seal(buffer, hasher, 0, header);
}

/// Writes a large object's record into `buffer`.
pub fn encode_large(buffer: &mut Buffer, hasher: &Hasher, header: &Header, body: &LargeBody) {
    assert!(header.large, "a large object");
    buffer.resize(LARGE_END);
    let words = buffer.words_mut();
    header.put(words);
    (words[4], words[5]) = (body.checksum, body.key_hash);
    words[6..6 + LARGE_EXTENTS].copy_from_slice(&body.extents);
    seal(buffer, hasher, 0, header);
}

/// Appends to `copies` a copy of the whole record in `record` for another place: with the number,
/// generation and queue of `header`. The copy has its own checksum. The rest of its last unit is
/// zero.
pub fn append_copy(copies: &mut Buffer, record: &Buffer, hasher: &Hasher, header: &Header) {
    let (start, end) = (copies.len(), header.end());
    copies.resize(start + header.record_bytes() as usize);
    let copy = &mut copies.bytes_mut()[start..];
    copy[..end].copy_from_slice(&record.bytes()[..end]);
    copy[end..].fill(0);
    header.put(&mut copies.words_mut()[start / 8..]);
    seal(copies, hasher, start, header);
}

/// Puts the checksum into the record with this header that begins at `start`.
#[inline]
pub fn seal(buffer: &mut Buffer, hasher: &Hasher, start: usize, header: &Header) {
    let first = buffer.words()[start / 8];
    let rest = &buffer.bytes()[start + 8..start + header.end()];
    let checksum = hasher.checksum(first, rest, header.sealed_generation());
    buffer.words_mut()[start / 8] = first & !CHECKSUM_MASK | checksum;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(key: &[u8], value: &[u8]) -> Header {
        Header {
            key_bytes: key.len(),
            value_bytes: value.len(),
            number: 4095,
            main: true,
            large: false,
            blind: true,
            expiry_ms: Some(1_700_000_000_000),
            tagged: true,
            generation: 0xbeef,
            token: TOKEN_MASK,
            attributes: Attributes::NONE,
        }
    }

    /// Headers of all forms of small records.
    fn headers(key: &[u8], value: &[u8]) -> [Header; 4] {
        let dated = header(key, value);
        let brief = Header { expiry_ms: None, tagged: false, ..dated };
        let attributes = Attributes { kind: 0x81, flags: u32::MAX - 1 };
        [dated, Header { expiry_ms: None, ..dated }, brief, Header { attributes, ..brief }]
    }

    #[test]
    fn a_record_reads_back_and_any_changed_bit_is_noticed() {
        let hasher = Hasher::new(7);
        let (long_key, value) = ([7u8; 256], [9u8; 100].as_slice());
        let mut buffer = Buffer::new();
        for key in [b"some key".as_slice(), &long_key] {
            for header in headers(key, value) {
                encode_small(&mut buffer, &hasher, &header, key, value);
                let record = Record::decode(&buffer, &hasher, header.generation).unwrap();
                let tagged = header.tagged || header.is_long();
                assert_eq!((record.header, record.key), (Header { tagged, ..header }, key));
                assert_eq!(&buffer.bytes()[record.value_at..][..value.len()], value);
                for bit in 0..8 * (record.value_at + value.len()) {
                    buffer.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
                    assert!(Record::decode(&buffer, &hasher, header.generation).is_none(), "bit {bit}");
                    buffer.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
    }

    #[test]
    fn a_brief_record_is_of_one_generation_and_another_says_which_it_is_of() {
        let hasher = Hasher::new(7);
        let (key, value) = (b"some key".as_slice(), [9u8; 3].as_slice());
        let [_, dated, brief, _] = headers(key, value);
        let (mut of_dated, mut of_brief) = (Buffer::new(), Buffer::new());
        encode_small(&mut of_dated, &hasher, &dated, key, value);
        encode_small(&mut of_brief, &hasher, &brief, key, value);
        for generation in 0..=u16::MAX {
            assert_eq!(Record::decode(&of_brief, &hasher, generation).is_some(), generation == brief.generation);
        }
        assert_eq!(Record::decode(&of_dated, &hasher, 3).unwrap().header.generation, dated.generation);
        assert_eq!((brief.record_bytes(), dated.record_bytes()), (32, 48));
    }

    #[test]
    fn copies_lie_one_behind_the_other_and_read_back_at_their_new_places() {
        let hasher = Hasher::new(7);
        let (mut record, mut copies) = (Buffer::new(), Buffer::new());
        let (key, value) = (b"key".as_slice(), [9u8; 50].as_slice());
        encode_small(&mut record, &hasher, &header(key, value), key, value);
        let moved = |number| Header { number, main: false, generation: 2, ..header(key, value) };
        (0..3).for_each(|number| append_copy(&mut copies, &record, &hasher, &moved(number)));
        let bytes = moved(0).record_bytes() as usize;
        assert_eq!(copies.len(), 3 * bytes);
        for number in 0..3 {
            copies.narrow(usize::from(number) * bytes, bytes);
            let copy = Record::decode(&copies, &hasher, 2).unwrap();
            assert_eq!((copy.header, copy.key), (moved(number), key));
            assert_eq!(copies.bytes()[copy.value_at..][..value.len()], *value);
        }
    }

    #[test]
    fn hostile_lengths_are_refused() {
        let hasher = Hasher::new(7);
        let mut buffer = Buffer::new();
        for bytes in [0, 8, 16, 24, 32, 168] {
            for fill in [0, u64::MAX, 1 << 59, 1 << 60, 2 << 60, 3 << 60] {
                buffer.resize(bytes);
                buffer.words_mut().fill(fill);
                assert!(Record::decode(&buffer, &hasher, 0).is_none());
            }
        }
    }

    #[test]
    fn a_large_record_keeps_its_extents() {
        let hasher = Hasher::new(7);
        let body =
            LargeBody { checksum: 5, key_hash: 6, extents: std::array::from_fn(|index| u64::MAX - index as u64) };
        let attributes = Attributes { kind: 7, flags: 0x8000_0001 };
        let lengths = Header { value_bytes: (512 << 20) + 77, key_bytes: 64 << 10, ..header(b"", b"") };
        let header = Header { large: true, attributes, ..lengths };
        let mut buffer = Buffer::new();
        encode_large(&mut buffer, &hasher, &header, &body);
        let record = Record::decode(&buffer, &hasher, 0).unwrap();
        assert_eq!((record.header, record.large()), (header, Some(body)));
    }
}
