//! The heap's chunks: how they are allocated and freed, by atomics alone.
//!
//! The count of free chunks follows the transitions unawaited. A client that dies in between leaves
//! the count wrong until everything is recounted. Until then:
//!
//! | a search | looks |
//! |---|---|
//! | distrusts the count | at some descriptors only, however many free chunks it promises |
//! | ignores the count, now and then | at some descriptors although it says that no chunk is free |
//! | is the last resort | at all descriptors, and lowers the count if no chunk is free |

use crate::chunk::DESCRIPTOR_BYTES;
use crate::words::{self, read_word};
use crate::{Incarnation, Layout, nodes, provision};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Ticket, VerbError};

pub use crate::chunk::{Chunk, ChunkId, ChunkState, Descriptor};

const DESCRIPTOR_WORDS: usize = DESCRIPTOR_BYTES as usize / 8;
/// Descriptors that one search READs at once.
const SEARCH: u32 = 16;

/// How far a search for a free chunk trusts the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeCount {
    /// The count is right.
    Trusted,
    /// The count is right, and the caller can evict instead: if few chunks are free and the memory
    /// is not near, one READ is enough.
    Glance,
    /// The count may be too high: READ some descriptors only.
    Distrusted,
    /// The count may also be too low: READ some descriptors even if no chunk is counted as free.
    Ignored,
}

/// Rounds of a search that READs descriptors although no chunk is counted as free, or that
/// distrusts a low count.
const ROUNDS_ANYWAY: u32 = 4;
/// Rounds of a search that distrusts a count of more than [`MANY_FREE`]. A few neighbouring rounds
/// may all fall into a row of chunks that are out of use.
const ROUNDS_FOR_MANY: u32 = 64;
const MANY_FREE: u64 = 16;

/// A request for a free chunk.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The new owner.
    pub owner: Incarnation,
    /// The new state, which has an owner.
    pub state: ChunkState,
    /// How far the search trusts the count of free chunks.
    pub count: FreeCount,
    /// The reserve: a count of free chunks up to this number counts as none. A tenant keeps the
    /// reserve for clients that empty chunks.
    pub kept: u64,
    /// Memory nodes whose chunks are not allocated, a bit each: see [`loss`](crate::loss).
    pub absent: u64,
}

/// Allocates a free chunk; returns its number and generation. `None` if no chunk is free, or if
/// other clients were faster at every one. While memory of the pool is missing, more is provided
/// before it returns `None`.
pub async fn allocate<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: Wanted,
) -> Result<Option<(ChunkId, u32)>, VerbError> {
    assert!(wanted.state == ChunkState::Open, "a chunk that is allocated has an owner, which fills it");
    loop {
        let absent = layout.absent_chunks();
        let found = search(endpoint, layout, wanted).await?;
        if found.is_some() || absent == 0 {
            return Ok(found);
        }
        Box::pin(provision::provide_some(endpoint, layout)).await?;
        if layout.absent_chunks() == absent {
            // The host has no memory left.
            return Ok(None);
        }
        // More memory is present than the search knew of. Any client may have provided it.
    }
}

/// A search begins at a random chunk. If clients began at the same chunk, they would READ the same
/// descriptors at the same time, and all but one would lose the swap.
async fn search<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: Wanted,
) -> Result<Option<(ChunkId, u32)>, VerbError> {
    let Wanted { owner, state, count, kept, absent: absent_nodes } = wanted;
    let is_absent = |chunk: ChunkId| is_of_absent_node(layout, absent_nodes, chunk);
    let mut descriptors = Buffer::new();
    let mut hint = None;
    let (chunks, absent) = (layout.usable_chunks(), counted_without_memory(layout, absent_nodes));
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
        // The count includes chunks without memory.
        let free = batch.word(free).wrapping_sub(absent.into());
        descriptors = batch.take(read);
        let says_none = free as i64 <= kept as i64;
        let looked_enough = match count {
            // If few chunks are free, each READ after the first succeeds just as seldom. With
            // hundreds of clients those walks would take all the time of the nodes. Where memory is
            // near, an eviction costs more than the walk.
            FreeCount::Glance => round > 0 && free < u64::from(chunks / SEARCH) && !endpoint.is_near(),
            // While other clients allocate and free, a count that is too high cannot be lowered. A
            // walk through all descriptors in vain costs more than an eviction.
            FreeCount::Distrusted if free > MANY_FREE => round == ROUNDS_FOR_MANY,
            FreeCount::Distrusted => round >= ROUNDS_ANYWAY,
            FreeCount::Trusted | FreeCount::Ignored => round == ROUNDS_ANYWAY && says_none,
        };
        if says_none && count != FreeCount::Ignored || looked_enough {
            return Ok(None);
        }
        hint = if round == 0 { Some(free) } else { hint.filter(|before| *before == free) };
        for index in 0..looked_at {
            let word = descriptors.words()[DESCRIPTOR_WORDS * index as usize];
            let Some(Chunk { state: ChunkState::Free, generation, .. }) = Chunk::from_word(word) else { continue };
            let chunk = ChunkId(first + index);
            if is_absent(chunk) {
                continue;
            }
            if transition(endpoint, layout, chunk, word, Chunk::owned(state, owner, generation)).await? {
                // A chunk that the hint did not include is not subtracted from it.
                if !says_none {
                    count_allocated(endpoint, layout);
                }
                debug_assert!(chunk.0 < layout.chunks_max, "a chunk of the heap");
                return Ok(Some((chunk, generation)));
            }
        }
        first = (first + looked_at) % chunks;
        let sees_all = chunks <= SEARCH * ROUNDS_FOR_MANY;
        if count == FreeCount::Distrusted && !sees_all && (round + 1).is_multiple_of(ROUNDS_ANYWAY) {
            first = (endpoint.random() % u64::from(chunks)) as u32;
        }
    }
    // The search READ all descriptors, and no client allocated or freed meanwhile. So the hint is
    // too high, unless it counts chunks that this process does not know.
    let hint = hint.filter(|_| matches!(count, FreeCount::Distrusted | FreeCount::Ignored));
    if let Some(hint) = hint
        && !Box::pin(nodes::has_more(endpoint, layout)).await?
    {
        Box::pin(lower_count(endpoint, layout, hint.wrapping_add(absent.into()), absent.into())).await?;
    }
    Ok(None)
}

fn is_of_absent_node(layout: &Layout, absent_nodes: u64, chunk: ChunkId) -> bool {
    absent_nodes != 0 && absent_nodes >> layout.node_of(chunk) & 1 == 1
}

/// Chunks that the count of free chunks includes although they have no memory.
fn counted_without_memory(layout: &Layout, absent_nodes: u64) -> u32 {
    let (chunks, absent) = (layout.usable_chunks(), layout.absent_chunks());
    if absent_nodes == 0 {
        return absent;
    }
    // The count includes their chunks, which are all free. Those without memory count once.
    let of_nodes = (1..layout.nodes_known()).filter(|node| absent_nodes >> node & 1 == 1);
    let of_nodes = of_nodes.filter_map(|node| layout.chunks_of(node));
    absent + of_nodes.map(|of_node| of_node.end.min(chunks).saturating_sub(of_node.start)).sum::<u32>()
}

/// Subtracts an allocated chunk from the count of free chunks.
fn count_allocated<E: Endpoint>(endpoint: &E, layout: &Layout) {
    let mut batch = Batch::new();
    batch.fetch_and_add(layout.free_chunks(), u64::MAX);
    endpoint.post_unawaited(&mut batch);
}

/// Allocates a chunk that was free in this generation; returns whether it still was. The caller has
/// seen that more chunks are free than are kept.
pub async fn allocate_known<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: Wanted,
    (chunk, generation): (ChunkId, u32),
) -> Result<bool, VerbError> {
    assert!(wanted.state == ChunkState::Open, "a chunk that is allocated has an owner, which fills it");
    if chunk.0 >= layout.usable_chunks() || is_of_absent_node(layout, wanted.absent, chunk) {
        return Ok(false);
    }
    let open = Chunk::owned(wanted.state, wanted.owner, generation);
    let is_allocated = transition(endpoint, layout, chunk, free_word(generation), open).await?;
    if is_allocated {
        count_allocated(endpoint, layout);
    }
    Ok(is_allocated)
}

/// Free chunks that have memory, by the count. Zero if the count is too low.
pub async fn usable_free_chunks<E: Endpoint>(endpoint: &E, layout: &Layout, absent: u64) -> Result<u64, VerbError> {
    let counted = read_word(endpoint, layout.free_chunks()).await?;
    let free = counted.wrapping_sub(counted_without_memory(layout, absent).into());
    Ok((free as i64).max(0) as u64)
}

/// The word of a free chunk.
fn free_word(generation: u32) -> u64 {
    Chunk { state: ChunkState::Free, owner_slot: 0, owner_epoch: 0, generation }.word()
}

/// Lowers a count of free chunks that is too high, if a client has died since the last recount. If
/// no client has died, the count is wrong only by additions in flight. Lowering it would make it
/// wrong for good once they landed. After a death, a recount corrects what lands later.
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

/// Changes a chunk's state, if its word is still `from`; returns whether it was.
///
/// # Panics
/// If the table of [`chunk`](crate::chunk) has no such transition.
pub async fn transition<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    chunk: ChunkId,
    from: u64,
    to: Chunk,
) -> Result<bool, VerbError> {
    let before = Chunk::from_word(from);
    assert!(
        before.is_some_and(|before| before.state.may_become(to.state)),
        "no transition leads from {before:?} to {to:?}"
    );
    words::swap(endpoint, layout.descriptor(chunk), from, to.word()).await
}

/// Frees a chunk that the caller owns in state `from`. Nothing points to it or protects it.
pub async fn free<E: Endpoint>(endpoint: &E, layout: &Layout, chunk: ChunkId, from: Chunk) -> Result<bool, VerbError> {
    let freed = transition(endpoint, layout, chunk, from.word(), freed(from)).await?;
    if freed {
        count_freed(endpoint, layout, 1);
    }
    Ok(freed)
}

/// A chunk in state `from`, once it is free.
fn freed(from: Chunk) -> Chunk {
    let generation = from.generation.wrapping_add(1);
    Chunk { state: ChunkState::Free, owner_slot: 0, owner_epoch: 0, generation }
}

fn count_freed<E: Endpoint>(endpoint: &E, layout: &Layout, chunks: u64) {
    let mut batch = Batch::new();
    batch.fetch_and_add(layout.free_chunks(), chunks);
    endpoint.post_unawaited(&mut batch);
}

/// Frees as many chunks as a batch has verbs, at most: those of `wanted` whose states are `is_it`,
/// which is asked with the place in `wanted`. Nothing points to them or protects them. Returns the
/// places of chunks whose state another client changed meanwhile.
pub async fn free_together<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: &[ChunkId],
    is_it: impl Fn(usize, &Chunk) -> bool,
) -> Result<Vec<usize>, VerbError> {
    let mut reads = Batch::new();
    let tickets: Vec<Ticket> = wanted.iter().map(|chunk| reads.read_word(layout.descriptor(*chunk))).collect();
    endpoint.post(&mut reads).await?;
    let (mut swaps, mut tried) = (Batch::new(), Vec::new());
    for (place, (chunk, ticket)) in wanted.iter().zip(tickets).enumerate() {
        let Some(from) = Chunk::from_word(reads.word(ticket)).filter(|from| is_it(place, from)) else { continue };
        assert!(from.state.may_become(ChunkState::Free), "no transition leads from {from:?} to a free chunk");
        tried.push((place, swaps.compare_and_swap(layout.descriptor(*chunk), from.word(), freed(from).word())));
    }
    if tried.is_empty() {
        return Ok(Vec::new());
    }
    endpoint.post(&mut swaps).await?;
    let overtaken: Vec<usize> =
        tried.iter().filter(|(_, ticket)| !swaps.swapped(*ticket)).map(|(place, _)| *place).collect();
    let count = tried.len() - overtaken.len();
    if count > 0 {
        count_freed(endpoint, layout, count as u64);
    }
    Ok(overtaken)
}

/// READs `count` descriptors from `first` on.
pub async fn descriptors<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    first: ChunkId,
    count: u32,
) -> Result<Vec<Descriptor>, VerbError> {
    let count = count.min(layout.chunks().saturating_sub(first.0));
    let words =
        endpoint.read(layout.descriptor(first), Buffer::sized(count as usize * Descriptor::BYTES as usize)).await?;
    Ok(words.words().chunks(DESCRIPTOR_WORDS).map(Descriptor::from_words).collect())
}

/// A walk over the descriptors of all chunks, some at a time, from one chunk on and around.
#[derive(Debug)]
pub struct Walk {
    start: u32,
    looked: u32,
}

impl Walk {
    /// Descriptors that are READ at once.
    const AT_ONCE: u32 = 64;

    /// Begins at a random chunk, so that clients which walk at the same time find different chunks.
    pub fn from_anywhere<E: Endpoint>(endpoint: &E, layout: &Layout) -> Self {
        Self { start: (endpoint.random() % u64::from(layout.chunks())) as u32, looked: 0 }
    }

    /// READs the next chunks' descriptors; `None` after all chunks. Chunks that the pool got
    /// meanwhile may be missing.
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
/// The words of one READ are of different moments, in any order. A caller may decide by the state
/// and the contents of a chunk. It then READs the contents here, after it has seen the state. If a
/// swap from that state succeeds, the contents were those of the same life of the chunk.
pub async fn contents<E: Endpoint>(endpoint: &E, layout: &Layout, chunks: &[ChunkId]) -> Result<Vec<u64>, VerbError> {
    let mut contents = Vec::with_capacity(chunks.len());
    for some in chunks.chunks(BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        let reads: Vec<Ticket> = some.iter().map(|chunk| batch.read_word(layout.contents(*chunk))).collect();
        endpoint.post(&mut batch).await?;
        contents.extend(reads.into_iter().map(|read| batch.word(read)));
    }
    Ok(contents)
}

/// Chunks that the hint counts as free, including those without memory.
pub async fn free_chunks<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<u64, VerbError> {
    Ok((read_word(endpoint, layout.free_chunks()).await? as i64).max(0) as u64)
}
