//! How a pool's memory is provided while clients already use the pool.
//!
//! A region is created without pages. Allocating pages takes time, so it happens in the background,
//! stretch by stretch:
//!
//! | what | when its memory is present | what keeps verbs off until then |
//! |---|---|---|
//! | header, registry | when the pool is formatted | no client knows the pool |
//! | the tables: descriptors of chunks, the engine's words | provided in the background | the fabric provides what a verb touches first |
//! | chunks | below the count of provided chunks | no client allocates a chunk beyond the count, so no word points there |
//!
//! ```text
//! the word, on the home    0 31 | all tables are there 1 | chunks provided 32     atomics only
//! ```
//!
//! Both parts only grow, each by a compare-and-swap after the memory is present. Any process may
//! provide the next stretch, also together with another process, since providing present memory is
//! harmless. So the death of a provider loses nothing: a stretch that was provided and not counted
//! is provided again. A client that finds no free chunk provides some memory itself before it
//! evicts ([`chunks::allocate`](crate::chunks::allocate)).
//!
//! The count covers the chunks that the pool was created with, of all nodes, in their order. A node
//! that is added later has all its memory from the start. It is added only after the other nodes
//! have theirs ([`nodes::claim`](crate::nodes::claim)).
//!
//! The count of free chunks covers all chunks, including those without memory. So no other word has
//! to follow this one; see [`Layout::usable_chunks`].

use crate::words::{self, read_word};
use crate::{ChunkId, Layout, Pool};
use atoll_fabric::{Address, Endpoint, VerbError};

/// Bytes that are provided at a time in the background.
const STRETCH_BYTES: u64 = 16 << 20;
/// Bytes that a client provides that finds no free chunk.
const SHORT_STRETCH_BYTES: u64 = 2 << 20;
const TABLES: u64 = 1 << 32;

/// How much of a pool's memory is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provided {
    /// Chunks, from the first on, of those that the pool was made with.
    pub chunks: u32,
    /// Whether all tables have memory.
    pub tables: bool,
}

impl Provided {
    /// All of it.
    pub(crate) fn all(layout: &Layout) -> Self {
        Self { chunks: layout.first_chunks(), tables: true }
    }

    pub(crate) fn word(self) -> u64 {
        u64::from(self.chunks) | if self.tables { TABLES } else { 0 }
    }

    fn from_word(word: u64, layout: &Layout) -> Self {
        Self { chunks: (word as u32).min(layout.first_chunks()), tables: word & TABLES != 0 }
    }

    /// Whether that is all.
    pub fn is_all(self, layout: &Layout) -> bool {
        self == Self::all(layout)
    }

    /// Bytes of all regions that the pool was made with.
    pub fn bytes(self, pool: &Pool) -> u64 {
        if self.is_all(&pool.layout) {
            return pool.settings.capacity_bytes;
        }
        let tables: u64 = (0..pool.layout.nodes_first()).map(|node| pool.layout.heap_of(node)).sum();
        u64::from(self.chunks) * pool.layout.chunk_bytes + if self.tables { tables } else { 0 }
    }
}

/// What one step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More memory is present than before.
    More,
    /// All memory is present.
    All,
    /// The host has no memory left for the next stretch.
    NoMemory,
}

/// The word when the pool is formatted: how far the regions' memory is present.
pub(crate) fn first_word<E: Endpoint>(endpoint: &E, layout: &Layout) -> u64 {
    let mut chunks = 0;
    for node in 0..layout.nodes_first() {
        let Some(range) = layout.chunks_of(node) else { break };
        let heap = layout.heap_of(node);
        let there = endpoint.provided(node).saturating_sub(heap) / layout.chunk_bytes;
        let of_node = u32::try_from(there).unwrap_or(u32::MAX).min(range.len() as u32);
        chunks += of_node;
        if of_node < range.len() as u32 {
            break;
        }
    }
    let tables = (0..layout.nodes_first()).all(|node| endpoint.provided(node) >= layout.heap_of(node));
    let provided = Provided { chunks, tables };
    layout.note_provided(chunks);
    provided.word()
}

/// READs how much memory is present; this process remembers it.
pub async fn provided<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<Provided, VerbError> {
    let word = read_word(endpoint, layout.provided_word()).await?;
    let provided = Provided::from_word(word, layout);
    note(endpoint, layout, provided);
    Ok(provided)
}

/// Remembers how much memory is present, for all threads of this process.
fn note<E: Endpoint>(endpoint: &E, layout: &Layout, provided: Provided) {
    layout.note_provided(provided.chunks);
    if !provided.tables {
        return;
    }
    for node in 0..layout.nodes_first() {
        let Some(range) = layout.chunks_of(node) else { return };
        let of_node = provided.chunks.clamp(range.start, range.end) - range.start;
        let is_whole = of_node == range.len() as u32;
        let bytes = layout.heap_of(node) + u64::from(of_node) * layout.chunk_bytes;
        endpoint.note_provided(node, if is_whole { u64::MAX } else { bytes });
    }
}

/// Provides the next stretch of memory: of the tables, from the place on that `tables_next` holds
/// for this caller, then of the chunks.
pub async fn provide_next<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    tables_next: &mut Address,
) -> Result<Step, VerbError> {
    let now = provided(endpoint, layout).await?;
    if now.is_all(layout) {
        return Ok(Step::All);
    }
    if now.tables {
        return provide_chunks(endpoint, layout, STRETCH_BYTES).await;
    }
    let node = tables_next.node();
    let left = layout.heap_of(node).saturating_sub(tables_next.offset());
    if left > 0 {
        let bytes = left.min(STRETCH_BYTES);
        if !endpoint.provide(*tables_next, bytes).await? {
            return Ok(Step::NoMemory);
        }
        *tables_next = tables_next.add(bytes);
        return Ok(Step::More);
    }
    if node + 1 < layout.nodes_first() {
        *tables_next = Address::new(node + 1, 0, 0);
        return Ok(Step::More);
    }
    raise(endpoint, layout, |provided| Provided { tables: true, ..provided }).await?;
    Ok(Step::More)
}

/// Provides the next chunks, for a client that found none free, and checks what other clients have
/// provided.
pub(crate) async fn provide_some<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<(), VerbError> {
    provide_chunks(endpoint, layout, SHORT_STRETCH_BYTES).await.map(drop)
}

async fn provide_chunks<E: Endpoint>(endpoint: &E, layout: &Layout, bytes: u64) -> Result<Step, VerbError> {
    let first = provided(endpoint, layout).await?.chunks;
    let Some(range) = layout.chunks_of(layout.node_of(ChunkId(first))).filter(|_| first < layout.first_chunks()) else {
        return Ok(Step::All);
    };
    // In a small pool it provides a part, so that small pools take the same path as large ones.
    let bytes = bytes.min(u64::from(layout.first_chunks()) * layout.chunk_bytes / 16);
    let count = u32::try_from(bytes / layout.chunk_bytes).unwrap_or(u32::MAX).max(1).min(range.end - first);
    if !endpoint.provide(layout.chunk(ChunkId(first)), u64::from(count) * layout.chunk_bytes).await? {
        return Ok(Step::NoMemory);
    }
    raise(endpoint, layout, |provided| Provided { chunks: provided.chunks.max(first + count), ..provided }).await?;
    Ok(Step::More)
}

/// Provides all missing memory; returns whether the host has it. For a pool that will grow.
pub(crate) async fn provide_all<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<bool, VerbError> {
    let mut tables_next = Address::new(0, 0, 0);
    loop {
        match provide_next(endpoint, layout, &mut tables_next).await? {
            Step::More => {}
            Step::All => return Ok(true),
            Step::NoMemory => return Ok(false),
        }
    }
}

async fn raise<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    more: impl Fn(Provided) -> Provided,
) -> Result<(), VerbError> {
    let more = |found: Provided| {
        let raised = more(found);
        assert!(raised.chunks >= found.chunks && raised.tables >= found.tables, "what is there stays: {raised:?}");
        assert!(raised.chunks <= layout.first_chunks(), "chunks of the pool: {raised:?}");
        raised
    };
    let raised = |found| Some(more(Provided::from_word(found, layout)).word()).filter(|raised| *raised != found);
    let word = words::change(endpoint, layout.provided_word(), raised).await?;
    note(endpoint, layout, Provided::from_word(word, layout));
    Ok(())
}
