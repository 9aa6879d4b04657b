//! Who is a client: incarnations, what they protect, and how those that died are shut out.
//!
//! ```text
//! a signal, 64 B     word 0  state 2 | identity 30 | epoch 32                                       atomics only
//!                    word 1  epoch 32 | the chunk + 1 that its operation must not see reused 32     owned
//!                    word 2  lease: rounds made 32 | operations begun and ended 31 | at rest 1       owned
//! an account, 128 B  word 0  the pid that its process has in its own namespace                       owned
//!                    word 1  that namespace                                                          owned
//!                    word 2  seal: a hash of both and the epoch                                      owned
//!                    word 8  objects added less objects removed, wrapping, by all its incarnations  owned
//! ```
//!
//! A client is an **incarnation**: a place and an epoch, never used twice. Words of the pool that name an incarnation name it as owner.
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
//! The swap to Joining names the joiner's endpoint, so that its death can be proven from then on, whatever it has come to. A place that is not alive
//! has no identity. What an account says of a process is for display: nothing follows from it.
//!
//! A client may be Fenced while it runs: a fabric forced it, or words were damaged. [`Member::check`] tells it. A client asks every round, and after
//! every word that it did not expect, before it acknowledges anything.
//!
//! A client may say that it is at rest: nothing that it does is under way, and it remembers nothing. It says that it is not, and waits for that to land, before it looks
//! at anything ([`Member::begin`], [`Member::rest`]); so nobody who waits for operations under way ([`Grace`]) waits for a client that does nothing.
//!
//! An incarnation is alive from Joining to the end of Taken. One that a word names and that is not alive, by a look at the registry later than
//! the look at the word, will never write again.
//!
//! The protection guards a compare-and-swap against a chunk's reuse: a client publishes it, reads the slot again, and only then relies on
//! the slot's word. Whoever wants to reuse a chunk first unlinks every slot that points into it and then reads all signals
//! ([`protected_chunks`]); a chunk that one of them names waits. A WRITE orders the READ behind it, so either the client sees the slot
//! changed or the other sees the protection. What is not of a Taken place and its epoch does not count: who takes a place later reads slots
//! later.

use crate::{ChunkId, Layout, Pool, PoolError, read_word};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, Origin, VerbError};
use std::cell::Cell;
use std::collections::HashMap;

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
/// The bit of a lease that says that its client is at rest.
const AT_REST: u64 = 1;
/// Words of an account that tell of a process.
const ORIGIN_WORDS: usize = 3;
/// Looks at the counts of objects after the first, while they change.
const COUNT_LOOKS_MAX: u32 = 8;

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

/// A living incarnation, as it knows itself. Dropping it without [`Member::leave`] leaves its place taken, as a crash does.
#[derive(Debug)]
pub struct Member {
    /// Which one it is.
    pub incarnation: Incarnation,
    /// What its signal says of it for as long as it is a client.
    taken: u64,
    signal: Address,
    account: Address,
    deaths: Address,
    lease: Cell<u64>,
    is_at_rest: Cell<bool>,
    /// What word 8 of its account says, or will once what is under way has landed.
    objects: Cell<u64>,
    /// Whether a WRITE of that word may still be under way: another one must not overtake it.
    is_counting: Cell<bool>,
    /// Whether the place was that of a client that was shut out: then what that one held is to be reclaimed.
    pub took_over: bool,
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
    /// The chunk that its operation must not see reused.
    pub protected: Option<ChunkId>,
    /// Its signal's first word, from which the others are.
    signal: u64,
    /// The endpoint of a client that is alive, by which its death is proven.
    pub identity: Identity,
    /// The process of that, as it calls itself, if it is written for this epoch.
    pub origin: Option<Origin>,
}

impl Place {
    /// Whether nothing of its client is under way ([`Member::rest`]).
    pub fn is_at_rest(&self) -> bool {
        self.lease & AT_REST != 0
    }

    /// How many rounds its client has made ([`Member::renew`]), wrapping.
    pub fn rounds(&self) -> u32 {
        (self.lease >> ROUNDS_SHIFT) as u32
    }
}

impl Member {
    /// Takes a place: a free one, or one whose client was shut out. If there is none, the dead make room at once, and what stands still is asked after.
    pub async fn join<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Self, PoolError> {
        if let Some(member) = Self::take_place(endpoint, pool).await? {
            return Ok(member);
        }
        for place in all_places(endpoint, pool).await? {
            fence_dead(endpoint, pool, &place).await?;
        }
        if let Some(member) = Self::take_place(endpoint, pool).await? {
            return Ok(member);
        }
        fence_still(endpoint, pool, Times::default().suspect_ns).await?;
        let member = Self::take_place(endpoint, pool).await?;
        member.ok_or(PoolError::Full { clients_max: pool.settings.clients_max })
    }

    /// `None` if no place was free or Fenced when it was looked at.
    async fn take_place<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Option<Self>, PoolError> {
        let (layout, who) = (&pool.layout, endpoint.identity());
        for slot in 0..pool.settings.clients_max {
            let signal = layout.signal(slot);
            let found = read_word(endpoint, signal).await?;
            if PlaceState::of(found).is_alive() {
                continue;
            }
            if who == Identity::NOBODY {
                // Its death could never be proven. This swap changes nothing; a fork learns from it that it is one.
                swap(endpoint, signal, found, found).await?;
                return Err(VerbError::Unprovable.into());
            }
            // A client that looks at all signals looks at this one from now on, whatever becomes of the joiner.
            raise(endpoint, layout.members_ever(), u64::from(slot) + 1).await?;
            let incarnation = Incarnation { slot, epoch: (found & EPOCH_MASK).wrapping_add(1) as u32 };
            let [joining, taken] =
                [PlaceState::Joining, PlaceState::Taken].map(|state| state.word(who, incarnation.epoch));
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(signal, found, joining);
            let left = batch.read_word(signal.add(LEASE));
            endpoint.post(&mut batch).await?;
            if !batch.swapped(swap) {
                continue;
            }
            // The last client's lease goes on: a value that it had would look like one that has stood still since. And
            // that client may have been at rest.
            let lease = (batch.word(left) & !AT_REST).wrapping_add(1 << ROUNDS_SHIFT);
            let (account, deaths) = (layout.account(slot), layout.deaths());
            let mut batch = Batch::new();
            let mut origin = Buffer::new();
            origin.resize(8 * ORIGIN_WORDS);
            origin.words_mut().copy_from_slice(&sealed(endpoint.origin(), incarnation.epoch));
            batch.write(account, origin);
            batch.write_word(signal.add(LEASE), lease);
            let swap = batch.compare_and_swap(signal, joining, taken);
            // Behind the swap: the place's last client has left it or is shut out, so that the word is this client's alone from now on.
            let objects = batch.read_word(account.add(OBJECTS));
            endpoint.post(&mut batch).await?;
            if !batch.swapped(swap) {
                // It stood still, and was shut out.
                return Err(VerbError::Fenced.into());
            }
            let took_over = PlaceState::of(found) == PlaceState::Fenced;
            return Ok(Some(Self {
                incarnation,
                taken,
                signal,
                account,
                deaths,
                lease: Cell::new(lease),
                is_at_rest: Cell::new(false),
                objects: Cell::new(batch.word(objects)),
                is_counting: Cell::new(false),
                took_over,
            }));
        }
        Ok(None)
    }

    /// Whether it still is a client.
    ///
    /// # Errors
    /// [`VerbError::Fenced`] if it was shut out: it must neither write nor acknowledge anything any more.
    pub async fn check<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        if read_word(endpoint, self.signal).await? == self.taken { Ok(()) } else { Err(VerbError::Fenced) }
    }

    /// Gives the place back. The caller has put back everything that it owned.
    pub async fn leave<E: Endpoint>(self, endpoint: &E) -> Result<(), VerbError> {
        self.end(endpoint, PlaceState::Free).await
    }

    /// Ends a client that does nothing any more and has not put back what it owned: others will repair that.
    pub async fn abandon<E: Endpoint>(self, endpoint: &E) -> Result<(), VerbError> {
        count_death(endpoint, self.deaths).await?;
        self.end(endpoint, PlaceState::Fenced).await
    }

    async fn end<E: Endpoint>(self, endpoint: &E, state: PlaceState) -> Result<(), VerbError> {
        // What was posted unawaited must not land in the place's next time.
        endpoint.flush().await?;
        let ended = state.word(Identity::NOBODY, self.incarnation.epoch);
        let mut batch = Batch::new();
        batch.compare_and_swap(self.signal, self.taken, ended);
        endpoint.post(&mut batch).await
    }

    /// Adds to `batch` the WRITE that protects `chunk`; what is read behind it in the batch is read under its protection.
    #[inline]
    pub fn protect(&self, batch: &mut Batch, chunk: ChunkId) {
        batch.write_word(self.signal.add(8), u64::from(self.incarnation.epoch) << 32 | (u64::from(chunk.0) + 1));
    }

    /// Ends the protection, without waiting: the caller flushes its endpoint before it protects again, or the two WRITEs could land in the
    /// other order.
    #[inline]
    pub fn unprotect<E: Endpoint>(&self, endpoint: &E) {
        let mut batch = Batch::new();
        batch.write_word(self.signal.add(8), 0);
        endpoint.post_unawaited(&mut batch);
    }

    /// Moves the lease by a round, without waiting.
    pub fn renew<E: Endpoint>(&self, endpoint: &E) {
        self.lease.set(self.lease.get().wrapping_add(1 << ROUNDS_SHIFT));
        endpoint.post_unawaited(&mut self.lease_written());
    }

    /// Says that an operation begins. What is READ from now on is READ under this; nothing that was READ before may count.
    pub async fn begin<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        self.is_at_rest.set(false);
        self.move_within_round();
        endpoint.post(&mut self.lease_written()).await
    }

    /// Says that nothing is under way, once what was posted unawaited has landed.
    pub async fn rest<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        endpoint.flush().await?;
        self.is_at_rest.set(true);
        self.move_within_round();
        endpoint.post(&mut self.lease_written()).await
    }

    fn move_within_round(&self) {
        let (within, lease) = ((1 << ROUNDS_SHIFT) - 1, self.lease.get());
        self.lease.set(lease & !within | lease.wrapping_add(2) & within);
    }

    /// The WRITE of the lease.
    fn lease_written(&self) -> Batch {
        let mut batch = Batch::new();
        let rest = if self.is_at_rest.get() { AT_REST } else { 0 };
        batch.write_word(self.signal.add(LEASE), self.lease.get() | rest);
        batch
    }

    /// Counts objects added (or, if negative, removed) by this client. Waits for the last count to land, which most often has, and not for this one. A
    /// WRITE of the client's own word costs a NIC a fraction of what an atomic does.
    #[inline]
    pub async fn count_objects<E: Endpoint>(&self, endpoint: &E, by: i64) -> Result<(), VerbError> {
        if self.is_counting.get() {
            endpoint.flush().await?;
        }
        self.objects.set(self.objects.get().wrapping_add(by as u64));
        self.is_counting.set(true);
        let mut batch = Batch::new();
        batch.write_word(self.account.add(OBJECTS), self.objects.get());
        endpoint.post_unawaited(&mut batch);
        Ok(())
    }
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

async fn swap<E: Endpoint>(endpoint: &E, at: Address, from: u64, to: u64) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let swap = batch.compare_and_swap(at, from, to);
    endpoint.post(&mut batch).await?;
    Ok(batch.swapped(swap))
}

/// Raises an atomics-only word to at least `value`.
async fn raise<E: Endpoint>(endpoint: &E, at: Address, value: u64) -> Result<(), VerbError> {
    let mut found = read_word(endpoint, at).await?;
    while found < value {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, found, value);
        endpoint.post(&mut batch).await?;
        found = if batch.swapped(swap) { value } else { batch.word(swap) };
    }
    Ok(())
}

async fn members_ever<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
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
    let mut buffer = Buffer::new();
    buffer.resize((count * place_bytes) as usize);
    endpoint.read(at(&pool.layout), buffer).await
}

/// The chunk that a signal protects.
fn protected(signal: &[u64]) -> Option<ChunkId> {
    let counts = PlaceState::of(signal[0]) == PlaceState::Taken && signal[1] >> 32 == signal[0] & EPOCH_MASK;
    Some(ChunkId((signal[1] as u32).checked_sub(1).filter(|_| counts)?))
}

/// The chunks that operations of others than `but` must not see reused. Read after the slots that point into a chunk were unlinked.
pub async fn protected_chunks<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    but: Incarnation,
) -> Result<Vec<ChunkId>, VerbError> {
    let signals = read_places(endpoint, pool, |layout| layout.signal(0), SIGNAL_BYTES).await?;
    let others = signals.words().chunks(8).enumerate().filter(|(slot, _)| *slot != but.slot as usize);
    Ok(others.filter_map(|(_, signal)| protected(signal)).collect())
}

/// Objects in the pool: what all clients added less what all removed. Each client that was shut out may have left it wrong by the objects of
/// one batch, until a client that is alone counts anew.
///
/// A READ of many words is not one moment: what one client removed may be missing in it, and what another inserted in its stead be there. So the words are
/// looked at until they stand still, or a few times, of which the lowest sum counts.
pub async fn objects<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    let mut counts = object_counts(endpoint, pool).await?;
    let mut lowest = sum(&counts);
    for _ in 0..COUNT_LOOKS_MAX {
        let again = object_counts(endpoint, pool).await?;
        lowest = lowest.min(sum(&again));
        if std::mem::replace(&mut counts, again) == counts {
            return Ok(sum(&counts).max(0) as u64);
        }
    }
    Ok(lowest.max(0) as u64)
}

/// The same as it is counted, wrapping.
pub async fn objects_exact<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    Ok(sum(&object_counts(endpoint, pool).await?) as u64)
}

/// What each client counted.
async fn object_counts<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<u64>, VerbError> {
    let accounts = read_places(endpoint, pool, |layout| layout.account(0), ACCOUNT_BYTES).await?;
    Ok(accounts.words().chunks(16).map(|account| account[OBJECTS as usize / 8]).collect())
}

fn sum(counts: &[u64]) -> i64 {
    counts.iter().fold(0u64, |sum, count| sum.wrapping_add(*count)) as i64
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
    let accounts = read_first_places(endpoint, pool, |layout| layout.account(0), ACCOUNT_BYTES, count).await?;
    let place = |(slot, (signal, account)): (usize, (&[u64], &[u64]))| {
        let incarnation = Incarnation { slot: slot as u32, epoch: (signal[0] & EPOCH_MASK) as u32 };
        Place {
            incarnation,
            signal: signal[0],
            state: PlaceState::of(signal[0]),
            lease: signal[2],
            protected: protected(signal),
            identity: Identity::from_bits((signal[0] >> IDENTITY_SHIFT) as u32),
            origin: unsealed(account, incarnation.epoch),
        }
    };
    Ok(signals.words().chunks(8).zip(accounts.words().chunks(16)).enumerate().map(place).collect())
}

/// Whether only `me` may change anything: every other client is gone, or at rest.
pub fn is_quiet(places: &[Place], me: Incarnation) -> bool {
    places.iter().all(|place| place.incarnation.slot == me.slot || !place.state.is_alive() || place.is_at_rest())
}

/// Whether two looks at the registry, `me` making the only changes at both, saw the same: then nobody else changed anything in between.
pub fn was_quiet(before: &[Place], after: &[Place], me: Incarnation) -> bool {
    let is_same = |(before, after): (&Place, &Place)| before.incarnation.slot == me.slot || before == after;
    before.len() == after.len() && is_quiet(after, me) && before.iter().zip(after).all(is_same)
}

/// Makes the place of a client Fenced if it is dead; whether this caller did. Harms no client that lives.
pub async fn fence_dead<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    let is_gone = place.state.is_alive() && endpoint.is_dead(place.identity).await?;
    if is_gone { declare_dead(endpoint, pool, place).await } else { Ok(false) }
}

/// The same of a client whose lease stood still, which the fabric may shut out by force.
pub async fn fence_suspect<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    let is_gone = place.state.is_alive() && endpoint.shut_out(place.identity).await?;
    if is_gone { declare_dead(endpoint, pool, place).await } else { Ok(false) }
}

/// Makes the place of a living client Fenced. The caller knows that this client will never write again.
pub async fn declare_dead<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    if place.state == PlaceState::Taken {
        count_death(endpoint, pool.layout.deaths()).await?;
    }
    let (signal, epoch) = (pool.layout.signal(place.incarnation.slot), place.incarnation.epoch);
    swap(endpoint, signal, place.signal, PlaceState::Fenced.word(Identity::NOBODY, epoch)).await
}

/// Counted before, not after: one that is counted twice makes a count of everything that was not needed, one that is not counted makes none.
async fn count_death<E: Endpoint>(endpoint: &E, deaths: Address) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.fetch_and_add(deaths, 1);
    endpoint.post(&mut batch).await
}

/// Makes the places of clients Fenced that stand still for `ns` from now on, as far as the fabric shuts them out; how many.
pub async fn fence_still<E: Endpoint>(endpoint: &E, pool: &Pool, ns: u64) -> Result<u64, VerbError> {
    let before = all_places(endpoint, pool).await?;
    endpoint.pause(ns).await;
    let mut fenced = 0;
    for (before, place) in before.iter().zip(all_places(endpoint, pool).await?) {
        if *before == place {
            fenced += u64::from(fence_suspect(endpoint, pool, &place).await?);
        }
    }
    Ok(fenced)
}

/// Frees a Fenced place whose client owns nothing any more; whether it did.
pub async fn free<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    debug_assert_eq!(place.state, PlaceState::Fenced);
    let (signal, epoch) = (pool.layout.signal(place.incarnation.slot), place.incarnation.epoch);
    swap(endpoint, signal, place.signal, PlaceState::Free.word(Identity::NOBODY, epoch)).await
}

/// Who is alive, by one look at the registry: to be asked after owners that were read before.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    /// Low 16 bits of the epoch, by place.
    alive: HashMap<u32, u16>,
}

impl Roll {
    /// Calls the roll.
    pub fn of(places: &[Place]) -> Self {
        let alive = places.iter().filter(|place| place.state.is_alive());
        Self { alive: alive.map(|place| (place.incarnation.slot, place.incarnation.epoch as u16)).collect() }
    }

    /// Whether the owner that a word names (with the low bits of its epoch) is alive.
    pub fn has(&self, slot: u32, epoch: u16) -> bool {
        self.alive.get(&slot) == Some(&epoch)
    }
}

/// Who stands still: one observer's memory of leases.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// By place: what was seen, and since when on the observer's clock.
    seen: HashMap<u32, (u64, u64, u64)>,
}

impl Watch {
    /// For how long `place` has stood still, by what this observer has seen: it began to READ at `asked_ns`, and had the answer at `told_ns`.
    ///
    /// A word that changed is new at `told_ns` at the latest; one that did not stood still until `asked_ns` at least. Else a client that makes its
    /// rounds would be shut out because an observer's READ took long.
    pub fn still_ns(&mut self, place: &Place, asked_ns: u64, told_ns: u64) -> u64 {
        let (state, lease) = (place.signal, place.lease);
        let seen = self.seen.entry(place.incarnation.slot).or_insert((state, lease, told_ns));
        if (seen.0, seen.1) != (state, lease) {
            *seen = (state, lease, told_ns);
        }
        asked_ns.saturating_sub(seen.2)
    }
}

/// Waits for the operations that are under way when it begins: everybody's but the one's who waits.
///
/// A client moves its lease between operations only, or says that it is at rest. Once it has moved or rests, or the client is gone, no operation of before is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grace {
    unseen: Vec<(Incarnation, u64)>,
}

impl Grace {
    /// Begins now. A client that moves its lease in the middle of an operation must not go on with what it READ before.
    pub async fn begin<E: Endpoint>(endpoint: &E, pool: &Pool, me: Incarnation) -> Result<Self, VerbError> {
        let taken = places(endpoint, pool).await?.into_iter().filter(|place| place.state == PlaceState::Taken);
        let others = taken.filter(|place| place.incarnation.slot != me.slot && place.lease & AT_REST == 0);
        Ok(Self { unseen: others.map(|place| (place.incarnation, place.lease)).collect() })
    }

    /// Whether all have been between operations since.
    pub async fn is_over<E: Endpoint>(&mut self, endpoint: &E, pool: &Pool) -> Result<bool, VerbError> {
        if self.unseen.is_empty() {
            return Ok(true);
        }
        let places = places(endpoint, pool).await?;
        self.unseen.retain(|(who, lease)| {
            places
                .iter()
                .any(|place| place.state == PlaceState::Taken && place.incarnation == *who && place.lease == *lease)
        });
        Ok(self.unseen.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(state: PlaceState, epoch: u32, rounds: u64) -> Place {
        let incarnation = Incarnation { slot: 3, epoch };
        let identity = if state.is_alive() { Identity::from_bits(7) } else { Identity::NOBODY };
        let signal = state.word(identity, epoch);
        Place { incarnation, state, lease: rounds << ROUNDS_SHIFT, protected: None, signal, identity, origin: None }
    }

    /// Where fences are forced, a client that is thought to stand still is shut out.
    #[test]
    fn a_client_that_makes_its_rounds_never_stands_still() {
        let mut watch = Watch::default();
        for round in 0..10 {
            let seen_ns = 1_000 * round;
            assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, round), seen_ns, seen_ns), 0);
            assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, round), seen_ns + 900, seen_ns + 950), 900);
        }
        assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, 9), 20_000, 20_000), 11_000);
        // A look that took long proves no more than that it stood still until the look began.
        assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, 9), 20_000, 90_000), 11_000);
        // The next client of the place has not stood still for as long as the last one.
        assert_eq!(watch.still_ns(&place(PlaceState::Taken, 2, 9), 20_000, 20_000), 0);
        assert_eq!(watch.still_ns(&place(PlaceState::Fenced, 2, 9), 20_500, 20_500), 0);
    }
}
