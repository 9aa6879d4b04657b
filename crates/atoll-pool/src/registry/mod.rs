//! Who is a client: incarnations, what they protect, and how those that died are shut out.
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
//! | Joining, Taken | Fenced | any client | its endpoint [is dead](Endpoint::is_dead), or its lease stood still and it was [shut out](Endpoint::shut_out) |
//! | Taken | Fenced | the client | its thread panics: it does nothing any more |
//! | Fenced | Free | a repairer | nothing names it as owner any more |
//!
//! The swap to Joining names the joiner's endpoint, so that its death can be proven from then on,
//! whatever it has come to. A place that is not alive has no identity. What an account says of a
//! process is for display: nothing follows from it.
//!
//! A client may be Fenced while it runs: a fabric forced it, or words were damaged.
//! [`Member::check`] tells it. A client asks every round, and after every word that it did not
//! expect, before it acknowledges anything.
//!
//! A client may say that it is at rest: nothing that it does is under way, and it remembers
//! nothing. It says that it is not, and waits for that to land, before it looks at anything
//! ([`Member::begin`], [`Member::rest`]); so nobody who waits for operations under way ([`Grace`])
//! waits for a client that does nothing.
//!
//! An incarnation is alive from Joining to the end of Taken. One that a word names and that is not
//! alive, by a look at the registry later than the look at the word, will never write again.
//!
//! | module | concept |
//! |---|---|
//! | `member` | a client's own place |
//! | [`protection`] | chunks that operations must not see used anew |
//! | `fence` | how clients that died, or stand still, are shut out |
//! | `neighbours` | whom a client looks after |
//! | `watch` | who stands still, and whose operations of before have ended |
//! | `counts` | objects in the pool |

mod counts;
mod fence;
mod member;
mod neighbours;
pub mod protection;
mod watch;

pub use counts::{objects, objects_exact};
pub use fence::{Roll, declare_dead, fence_dead, fence_still, fence_suspect, free};
pub use member::Member;
pub(crate) use neighbours::Neighbours;
pub use neighbours::Reach;
pub use protection::{PROTECTIONS, PROTECTIONS_BYTES, Protection, protected_chunks};
pub use watch::{Grace, Watch};

use crate::in_flight::ROUNDS_PROVING;
use crate::{Layout, Pool, read_word};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, Origin, VerbError};
use std::ops::Range;

const STATE_SHIFT: u32 = 62;
const IDENTITY_SHIFT: u32 = 32;
const EPOCH_MASK: u64 = u32::MAX as u64;
/// Bytes of a client's signal.
pub const SIGNAL_BYTES: u64 = 64;
/// Bytes of a client's account.
pub const ACCOUNT_BYTES: u64 = 128;
const OBJECTS: u64 = 64;
/// Where a lease is, from its signal on.
pub const LEASE: u64 = 16;
/// Where the rounds begin in a lease.
const ROUNDS_SHIFT: u32 = 32;
/// Where the rests begin in a lease.
const RESTS_SHIFT: u32 = 16;
/// A sign of life in a lease.
const ALIVE: u64 = 2;
/// The bit of a lease that says that its client is at rest.
const AT_REST: u64 = 1;
/// Words of an account that tell of a process.
const ORIGIN_WORDS: usize = 3;

/// What a place of the registry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlaceState {
    /// Nobody's.
    Free = 0,
    /// A client's.
    Taken = 1,
    /// That of a client that was shut out; it may still own chunks.
    Fenced = 2,
    /// About to be a client's.
    Joining = 3,
}

impl PlaceState {
    fn of(word: u64) -> Self {
        match word >> STATE_SHIFT {
            0 => Self::Free,
            1 => Self::Taken,
            2 => Self::Fenced,
            _ => Self::Joining,
        }
    }

    /// The signal word of a place in this state, whose client is `who`.
    pub fn word(self, who: Identity, epoch: u32) -> u64 {
        debug_assert!(self.is_alive() || who == Identity::NOBODY, "only the living have an identity");
        (self as u64) << STATE_SHIFT | u64::from(who.bits()) << IDENTITY_SHIFT | u64::from(epoch)
    }

    /// Whether whoever is here may write to the pool.
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

/// How long something may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A client looks at the others this often, at most.
    pub look_ns: u64,
    /// A client whose lease stands still so long, by the observer's clock, is asked after.
    pub suspect_ns: u64,
    /// A Fenced place that nobody has finished for so long is repaired by others, too.
    pub help_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { look_ns: 100_000_000, suspect_ns: 200_000_000, help_ns: 1_000_000_000 }
    }
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
    signal: u64,
    /// The endpoint of a client that is alive, by which its death is proven.
    pub identity: Identity,
}

impl Place {
    fn of(slot: u32, signal: &[u64]) -> Self {
        Self {
            incarnation: Incarnation { slot, epoch: (signal[0] & EPOCH_MASK) as u32 },
            signal: signal[0],
            state: PlaceState::of(signal[0]),
            lease: signal[LEASE as usize / 8],
            identity: Identity::from_bits((signal[0] >> IDENTITY_SHIFT) as u32),
        }
    }

    /// Whether nothing of its client is under way ([`Member::rest`]).
    pub fn is_at_rest(&self) -> bool {
        self.lease & AT_REST != 0
    }

    /// How many rounds its client has announced ([`Member::renew`]), wrapping.
    pub fn rounds(&self) -> u32 {
        (self.lease >> ROUNDS_SHIFT) as u32
    }

    /// Whether all operations of its client have ended that were under way when it had this lease.
    fn has_ended_since(&self, lease: u64) -> bool {
        let rests = |lease: u64| lease >> RESTS_SHIFT & 0xffff;
        let rounds = self.rounds().wrapping_sub((lease >> ROUNDS_SHIFT) as u32);
        self.is_at_rest() || rests(self.lease) != rests(lease) || rounds >= ROUNDS_PROVING
    }
}

async fn swap<E: Endpoint>(endpoint: &E, at: Address, from: u64, to: u64) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let swap = batch.compare_and_swap(at, from, to);
    endpoint.post(&mut batch).await?;
    Ok(batch.swapped(swap))
}

pub(crate) async fn members_ever<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    Ok(read_word(endpoint, pool.layout.members_ever()).await?.min(pool.settings.clients_max.into()))
}

/// READs so many bytes of all places that were ever taken.
async fn read_places<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    at: impl Fn(&Layout) -> Address,
    place_bytes: u64,
) -> Result<Buffer, VerbError> {
    let count = members_ever(endpoint, pool).await?;
    read_first_places(endpoint, pool, at, place_bytes, count).await
}

/// The same of the first so many places.
async fn read_first_places<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    at: impl Fn(&Layout) -> Address,
    place_bytes: u64,
    count: u64,
) -> Result<Buffer, VerbError> {
    endpoint.read(at(&pool.layout), Buffer::sized((count * place_bytes) as usize)).await
}

/// All places that were ever taken.
pub async fn places<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<Place>, VerbError> {
    let count = members_ever(endpoint, pool).await?;
    first_places(endpoint, pool, count).await
}

/// All places, those that were never taken among them.
async fn all_places<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<Place>, VerbError> {
    first_places(endpoint, pool, pool.settings.clients_max.into()).await
}

async fn first_places<E: Endpoint>(endpoint: &E, pool: &Pool, count: u64) -> Result<Vec<Place>, VerbError> {
    let signals = read_first_places(endpoint, pool, |layout| layout.signal(0), SIGNAL_BYTES, count).await?;
    Ok((0..).zip(signals.words().chunks(8)).map(|(slot, signal)| Place::of(slot, signal)).collect())
}

/// Some places, in ranges of them.
pub(crate) async fn some_places<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    ranges: &[Range<u32>],
) -> Result<Vec<Place>, VerbError> {
    let mut places = Vec::new();
    for ranges in ranges.chunks(atoll_fabric::BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        for range in ranges {
            batch.read(pool.layout.signal(range.start), Buffer::sized(range.len() * SIGNAL_BYTES as usize));
        }
        endpoint.post(&mut batch).await?;
        for (nth, range) in ranges.iter().enumerate() {
            let signals = batch.take_nth(nth);
            places.extend(range.clone().zip(signals.words().chunks(8)).map(|(slot, signal)| Place::of(slot, signal)));
        }
    }
    Ok(places)
}

/// The process of a place's client, as it calls itself, if that is written for this client.
pub async fn origin<E: Endpoint>(endpoint: &E, pool: &Pool, who: Incarnation) -> Result<Option<Origin>, VerbError> {
    let account = endpoint.read(pool.layout.account(who.slot), Buffer::sized(8 * ORIGIN_WORDS)).await?;
    Ok(unsealed(account.words(), who.epoch))
}

/// Whether a place's state and lease are what they were at a look.
pub async fn is_still<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    let signal = pool.layout.signal(place.incarnation.slot);
    let mut batch = Batch::new();
    let [state, lease] = [signal, signal.add(LEASE)].map(|word| batch.read_word(word));
    endpoint.post(&mut batch).await?;
    Ok((batch.word(state), batch.word(lease)) == (place.signal, place.lease))
}

/// The words of an account that tell of a process, for one epoch.
fn sealed(origin: Origin, epoch: u32) -> [u64; ORIGIN_WORDS] {
    let words = [u64::from(origin.pid), origin.namespace, epoch.into()];
    let seal = rapidhash::v3::rapidhash_v3(words.map(u64::to_le_bytes).as_flattened());
    [words[0], words[1], seal]
}

/// The process that an account tells of, if it is that of this epoch and whole.
fn unsealed(account: &[u64], epoch: u32) -> Option<Origin> {
    let origin = Origin { pid: account[0] as u32, namespace: account[1] };
    (account[..ORIGIN_WORDS] == sealed(origin, epoch)).then_some(origin)
}

/// Whether only `me` may change anything: every other client is gone, or at rest.
pub fn is_quiet(places: &[Place], me: Incarnation) -> bool {
    places.iter().all(|place| place.incarnation.slot == me.slot || !place.state.is_alive() || place.is_at_rest())
}

/// Whether two looks at the registry, `me` making the only changes at both, saw the same: then
/// nobody else changed anything in between.
pub fn was_quiet(before: &[Place], after: &[Place], me: Incarnation) -> bool {
    let is_same = |(before, after): (&Place, &Place)| before.incarnation.slot == me.slot || before == after;
    before.len() == after.len() && is_quiet(after, me) && before.iter().zip(after).all(is_same)
}
