//! Who exports a region that processes of a host share: one word in memory that they share.
//!
//! ```text
//! who 30 | turn 31 | state 2     own atomics; 0 at first
//! ```
//!
//! | state | who |
//! |---|---|
//! | no client does | |
//! | a client is about to | its identity among the users of the memory: if it was killed, another one may |
//! | here | compute node and region of the export |
//!
//! Every export is a new *turn*. An attempt that lasts long counts as given up, for its process may
//! stand still.
//!
//! Addresses of regions are used again. So each exported region has a nonce. It combines the
//! export's word with a random id that the memory's first client chose. A client that lost its
//! attempt has a nonce that no export's word will ever match.

use atoll_fabric::shm::HostMemory;
use atoll_fabric::{Address, Identity};
use atoll_pool::fields::Fields;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

const WHO_BITS: u32 = Identity::BITS;
const TURN_BITS: u32 = 31;
const FIELDS: Fields<3> = Fields::new([WHO_BITS, TURN_BITS, 2]);
const REGION_BITS: u32 = 6;

/// Who exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exported {
    /// No client does.
    Nobody,
    /// A client is about to.
    Soon(Identity),
    /// A client does, here.
    Here(Address),
}

/// The latest export, and how often that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Export(u64);

impl Export {
    pub(crate) const NONE: Self = Self(0);

    fn new(exported: Exported, turn: u64) -> Self {
        let (state, who) = match exported {
            Exported::Nobody => (0, 0),
            Exported::Soon(who) => (1, who.bits().into()),
            Exported::Here(at) => {
                let node = at.compute_node().expect("an exported region is on a compute node");
                (2, u64::from(node) << REGION_BITS | u64::from(at.region()))
            }
        };
        Self(FIELDS.pack([who, turn & FIELDS.max(1), state]))
    }

    /// The word's export now.
    #[inline]
    pub(crate) fn of(word: &AtomicU64) -> Self {
        Self(word.load(Ordering::Acquire))
    }

    /// The bits of its word.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The export of these bits.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn exported(self) -> Exported {
        let [who, _, state] = FIELDS.unpack(self.0);
        match state {
            1 => Exported::Soon(Identity::from_bits(who as u32)),
            2 => Exported::Here(Address::on_compute((who >> REGION_BITS) as u16, who as u8 & 63, 0)),
            _ => Exported::Nobody,
        }
    }

    fn turn(self) -> u64 {
        FIELDS.unpack(self.0)[1]
    }

    /// What follows it. Only another region begins a turn.
    pub(crate) fn followed_by(self, exported: Exported) -> Self {
        let is_same_turn = matches!((self.exported(), exported), (Exported::Soon(_), Exported::Nobody));
        Self::new(exported, self.turn() + u64::from(!is_same_turn))
    }

    /// Whether its turn is a later one, or the same. Turns begin anew after two thousand million.
    pub(crate) fn is_not_before(self, other: Self) -> bool {
        self.turn().wrapping_sub(other.turn()) & FIELDS.max(1) <= FIELDS.max(1) / 2
    }

    /// What the region of this export has in it. `random` becomes the memory's id if it has none.
    pub(crate) fn nonce(self, id: &AtomicU64, random: u64) -> u64 {
        let id = match id.compare_exchange(0, random, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => random,
            Err(present) => present,
        };
        id ^ self.0
    }

    /// Changes who exports, if that is still as it was; what is in the word then.
    pub(crate) fn change(self, word: &AtomicU64, exported: Exported) -> Option<Self> {
        let after = self.followed_by(exported);
        word.compare_exchange(self.0, after.0, Ordering::SeqCst, Ordering::Relaxed).is_ok().then_some(after)
    }
}

/// An attempt of another client to export, and when this one saw it first.
#[derive(Debug)]
pub(crate) struct Attempt(Cell<(Export, u64)>);

impl Default for Attempt {
    fn default() -> Self {
        Self(Cell::new((Export::NONE, 0)))
    }
}

impl Attempt {
    /// Whether the client that was about to export does so no more, or has been for so long.
    pub(crate) fn has_given_up(
        &self,
        memory: &HostMemory,
        who: Identity,
        attempt: Export,
        (now_ns, patience_ns): (u64, u64),
    ) -> bool {
        let (seen, since_ns) = self.0.get();
        if seen != attempt {
            self.0.set((attempt, now_ns));
        }
        memory.is_dead(who) || seen == attempt && now_ns.saturating_sub(since_ns) >= patience_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_export_is_a_turn_and_an_attempt_that_failed_is_none() {
        let word = AtomicU64::new(0);
        let at = Address::on_compute(8191, 63, 0);
        let who = Identity::from_bits((1 << Identity::BITS) - 1);
        let first = Export::of(&word).change(&word, Exported::Soon(who)).unwrap();
        assert_eq!(first.exported(), Exported::Soon(who));
        let failed = first.change(&word, Exported::Nobody).unwrap();
        assert!(failed.turn() == first.turn() && first.change(&word, Exported::Here(at)).is_none());
        let again = failed.change(&word, Exported::Soon(who)).unwrap();
        let here = again.change(&word, Exported::Here(at)).unwrap();
        assert!(here.exported() == Exported::Here(at) && here.turn() > again.turn() && again.turn() > first.turn());
        assert!(here.is_not_before(again) && here.is_not_before(here) && !again.is_not_before(here));
        let last = Export::new(Exported::Nobody, FIELDS.max(1));
        assert!(last.followed_by(Exported::Here(at)).is_not_before(last), "turns begin anew");
    }
}
