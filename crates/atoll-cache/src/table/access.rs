//! Access information: what the pool records about the accesses to a slot's object.
//!
//! ```text
//! word 0   accesses: a counter that is only added to                           atomics only
//! word 1   last access, microseconds of the pool's clock 48 | mark 16          data
//! word 2   insertion, the same 48                           | mark 16          data
//! word 3   expiry, milliseconds 48 (0: never)               | mark 16          data
//! word 4   word 0 at the insertion, low 32 | record's units of 64 bytes 16 | mark 16     data
//! ```
//!
//! | event | words that are WRITTEN, without waiting |
//! |---|---|
//! | a hit | word 1 |
//! | an insertion | words 1 to 4 |
//! | a new expiry | word 3 |
//!
//! Such a WRITE may land when the slot holds another key. The mark, sixteen bits of the key's hash,
//! shows that: a reader that finds another key's mark treats the object as just inserted.
//!
//! The counter is never reset. An insertion notes its value. A client may still add accesses of the
//! slot's last object later: at most the number that it had not published yet.
//!
//! All of this decides which object is evicted, never whether a lookup is right.

use super::layout::ACCESS_BYTES;
use super::slot::KeyHash;

const VALUE_BITS: u32 = 48;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
/// Words of a slot's access information.
pub const ACCESS_WORDS: usize = (ACCESS_BYTES / 8) as usize;

/// The access information of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// When it was inserted, in microseconds of the pool's clock.
    pub inserted_us: u64,
    /// When it was last accessed.
    pub last_us: u64,
    /// Accesses that the pool knows of, the insertion included.
    pub frequency: u64,
    /// When it expires, in milliseconds of the pool's clock.
    pub expiry_ms: Option<u64>,
    /// Bytes of its block that are used, rounded up to units.
    pub bytes: u64,
}

/// The low 48 bits of a time, as a word has them.
fn marked(value: u64, mark: u16) -> u64 {
    value & VALUE_MASK | u64::from(mark) << VALUE_BITS
}

/// The whole time whose low bits the word has. It is at most half a turn (four years) from
/// `now_us`.
fn whole(word: u64, now_us: u64) -> u64 {
    let behind = now_us.wrapping_sub(word) & VALUE_MASK;
    if behind <= VALUE_MASK / 2 {
        now_us.saturating_sub(behind)
    } else {
        now_us.saturating_add(VALUE_MASK + 1 - behind)
    }
}

/// Word 1 for an access now.
pub fn last_access_word(now_us: u64, mark: u16) -> u64 {
    marked(now_us, mark)
}

/// Word 3 for an object that expires then.
pub fn expiry_word(expiry_ms: Option<u64>, mark: u16) -> u64 {
    marked(expiry_ms.map_or(0, |ms| ms.clamp(1, VALUE_MASK)), mark)
}

/// Words 1 to 4 for an object that is inserted now, when word 0 is `counter`.
pub fn insertion_words(now_us: u64, expiry_ms: Option<u64>, bytes: u64, counter: u64, mark: u16) -> [u64; 4] {
    let units = bytes.div_ceil(64).min(0xffff);
    [
        marked(now_us, mark),
        marked(now_us, mark),
        expiry_word(expiry_ms, mark),
        counter & 0xffff_ffff | units << 32 | u64::from(mark) << VALUE_BITS,
    ]
}

impl Access {
    /// Decodes the words beside a live object, of which the slot has a fingerprint only. Words with
    /// different marks are of different keys. The object's key cannot be told then, and the object
    /// counts as new.
    pub fn decode(words: &[u64], now_us: u64) -> Self {
        let [counter, last, inserted, expiry, base] = words else { return Self::new_at(now_us) };
        let mark = last >> VALUE_BITS;
        if [inserted, expiry, base].iter().any(|word| **word >> VALUE_BITS != mark) {
            return Self::new_at(now_us);
        }
        Self {
            inserted_us: whole(*inserted, now_us),
            last_us: whole(*last, now_us),
            frequency: u64::from((*counter as u32).wrapping_sub(*base as u32)).saturating_add(1),
            expiry_ms: Some(expiry & VALUE_MASK).filter(|ms| *ms != 0),
            bytes: (base >> 32 & 0xffff) * 64,
        }
    }

    fn new_at(now_us: u64) -> Self {
        Self { inserted_us: now_us, last_us: now_us, frequency: 1, expiry_ms: None, bytes: 0 }
    }

    /// The common mark of the words; `None` if they differ.
    pub fn mark(words: &[u64]) -> Option<u16> {
        let mark = (words.get(1)? >> VALUE_BITS) as u16;
        words[2..].iter().all(|word| (word >> VALUE_BITS) as u16 == mark).then_some(mark)
    }

    /// Whether it has expired.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }
}

/// Whether the object of a live slot may have expired, by the words beside it. Words with different
/// marks prove nothing, so it may.
pub fn may_have_expired(words: &[u64], now_ms: u64) -> bool {
    let [_, last, inserted, expiry, base] = words else { return true };
    let mark = last >> VALUE_BITS;
    let are_one_keys = [inserted, expiry, base].iter().all(|word| **word >> VALUE_BITS == mark);
    let expiry_ms = expiry & VALUE_MASK;
    !are_one_keys || expiry_ms != 0 && expiry_ms <= now_ms
}

/// The hash of a live slot's key, as far as slot and access information have it, for its history
/// entry. `None` if the information is another key's.
pub fn hash_of(bucket: u32, fingerprint: u8, words: &[u64]) -> Option<KeyHash> {
    Some(KeyHash { bucket, fingerprint, mark: Access::mark(words)?, whole: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_another_wrote_is_not() {
        let now = 1_795_000_000_000_000;
        let mut words = [u64::MAX; ACCESS_WORDS];
        words[1..].copy_from_slice(&insertion_words(now, Some(77), 300, u64::MAX, 0xabcd));
        words[0] = words[0].wrapping_add(3);
        words[1] = last_access_word(now + 5_000, 0xabcd);
        let access = Access::decode(&words, now + 9_000);
        let expected = Access { inserted_us: now, last_us: now + 5_000, frequency: 4, expiry_ms: Some(77), bytes: 320 };
        assert_eq!((access, Access::mark(&words)), (expected, Some(0xabcd)));
        assert_eq!([76, 77].map(|now_ms| may_have_expired(&words, now_ms)), [false, true]);
        assert!(!may_have_expired(&[0; ACCESS_WORDS], 77), "nothing was ever written");
        words[1] = last_access_word(now, 0xabce);
        assert_eq!((Access::decode(&words, now).last_us, Access::mark(&words)), (now, None));
        assert!(may_have_expired(&words, 0), "they are of two keys");
        assert_eq!(Access::decode(&words, now).frequency, 1);
    }

    #[test]
    fn times_survive_the_turn_of_their_low_bits_and_clocks_that_are_behind() {
        for now in [1u64 << 48, (1 << 48) + 3, (5 << 48) - 1, 10] {
            for ahead in [-9i64, 0, 9] {
                let time = now.wrapping_add_signed(ahead);
                assert_eq!(whole(time & VALUE_MASK, now), time, "{now} {ahead}");
            }
        }
    }
}
