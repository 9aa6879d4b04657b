//! The pace at which clients that tend look for expired objects: one policy for every engine.
//!
//! All clients of a pool share one word, the hand of a clock. It passes all units of the engine
//! (buckets of an index, say) once every [`PASS_MS`].
//!
//! ```text
//! 63            32 31             0
//! +---------------+---------------+     unit: the next unit to look at
//! | unit 32       | time 32       |     time: up to which the hand has moved,
//! +---------------+---------------+           in 64ths of a millisecond, wrapping
//! ```
//!
//! | step | verbs |
//! |---|---|
//! | find the due units | READ the hand; [`Hand::stretch`] returns the units |
//! | claim them | CAS the hand |
//! | look at them | the engine's |
//!
//! So the clients of a pool divide the work of a pass. A client that dies leaves its stretch to the
//! next pass. So no unit waits longer than two passes. A client spends at most one part in
//! [`SHARE`] of its time on this ([`Budget`]). If that is too little for a large pool, its passes
//! are slower.

use std::ops::Range;

/// How long a pass over all units takes, in milliseconds.
pub const PASS_MS: u64 = 4_000;
/// A client spends at most one part in so many of its time.
pub const SHARE: u64 = 20;
const TICKS_PER_MS: u64 = 64;
const PASS_TICKS: u64 = PASS_MS * TICKS_PER_MS;
/// A shorter time is not worth beginning.
const BUDGET_NS_MIN: u64 = 100_000;
/// The longest time that a client spends at once.
const BUDGET_NS_MAX: u64 = 10_000_000;

/// How far clients have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hand {
    /// The next unit.
    pub unit: u32,
    /// The time up to which the hand has moved.
    ticks: u32,
}

impl Hand {
    /// Decodes the pool's word.
    pub fn from_word(word: u64) -> Self {
        Self { unit: (word >> 32) as u32, ticks: word as u32 }
    }

    /// The hand as a word.
    pub fn word(self) -> u64 {
        u64::from(self.unit) << 32 | u64::from(self.ticks)
    }

    /// The units that are due at a time of the pool's clock: a stretch of them, which has at least
    /// `least` if so many are due, and the hand after it. `None` if no unit is due. Units that were
    /// not tended for long are due once, however long that was.
    pub fn stretch(self, now_ms: u64, units: u32, least: u64) -> Option<(Range<u32>, Self)> {
        let now = (now_ms.wrapping_mul(TICKS_PER_MS)) as u32;
        let passed = now.wrapping_sub(self.ticks);
        // The hand may be a little ahead of this client's clock. If it is far ahead, no client has
        // tended for long.
        if passed.wrapping_neg() < PASS_TICKS as u32 {
            return None;
        }
        let passed = u64::from(passed).min(PASS_TICKS);
        let (first, units) = (if self.unit < units { self.unit } else { 0 }, u64::from(units));
        let due = passed * units / PASS_TICKS;
        let count = due.min(units.div_ceil(PASS_MS).max(least)).min(units - u64::from(first));
        if count == 0 {
            return None;
        }
        let ticks = now.wrapping_sub((passed - (count * PASS_TICKS).div_ceil(units).min(passed)) as u32);
        let end = u64::from(first) + count;
        Some((first..end as u32, Self { unit: (end % units) as u32, ticks }))
    }
}

/// A client's budget of time.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    since_ns: u64,
}

impl Budget {
    /// The budget of a client that begins now.
    pub fn new(now_ns: u64) -> Self {
        Self { since_ns: now_ns }
    }

    /// Until when the client may continue if it begins now; `None` if it is too early.
    pub fn until_ns(&self, now_ns: u64) -> Option<u64> {
        let spent_ns = (now_ns.saturating_sub(self.since_ns) / SHARE).min(BUDGET_NS_MAX);
        (spent_ns >= BUDGET_NS_MIN).then_some(now_ns + spent_ns)
    }

    /// Notes that the client has ended.
    pub fn spent(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long one pass takes for a client that looks every `step_ms`, from some time on; how
    /// often each unit was looked at.
    fn passes(units: u32, from_ms: u64, step_ms: u64, for_ms: u64) -> Vec<u32> {
        let mut hand = Hand { unit: units / 3, ticks: (from_ms * TICKS_PER_MS) as u32 };
        let mut looked = vec![0; units as usize];
        for now_ms in (from_ms..=from_ms + for_ms).step_by(step_ms as usize) {
            while let Some((stretch, next)) = hand.stretch(now_ms, units, 64) {
                assert!(stretch.start == hand.unit && !stretch.is_empty() && stretch.end <= units);
                stretch.for_each(|unit| looked[unit as usize] += 1);
                hand = Hand::from_word(next.word());
            }
        }
        looked
    }

    #[test]
    fn every_unit_is_looked_at_once_in_a_pass_whatever_their_number_and_however_often_clients_tend() {
        for units in [1, 2, 63, 64, 1000, 52_429, 1_000_000] {
            for step_ms in [1, 7, 100, 3_000] {
                let looked = passes(units, u64::from(u32::MAX) * 3 / TICKS_PER_MS - 1_000, step_ms, 3 * PASS_MS);
                let (least, most) = (looked.iter().min().unwrap(), looked.iter().max().unwrap());
                assert!(*least >= 2 && *most <= 4, "{units} units every {step_ms} ms: {least} to {most} times");
            }
        }
    }

    #[test]
    fn what_was_not_tended_for_is_due_once() {
        for idle_ms in [PASS_MS, 3_600_000, 86_400_000, 30 * 86_400_000] {
            let (mut hand, mut looked) = (Hand { unit: 7, ticks: 77 }, 0);
            while let Some((stretch, next)) = hand.stretch(idle_ms + 2, 1_000, 64) {
                looked += stretch.len();
                hand = next;
            }
            assert_eq!(looked, 1_000, "after {idle_ms} ms");
        }
    }

    #[test]
    fn a_hand_that_no_client_wrote_names_units_that_there_are() {
        for word in [0, 1, u64::MAX, u64::from(u32::MAX), 1 << 63 | 12_345] {
            for units in [1, 5, 1_000] {
                let stretch = Hand::from_word(word).stretch(1_795_000_000_000, units, 64);
                assert!(stretch.is_none_or(|(stretch, next)| stretch.end <= units && next.unit < units));
            }
        }
    }

    #[test]
    fn a_client_spends_a_part_of_its_time_and_no_more() {
        let (mut budget, mut now_ns, mut spent_ns) = (Budget::new(5), 5, 0);
        for _ in 0..10_000 {
            now_ns += 300_000;
            if let Some(until_ns) = budget.until_ns(now_ns) {
                spent_ns += until_ns - now_ns;
                now_ns = until_ns;
                budget.spent(now_ns);
            }
        }
        assert!(spent_ns > 0 && spent_ns * SHARE <= now_ns, "{spent_ns} of {now_ns}");
        assert_eq!(Budget::new(0).until_ns(1 << 60), Some((1 << 60) + BUDGET_NS_MAX));
    }
}
