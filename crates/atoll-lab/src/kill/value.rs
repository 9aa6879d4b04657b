//! Values that say what they are, and keys.
//!
//! ```text
//! a versioned value, 40 B or more   key 8 | version 8 | writer 8 | expiry, ms, or 0 8
//!                                   | checksum of all else 8 | body
//! a shorter one                     the first bytes of a stream that key and version determine
//! a list                            entries of 32 B: key 8 | writer 8 | number 8
//!                                   | checksum of the three 8
//! ```
//!
//! Key and version also determine the length. A writer of a list is one client, and its entries of
//! one list have ascending numbers without a gap.

use atoll_deployment::Bound;
use atoll_deployment::random::mix;
use rapidhash::v3::rapidhash_v3;
use std::collections::HashMap;

const HEADER_BYTES: usize = 40;
/// Bytes of an entry of a list.
pub(super) const ENTRY_BYTES: usize = 32;
/// The longest value.
pub(super) const VALUE_BYTES_MAX: usize = 1 << 20;

/// What a key's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Set by one writer at a time, without a condition.
    Plain,
    /// Made by one writer, replaced by all under the token of what they saw.
    Chain,
    /// Incremented by all.
    Counter,
    /// Appended to by all.
    List,
}

/// A key of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) kind: Kind,
    /// Its number among all keys of all kinds.
    pub(super) number: u64,
}

impl Key {
    /// Its bytes; one in 64 is long.
    pub(super) fn bytes(self) -> Vec<u8> {
        let length = if self.number % 64 == 63 { 400 } else { 8 };
        format!("{:?}:{:0length$}", self.kind, self.number).into_bytes()
    }
}

/// So many keys of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub(super) plain: u64,
}

impl Keys {
    pub(super) const CHAINS: u64 = 1000;
    pub(super) const COUNTERS: u64 = 200;
    pub(super) const LISTS: u64 = 200;

    /// Keys whose values have about twice the bytes, or the objects, of the cache.
    pub(super) fn for_bound(bound: Bound) -> Self {
        let plain = match bound {
            Bound::Bytes(bytes) => bytes / 4096,
            Bound::Objects(objects) => 2 * objects,
        };
        Self { plain: plain.max(1000) }
    }

    pub(super) fn count(self) -> u64 {
        self.plain + Self::CHAINS + Self::COUNTERS + Self::LISTS
    }

    /// Key `index` of its kind.
    pub(super) fn key(self, kind: Kind, index: u64) -> Key {
        let before = match kind {
            Kind::Plain => 0,
            Kind::Chain => self.plain,
            Kind::Counter => self.plain + Self::CHAINS,
            Kind::List => self.plain + Self::CHAINS + Self::COUNTERS,
        };
        Key { kind, number: before + index }
    }
}

fn seed(key: u64, version: u64) -> u64 {
    mix(mix(key) ^ version)
}

/// The length of a version: three in ten below 40 B, three in a hundred from 32 KiB to 1 MiB.
pub(super) fn value_bytes(key: u64, version: u64) -> usize {
    let word = seed(key, version);
    let (draw, unit) = (word % 1000, (word >> 11) as f64 / (1_u64 << 53) as f64);
    let between = |low: f64, high: f64| (low * (high / low).powf(unit)) as usize;
    match draw {
        0..300 => between(1.0, HEADER_BYTES as f64),
        300..900 => between(HEADER_BYTES as f64, 1024.0),
        900..970 => between(1024.0, 32768.0),
        _ => between(32768.0, VALUE_BYTES_MAX as f64),
    }
}

fn fill(body: &mut [u8], seed: u64) {
    for (index, chunk) in body.chunks_mut(8).enumerate() {
        let word = mix(seed.wrapping_add(index as u64)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

fn checksum(words: [u64; 4], body: &[u8]) -> u64 {
    rapidhash_v3(words.map(u64::to_le_bytes).as_flattened()) ^ rapidhash_v3(body)
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * index..8 * index + 8].try_into().expect("eight bytes"))
}

/// Makes `into` the value of a version.
pub(super) fn write(into: &mut Vec<u8>, key: u64, version: u64, writer: u64, expiry_ms: u64) {
    into.clear();
    into.resize(value_bytes(key, version), 0);
    if into.len() < HEADER_BYTES {
        return fill(into, seed(key, version));
    }
    let (header, body) = into.split_at_mut(HEADER_BYTES);
    fill(body, seed(key, version));
    let words = [key, version, writer, expiry_ms];
    let words = [key, version, writer, expiry_ms, checksum(words, body)];
    header.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
}

/// What a value says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) version: u64,
    /// When it expires; 0 for never, or if it is too short to tell.
    pub(super) expiry_ms: u64,
}

/// Which version of `key` the value is, by itself or, if it is too short to tell, the first of
/// `candidates` that it may be. Else what is wrong.
pub(super) fn read(bytes: &[u8], key: u64, mut candidates: std::ops::RangeInclusive<u64>) -> Result<Version, String> {
    let length = bytes.len();
    if length < HEADER_BYTES {
        let is_this = |version: &u64| {
            let mut expected = [0; HEADER_BYTES];
            fill(&mut expected[..length], seed(key, *version));
            value_bytes(key, *version) == length && expected[..length] == *bytes
        };
        let (first, last) = (*candidates.start(), *candidates.end());
        let found = candidates.find(is_this).map(|version| Version { version, expiry_ms: 0 });
        return found.ok_or_else(|| format!("{length} bytes that are no version of {first} to {last}: {bytes:x?}"));
    }
    let words = [0, 1, 2, 3].map(|index| word(bytes, index));
    let [of, version, writer, expiry_ms] = words;
    if of != key {
        return Err(format!("the value of key {of}, version {version}, writer {writer}"));
    }
    let whole = checksum(words, &bytes[HEADER_BYTES..]) == word(bytes, 4) && length == value_bytes(key, version);
    if !whole {
        return Err(format!("{length} bytes that are not those of version {version} by writer {writer}: torn"));
    }
    Ok(Version { version, expiry_ms })
}

/// An entry of a list.
pub(super) fn entry(key: u64, writer: u64, number: u64) -> [u8; ENTRY_BYTES] {
    let words = [key, writer, number, checksum([key, writer, number, 0], &[])];
    words.map(u64::to_le_bytes).as_flattened().try_into().expect("four words")
}

/// Checks a list.
pub(super) fn check_list(bytes: &[u8], key: u64) -> Result<(), String> {
    let mut numbers = HashMap::new();
    if !bytes.len().is_multiple_of(ENTRY_BYTES) {
        return Err(format!("a list of {} bytes", bytes.len()));
    }
    for (index, found) in bytes.chunks(ENTRY_BYTES).enumerate() {
        let [of, writer, number, sum] = [0, 1, 2, 3].map(|index| word(found, index));
        if of != key || sum != checksum([of, writer, number, 0], &[]) {
            return Err(format!("entry {index} is not one of this list: {found:x?}"));
        }
        match numbers.insert(writer, number) {
            Some(before) if number != before + 1 => {
                return Err(format!("entry {index} is number {number} of writer {writer:x}, after its {before}"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_lengths_tell_what_they_are_and_others_are_told_apart() {
        let mut value = Vec::new();
        let (mut shorter, mut large) = (0, 0);
        for version in 1..2000 {
            write(&mut value, 5, version, 9, 77);
            assert!((1..=VALUE_BYTES_MAX).contains(&value.len()));
            let seen = read(&value, 5, version..=version).unwrap();
            assert_eq!(seen.version, version);
            shorter += u64::from(value.len() < HEADER_BYTES);
            large += u64::from(value.len() > 32768);
            if value.len() >= HEADER_BYTES {
                assert_eq!(seen.expiry_ms, 77);
                assert!(read(&value, 6, 1..=2000).unwrap_err().contains("value of key 5"));
                let last = value.len() - 1;
                value[last] ^= 1;
                assert!(read(&value, 5, 1..=2000).unwrap_err().contains("torn"));
            } else if value.len() > 8 {
                assert!(read(&value, 5, version + 1..=version + 3).is_err());
                assert!(read(&value, 6, version..=version).is_err());
            }
        }
        assert!(shorter > 400 && large > 20, "{shorter} {large}");
    }

    #[test]
    fn a_list_with_a_gap_or_a_foreign_entry_is_told() {
        let list = [entry(1, 7, 3), entry(1, 8, 1), entry(1, 7, 4)].concat();
        check_list(&list, 1).unwrap();
        assert!(check_list(&list, 2).is_err());
        assert!(check_list(&list[..90], 1).is_err());
        assert!(check_list(&[entry(1, 7, 3), entry(1, 7, 5)].concat(), 1).is_err());
        assert!(check_list(&[entry(1, 7, 3), entry(1, 7, 3)].concat(), 1).is_err());
    }
}
