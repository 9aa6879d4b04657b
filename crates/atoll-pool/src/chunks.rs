//! The heap's chunks: how they are allocated and freed, by atomics alone.
//!
//! The count of free chunks follows the transitions unawaited: see the module `search`.

use crate::chunk::DESCRIPTOR_WORDS;
use crate::search::{counted_without_memory, is_of_absent_node, search};
use crate::words::{self, read_word};
use crate::{Layout, provision, reuses};
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Ticket, VerbError};

pub use crate::chunk::{Chunk, ChunkId, ChunkState, Descriptor};
pub use crate::search::{FreeCount, Wanted};

/// Allocates free chunks, as many as are wanted at most; returns their numbers and generations.
/// None if no chunk is free, or if other clients were faster at every one. While memory of the pool
/// is missing, more is provided before it returns none.
pub async fn allocate<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: Wanted,
) -> Result<Vec<(ChunkId, u32)>, VerbError> {
    loop {
        let absent = layout.absent_chunks();
        let found = search(endpoint, layout, wanted).await?;
        if !found.is_empty() || absent == 0 {
            return Ok(found);
        }
        Box::pin(provision::provide_some(endpoint, layout)).await?;
        if layout.absent_chunks() == absent {
            // The host has no memory left.
            return Ok(Vec::new());
        }
        // More memory is present than the search knew of. Any client may have provided it.
    }
}

/// Subtracts allocated chunks from the count of free chunks.
pub(crate) fn count_allocated<E: Endpoint>(endpoint: &E, layout: &Layout, chunks: usize) {
    let mut batch = Batch::new();
    batch.fetch_and_add(layout.free_chunks(), (chunks as u64).wrapping_neg());
    endpoint.post_unawaited(&mut batch);
}

/// Opens chunks that were free, in one batch; returns the numbers and generations of those that
/// still were. The caller subtracts them from the count.
pub(crate) async fn open_together<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: Wanted,
    free: &[(ChunkId, Chunk)],
) -> Result<Vec<(ChunkId, u32)>, VerbError> {
    assert!(wanted.state == ChunkState::Open, "a chunk that is allocated has an owner, which fills it");
    let open = |free: Chunk| Chunk::owned(wanted.state, wanted.owner, free.generation);
    let changes: Vec<_> = free.iter().map(|(chunk, free)| (*chunk, *free, open(*free))).collect();
    let changed = transition_together(endpoint, layout, &changes).await?;
    let opened = free.iter().zip(changed).filter(|(_, is_open)| *is_open);
    Ok(opened.map(|((chunk, free), _)| (*chunk, free.generation)).collect())
}

/// Allocates a chunk that was free in this generation; returns whether it still was. The caller has
/// seen that more chunks are free than are kept.
pub async fn allocate_known<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: Wanted,
    (chunk, generation): (ChunkId, u32),
) -> Result<bool, VerbError> {
    if chunk.0 >= layout.usable_chunks() || is_of_absent_node(layout, wanted.absent, chunk) {
        return Ok(false);
    }
    let opened = open_together(endpoint, layout, wanted, &[(chunk, free_in(generation))]).await?.len();
    if opened > 0 {
        count_allocated(endpoint, layout, opened);
    }
    Ok(opened > 0)
}

/// Free chunks that have memory, by the count. Zero if the count is too low.
pub async fn usable_free_chunks<E: Endpoint>(endpoint: &E, layout: &Layout, absent: u64) -> Result<u64, VerbError> {
    let counted = read_word(endpoint, layout.free_chunks()).await?;
    let free = counted.wrapping_sub(counted_without_memory(layout, absent).into());
    Ok((free as i64).max(0) as u64)
}

/// A free chunk.
fn free_in(generation: u32) -> Chunk {
    Chunk { state: ChunkState::Free, owner_slot: 0, owner_epoch: 0, generation }
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
    let is_changed = words::swap(endpoint, layout.descriptor(chunk), from, to.word()).await?;
    reuses::count(endpoint, layout, before.filter(|_| is_changed).map(|before| (chunk, before, to)).into_iter());
    Ok(is_changed)
}

/// Changes the states of chunks in one batch: each from the first to the second, if it is still the
/// first. Returns whether it was. A chunk that another client has changed does not stop the others.
///
/// # Panics
/// As [`transition`], or if there are more than a batch has verbs.
pub(crate) async fn transition_together<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    changes: &[(ChunkId, Chunk, Chunk)],
) -> Result<Vec<bool>, VerbError> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let mut batch = Batch::new();
    let mut swaps = Vec::with_capacity(changes.len());
    for (chunk, from, to) in changes {
        assert!(from.state.may_become(to.state), "no transition leads from {from:?} to {to:?}");
        swaps.push(batch.compare_and_swap(layout.descriptor(*chunk), from.word(), to.word()));
    }
    endpoint.post(&mut batch).await?;
    let changed: Vec<bool> = swaps.into_iter().map(|swap| batch.swapped(swap)).collect();
    let made = changes.iter().zip(&changed).filter(|(_, changed)| **changed);
    reuses::count(endpoint, layout, made.map(|(change, _)| *change));
    Ok(changed)
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
    free_in(from.generation.wrapping_add(1))
}

fn count_freed<E: Endpoint>(endpoint: &E, layout: &Layout, chunks: u64) {
    let mut batch = Batch::new();
    batch.fetch_and_add(layout.free_chunks(), chunks);
    endpoint.post_unawaited(&mut batch);
}

/// Frees as many chunks as a batch has verbs, at most, each if it is still in this state; returns
/// whether it was. Nothing points to them or protects them.
pub async fn free_together<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    chunks: &[(ChunkId, Chunk)],
) -> Result<Vec<bool>, VerbError> {
    let changes: Vec<_> = chunks.iter().map(|(chunk, from)| (*chunk, *from, freed(*from))).collect();
    let is_freed = transition_together(endpoint, layout, &changes).await?;
    let count = is_freed.iter().filter(|is_freed| **is_freed).count();
    if count > 0 {
        count_freed(endpoint, layout, count as u64);
    }
    Ok(is_freed)
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
    read_words(endpoint, chunks, |chunk| layout.contents(chunk)).await
}

/// READs the states of some chunks, in the chunks' order; `None` of a damaged word.
pub async fn states<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    chunks: &[ChunkId],
) -> Result<Vec<Option<Chunk>>, VerbError> {
    let words = read_words(endpoint, chunks, |chunk| layout.descriptor(chunk)).await?;
    Ok(words.into_iter().map(Chunk::from_word).collect())
}

/// READs one word of each of these chunks.
async fn read_words<E: Endpoint>(
    endpoint: &E,
    chunks: &[ChunkId],
    at: impl Fn(ChunkId) -> Address,
) -> Result<Vec<u64>, VerbError> {
    let mut words = Vec::with_capacity(chunks.len());
    for some in chunks.chunks(BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        let reads: Vec<Ticket> = some.iter().map(|chunk| batch.read_word(at(*chunk))).collect();
        endpoint.post(&mut batch).await?;
        words.extend(reads.into_iter().map(|read| batch.word(read)));
    }
    Ok(words)
}

/// Chunks that the hint counts as free, including those without memory.
pub async fn free_chunks<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<u64, VerbError> {
    Ok((read_word(endpoint, layout.free_chunks()).await? as i64).max(0) as u64)
}
