//! Who is a client: incarnations, and the intent records of their operations.
//!
//! ```text
//! a place, 128 B     word 0  state 2 | 0 30 | epoch 32        atomics only
//!                    word 1  pid     word 2  start time of the process     word 3  pid namespace     word 4  boot id, hashed
//!                            owned by the incarnation, written once
//!                    word 8  objects added less objects removed, wrapping, by all its incarnations      atomics only
//!                    word 9  lease: a counter that moves while it is alive                              owned
//! an intent, 64 B    word 0  the chunk + 1 that its operation must not see reused (0: none)        owned
//!                    word 1  what the operation does      word 2  the slot that it changes         owned
//! ```
//!
//! A client is an **incarnation**: a place and an epoch, never used twice. A place goes Free -> Taken (its next epoch) -> Free; both
//! steps are compare-and-swaps.
//!
//! The first word of an intent protects a compare-and-swap against a chunk's reuse: a client publishes it, reads the slot again, and
//! only then relies on the slot's word. Whoever wants to reuse a chunk first unlinks every slot that points into it and then
//! reads all intents ([`protected_chunks`]); a chunk that one of them names waits. A WRITE orders the READ behind it, so either
//! the client sees the slot changed or the other sees the intent.

use crate::{ChunkId, Pool, PoolError, read_word};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};

const TAKEN: u64 = 1 << 62;
const EPOCH_MASK: u64 = u32::MAX as u64;

/// A client that is, or was: its place in the registry and the epoch of that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The place, below the pool's `clients_max`.
    pub slot: u32,
    /// How often the place had been taken, this time included.
    pub epoch: u32,
}

/// A living incarnation, as it knows itself. Dropping it without [`Member::leave`] leaves its place taken, as a crash does.
#[derive(Debug)]
pub struct Member {
    /// Which one it is.
    pub incarnation: Incarnation,
    member: Address,
    intent: Address,
}

/// What the registry says of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The client, if the place is taken; else the last one.
    pub incarnation: Incarnation,
    /// Whether it is taken.
    pub taken: bool,
    /// The client's process.
    pub pid: u64,
}

impl Member {
    /// Takes a place.
    pub async fn join<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Self, PoolError> {
        let layout = &pool.layout;
        for slot in 0..pool.settings.clients_max {
            let member = layout.member(slot);
            let state = read_word(endpoint, member).await?;
            if state & TAKEN != 0 {
                continue;
            }
            let epoch = (state & EPOCH_MASK) + 1;
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(member, state, TAKEN | (epoch & EPOCH_MASK));
            endpoint.post(&mut batch).await?;
            if !batch.swapped(swap) {
                continue;
            }
            write_identity(endpoint, member).await?;
            raise(endpoint, layout.members_ever(), u64::from(slot) + 1).await?;
            let incarnation = Incarnation { slot, epoch: epoch as u32 };
            return Ok(Self { incarnation, member, intent: layout.intent(slot) });
        }
        Err(PoolError::Full { clients_max: pool.settings.clients_max })
    }

    /// Gives the place back. The caller has put back everything that it owned.
    pub async fn leave<E: Endpoint>(self, endpoint: &E) -> Result<(), VerbError> {
        let mut batch = Batch::new();
        batch.write_word(self.intent, 0);
        let epoch = u64::from(self.incarnation.epoch);
        batch.compare_and_swap(self.member, TAKEN | epoch, epoch);
        endpoint.post(&mut batch).await
    }

    /// Adds to `batch` the WRITE that protects `chunk`; what is read behind it in the batch is read under its protection.
    #[inline]
    pub fn protect(&self, batch: &mut Batch, chunk: ChunkId) {
        batch.write_word(self.intent, u64::from(chunk.0) + 1);
    }

    /// Ends the protection, without waiting: the caller flushes its endpoint before it protects again, or the two WRITEs could land in the
    /// other order.
    #[inline]
    pub fn unprotect<E: Endpoint>(&self, endpoint: &E) {
        let mut batch = Batch::new();
        batch.write_word(self.intent, 0);
        endpoint.post_unawaited(&mut batch);
    }

    /// Counts objects added (or, if negative, removed) by this client, without waiting.
    #[inline]
    pub fn count_objects<E: Endpoint>(&self, endpoint: &E, by: i64) {
        let mut batch = Batch::new();
        batch.fetch_and_add(self.member.add(64), by as u64);
        endpoint.post_unawaited(&mut batch);
    }
}

async fn write_identity<E: Endpoint>(endpoint: &E, member: Address) -> Result<(), VerbError> {
    let mut identity = Buffer::new();
    identity.resize(32);
    identity.words_mut().copy_from_slice(&endpoint.identity().0);
    let mut batch = Batch::new();
    batch.write(member.add(8), identity);
    endpoint.post(&mut batch).await
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

/// READs `bytes` at `at` in as few verbs as the fabric takes.
async fn read_span<E: Endpoint>(endpoint: &E, at: Address, bytes: u64) -> Result<Buffer, VerbError> {
    let mut buffer = Buffer::new();
    buffer.resize(bytes as usize);
    let mut batch = Batch::new();
    let ticket = batch.read(at, buffer);
    endpoint.post(&mut batch).await?;
    Ok(batch.take(ticket))
}

async fn members_ever<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    Ok(read_word(endpoint, pool.layout.members_ever()).await?.min(pool.settings.clients_max.into()))
}

/// The chunks that operations of others than `but` must not see reused. Read after the slots that point into a chunk were unlinked.
pub async fn protected_chunks<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    but: Incarnation,
) -> Result<Vec<ChunkId>, VerbError> {
    let ever = members_ever(endpoint, pool).await?;
    let intents = read_span(endpoint, pool.layout.intent(0), ever * crate::layout::INTENT_BYTES).await?;
    let others = intents.words().chunks(8).enumerate().filter(|(slot, _)| *slot != but.slot as usize);
    Ok(others.filter_map(|(_, intent)| Some(ChunkId((intent[0] as u32).checked_sub(1)?))).collect())
}

/// Objects in the pool: what all clients added less what all removed.
pub async fn objects<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    let words = member_words(endpoint, pool).await?;
    let sum = words.words().chunks(16).fold(0u64, |sum, place| sum.wrapping_add(place[8]));
    // READs of many words are not one moment: a removal may be seen before what it removes.
    Ok(if (sum as i64) < 0 { 0 } else { sum })
}

/// All places that were ever taken.
pub async fn places<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<Place>, VerbError> {
    let words = member_words(endpoint, pool).await?;
    let place = |(slot, words): (usize, &[u64])| Place {
        incarnation: Incarnation { slot: slot as u32, epoch: (words[0] & EPOCH_MASK) as u32 },
        taken: words[0] & TAKEN != 0,
        pid: words[1],
    };
    Ok(words.words().chunks(16).enumerate().map(place).collect())
}

async fn member_words<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Buffer, VerbError> {
    let ever = members_ever(endpoint, pool).await?;
    read_span(endpoint, pool.layout.member(0), ever * crate::layout::MEMBER_BYTES).await
}
