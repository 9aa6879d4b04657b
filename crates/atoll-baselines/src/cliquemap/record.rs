//! A record: the object as it lies in the heap.
//!
//! ```text
//! word 0   checksum of everything behind it
//! word 1   key length 17 | value length 47          (from bit 0 up)
//! word 2   version: a number that no other change has
//! word 3   token: the version of the change that wrote the value;
//!          a change of the expiry alone keeps it
//! word 4   expiry, ms since 1970; 0 for never
//! then     the key, then the value, without a gap, and zeros up to a word
//! ```
//!
//! The server writes a record before any entry names it, and never changes it. A new value or a new
//! expiry is a new record. A client may READ a span that the server reuses meanwhile. Then the
//! checksum or the version does not match. So a record proves by itself that it is the entry's.
//!
//! All bytes here are remote: [`Record::decode`] is the only way in.

use atoll_cache::record::Hasher;
use atoll_fabric::Buffer;

/// Bytes of the header.
pub const RECORD_HEADER_BYTES: usize = 40;
/// Records begin at multiples of it.
pub const RECORD_UNIT_BYTES: u64 = 16;
const KEY_BITS: u32 = 17;

/// A record without its key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// A number that no other change of any key has; not 0.
    pub version: u64,
    /// The version of the change that wrote the value.
    pub token: u64,
    /// When it expires, in milliseconds since the Unix epoch; `None` for never.
    pub expiry_ms: Option<u64>,
}

impl Header {
    /// Whether it has expired.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }
}

/// A time as a word, where 0 means never. The first millisecond of 1970 becomes the second.
pub(super) fn expiry_word(expiry_ms: Option<u64>) -> u64 {
    expiry_ms.map_or(0, |ms| ms.max(1))
}

/// Decodes such a word.
pub(super) fn expiry_of(word: u64) -> Option<u64> {
    (word != 0).then_some(word)
}

/// Bytes of a record, rounded up to units.
pub fn record_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    ((RECORD_HEADER_BYTES + key_bytes + value_bytes) as u64).next_multiple_of(RECORD_UNIT_BYTES)
}

/// A record that has been checked against its checksum and its own lengths.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its header.
    pub header: Header,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at the start of `buffer`, if it is whole and undamaged. `buffer` may be longer
    /// than the record.
    #[inline]
    pub fn decode(buffer: &'a Buffer, hasher: &Hasher) -> Option<Self> {
        let record = unchecked(buffer)?;
        let end = RECORD_HEADER_BYTES + record.key.len() + record.value.len();
        (buffer.words()[0] == hasher.hash(&buffer.bytes()[8..end])).then_some(record)
    }
}

/// The bytes taken as a record without a check, if there are enough of them; for the hole that
/// trusts them.
pub(super) fn unchecked(buffer: &Buffer) -> Option<Record<'_>> {
    let (bytes, words) = (buffer.bytes(), buffer.words());
    if bytes.len() < RECORD_HEADER_BYTES {
        return None;
    }
    let (key_bytes, value_bytes) = (words[1] & ((1 << KEY_BITS) - 1), words[1] >> KEY_BITS);
    let end = RECORD_HEADER_BYTES as u64 + key_bytes + value_bytes;
    if end > bytes.len() as u64 {
        return None;
    }
    let header = Header { version: words[2], token: words[3], expiry_ms: expiry_of(words[4]) };
    let (key, value) = bytes[RECORD_HEADER_BYTES..end as usize].split_at(key_bytes as usize);
    Some(Record { header, key, value })
}

/// Writes a record into `buffer`.
pub fn encode(buffer: &mut Buffer, hasher: &Hasher, header: &Header, key: &[u8], value: &[u8]) {
    let end = RECORD_HEADER_BYTES + key.len() + value.len();
    buffer.resize(end.next_multiple_of(8));
    let lengths = key.len() as u64 | (value.len() as u64) << KEY_BITS;
    let words = [lengths, header.version, header.token, expiry_word(header.expiry_ms)];
    buffer.words_mut()[1..5].copy_from_slice(&words);
    let bytes = buffer.bytes_mut();
    bytes[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + key.len()].copy_from_slice(key);
    bytes[RECORD_HEADER_BYTES + key.len()..end].copy_from_slice(value);
    bytes[end..].fill(0);
    buffer.words_mut()[0] = hasher.hash(&buffer.bytes()[8..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_what_was_written_and_one_with_any_other_bit_gives_nothing() {
        let (hasher, mut buffer) = (Hasher::new(7), Buffer::new());
        let header = Header { version: 9, token: 8, expiry_ms: Some(5) };
        encode(&mut buffer, &hasher, &header, b"key", b"a value");
        let record = Record::decode(&buffer, &hasher).unwrap();
        assert_eq!((record.header, record.key, record.value), (header, &b"key"[..], &b"a value"[..]));
        for bit in 0..8 * (RECORD_HEADER_BYTES + 10) {
            buffer.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&buffer, &hasher).is_none(), "bit {bit}");
            buffer.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
