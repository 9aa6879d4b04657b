//! A place of the registry: the words by which a client is known.
//!
//! ```text
//! a signal, 64 B     word 0  state 2 | identity 30 | epoch 32                                       atomics only
//!                    word 1  protection 0                                                            owned
//!                    word 2  lease: rounds 32 | rests begun and ended 16 | signs of life 15 | at rest 1  owned
//!                    word 3  how many protections it has had                                         atomics only
//! an account, 128 B  word 0  the pid that its process has in its own namespace                       owned
//!                    word 1  that namespace                                                          owned
//!                    word 2  seal: a hash of both and the epoch                                      owned
//!                    word 8  objects added less objects removed, wrapping, by all its incarnations  owned
//! ```
//!
//! A client is an **incarnation**: a place and an epoch, never used twice. Words of the pool that
//! name an incarnation name it as owner.
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | Free, Fenced | Joining, next epoch, its identity | a process | it wants a client; nothing of an earlier epoch is alive |
//! | Joining | Taken | the same | its account is written, and its lease goes on from where the place's last one ended |
//! | Taken | Free | the client | it has put back everything |
//! | Joining, Taken | Fenced | any client | its endpoint [is dead](atoll_fabric::Endpoint::is_dead), or its lease stood still and it was [shut out](atoll_fabric::Endpoint::shut_out) |
//! | Taken | Fenced | the client | its thread panics: it does nothing any more |
//! | Fenced | Free | a repairer | nothing names it as owner any more |
//!
//! The swap to Joining names the joiner's endpoint, so that its death can be proven from then on,
//! whatever it has come to. A place that is not alive has no identity. What an account says of a
//! process is for display: nothing follows from it.

use crate::in_flight::{OPERATIONS_MAX, ROUNDS_PROVING};
use atoll_fabric::{Identity, Origin};

pub(super) const STATE_SHIFT: u32 = 62;
pub(super) const IDENTITY_SHIFT: u32 = 32;
pub(super) const EPOCH_MASK: u64 = u32::MAX as u64;
/// Bytes of a client's signal.
pub const SIGNAL_BYTES: u64 = 64;
/// Bytes of a client's account.
pub const ACCOUNT_BYTES: u64 = 128;

/// Words of a signal behind its state, by their numbers.
pub(crate) mod signal_word {
    pub(crate) const PROTECTION: usize = 1;
    pub(crate) const LEASE: usize = 2;
    pub(crate) const PROTECTIONS: usize = 3;
}

/// Words of an account behind those of its process, by their numbers.
pub(crate) mod account_word {
    pub(crate) const OBJECTS: usize = 8;
}

const _: () = assert!(8 * (signal_word::PROTECTIONS as u64) < SIGNAL_BYTES);
const _: () = assert!(ORIGIN_WORDS <= account_word::OBJECTS && 8 * (account_word::OBJECTS as u64) < ACCOUNT_BYTES);

/// Protections of a client: one for each operation that may be under way, and one for what each of
/// them does besides, as in a round that it makes.
pub const PROTECTIONS: u32 = 2 * OPERATIONS_MAX;
/// Bytes of a client's protections.
pub const PROTECTIONS_BYTES: u64 = 8 * PROTECTIONS as u64;

/// Where the rounds begin in a lease.
pub(super) const ROUNDS_SHIFT: u32 = 32;
/// Where the rests begin in a lease.
pub(super) const RESTS_SHIFT: u32 = 16;
/// A sign of life in a lease.
pub(super) const ALIVE: u64 = 2;
/// The bit of a lease that says that its client is at rest.
pub(super) const AT_REST: u64 = 1;
/// Words of an account that tell of a process.
pub(super) const ORIGIN_WORDS: usize = 3;

/// What a place of the registry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlaceState {
    /// No client's.
    Free = 0,
    /// A client's.
    Taken = 1,
    /// That of a client that was shut out; it may still own chunks.
    Fenced = 2,
    /// About to be a client's.
    Joining = 3,
}

impl PlaceState {
    pub(super) fn of(word: u64) -> Self {
        match word >> STATE_SHIFT {
            0 => Self::Free,
            1 => Self::Taken,
            2 => Self::Fenced,
            _ => Self::Joining,
        }
    }

    /// The signal word of a place in this state, whose client is `who`.
    pub fn word(self, who: Identity, epoch: u32) -> u64 {
        assert!(self.is_alive() || who == Identity::NOBODY, "only the living have an identity");
        (self as u64) << STATE_SHIFT | u64::from(who.bits()) << IDENTITY_SHIFT | u64::from(epoch)
    }

    /// Whether the place's client may write to the pool.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Taken | Self::Joining)
    }
}

/// A client that is, or was: its place in the registry and the epoch of that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The place, below the pool's `clients_max`.
    pub slot: u32,
    /// How often the place had been taken, this time included.
    pub epoch: u32,
}

/// What the registry says of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The client, if there is one; else the last one.
    pub incarnation: Incarnation,
    /// What the place is.
    pub state: PlaceState,
    /// Its lease, with the bit that says whether it is at rest.
    pub lease: u64,
    /// Its signal's first word, from which the others are.
    pub(super) signal: u64,
    /// The endpoint of a client that is alive, by which its death is proven.
    pub identity: Identity,
}

impl Place {
    pub(super) fn of(slot: u32, signal: &[u64]) -> Self {
        Self {
            incarnation: Incarnation { slot, epoch: (signal[0] & EPOCH_MASK) as u32 },
            signal: signal[0],
            state: PlaceState::of(signal[0]),
            lease: signal[signal_word::LEASE],
            identity: Identity::from_bits((signal[0] >> IDENTITY_SHIFT) as u32),
        }
    }

    /// Whether nothing of its client is under way ([`Member::rest`](super::Member::rest)).
    pub fn is_at_rest(&self) -> bool {
        self.lease & AT_REST != 0
    }

    /// How many rounds its client has announced ([`Member::renew`](super::Member::renew)), wrapping.
    pub fn rounds(&self) -> u32 {
        (self.lease >> ROUNDS_SHIFT) as u32
    }

    /// Whether all operations of its client have ended that were under way when it had this lease.
    pub(super) fn has_ended_since(&self, lease: u64) -> bool {
        let rests = |lease: u64| lease >> RESTS_SHIFT & 0xffff;
        let rounds = self.rounds().wrapping_sub((lease >> ROUNDS_SHIFT) as u32);
        self.is_at_rest() || rests(self.lease) != rests(lease) || rounds >= ROUNDS_PROVING
    }
}

/// The words of an account that tell of a process, for one epoch.
pub(super) fn sealed(origin: Origin, epoch: u32) -> [u64; ORIGIN_WORDS] {
    let words = [u64::from(origin.pid), origin.namespace, epoch.into()];
    let seal = rapidhash::v3::rapidhash_v3(words.map(u64::to_le_bytes).as_flattened());
    [words[0], words[1], seal]
}

/// The process that an account names, if the account is whole and of this epoch.
pub(super) fn unsealed(account: &[u64], epoch: u32) -> Option<Origin> {
    let origin = Origin { pid: account[0] as u32, namespace: account[1] };
    (account[..ORIGIN_WORDS] == sealed(origin, epoch)).then_some(origin)
}

/// Whether only `me` may change anything: every other client is gone, or at rest.
pub fn is_quiet(places: &[Place], me: Incarnation) -> bool {
    places.iter().all(|place| place.incarnation.slot == me.slot || !place.state.is_alive() || place.is_at_rest())
}

/// Whether two looks at the registry, `me` making the only changes at both, saw the same: then no
/// other client changed anything in between.
pub fn was_quiet(before: &[Place], after: &[Place], me: Incarnation) -> bool {
    let is_same = |(before, after): (&Place, &Place)| before.incarnation.slot == me.slot || before == after;
    before.len() == after.len() && is_quiet(after, me) && before.iter().zip(after).all(is_same)
}
