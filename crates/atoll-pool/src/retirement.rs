//! Chunks out of use: how a pool becomes smaller, and larger again, while clients use it.
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | Open | Retired | owner | nothing points to the chunk; the generation goes up |
//! | Retired | Discarding | a client | every operation has ended that was under way when it saw the chunk Retired |
//! | Discarding | Discarded | owner | it has given the memory back |
//! | Discarding | Retired | a repairer | the owner was shut out; some of the memory may be gone |
//! | Retired, Discarded | Free | a client | it has made sure that the memory is there; the generation goes up |
//!
//! **No verb touches memory that was given back**, or it would kill its process on a full host.
//!
//! | a client that may READ a chunk | why its memory is there |
//! |---|---|
//! | a reader with an old pointer | its operation began before the chunk was Retired, and the discarder waits until it has ended ([`Grace`]) |
//! | a repairer of an Open chunk | a chunk is discarded in Discarding only, which no repairer READs |
//! | a client that allocates a chunk | memory is provided while the chunk is still out of use, before the swap to Free |
//!
//! Providing memory is harmless at any time. A client that provides late, after the chunk became
//! free or was discarded once more, changes no byte. A client that discards is the chunk's only
//! owner meanwhile. A repairer swaps the chunk only after the owner's death is proven. That swap
//! produces a word that the chunk did not have before ([`Chunk::back`]). So a client that had
//! provided memory before the discard cannot make the chunk free.
//!
//! A client that is paused inside an operation keeps chunks Retired for that time, and delays no
//! other client. Every client that checks on the pool continues the work on a part of the chunks.
//! So if a retirer has ended or died, the memory of its chunks returns to the host, too. Where
//! round trips are not near, clients remember addresses across operations, and nothing is discarded
//! ([`Endpoint::discard`]).

use crate::chunks::{Descriptor, descriptors, free, transition};
use crate::registry::{Grace, Observer, Roll};
use crate::{Chunk, ChunkId, ChunkState, Incarnation, Layout, Pool};
use atoll_fabric::{Endpoint, VerbError};
use std::collections::VecDeque;

/// Descriptors that a client READs at a time to find chunks out of use.
const SEARCH: u32 = 1024;
/// READs from which a client estimates how many chunks are out of use. In a large pool those chunks
/// are scattered.
const LOOKS_COUNTED: usize = 8;
/// Chunks whose memory a client returns at most when it checks on the pool between operations.
pub const DISCARDS_IN_ROUND: usize = 32;

/// Takes a chunk out of use that `owner` has as Open. Returns its new state, or `None` if the owner
/// had lost it. The generation goes up, so that no pointer of its last life is valid.
pub async fn retire<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    owner: Incarnation,
    (chunk, generation): (ChunkId, u32),
) -> Result<Option<Chunk>, VerbError> {
    let open = Chunk::owned(ChunkState::Open, owner, generation);
    let generation = generation.wrapping_add(1);
    let retired = Chunk { state: ChunkState::Retired, owner_slot: 0, owner_epoch: 0, generation };
    Ok(transition(endpoint, layout, chunk, open.word(), retired).await?.then_some(retired))
}

/// Puts a chunk back into use. Returns whether this process knows one that is out of use, and has
/// memory for it.
pub async fn restore<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<bool, VerbError> {
    // From a random place: a client that restores many does not READ the same ones each time.
    let stretches = layout.chunks().div_ceil(SEARCH);
    let start = (endpoint.random() % u64::from(stretches.max(1))) as u32;
    for stretch in (start..stretches).chain(0..start) {
        let first = stretch * SEARCH;
        for (index, descriptor) in descriptors(endpoint, layout, ChunkId(first), SEARCH).await?.iter().enumerate() {
            let restorable = |chunk: &Chunk| matches!(chunk.state, ChunkState::Retired | ChunkState::Discarded);
            let Some(found) = descriptor.chunk.filter(restorable) else { continue };
            let chunk = ChunkId(first + index as u32);
            if !endpoint.provide(layout.chunk(chunk), layout.chunk_bytes).await? {
                return Ok(false);
            }
            if free(endpoint, layout, chunk, found).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Makes chunks Retired that dead owners were discarding. The living clients were READ after the
/// descriptors of all chunks.
pub async fn reclaim<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    descriptors: &[Descriptor],
    roll: &Roll,
) -> Result<(), VerbError> {
    for (index, descriptor) in descriptors.iter().enumerate() {
        let discarding = |chunk: &Chunk| chunk.state == ChunkState::Discarding;
        let Some(found) = descriptor.chunk.filter(discarding) else { continue };
        if !roll.has(found.owner_slot, found.owner_epoch) {
            give_up(endpoint, layout, ChunkId(index as u32), found).await?;
        }
    }
    Ok(())
}

/// Makes a chunk Retired that its owner does not discard any more.
async fn give_up<E: Endpoint>(endpoint: &E, layout: &Layout, chunk: ChunkId, found: Chunk) -> Result<bool, VerbError> {
    let retired = Chunk { owner_slot: 0, owner_epoch: 0, ..found.back(ChunkState::Retired) };
    transition(endpoint, layout, chunk, found.word(), retired).await
}

/// The state of one client's work of returning the memory of chunks that are out of use.
#[derive(Debug, Default)]
pub struct Retirement {
    /// Chunks that this client retired since the last grace began.
    fresh: Vec<(ChunkId, Chunk)>,
    /// Chunks that were seen Retired before the grace began.
    resting: Vec<(ChunkId, Chunk)>,
    /// The operations that ran when `resting` was seen; `None` if that is empty.
    grace: Option<Grace>,
    /// Chunks for which every operation has ended.
    rested: Vec<(ChunkId, Chunk)>,
    /// Where the next READ begins. The start is random, so that clients do not all try the same
    /// chunks.
    cursor: Option<u32>,
    /// For each of the last READs: how many chunks it saw, and how many of those were out of use.
    looks: VecDeque<(u64, u64)>,
    /// Whether it does not wait for operations: for tests that show why it must.
    #[cfg(feature = "holes")]
    is_hasty: bool,
}

impl Retirement {
    /// Does not wait for running operations, to show the harm in a simulation.
    #[cfg(feature = "holes")]
    pub fn hasty() -> Self {
        Self { is_hasty: true, ..Self::default() }
    }

    /// Notes a chunk that this client has retired, with its state.
    pub fn note_retired<E: Endpoint>(&mut self, endpoint: &E, retired: (ChunkId, Chunk)) {
        if endpoint.is_near() {
            self.fresh.push(retired);
        }
    }

    /// Makes progress: returns the memory of at most this many chunks for which every operation has
    /// ended, or READs some more. The caller relies on nothing that it READ before.
    pub async fn go_on<E: Endpoint>(&mut self, client: &Observer<'_, E>, most: usize) -> Result<(), VerbError> {
        let (endpoint, pool, me) = (client.endpoint, client.pool, client.me);
        if !endpoint.is_near() {
            return Ok(());
        }
        if let Some(grace) = &mut self.grace {
            if !grace.is_over(client).await? {
                return self.look(endpoint, &pool.layout).await.map(drop);
            }
            self.grace = None;
            self.rested.append(&mut self.resting);
        }
        if !self.rested.is_empty() {
            self.discard_rested(endpoint, pool, me, most).await?;
        }
        // After the discards: otherwise those chunks would be seen as Retired once more.
        let (first, some) = self.look(endpoint, &pool.layout).await?;
        if !self.rested.is_empty() {
            return Ok(());
        }
        self.note(endpoint, pool, me, first, &some).await?;
        #[cfg(feature = "holes")]
        if self.is_hasty {
            self.rested.append(&mut self.resting);
            return self.discard_rested(endpoint, pool, me, most).await;
        }
        if !self.resting.is_empty() {
            self.grace = Some(Grace::begin(client).await?);
        }
        assert!(self.grace.is_some() || self.resting.is_empty(), "chunks that rest have a grace that ends");
        Ok(())
    }

    /// READs some chunks after the last ones.
    async fn look<E: Endpoint>(
        &mut self,
        endpoint: &E,
        layout: &Layout,
    ) -> Result<(ChunkId, Vec<Descriptor>), VerbError> {
        let chunks = layout.chunks();
        let anywhere = || (endpoint.random() % u64::from(chunks.div_ceil(SEARCH).max(1))) as u32 * SEARCH;
        let cursor = self.cursor.unwrap_or_else(anywhere);
        let first = ChunkId(if cursor < chunks { cursor } else { 0 });
        let some = descriptors(endpoint, layout, first, SEARCH).await?;
        self.cursor = Some(first.0 + SEARCH);
        let out_of_use = some.iter().filter(|each| each.is_out_of_use()).count() as u64;
        self.looks.push_back((some.len() as u64, out_of_use));
        if self.looks.len() > LOOKS_COUNTED.min(chunks.div_ceil(SEARCH) as usize) {
            self.looks.pop_front();
        }
        Ok((first, some))
    }

    /// Notes which of some chunks are Retired.
    async fn note<E: Endpoint>(
        &mut self,
        endpoint: &E,
        pool: &Pool,
        me: Incarnation,
        first: ChunkId,
        some: &[Descriptor],
    ) -> Result<(), VerbError> {
        self.resting.append(&mut self.fresh);
        let numbered = |(index, each): (usize, &Descriptor)| Some((ChunkId(first.0 + index as u32), each.chunk?));
        for (chunk, found) in some.iter().enumerate().filter_map(numbered) {
            match found.state {
                // A chunk that is listed twice fails at its second swap.
                ChunkState::Retired => self.resting.push((chunk, found)),
                // The discard of an operation whose future was dropped.
                ChunkState::Discarding if found == Chunk::owned(ChunkState::Discarding, me, found.generation) => {
                    give_up(endpoint, &pool.layout, chunk, found).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How many of `chunks` are out of use, estimated from the last READs: each step READs some
    /// chunks. It is exact in a pool of at most 8192 chunks.
    pub fn out_of_use(&self, chunks: u32) -> u64 {
        let seen: u64 = self.looks.iter().map(|(seen, _)| seen).sum();
        let out_of_use: u64 = self.looks.iter().map(|(_, out_of_use)| out_of_use).sum();
        (u128::from(out_of_use) * u128::from(chunks) / u128::from(seen.max(1))) as u64
    }

    /// Chunks whose memory it will return, as far as it knows now.
    pub fn left(&self) -> usize {
        self.fresh.len() + self.resting.len() + self.rested.len()
    }

    async fn discard_rested<E: Endpoint>(
        &mut self,
        endpoint: &E,
        pool: &Pool,
        me: Incarnation,
        most: usize,
    ) -> Result<(), VerbError> {
        for found in self.rested.drain(..most.min(self.rested.len())) {
            Self::discard(endpoint, &pool.layout, me, found).await?;
        }
        Ok(())
    }

    /// Returns the memory of a chunk to the host, if the chunk is unchanged.
    async fn discard<E: Endpoint>(
        endpoint: &E,
        layout: &Layout,
        me: Incarnation,
        (chunk, retired): (ChunkId, Chunk),
    ) -> Result<(), VerbError> {
        assert!(retired.state == ChunkState::Retired, "memory of a chunk in use is not given back: {retired:?}");
        let discarding = Chunk::owned(ChunkState::Discarding, me, retired.generation);
        if !transition(endpoint, layout, chunk, retired.word(), discarding).await? {
            // It is in use again, or another client discards it.
            return Ok(());
        }
        endpoint.discard(layout.chunk(chunk), layout.chunk_bytes).await?;
        let discarded = Chunk { state: ChunkState::Discarded, ..retired };
        let is_mine = transition(endpoint, layout, chunk, discarding.word(), discarded).await?;
        // Only a client that was shut out loses it.
        if is_mine { Ok(()) } else { Err(VerbError::Fenced) }
    }
}
