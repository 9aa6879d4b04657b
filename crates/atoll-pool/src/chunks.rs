//! The heap's chunks: who owns which, and allocation by atomics alone.
//!
//! ```text
//! a descriptor, 32 B   word 0  state 4 | owner's slot 12 | owner's epoch, low 16 | generation 32      atomics only
//!                      word 1  engine's word: what the chunk holds            owned by the owner
//!                      word 2  dead bytes in it                               atomics only
//!                      word 3  engine's word                                  owned by the owner
//!
//! Words 1 and 3 are written before the swap of word 0 that makes them of use, so that a client that READs them after it
//! has seen the state finds them. One READ of a whole descriptor may bring a newer state with older words 1 and 3.
//! ```
//!
//! | from | to | by | meaning |
//! |---|---|---|---|
//! | Free | Open | whoever allocates | a client fills it; the swap itself names the owner, so a crash leaks nothing |
//! | Open | Queued | owner | full, and in (or on its way into) a queue of the engine |
//! | Queued | Leaving | whoever found it in the queue | it is being emptied |
//! | Leaving | Queued | owner | put back into a queue; with nothing in it any more, the generation goes up |
//! | Open | Extent | owner | a part of a large object that its owner is about to publish |
//! | Extent | Bound | owner | the object is published |
//! | Extent, Bound | Free | whoever made the object dead | the generation goes up |
//! | Open, Leaving | Free | owner | nothing points to it; the generation goes up |
//! | Leaving | Open | owner | the same at once; the generation goes up |
//! | Open, Leaving, Queued | Leaving | a repairer | its owner was shut out; the repairer owns it now |
//! | Extent | Bound | a repairer | the same, and a published object has it |
//! | Extent, Bound | Free | a repairer | the same (of an Extent), and no object has it |
//! | Open, Retired, Discarding, Discarded | | | see [`retirement`](crate::retirement) |
//!
//! Every transition is one compare-and-swap of word 0. The generation counts the reuses of a chunk.
//!
//! The count of free chunks follows the transitions unawaited. Whoever dies in between leaves it
//! wrong; until it is counted anew, searches that distrust it do not go through everything for what
//! it promises, and now and then one looks a little further although it says that there is nothing.
//! A last resort goes through everything, and lowers the count if it finds nothing.

use crate::{Incarnation, Layout, nodes, provision, read_word};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Ticket, VerbError};

/// A chunk's number, below the layout's `chunks_max`. Chunks of all nodes are numbered through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u32);

/// What a chunk is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkState {
    /// For nothing.
    Free = 0,
    /// Its owner fills it.
    Open = 1,
    /// In a queue.
    Queued = 2,
    /// Its owner empties it.
    Leaving = 3,
    /// A part of a large object that is not published yet.
    Extent = 4,
    /// A part of a large object that was published.
    Bound = 5,
    /// Out of use: the pool was made smaller by it. Its memory may still be there.
    Retired = 6,
    /// Out of use, and its owner is just giving its memory back.
    Discarding = 7,
    /// Out of use, and its memory was given back.
    Discarded = 8,
}

/// How many states there are.
pub const CHUNK_STATES: usize = 9;

/// A chunk's state, as word 0 of its descriptor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What it is used for.
    pub state: ChunkState,
    /// Who owns it; of no meaning while it is free.
    pub owner_slot: u32,
    /// Low 16 bits of the owner's epoch.
    pub owner_epoch: u16,
    /// How often it was reused, wrapping. What points into a chunk names the low 16 bits; the
    /// others also count how often it was put [back](Chunk::back).
    pub generation: u32,
}

impl ChunkState {
    /// Whether the chunk is a part of a large object.
    pub fn is_extent(self) -> bool {
        matches!(self, Self::Extent | Self::Bound)
    }

    /// Whether the chunk is out of use.
    pub fn is_out_of_use(self) -> bool {
        matches!(self, Self::Retired | Self::Discarding | Self::Discarded)
    }
}

impl Chunk {
    /// A chunk owned by `owner`.
    pub fn owned(state: ChunkState, owner: Incarnation, generation: u32) -> Self {
        Self { state, owner_slot: owner.slot, owner_epoch: owner.epoch as u16, generation }
    }

    /// The same life of the chunk in a state that it was in before: a word that it did not have
    /// then, or whoever saw it then and swaps it now would take it for the old one.
    pub fn back(self, state: ChunkState) -> Self {
        Self { state, generation: self.generation.wrapping_add(1 << 16), ..self }
    }

    /// The same as a word.
    pub fn word(self) -> u64 {
        (self.state as u64) << 60
            | u64::from(self.owner_slot & 0xfff) << 48
            | u64::from(self.owner_epoch) << 32
            | u64::from(self.generation)
    }

    /// What a word says; `None` if no client wrote it.
    pub fn from_word(word: u64) -> Option<Self> {
        let state = match word >> 60 {
            0 => ChunkState::Free,
            1 => ChunkState::Open,
            2 => ChunkState::Queued,
            3 => ChunkState::Leaving,
            4 => ChunkState::Extent,
            5 => ChunkState::Bound,
            6 => ChunkState::Retired,
            7 => ChunkState::Discarding,
            8 => ChunkState::Discarded,
            _ => return None,
        };
        Some(Self {
            state,
            owner_slot: (word >> 48) as u32 & 0xfff,
            owner_epoch: (word >> 32) as u16,
            generation: word as u32,
        })
    }
}

/// Descriptors that one search READs at once.
const SEARCH: u32 = 16;

/// How far a search for a free chunk trusts the count of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeCount {
    /// It is right.
    Trusted,
    /// It is right, and the caller can make room otherwise: where few are free, one look is enough.
    Glance,
    /// It may be too high: look at some descriptors only.
    Distrusted,
    /// It may be too low, too: look at some descriptors even if it says that none is free.
    Ignored,
}

/// Rounds of a search that looks although the count says that nothing is free, or says that a few
/// are and is distrusted.
const ROUNDS_ANYWAY: u32 = 4;
/// Rounds of a search whose count is distrusted and says that more than [`MANY_FREE`] are free. A
/// few rounds side by side may all fall into a row of chunks that are out of use.
const ROUNDS_FOR_MANY: u32 = 64;
const MANY_FREE: u64 = 16;

/// Takes a free chunk, for `state`; gives its number and generation. `None` if none was found:
/// there is none, or others were faster at every one. A count of free chunks that is no more than
/// `kept` counts as none: an engine keeps those for clients that empty chunks. While not all of the
/// pool's memory is there, more is provided before it is said that no chunk is free.
pub async fn allocate<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    owner: Incarnation,
    state: ChunkState,
    count: FreeCount,
    kept: u64,
) -> Result<Option<(ChunkId, u32)>, VerbError> {
    loop {
        let absent = layout.absent_chunks();
        let found = search(endpoint, layout, owner, state, count, kept).await?;
        if found.is_some() || absent == 0 {
            return Ok(found);
        }
        Box::pin(provision::provide_some(endpoint, layout)).await?;
        if layout.absent_chunks() == absent {
            // The host has no memory left.
            return Ok(None);
        }
        // More is there than the search knew of, whichever client provided it.
    }
}

/// A search begins anywhere. Clients that began where another one had found a chunk would look at
/// the same descriptors at the same time and want the same chunks, all but one in vain.
async fn search<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    owner: Incarnation,
    state: ChunkState,
    count: FreeCount,
    kept: u64,
) -> Result<Option<(ChunkId, u32)>, VerbError> {
    let mut descriptors = Buffer::new();
    let mut hint = None;
    let (chunks, absent) = (layout.usable_chunks(), layout.absent_chunks());
    if chunks == 0 {
        return Ok(None);
    }
    let mut first = (endpoint.random() % u64::from(chunks)) as u32;
    for round in 0..=chunks.div_ceil(SEARCH) {
        let looked_at = SEARCH.min(chunks - first);
        let mut batch = Batch::new();
        let free = batch.read_word(layout.free_chunks());
        descriptors.resize(looked_at as usize * Descriptor::BYTES as usize);
        let read = batch.read(layout.descriptor(ChunkId(first)), descriptors);
        endpoint.post(&mut batch).await?;
        // Those without memory are counted, too.
        let free = batch.word(free).wrapping_sub(absent.into());
        descriptors = batch.take(read);
        let says_none = free as i64 <= kept as i64;
        let looked_enough = match count {
            // Of a few free ones, each look after the first finds one in as many cases only: with
            // hundreds of clients those walks would be all that the nodes have time for.
            FreeCount::Glance => round > 0 && free < u64::from(chunks / SEARCH),
            // While others allocate and free, a count that is too high cannot be lowered, and a
            // walk through all descriptors for nothing costs more than an eviction.
            FreeCount::Distrusted if free > MANY_FREE => round == ROUNDS_FOR_MANY,
            FreeCount::Distrusted => round >= ROUNDS_ANYWAY,
            FreeCount::Trusted | FreeCount::Ignored => round == ROUNDS_ANYWAY && says_none,
        };
        if says_none && count != FreeCount::Ignored || looked_enough {
            return Ok(None);
        }
        hint = if round == 0 { Some(free) } else { hint.filter(|before| *before == free) };
        for index in 0..looked_at {
            let word = descriptors.words()[4 * index as usize];
            let Some(Chunk { state: ChunkState::Free, generation, .. }) = Chunk::from_word(word) else { continue };
            let chunk = ChunkId(first + index);
            if transition(endpoint, layout, chunk, word, Chunk::owned(state, owner, generation)).await? {
                // A chunk that the hint did not know of is not taken from it.
                if !says_none {
                    let mut batch = Batch::new();
                    batch.fetch_and_add(layout.free_chunks(), u64::MAX);
                    endpoint.post_unawaited(&mut batch);
                }
                return Ok(Some((chunk, generation)));
            }
        }
        first = (first + looked_at) % chunks;
        let sees_all = chunks <= SEARCH * ROUNDS_FOR_MANY;
        if count == FreeCount::Distrusted && !sees_all && (round + 1).is_multiple_of(ROUNDS_ANYWAY) {
            first = (endpoint.random() % u64::from(chunks)) as u32;
        }
    }
    // All were looked at, and nobody allocated or freed meanwhile: the hint is too high. Unless it
    // tells of chunks that this process does not know.
    let hint = hint.filter(|_| matches!(count, FreeCount::Distrusted | FreeCount::Ignored));
    if let Some(hint) = hint
        && !Box::pin(nodes::has_more(endpoint, layout)).await?
    {
        Box::pin(lower_count(endpoint, layout, hint.wrapping_add(absent.into()), absent.into())).await?;
    }
    Ok(None)
}

/// Lowers a count of free chunks that is too high, while somebody has died of whom nobody has
/// counted anew what was left. While nobody has, a count is wrong by what is under way alone, and
/// would be wrong for good if that landed on a lowered one; counting anew mends what lands later.
async fn lower_count<E: Endpoint>(endpoint: &E, layout: &Layout, from: u64, to: u64) -> Result<(), VerbError> {
    endpoint.flush().await?;
    let mut batch = Batch::new();
    let deaths = batch.read_word(layout.deaths());
    let counted = batch.read_word(layout.deaths_counted());
    endpoint.post(&mut batch).await?;
    if batch.word(deaths) == batch.word(counted) {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.compare_and_swap(layout.free_chunks(), from, to);
    endpoint.post(&mut batch).await
}

/// Changes a chunk's state from what `from` says, if it is still that.
pub async fn transition<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    chunk: ChunkId,
    from: u64,
    to: Chunk,
) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let swap = batch.compare_and_swap(layout.descriptor(chunk), from, to.word());
    endpoint.post(&mut batch).await?;
    Ok(batch.swapped(swap))
}

/// Gives back a chunk that the caller owns in state `from` and that nothing points to or protects.
pub async fn free<E: Endpoint>(endpoint: &E, layout: &Layout, chunk: ChunkId, from: Chunk) -> Result<bool, VerbError> {
    let generation = from.generation.wrapping_add(1);
    let to = Chunk { state: ChunkState::Free, owner_slot: 0, owner_epoch: 0, generation };
    let freed = transition(endpoint, layout, chunk, from.word(), to).await?;
    if freed {
        let mut batch = Batch::new();
        batch.fetch_and_add(layout.free_chunks(), 1);
        endpoint.post_unawaited(&mut batch);
    }
    Ok(freed)
}

/// A chunk's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// State and owner; `None` if the word is damaged.
    pub chunk: Option<Chunk>,
    /// The engine's word of contents.
    pub contents: u64,
    /// Dead bytes.
    pub dead_bytes: u64,
    /// The engine's other word.
    pub engine: u64,
}

impl Descriptor {
    /// Bytes in the table; those of neighbours lie side by side.
    pub const BYTES: u64 = crate::layout::DESCRIPTOR_BYTES;

    /// What four words say.
    pub fn from_words(words: &[u64]) -> Self {
        let word = |nth: usize| words.get(nth).copied().unwrap_or(0);
        Self { chunk: Chunk::from_word(word(0)), contents: word(1), dead_bytes: word(2), engine: word(3) }
    }

    /// Whether the chunk was taken out of use, so that the pool became smaller.
    pub fn is_out_of_use(&self) -> bool {
        use ChunkState::{Discarded, Discarding, Retired};
        self.chunk.is_some_and(|chunk| matches!(chunk.state, Retired | Discarding | Discarded))
    }
}

/// READs `count` descriptors from `first` on.
pub async fn descriptors<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    first: ChunkId,
    count: u32,
) -> Result<Vec<Descriptor>, VerbError> {
    let count = count.min(layout.chunks().saturating_sub(first.0));
    let words = endpoint.read(layout.descriptor(first), Buffer::sized(count as usize * 32)).await?;
    Ok(words.words().chunks(4).map(Descriptor::from_words).collect())
}

/// A look at the descriptors of all chunks, some at a time, from one chunk on and round.
#[derive(Debug)]
pub struct Walk {
    start: u32,
    looked: u32,
}

impl Walk {
    /// Descriptors that are READ at once.
    const AT_ONCE: u32 = 64;

    /// Begins at a random chunk, so that clients that walk at the same time find different ones.
    pub fn from_anywhere<E: Endpoint>(endpoint: &E, layout: &Layout) -> Self {
        Self { start: (endpoint.random() % u64::from(layout.chunks())) as u32, looked: 0 }
    }

    /// READs the next chunks' descriptors; `None` once every chunk was looked at. Chunks that the
    /// pool got meanwhile may be left out.
    pub async fn next<E: Endpoint>(
        &mut self,
        endpoint: &E,
        layout: &Layout,
    ) -> Result<Option<Vec<(ChunkId, Descriptor)>>, VerbError> {
        let all = layout.chunks();
        if self.looked >= all {
            return Ok(None);
        }
        let first = (self.start + self.looked) % all;
        let count = Self::AT_ONCE.min(all - first).min(all - self.looked);
        self.looked += count;
        let descriptors = descriptors(endpoint, layout, ChunkId(first), count).await?;
        Ok(Some((first..).map(ChunkId).zip(descriptors).collect()))
    }
}

/// READs the words of contents of some chunks, in the chunks' order.
///
/// The words of one READ are of different moments, in any order. A caller that decides by the state
/// and the contents of a chunk READs the contents here, after it has seen the state. If a swap from
/// that state then succeeds, the contents were those of the same life of the chunk.
pub async fn contents<E: Endpoint>(endpoint: &E, layout: &Layout, chunks: &[ChunkId]) -> Result<Vec<u64>, VerbError> {
    let mut contents = Vec::with_capacity(chunks.len());
    for some in chunks.chunks(BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        let reads: Vec<Ticket> = some.iter().map(|chunk| batch.read_word(layout.descriptor(*chunk).add(8))).collect();
        endpoint.post(&mut batch).await?;
        contents.extend(reads.into_iter().map(|read| batch.word(read)));
    }
    Ok(contents)
}

/// Chunks that the hint says are free, those without memory among them.
pub async fn free_chunks<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<u64, VerbError> {
    Ok((read_word(endpoint, layout.free_chunks()).await? as i64).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_word_says_what_was_put_in() {
        let owner = Incarnation { slot: 0xfff, epoch: 0xdead_beef };
        use ChunkState::{Bound, Discarded, Discarding, Extent, Free, Leaving, Open, Queued, Retired};
        for state in [Free, Open, Queued, Leaving, Extent, Bound, Retired, Discarding, Discarded] {
            let chunk = Chunk::owned(state, owner, u32::MAX);
            assert_eq!(Chunk::from_word(chunk.word()), Some(chunk));
        }
        assert_eq!(Chunk::from_word(u64::MAX), None);
    }
}
