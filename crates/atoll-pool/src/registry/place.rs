//! A place of the registry: the words that describe a client.
//!
//! | where | word | fields | access |
//! |---|---|---|---|
//! | signal, 64 B | 0 | state 2, identity 30, epoch 32 | atomics only |
//! | signal | 1 | protection 0, while its client is near the pool (see `protection`) | owned |
//! | signal | 2 | lease: rounds 32, rests begun and ended 16, signs of life 15, at rest 1 | owned |
//! | signal | 3 | how many protections it has had | atomics only |
//! | account, 128 B | 0 | the pid of its process in that process's own namespace | owned |
//! | account | 1 | that namespace | owned |
//! | account | 2 | seal: a hash of both and the epoch | owned |
//! | account | 4 | the memory nodes that its client may use, a bit each (see [`loss`](crate::loss)) | owned |
//! | account | 5 | the memory nodes without which its client uses the pool, a bit each | owned |
//! | account | 8 | objects added less objects removed, wrapping, by all its incarnations | owned |
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
//! The swap to Joining names the joiner's endpoint. So its death can be proven from then on,
//! however far it has come. A place that is not alive has no identity. The process in an account is
//! for display; no decision depends on it.

use crate::fields::Numbers;
use crate::in_flight::{OPERATIONS_MAX, ROUNDS_PROVING};
use atoll_fabric::{Identity, Origin};

pub(super) const STATE_SHIFT: u32 = 62;
/// The states by their numbers in a signal.
const STATES: Numbers<PlaceState, 4> =
    Numbers([(0, PlaceState::Free), (1, PlaceState::Taken), (2, PlaceState::Fenced), (3, PlaceState::Joining)]);
pub(super) const IDENTITY_SHIFT: u32 = 32;
pub(super) const EPOCH_MASK: u64 = u32::MAX as u64;
/// Bytes of a client's signal.
pub const SIGNAL_BYTES: u64 = 64;
/// Bytes of a client's account.
pub const ACCOUNT_BYTES: u64 = 128;

/// Words of a signal after its state, by their numbers.
pub(crate) mod signal_word {
    pub(crate) const PROTECTION: usize = 1;
    pub(crate) const LEASE: usize = 2;
    pub(crate) const PROTECTIONS: usize = 3;
}

/// Words of an account after those of its process, by their numbers.
pub(crate) mod account_word {
    pub(crate) const USED_NODES: usize = 4;
    pub(crate) const ABSENT_NODES: usize = 5;
    pub(crate) const OBJECTS: usize = 8;
    /// The first of what the client tells of its lookups.
    pub(crate) const LOOKUPS: usize = 9;
}

/// What a client tells of its lookups: how many have found their key, how many have not, and how
/// many would not have at each of five other capacities. The last five are the engine's.
pub type Lookups = [u64; 7];
/// Bytes of a client's [`Lookups`].
pub(crate) const LOOKUPS_BYTES: usize = size_of::<Lookups>();

const _: () = assert!(8 * (signal_word::PROTECTIONS as u64) < SIGNAL_BYTES);
const _: () = assert!(ORIGIN_WORDS <= account_word::USED_NODES);
const _: () = assert!(account_word::ABSENT_NODES < account_word::OBJECTS);
const _: () = assert!(8 * account_word::LOOKUPS + LOOKUPS_BYTES == ACCOUNT_BYTES as usize);

/// Protections of a client: one for each operation that may run, and as many for other work, such
/// as a round, and for what an engine protects between operations.
pub const PROTECTIONS: u32 = 2 * OPERATIONS_MAX;
/// Bytes of a client's protections.
pub const PROTECTIONS_BYTES: u64 = 8 * PROTECTIONS as u64;

/// The lowest bit of the rounds in a lease.
pub(super) const ROUNDS_SHIFT: u32 = 32;
/// The lowest bit of the rests in a lease.
pub(super) const RESTS_SHIFT: u32 = 16;
/// A sign of life in a lease.
pub(super) const ALIVE: u64 = 2;
/// The bit of a lease that is set while its client is at rest.
pub(super) const AT_REST: u64 = 1;
/// Words of an account that describe a process.
pub(super) const ORIGIN_WORDS: usize = 3;

/// The state of a place of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceState {
    /// The place has no client.
    Free,
    /// The place has a client.
    Taken,
    /// The place's client was shut out; it may still own chunks.
    Fenced,
    /// A client is about to join at this place.
    Joining,
}

impl PlaceState {
    pub(super) fn of(word: u64) -> Self {
        STATES.value(word >> STATE_SHIFT).expect("two bits are one of four numbers")
    }

    /// The signal word of a place in this state, whose client is `who`.
    pub fn word(self, who: Identity, epoch: u32) -> u64 {
        assert!(self.is_alive() || who == Identity::NOBODY, "only the living have an identity");
        STATES.number(self) << STATE_SHIFT | u64::from(who.bits()) << IDENTITY_SHIFT | u64::from(epoch)
    }

    /// Whether the place's client may write to the pool.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Taken | Self::Joining)
    }
}

/// A client, present or past: its place in the registry and the epoch of that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// The place, below the pool's `clients_max`.
    pub slot: u32,
    /// How often the place had been occupied, including this time.
    pub epoch: u32,
}

/// What the registry holds about one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The client of the place, or else its last client.
    pub incarnation: Incarnation,
    /// The state of the place.
    pub state: PlaceState,
    /// The lease, with the bit that is set while the client is at rest.
    pub lease: u64,
    /// The first word of its signal, from which the other fields are decoded.
    pub(super) signal: u64,
    /// The endpoint of a living client, by which its death is proven.
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

    /// Whether its client runs no operation ([`Member::rest`](super::Member::rest)).
    pub fn is_at_rest(&self) -> bool {
        self.lease & AT_REST != 0
    }

    /// How many rounds its client has announced ([`Member::renew`](super::Member::renew)); it
    /// wraps.
    pub fn rounds(&self) -> u32 {
        (self.lease >> ROUNDS_SHIFT) as u32
    }

    /// Whether all operations have ended that its client ran when it had this lease.
    pub(super) fn has_ended_since(&self, lease: u64) -> bool {
        let rests = |lease: u64| lease >> RESTS_SHIFT & 0xffff;
        let rounds = self.rounds().wrapping_sub((lease >> ROUNDS_SHIFT) as u32);
        self.is_at_rest() || rests(self.lease) != rests(lease) || rounds >= ROUNDS_PROVING
    }
}

/// The words of an account that describe a process, for one epoch.
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

/// Whether only `me` may change anything: every other client has left, is dead, or is at rest.
pub fn is_quiet(places: &[Place], me: Incarnation) -> bool {
    places.iter().all(|place| place.incarnation.slot == me.slot || !place.state.is_alive() || place.is_at_rest())
}

/// Whether two READs of the registry saw the same, and only `me` could make changes at both. Then
/// no other client changed anything in between.
pub fn was_quiet(before: &[Place], after: &[Place], me: Incarnation) -> bool {
    let is_same = |(before, after): (&Place, &Place)| before.incarnation.slot == me.slot || before == after;
    before.len() == after.len() && is_quiet(after, me) && before.iter().zip(after).all(is_same)
}
