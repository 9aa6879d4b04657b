//! A record: an object as it lies in a chunk.
//!
//! ```text
//! word 0   checksum of everything behind it (of the record; not of extents)
//! word 1   from bit 0 up: key length 17 | value length 30 | number in the group 12 | large 1
//!          | main queue 1 | blind 1 | 0 2
//! word 2   expiry, ms since 1970 48 | the chunk's generation, low 16
//! word 3   token: a number that no other write has
//! then     the key, then the value, without a gap                               a small object
//! word 4   checksum of key and value     word 5  hash of the key                 a large object
//! word 6.. sixteen extents, each: chunk 32 | the chunk's generation 32
//!          they are the object's, or of chunks full of such words if the object has more
//! ```
//!
//! A client writes a record once, before any slot points to it, and never changes it. A new value
//! or a new expiry is a new record. A READ that the chunk's reuse tears fails the checksum. A READ
//! that finds a later record of the same key at the same place fails the generation. With the
//! slot's tag this is the paper's version match, done with one READ.
//!
//! Records are decoded from remote bytes: [`Record::decode`] is the only checked constructor.

use crate::{Meta, Value};
use atoll_fabric::Buffer;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;
/// Extents listed in a large object's record.
pub const LARGE_EXTENTS: usize = 16;
/// Bytes of a large object's record.
pub const LARGE_RECORD_BYTES: u64 = LARGE_END.next_multiple_of(16) as u64;
const LARGE_END: usize = HEADER_BYTES + 16 + 8 * LARGE_EXTENTS;
const EXPIRY_MAX: u64 = (1 << 48) - 1;
const LARGE: u64 = 1 << 59;
const MAIN: u64 = 1 << 60;
const BLIND: u64 = 1 << 61;

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
    /// Low bits of the chunk's generation.
    pub generation: u16,
    /// A number that no other write has.
    pub token: u64,
}

impl Meta {
    /// The metadata in a record's header.
    #[inline]
    pub(crate) fn of(header: &Header) -> Self {
        Self { expiry_ms: header.expiry_ms, token: header.token, value_bytes: header.value_bytes }
    }
}

impl Header {
    /// The header of a new object that has no place yet.
    #[inline]
    pub(crate) fn of_new(
        key_bytes: usize,
        value_bytes: usize,
        blind: bool,
        expiry_ms: Option<u64>,
        token: u64,
    ) -> Self {
        let (number, generation) = (0, 0);
        Self { key_bytes, value_bytes, number, main: false, large: false, blind, expiry_ms, generation, token }
    }

    /// Copies the value out of a small object's record.
    pub(crate) fn copy_value(&self, record: &Buffer, into: &mut Value) {
        assert!(!self.large, "a large object's value is in its extents");
        into.assign(&record.bytes()[HEADER_BYTES + self.key_bytes..HEADER_BYTES + self.body_bytes()], Meta::of(self));
    }

    fn words(&self) -> [u64; 3] {
        let expiry_ms = self.expiry_ms.map_or(0, |ms| ms.clamp(1, EXPIRY_MAX));
        [
            self.key_bytes as u64
                | (self.value_bytes as u64) << 17
                | u64::from(self.number) << 47
                | if self.large { LARGE } else { 0 }
                | if self.main { MAIN } else { 0 }
                | if self.blind { BLIND } else { 0 },
            expiry_ms | u64::from(self.generation) << 48,
            self.token,
        ]
    }

    #[inline]
    fn from_words(words: &[u64]) -> Self {
        let expiry_ms = words[1] & EXPIRY_MAX;
        Self {
            key_bytes: words[0] as usize & 0x1_ffff,
            value_bytes: (words[0] >> 17) as usize & 0x3fff_ffff,
            number: (words[0] >> 47) as u16 & 0xfff,
            large: words[0] & LARGE != 0,
            main: words[0] & MAIN != 0,
            blind: words[0] & BLIND != 0,
            expiry_ms: (expiry_ms != 0).then_some(expiry_ms),
            generation: (words[1] >> 48) as u16,
            token: words[2],
        }
    }

    /// Whether the object has expired.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }

    /// Bytes of the record of an object with such a key and value, rounded up to units.
    pub fn record_bytes(&self) -> u64 {
        if self.large { LARGE_RECORD_BYTES } else { small_record_bytes(self.key_bytes, self.value_bytes) }
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

/// Bytes of a small object's record, rounded up to units.
pub fn small_record_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    ((HEADER_BYTES + key_bytes + value_bytes) as u64).next_multiple_of(16)
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
    /// The record's own words.
    words: &'a [u64],
}

impl<'a> Record<'a> {
    /// The header that the words would have as a record, unchecked. For the holes that trust remote
    /// bytes.
    pub fn unchecked_header(words: &Buffer) -> Header {
        Header::from_words(&words.words()[1..4])
    }

    /// The record at the start of `words`, if it is whole and its checksum is right. `words` may be
    /// longer than the record.
    #[inline(always)]
    pub fn decode(words: &'a Buffer, hasher: &Hasher) -> Option<Self> {
        let (bytes, words) = (words.bytes(), words.words());
        if words.len() < HEADER_BYTES / 8 {
            return None;
        }
        let header = Header::from_words(&words[1..4]);
        let end = match header.large {
            true => LARGE_END,
            false => HEADER_BYTES + header.body_bytes(),
        };
        if end > bytes.len() || words[0] != hasher.hash(&bytes[8..end]) {
            return None;
        }
        let key = if header.large { &[] } else { &bytes[HEADER_BYTES..HEADER_BYTES + header.key_bytes] };
        Some(Self { header, key, words })
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
    let end = HEADER_BYTES + key.len() + value.len();
    buffer.resize(end.next_multiple_of(8));
    buffer.words_mut()[1..4].copy_from_slice(&header.words());
    let bytes = buffer.bytes_mut();
    bytes[HEADER_BYTES..HEADER_BYTES + key.len()].copy_from_slice(key);
    bytes[HEADER_BYTES + key.len()..end].copy_from_slice(value);
    bytes[end..].fill(0);
    buffer.words_mut()[0] = hasher.hash(&buffer.bytes()[8..end]);
}

/// Writes a large object's record into `buffer`.
pub fn encode_large(buffer: &mut Buffer, hasher: &Hasher, header: &Header, body: &LargeBody) {
    let end = LARGE_END;
    buffer.resize(end);
    let words = buffer.words_mut();
    words[1..4].copy_from_slice(&header.words());
    (words[4], words[5]) = (body.checksum, body.key_hash);
    words[6..6 + LARGE_EXTENTS].copy_from_slice(&body.extents);
    buffer.words_mut()[0] = hasher.hash(&buffer.bytes()[8..end]);
}

/// Appends to `copies` a copy of the whole record in `record` for another place: with the number,
/// generation and queue of `header`. The copy has its own checksum. The rest of its last unit is
/// zero.
pub fn append_copy(copies: &mut Buffer, record: &Buffer, hasher: &Hasher, header: &Header) {
    let end = match header.large {
        true => LARGE_END,
        false => HEADER_BYTES + header.body_bytes(),
    };
    let start = copies.len();
    copies.resize(start + header.record_bytes() as usize);
    let copy = &mut copies.bytes_mut()[start..];
    copy[..end].copy_from_slice(&record.bytes()[..end]);
    copy[end..].fill(0);
    let word = start / 8;
    copies.words_mut()[word + 1..word + 4].copy_from_slice(&header.words());
    copies.words_mut()[word] = hasher.hash(&copies.bytes()[start + 8..start + end]);
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
            generation: 0xbeef,
            token: u64::MAX,
        }
    }

    #[test]
    fn a_record_reads_back_and_any_changed_bit_is_noticed() {
        let hasher = Hasher::new(7);
        let (key, value) = (b"some key".as_slice(), [9u8; 100].as_slice());
        let mut buffer = Buffer::new();
        encode_small(&mut buffer, &hasher, &header(key, value), key, value);
        let record = Record::decode(&buffer, &hasher).unwrap();
        assert_eq!((record.header, record.key), (header(key, value), key));
        for bit in 0..8 * (HEADER_BYTES + key.len() + value.len()) {
            buffer.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&buffer, &hasher).is_none(), "bit {bit}");
            buffer.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        }
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
            let copy = Record::decode(&copies, &hasher).unwrap();
            assert_eq!((copy.header, copy.key), (moved(number), key));
            assert_eq!(copies.bytes()[HEADER_BYTES + key.len()..][..value.len()], *value);
        }
    }

    #[test]
    fn hostile_lengths_are_refused() {
        let hasher = Hasher::new(7);
        let mut buffer = Buffer::new();
        for bytes in [0, 8, 24, 32, 168] {
            for fill in [0, u64::MAX, 1 << 59] {
                buffer.resize(bytes);
                buffer.words_mut().fill(fill);
                assert!(Record::decode(&buffer, &hasher).is_none());
            }
        }
    }

    #[test]
    fn a_large_record_keeps_its_extents() {
        let hasher = Hasher::new(7);
        let body =
            LargeBody { checksum: 5, key_hash: 6, extents: std::array::from_fn(|index| u64::MAX - index as u64) };
        let header = Header { large: true, value_bytes: 512 << 20, key_bytes: 64 << 10, ..header(b"", b"") };
        let mut buffer = Buffer::new();
        encode_large(&mut buffer, &hasher, &header, &body);
        let record = Record::decode(&buffer, &hasher).unwrap();
        assert_eq!((record.header, record.large()), (header, Some(body)));
    }
}
