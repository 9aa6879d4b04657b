//! The mode of a stripe: whether objects of the stripe may be cached.
//!
//! ```text
//! 0      2        3                       22                    62     64
//! +------+--------+-----------------------+---------------------+------+
//! | mode | pinned | version               | writers, a bit each |      |
//! +------+--------+-----------------------+---------------------+------+
//! ```
//!
//! | the mode | a client wants | the client |
//! |---|---|---|
//! | Off | Off | is done |
//! | Off, pinned | On, pinned | is done: the mode stays |
//! | Off, not pinned | pinned, for an atomic of the application | swaps it to Off, pinned |
//! | Off, not pinned | On | swaps it to Transition, tells every node to forget the mode, swaps it to On |
//! | On | On | is done |
//! | On | Off, pinned | swaps it to Transition, tells every node to forget the mode and its copies, swaps it to Off |
//! | Transition, seen not long ago | On | leaves it to the client that switches |
//! | Transition, seen for a while | On | tells every node, swaps it to Off, begins again |
//! | Transition | Off, pinned | the same |
//!
//! | mode | a read | a write |
//! |---|---|---|
//! | Off | READs | WRITEs |
//! | Transition | READs, makes no copy | WRITEs, and invalidates |
//! | On | hits, or READs and makes a copy | WRITEs, and invalidates |
//! | On, while a node writes ([`Promise::Linearizable`](crate::Promise)) | READs, makes no copy | waits for its turn, then as On |
//!
//! A node remembers Off and On, never Transition. "To tell a node" is a fetch-and-add to its
//! stripe's invalidation word, after which nothing that the node remembered before is valid. So
//! when On is set, no node believes Off any more: a WRITE that was posted under that belief has
//! landed, or its writer finds the word changed and invalidates. When Off is set, no copy is left.
//! A node that was told nothing since it joined remembers the first mode (`newcomer`).
//!
//! Writers of [`Promise::Linearizable`](crate::Promise) set the bit of their compute node while
//! they write. No copy is made while a bit is set. The bit of a dead node is cleared when the node
//! is buried.

use crate::near::Switch;
use atoll_pool::fields::{Fields, Numbers};

const FIELDS: Fields<4> = Fields::new([2, 1, 19, WRITERS_MAX as u32]);
const WRITERS_SHIFT: u32 = 22;

/// Most compute nodes that can write with [`Promise::Linearizable`](crate::Promise).
pub const WRITERS_MAX: usize = 40;

/// Whether objects may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// They are not.
    Off,
    /// A client switches the mode.
    Transition,
    /// They are.
    On,
}

const MODES: Numbers<Mode, 3> = Numbers([(0, Mode::Off), (1, Mode::Transition), (2, Mode::On)]);

/// What a client does to switch a stripe: a row of the first table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: the mode is the one that is wanted, or stays.
    Done,
    /// It pins the mode.
    Pin,
    /// It begins a transition, and ends it in the mode that is wanted.
    Begin,
    /// Nothing: another client switches.
    Leave,
    /// It ends a transition of another client.
    End,
}

impl Step {
    /// The step from this mode to the one that is wanted. `was_left` says whether the transition
    /// has been there for a while.
    pub(crate) fn of(mode: Mode, is_pinned: bool, to: Switch, was_left: bool) -> Self {
        match (mode, to) {
            (Mode::On, Switch::On) | (Mode::Off, Switch::Off) => Self::Done,
            (Mode::Off, Switch::On | Switch::Pin) if is_pinned => Self::Done,
            (Mode::Off, Switch::Pin) => Self::Pin,
            (Mode::Off, Switch::On) | (Mode::On, Switch::Off | Switch::Pin) => Self::Begin,
            (Mode::Transition, Switch::On) if !was_left => Self::Leave,
            (Mode::Transition, _) => Self::End,
        }
    }
}

/// The word of a stripe. In the directory it is combined with the first mode by an exclusive or, so
/// that a table of zeros has every stripe in its first mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModeWord(u64);

impl ModeWord {
    /// The first word of a stripe that is cached at first.
    pub(crate) const FIRST_ON: Self = Self(2);

    /// The mode of these bits. A word with an unknown mode counts as in transition:
    /// nothing is cached, and writes invalidate.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The mode.
    pub fn mode(self) -> Mode {
        MODES.value(FIELDS.unpack(self.0)[0]).unwrap_or(Mode::Transition)
    }

    /// Whether the mode stays off, because the application changes an object of the stripe by
    /// atomics.
    pub fn is_pinned(self) -> bool {
        FIELDS.unpack(self.0)[1] == 1
    }

    /// Whether a compute node writes.
    pub fn has_writers(self) -> bool {
        FIELDS.unpack(self.0)[3] != 0
    }

    /// Whether a write has to invalidate copies.
    pub fn needs_invalidations(self) -> bool {
        self.mode() != Mode::Off
    }

    /// Whether a copy may be made.
    pub fn admits_copies(self) -> bool {
        self.mode() == Mode::On && !self.has_writers()
    }

    /// The same word in another mode. It differs from every earlier word of the stripe.
    pub fn with_mode(self, mode: Mode) -> Self {
        let [_, pinned, version, writers] = FIELDS.unpack(self.0);
        let version = (version + 1) & FIELDS.max(2);
        Self(FIELDS.pack([MODES.number(mode), pinned, version, writers]))
    }

    /// The same word, off for good.
    pub fn pinned(self) -> Self {
        let [_, _, version, writers] = FIELDS.unpack(self.0);
        Self(FIELDS.pack([MODES.number(Mode::Off), 1, version, writers]))
    }

    /// The word without the bits of writers.
    pub(crate) fn without_writers(self) -> u64 {
        self.0 & ((1 << WRITERS_SHIFT) - 1)
    }

    /// The bits of writers alone.
    pub(crate) fn writers(self) -> u64 {
        self.0 & !((1 << WRITERS_SHIFT) - 1)
    }

    /// Whether both words are of the same transition: a word that only has other writers is.
    pub fn is_same_transition(self, other: Self) -> bool {
        self.without_writers() == other.without_writers()
    }

    /// What a compute node adds before it writes, and subtracts afterwards.
    ///
    /// # Panics
    /// If the place is [`WRITERS_MAX`] or more.
    pub fn writer(place: usize) -> u64 {
        assert!(place < WRITERS_MAX, "a place that can write");
        1 << (WRITERS_SHIFT + place as u32)
    }

    /// Whether the compute node of this place writes.
    pub fn is_writer(self, place: usize) -> bool {
        place < WRITERS_MAX && self.0 & Self::writer(place) != 0
    }
}

const _: () = assert!(WRITERS_SHIFT == 2 + 1 + 19 && WRITERS_SHIFT as usize + WRITERS_MAX <= 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, follow};

    const SWITCHES: [Switch; 3] = [Switch::On, Switch::Off, Switch::Pin];

    #[test]
    fn one_row_of_the_first_table_matches_every_switch() {
        type Case = (Mode, bool, Switch, bool);
        let rows: [Row<Case, Step>; 9] = [
            ("Off | Off", |(mode, _, to, _)| (*mode, *to) == (Mode::Off, Switch::Off), Step::Done),
            (
                "Off, pinned | On, pinned",
                |(mode, pinned, to, _)| *mode == Mode::Off && *pinned && *to != Switch::Off,
                Step::Done,
            ),
            (
                "Off, not pinned | pinned",
                |(mode, pinned, to, _)| !pinned && (*mode, *to) == (Mode::Off, Switch::Pin),
                Step::Pin,
            ),
            (
                "Off, not pinned | On",
                |(mode, pinned, to, _)| !pinned && (*mode, *to) == (Mode::Off, Switch::On),
                Step::Begin,
            ),
            ("On | On", |(mode, _, to, _)| (*mode, *to) == (Mode::On, Switch::On), Step::Done),
            ("On | Off, pinned", |(mode, _, to, _)| *mode == Mode::On && *to != Switch::On, Step::Begin),
            (
                "Transition, seen not long ago | On",
                |(mode, _, to, left)| !left && (*mode, *to) == (Mode::Transition, Switch::On),
                Step::Leave,
            ),
            (
                "Transition, seen for a while | On",
                |(mode, _, to, left)| *left && (*mode, *to) == (Mode::Transition, Switch::On),
                Step::End,
            ),
            ("Transition | Off, pinned", |(mode, _, to, _)| *mode == Mode::Transition && *to != Switch::On, Step::End),
        ];
        let cases = [Mode::Off, Mode::Transition, Mode::On].into_iter().flat_map(|mode| {
            SWITCHES.into_iter().flat_map(move |to| {
                [(false, false), (false, true), (true, false), (true, true)]
                    .map(|(is_pinned, was_left)| (mode, is_pinned, to, was_left))
            })
        });
        follow(&rows, cases, |(mode, is_pinned, to, was_left)| Step::of(*mode, *is_pinned, *to, *was_left));
    }

    #[test]
    fn one_row_of_the_second_table_matches_every_word() {
        // Whether a read makes a copy, and whether a write invalidates.
        let rows: [Row<ModeWord, (bool, bool)>; 4] = [
            ("Off", |word| word.mode() == Mode::Off, (false, false)),
            ("Transition", |word| word.mode() == Mode::Transition, (false, true)),
            ("On", |word| word.mode() == Mode::On && !word.has_writers(), (true, true)),
            ("On, while a node writes", |word| word.mode() == Mode::On && word.has_writers(), (false, true)),
        ];
        let mut words = Vec::new();
        for low in 0..8 {
            for writers in [0, ModeWord::writer(0), ModeWord::writer(WRITERS_MAX - 1)] {
                words.push(ModeWord::from_bits(low | writers));
            }
        }
        follow(&rows, words, |word| (word.admits_copies(), word.needs_invalidations()));
    }

    #[test]
    fn a_new_stripe_is_off_and_every_word_has_one_mode() {
        let new = ModeWord::from_bits(0);
        assert_eq!((new.mode(), new.is_pinned(), new.has_writers()), (Mode::Off, false, false));
        assert_eq!(ModeWord::from_bits(3).mode(), Mode::Transition, "damaged words are the careful case");
        let on = new.with_mode(Mode::Transition).with_mode(Mode::On);
        assert!(on.admits_copies() && on != new.with_mode(Mode::On));
        let off = on.with_mode(Mode::Transition).with_mode(Mode::Off);
        assert!(off.mode() == Mode::Off && off != new, "a word does not come back");
    }

    #[test]
    fn the_bit_of_a_writer_forbids_copies_and_nothing_else() {
        let on = ModeWord::from_bits(0).with_mode(Mode::On);
        for place in [0, 1, WRITERS_MAX - 1] {
            let written = ModeWord::from_bits(on.bits() + ModeWord::writer(place));
            assert!(written.mode() == Mode::On && !written.admits_copies() && written.is_writer(place));
            assert!(written.is_same_transition(on) && !written.is_writer(place ^ 1));
            assert_eq!(written.bits() - ModeWord::writer(place), on.bits());
        }
    }

    #[test]
    fn a_pinned_stripe_stays_pinned() {
        let pinned = ModeWord::from_bits(0).with_mode(Mode::On).pinned();
        assert!(pinned.is_pinned() && pinned.mode() == Mode::Off);
        assert!(pinned.with_mode(Mode::Transition).is_pinned());
    }
}
