//! A group's record in the pool, and its seven features, by which trees judge it.
//!
//! ```text
//! a record, 24 B   word 0   generation of the chunk 32 | groups written when this one was 32
//!                  word 1   lookups a second, f32      | objects written a second, f32
//!                  word 2   share of misses, f32       | bytes of an object in the mean, f32
//!                           the owner of the chunk owns these words
//! counters         16 bits an object, four to a word; atomics only
//! ```
//!
//! Of the seven features of GL-Cache (section 4 of its paper) four are fixed when the group is
//! written. Three change: age, requests, and objects that were requested.

/// Features of a group.
pub const FEATURES: usize = 7;

/// Larger numbers carry no more information. Sums of squares up to this stay finite.
const NUMBER_MAX: f32 = 1e12;

/// A number from the pool, clamped so that it is fit to learn from.
pub(super) fn sound(number: f32) -> f32 {
    if number.is_finite() { number.clamp(0.0, NUMBER_MAX) } else { 0.0 }
}

/// The facts that a group's writer knew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Written {
    /// Generation of its chunk. A record of another generation is of an earlier group.
    pub generation: u32,
    /// Groups that had been written to the pool, modulo 2^32.
    pub groups_before: u32,
    /// Lookups a second of the writer's process.
    pub lookup_rate: f32,
    /// Objects a second that it wrote.
    pub write_rate: f32,
    /// Share of its lookups that missed.
    pub miss_ratio: f32,
    /// Bytes of an object in the mean.
    pub object_bytes: f32,
}

fn pair(low: f32, high: f32) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}

fn unpaired(word: u64) -> (f32, f32) {
    (sound(f32::from_bits(word as u32)), sound(f32::from_bits((word >> 32) as u32)))
}

impl Written {
    /// Bytes of the record in front of the counters.
    pub const BYTES: u64 = 24;

    /// The record as words.
    pub fn words(&self) -> [u64; 3] {
        [
            u64::from(self.generation) | u64::from(self.groups_before) << 32,
            pair(self.lookup_rate, self.write_rate),
            pair(self.miss_ratio, self.object_bytes),
        ]
    }

    /// The record of words that were READ. Any three words are a record.
    pub fn from_words([first, rates, rest]: [u64; 3]) -> Self {
        let ((lookup_rate, write_rate), (miss_ratio, object_bytes)) = (unpaired(rates), unpaired(rest));
        let (generation, groups_before) = (first as u32, (first >> 32) as u32);
        Self { generation, groups_before, lookup_rate, write_rate, miss_ratio, object_bytes }
    }

    /// Groups written since, at least one.
    pub fn age(&self, groups_now: u32) -> u32 {
        // A client that has not looked at the queues for a while may be behind the group.
        (groups_now.wrapping_sub(self.groups_before) as i32).max(0) as u32 + 1
    }
}

/// The features of a group: lookup rate, write rate, miss ratio, object size, age, requests,
/// objects that were requested.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Features(pub [f32; FEATURES]);

impl Features {
    /// The features of a group when so many groups had been written, with its objects' counters.
    pub fn of(written: &Written, groups_now: u32, counters: &[u16]) -> Self {
        let requests: u64 = counters.iter().map(|count| u64::from(*count)).sum();
        let active = counters.iter().filter(|count| **count > 0).count();
        let Written { lookup_rate, write_rate, miss_ratio, object_bytes, .. } = *written;
        let age = written.age(groups_now) as f32;
        Self([lookup_rate, write_rate, miss_ratio, object_bytes, age, requests as f32, active as f32].map(sound))
    }

    /// The age among them.
    pub fn age(&self) -> f32 {
        self.0[4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_hostile_words_are_numbers() {
        let written = Written {
            generation: 7,
            groups_before: u32::MAX,
            lookup_rate: 1e6,
            write_rate: 2.5,
            miss_ratio: 0.25,
            object_bytes: 256.0,
        };
        assert_eq!(Written::from_words(written.words()), written);
        assert_eq!((written.age(2), written.age(u32::MAX - 5)), (4, 1));
        for word in [u64::MAX, 0x7f80_0000_ff80_0000, 0x7fc0_0000_8000_0001, 0xc000_0000_c000_0000] {
            let hostile = Written::from_words([word; 3]);
            let features = Features::of(&hostile, 0, &[u16::MAX; 64]);
            assert!(features.0.iter().all(|number| (0.0..=NUMBER_MAX).contains(number)), "{features:?}");
        }
    }
}
