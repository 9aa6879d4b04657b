//! Who is a client: incarnations, what they protect, and how those that died are shut out.
//!
//! ```text
//! a signal, 64 B     word 0  state 2 | 0 30 | epoch 32                                              atomics only
//!                    word 1  epoch 32 | the chunk + 1 that its operation must not see reused 32     owned
//!                    word 2  lease: rounds made 32 | operations begun and ended 31 | at rest 1       owned
//! an account, 128 B  word 0..4  identity: on one host pid, start time, pid namespace, boot id       atomics only
//!                    word 4  seal: a hash of the identity and the epoch                             atomics only
//!                    word 8  objects added less objects removed, wrapping, by all its incarnations  owned
//! ```
//!
//! A client is an **incarnation**: a place and an epoch, never used twice. Words of the pool that name an incarnation name it as owner.
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | Free, Fenced | Joining, next epoch | a process | it wants a client; nothing of an earlier epoch is alive |
//! | Joining | Taken | the same | its identity is written |
//! | Joining | Fenced | anybody | it stood still for [`Times::joining_ns`]: it has not made any effect yet, and will begin anew |
//! | Taken | Free | the client | it has put back everything |
//! | Taken | Fenced | anybody | its lease stood still, and the fabric has shut it out ([`Endpoint::fence`]) |
//! | Taken | Fenced | the client | its thread panics: it does nothing any more |
//! | Fenced | Free | a repairer | nothing names it as owner any more |
//!
//! A place that is Joining is taken away without a fence, because nobody knows yet whom to shut out. So what a joiner does may land long after
//! the place has become another's: it does nothing but compare-and-swaps, and the words of the identity are masked with the epoch, so that
//! no swap of an earlier time finds what it expects.
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
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, VerbError};
use std::collections::HashMap;

const STATE_SHIFT: u32 = 62;
const EPOCH_MASK: u64 = u32::MAX as u64;
/// Bytes of a client's signal.
pub const SIGNAL_BYTES: u64 = 64;
/// Bytes of a client's account.
pub const ACCOUNT_BYTES: u64 = 128;
const OBJECTS: u64 = 64;
/// Where the rounds begin in a lease.
const ROUNDS_SHIFT: u32 = 32;
/// The bit of a lease that says that its client is at rest.
const AT_REST: u64 = 1;
const IDENTITY_WORDS: usize = 5;
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

    /// The signal word of a place in this state.
    pub fn word(self, epoch: u32) -> u64 {
        (self as u64) << STATE_SHIFT | u64::from(epoch)
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
    /// A place that is Joining so long is taken away.
    pub joining_ns: u64,
    /// A Fenced place that nobody has finished for so long is repaired by others, too.
    pub help_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { look_ns: 100_000_000, suspect_ns: 200_000_000, joining_ns: 2_000_000_000, help_ns: 1_000_000_000 }
    }
}

/// A living incarnation, as it knows itself. Dropping it without [`Member::leave`] leaves its place taken, as a crash does.
#[derive(Debug)]
pub struct Member {
    /// Which one it is.
    pub incarnation: Incarnation,
    signal: Address,
    account: Address,
    deaths: Address,
    lease: u64,
    is_at_rest: bool,
    /// What word 8 of its account says, or will once what is under way has landed.
    objects: u64,
    /// Whether a WRITE of that word may still be under way: another one must not overtake it.
    is_counting: bool,
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
    /// Who stands behind it, if that is written for this epoch.
    pub identity: Option<Identity>,
}

impl Place {
    fn state_word(&self) -> u64 {
        self.state.word(self.incarnation.epoch)
    }

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
    /// Takes a place: a free one, or one whose client was shut out.
    pub async fn join<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Self, PoolError> {
        let layout = &pool.layout;
        for slot in 0..pool.settings.clients_max {
            let signal = layout.signal(slot);
            let found = read_word(endpoint, signal).await?;
            if PlaceState::of(found).is_alive() {
                continue;
            }
            let incarnation = Incarnation { slot, epoch: (found & EPOCH_MASK).wrapping_add(1) as u32 };
            if !swap(endpoint, signal, found, PlaceState::Joining.word(incarnation.epoch)).await? {
                continue;
            }
            // Whoever looks at all signals must look at this one from now on.
            raise(endpoint, layout.members_ever(), u64::from(slot) + 1).await?;
            let took_over = PlaceState::of(found) == PlaceState::Fenced;
            let (account, deaths) = (layout.account(slot), layout.deaths());
            let mut member = Self {
                incarnation,
                signal,
                account,
                deaths,
                lease: 0,
                is_at_rest: false,
                objects: 0,
                is_counting: false,
                took_over,
            };
            let [joining, taken] = [PlaceState::Joining, PlaceState::Taken].map(|state| state.word(incarnation.epoch));
            member.introduce(endpoint, joining).await?;
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(signal, joining, taken);
            // Behind the swap: whoever had the place before has left it, or is shut out, so that the word is this client's alone from now on.
            let objects = batch.read_word(account.add(OBJECTS));
            endpoint.post(&mut batch).await?;
            if batch.swapped(swap) {
                member.objects = batch.word(objects);
                return Ok(member);
            }
            // It took so long that the place is gone.
        }
        Err(PoolError::Full { clients_max: pool.settings.clients_max })
    }

    /// Writes who stands behind it, while its place is `joining`.
    async fn introduce<E: Endpoint>(&self, endpoint: &E, joining: u64) -> Result<(), VerbError> {
        let words = masked(endpoint.identity(), self.incarnation.epoch);
        loop {
            let mut present = Buffer::new();
            present.resize(8 * IDENTITY_WORDS);
            let mut batch = Batch::new();
            let read = batch.read(self.account, present);
            // Behind the other: while the place is still this joiner's, what was read before is from before anybody else's time.
            let state = batch.read_word(self.signal);
            batch.fence();
            endpoint.post(&mut batch).await?;
            let (present, state) = (batch.take(read), batch.word(state));
            if state != joining || present.words() == words {
                return Ok(());
            }
            let mut batch = Batch::new();
            for (index, (present, word)) in present.words().iter().zip(words).enumerate() {
                batch.compare_and_swap(self.account.add(8 * index as u64), *present, word);
            }
            endpoint.post(&mut batch).await?;
        }
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
        let epoch = self.incarnation.epoch;
        let mut batch = Batch::new();
        batch.compare_and_swap(self.signal, PlaceState::Taken.word(epoch), state.word(epoch));
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
    pub fn renew<E: Endpoint>(&mut self, endpoint: &E) {
        self.lease = self.lease.wrapping_add(1 << ROUNDS_SHIFT);
        endpoint.post_unawaited(&mut self.lease_written());
    }

    /// Says that an operation begins. What is READ from now on is READ under this; nothing that was READ before may count.
    pub async fn begin<E: Endpoint>(&mut self, endpoint: &E) -> Result<(), VerbError> {
        self.is_at_rest = false;
        self.move_within_round();
        endpoint.post(&mut self.lease_written()).await
    }

    /// Says that nothing is under way, once what was posted unawaited has landed.
    pub async fn rest<E: Endpoint>(&mut self, endpoint: &E) -> Result<(), VerbError> {
        endpoint.flush().await?;
        self.is_at_rest = true;
        self.move_within_round();
        endpoint.post(&mut self.lease_written()).await
    }

    fn move_within_round(&mut self) {
        let within = (1 << ROUNDS_SHIFT) - 1;
        self.lease = self.lease & !within | self.lease.wrapping_add(2) & within;
    }

    /// The WRITE of the lease.
    fn lease_written(&self) -> Batch {
        let mut batch = Batch::new();
        batch.write_word(self.signal.add(16), self.lease | if self.is_at_rest { AT_REST } else { 0 });
        batch
    }

    /// Counts objects added (or, if negative, removed) by this client. Waits for the last count to land, which most often has, and not for this one. A
    /// WRITE of the client's own word costs a NIC a fraction of what an atomic does.
    #[inline]
    pub async fn count_objects<E: Endpoint>(&mut self, endpoint: &E, by: i64) -> Result<(), VerbError> {
        if self.is_counting {
            endpoint.flush().await?;
        }
        (self.objects, self.is_counting) = (self.objects.wrapping_add(by as u64), true);
        let mut batch = Batch::new();
        batch.write_word(self.account.add(OBJECTS), self.objects);
        endpoint.post_unawaited(&mut batch);
        Ok(())
    }
}

/// The words of an account that tell an identity, for one epoch.
fn masked(identity: Identity, epoch: u32) -> [u64; IDENTITY_WORDS] {
    let [a, b, c, d] = identity.0;
    let seal = hash([a, b, c, d, epoch.into()]);
    [a ^ mask(epoch, 0), b ^ mask(epoch, 1), c ^ mask(epoch, 2), d ^ mask(epoch, 3), seal]
}

/// The identity that an account tells, if it is that of this epoch and whole.
fn unmasked(account: &[u64], epoch: u32) -> Option<Identity> {
    let identity = Identity(std::array::from_fn(|index| account[index] ^ mask(epoch, index as u64)));
    (account[..IDENTITY_WORDS] == masked(identity, epoch)).then_some(identity)
}

fn mask(epoch: u32, index: u64) -> u64 {
    hash([epoch.into(), index, 0, 0, 0])
}

fn hash(words: [u64; 5]) -> u64 {
    rapidhash::v3::rapidhash_v3(words.map(u64::to_le_bytes).as_flattened())
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
    let bytes = members_ever(endpoint, pool).await? * place_bytes;
    let mut buffer = Buffer::new();
    buffer.resize(bytes as usize);
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
    let signals = read_places(endpoint, pool, |layout| layout.signal(0), SIGNAL_BYTES).await?;
    let accounts = read_places(endpoint, pool, |layout| layout.account(0), ACCOUNT_BYTES).await?;
    let place = |(slot, (signal, account)): (usize, (&[u64], &[u64]))| {
        let incarnation = Incarnation { slot: slot as u32, epoch: (signal[0] & EPOCH_MASK) as u32 };
        Place {
            incarnation,
            state: PlaceState::of(signal[0]),
            lease: signal[2],
            protected: protected(signal),
            identity: unmasked(account, incarnation.epoch),
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

/// Shuts a client out for good, if the fabric can; whether it is shut out now, by this caller.
pub async fn fence<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    match place.identity.filter(|_| place.state == PlaceState::Taken) {
        Some(identity) if endpoint.fence(identity).await? => declare_dead(endpoint, pool, place).await,
        _ => Ok(false),
    }
}

/// Makes a Taken place Fenced. The caller knows that its client will never write again.
pub async fn declare_dead<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    count_death(endpoint, pool.layout.deaths()).await?;
    let (signal, epoch) = (pool.layout.signal(place.incarnation.slot), place.incarnation.epoch);
    swap(endpoint, signal, place.state_word(), PlaceState::Fenced.word(epoch)).await
}

/// Counted before, not after: one that is counted twice makes a count of everything that was not needed, one that is not counted makes none.
async fn count_death<E: Endpoint>(endpoint: &E, deaths: Address) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.fetch_and_add(deaths, 1);
    endpoint.post(&mut batch).await
}

/// Shuts out whoever stands still for `ns` from now on; how many.
pub async fn fence_still<E: Endpoint>(endpoint: &E, pool: &Pool, ns: u64) -> Result<u64, VerbError> {
    let before = places(endpoint, pool).await?;
    endpoint.pause(ns).await;
    let mut fenced = 0;
    for (before, place) in before.iter().zip(places(endpoint, pool).await?) {
        if *before == place {
            fenced += u64::from(fence(endpoint, pool, &place).await?);
        }
    }
    Ok(fenced)
}

/// Makes a place Fenced that has been Joining for too long; whether it did. Not Free: it may have been Fenced before, and what its last client held is
/// not reclaimed as long as the joiner has not said that it took over.
pub async fn fence_joiner<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    debug_assert_eq!(place.state, PlaceState::Joining);
    let (signal, epoch) = (pool.layout.signal(place.incarnation.slot), place.incarnation.epoch);
    swap(endpoint, signal, place.state_word(), PlaceState::Fenced.word(epoch)).await
}

/// Frees a Fenced place whose client owns nothing any more; whether it did.
pub async fn free<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    debug_assert_eq!(place.state, PlaceState::Fenced);
    let (signal, epoch) = (pool.layout.signal(place.incarnation.slot), place.incarnation.epoch);
    swap(endpoint, signal, place.state_word(), PlaceState::Free.word(epoch)).await
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
        let (state, lease) = (place.state_word(), place.lease);
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
    /// Begins now. Not for clients that move their leases in the middle of an operation and go on with what they had read.
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
