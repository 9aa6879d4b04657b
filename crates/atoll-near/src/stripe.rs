//! What a compute node knows of the objects of one stripe.
//!
//! ```text
//! word 0  invalidations   other nodes' atomics   generation 32 | changes 32
//!      1  own changes     this node's atomics    generation 32 | changes 32
//!      2  belief          this node's atomics    mode 2 | generation 31 | own generation 31
//!      3  counts          this node's atomics    operations 16 | reads 16 | hits 16 | invalid 16
//!      4  tuning          this node's atomics    interval 16 | threshold 16, per mille
//!      5  bypasses        this node's atomics    WRITEs under way that invalidate nothing
//!      6  writer          this node's atomics    identity of the one that writes; see `write`
//!      7  owner           this node's atomics    1 + word 0 when the node's bit was set: `owners`
//! ```
//!
//! A **change** ends the validity of every record of the stripe. A new **generation** ends that of
//! the belief, too. Other nodes add to word 0, this node adds to word 1: so the atomics of one word
//! come from one domain. A record carries both words as they were before its bytes were READ. It is
//! valid as long as neither has changed.
//!
//! The **belief** is what the node remembers of the mode. It carries the generations that were
//! there before the mode was READ, and counts only while they are the present ones. The word 0 is
//! the belief of a node that was told nothing: the stripe is in its first mode (`newcomer`).

use crate::mode::Mode;
use atoll_pool::fields::{Fields, Numbers};

/// Added to words 0 and 1 when an object of the stripe has changed.
pub(crate) const CHANGE: u64 = 1;
/// Added when the mode of the stripe changes, too.
pub(crate) const GENERATION: u64 = 1 << 32;

pub(crate) const INVALIDATIONS: u64 = 0;
pub(crate) const OWN_CHANGES: u64 = 8;
pub(crate) const BELIEF: u64 = 16;
pub(crate) const COUNTS: u64 = 24;
pub(crate) const TUNING: u64 = 32;
pub(crate) const BYPASSES: u64 = 40;
pub(crate) const WRITER: u64 = 48;
/// In the place of a writer's identity, with the incarnation of the memory node: it is not known
/// whether the node's bit is set.
pub(crate) const UNSETTLED: u64 = 1 << 63;
pub(crate) const OWNER: u64 = 56;

const BELIEF_FIELDS: Fields<3> = Fields::new([2, 31, 31]);
const BELIEVED: Numbers<Belief, 3> = Numbers([(1, Belief::Off), (2, Belief::Pinned), (3, Belief::On)]);

/// What a node remembers of a stripe's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belief {
    /// Nothing that still counts.
    Nothing,
    /// No object of the stripe is cached anywhere.
    Off,
    /// The same, for good.
    Pinned,
    /// Objects of the stripe may be cached.
    On,
}

impl Belief {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Nothing, Self::Off, Self::Pinned, Self::On];

    /// What a node may remember of this mode word.
    pub(crate) fn of(word: crate::mode::ModeWord) -> Self {
        match word.mode() {
            Mode::Off if word.is_pinned() => Self::Pinned,
            Mode::Off => Self::Off,
            Mode::On if word.admits_copies() => Self::On,
            Mode::On | Mode::Transition => Self::Nothing,
        }
    }
}

/// The words that say what is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// Word 0.
    pub(crate) invalidations: u64,
    /// Word 1.
    pub(crate) own_changes: u64,
}

impl Validity {
    fn generations(self) -> [u64; 2] {
        [self.invalidations, self.own_changes].map(|word| word >> 32 & BELIEF_FIELDS.max(1))
    }

    /// Whether no mode has changed between the two.
    pub(crate) fn is_same_generation(self, other: Self) -> bool {
        self.invalidations >> 32 == other.invalidations >> 32 && self.own_changes >> 32 == other.own_changes >> 32
    }

    /// The word of a belief that was formed after this was READ.
    pub(crate) fn belief_word(self, belief: Belief) -> u64 {
        let [others, own] = self.generations();
        BELIEF_FIELDS.pack([BELIEVED.number(belief), others, own])
    }

    /// What a belief's word still says, of a stripe that began as `first`.
    pub(crate) fn believes(self, word: u64, first: Belief) -> Belief {
        let [belief, others, own] = BELIEF_FIELDS.unpack(word);
        if self.generations() == [others, own] { BELIEVED.value(belief).unwrap_or(first) } else { Belief::Nothing }
    }
}

/// A stripe's line, as a client has READ it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripeLine {
    pub(crate) validity: Validity,
    pub(crate) belief: Belief,
    /// What the word of the belief was, to replace it.
    pub(crate) belief_word: u64,
    /// Word 7.
    pub(crate) owner: u64,
}

impl StripeLine {
    /// Whether the node is known to be among the stripe's owners.
    pub(crate) fn is_owner(&self) -> bool {
        self.owner == self.validity.invalidations.wrapping_add(1)
    }

    /// The line of a stripe that began as `first`.
    ///
    /// # Panics
    /// If these are not the eight words of a line.
    pub(crate) fn of(words: &[u64], first: Belief) -> Self {
        let validity = Validity { invalidations: words[0], own_changes: words[1] };
        Self { validity, belief: validity.believes(words[2], first), belief_word: words[2], owner: words[7] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::ModeWord;

    #[test]
    fn a_belief_counts_until_a_generation_changes_and_survives_changes() {
        let before = Validity { invalidations: 7 * GENERATION + 5, own_changes: 3 };
        let word = before.belief_word(Belief::On);
        assert_eq!(before.believes(word, Belief::Off), Belief::On);
        let changed = Validity { invalidations: before.invalidations + CHANGE, own_changes: 3 + CHANGE };
        assert_eq!(changed.believes(word, Belief::Off), Belief::On);
        assert!(changed.is_same_generation(before));
        for moved in [
            Validity { invalidations: before.invalidations + GENERATION, ..before },
            Validity { own_changes: before.own_changes + GENERATION, ..before },
        ] {
            assert_eq!(moved.believes(word, Belief::Off), Belief::Nothing);
            assert!(!moved.is_same_generation(before));
        }
        assert_eq!(before.believes(0, Belief::Off), Belief::Nothing);
    }

    #[test]
    fn a_line_of_zeros_believes_the_first_mode_until_its_node_is_told() {
        for first in [Belief::Off, Belief::On] {
            let line = |words: [u64; 8]| StripeLine::of(&words, first).belief;
            assert_eq!(line([0; 8]), first);
            assert_eq!(line([CHANGE, CHANGE, 0, 0, 0, 0, 0, 0]), first);
            assert_eq!(line([GENERATION, 0, 0, 0, 0, 0, 0, 0]), Belief::Nothing);
            assert_eq!(line([0, GENERATION, 0, 0, 0, 0, 0, 0]), Belief::Nothing);
        }
    }

    #[test]
    fn a_transition_is_never_believed() {
        let off = ModeWord::from_bits(0);
        let transition = off.with_mode(Mode::Transition);
        let on = transition.with_mode(Mode::On);
        let written = ModeWord::from_bits(on.bits() + ModeWord::writer(3));
        let believed = [off, transition, on, written, off.pinned()].map(Belief::of);
        assert_eq!(believed, [Belief::Off, Belief::Nothing, Belief::On, Belief::Nothing, Belief::Pinned]);
    }
}
