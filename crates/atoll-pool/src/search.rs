//! The search for free chunks. A client that wants several looks for all of them at once.
//!
//! | step | verbs of one batch |
//! |---|---|
//! | look | READ the count of free chunks, and a row of descriptors for each chunk that is wanted |
//! | allocate | CAS Free -> Open of free chunks: as many as are wanted, and as the count leaves |
//! | count | FAA of the count, unawaited |
//!
//! The CAS of a chunk names its owner, and no verb touches the chunk before. So whichever of them
//! took effect when their client died, a repairer finds the chunks. A CAS fails if another client
//! was faster at its chunk. The others of its batch take effect all the same.
//!
//! A client that dies before it has counted leaves the count wrong until everything is recounted.
//! Until then:
//!
//! | a search | looks |
//! |---|---|
//! | distrusts the count | at some descriptors only, however many free chunks it promises |
//! | ignores the count, now and then | at some descriptors although it says that no chunk is free |
//! | is the last resort | at all descriptors, and lowers the count if no chunk is free |

use crate::chunk::{Chunk, ChunkId, ChunkState, DESCRIPTOR_WORDS, Descriptor};
use crate::chunks::{count_allocated, open_together};
use crate::{Incarnation, Layout, nodes};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, VerbError};

/// Descriptors of a row, which lie side by side.
const ROW: u32 = 16;
/// Rounds of a search that READs descriptors although no chunk is counted as free, or that
/// distrusts a low count.
const ROUNDS_ANYWAY: u32 = 4;
/// Rounds of a search that distrusts a count of more than [`MANY_FREE`]. A few neighbouring rounds
/// may all fall into a row of chunks that are out of use.
const ROUNDS_FOR_MANY: u32 = 64;
const MANY_FREE: u64 = 16;

/// How far a search for free chunks trusts the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeCount {
    /// The count is right.
    Trusted,
    /// The count is right, and the caller can evict instead: if few chunks are free and the memory
    /// is not near, one look is enough.
    Glance,
    /// The count may be too high: READ some descriptors only.
    Distrusted,
    /// The count may also be too low: READ some descriptors even if no chunk is counted as free.
    Ignored,
}

/// A request for free chunks.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// How many, at most. The batch of the look has a verb for each, and one more.
    pub most: usize,
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

/// Allocates free chunks; returns their numbers and generations. It ends with the first batch that
/// allocates any, so fewer than are wanted do not mean that no more are free.
pub(crate) async fn search<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    wanted: Wanted,
) -> Result<Vec<(ChunkId, u32)>, VerbError> {
    let Wanted { count, kept, absent: absent_nodes, .. } = wanted;
    let (chunks, absent) = (layout.usable_chunks(), counted_without_memory(layout, absent_nodes));
    if chunks == 0 {
        return Ok(Vec::new());
    }
    let mut rows = Rows::from_anywhere(endpoint, chunks, wanted.most);
    let mut hint = None;
    for round in 0..=chunks.div_ceil(rows.descriptors()) {
        // The count includes chunks without memory.
        let free = rows.read(endpoint, layout).await?.wrapping_sub(absent.into());
        let says_none = free as i64 <= kept as i64;
        let looked_enough = match count {
            // If few chunks are free, each look after the first succeeds just as seldom. With
            // hundreds of clients those walks would take all the time of the nodes. Where memory is
            // near, an eviction costs more than the walk.
            FreeCount::Glance => round > 0 && free < u64::from(chunks / rows.descriptors()) && !endpoint.is_near(),
            // While other clients allocate and free, a count that is too high cannot be lowered. A
            // walk through all descriptors in vain costs more than an eviction.
            FreeCount::Distrusted if free > MANY_FREE => round == ROUNDS_FOR_MANY,
            FreeCount::Distrusted => round >= ROUNDS_ANYWAY,
            FreeCount::Trusted | FreeCount::Ignored => round == ROUNDS_ANYWAY && says_none,
        };
        if says_none && count != FreeCount::Ignored || looked_enough {
            return Ok(Vec::new());
        }
        hint = if round == 0 { Some(free) } else { hint.filter(|before| *before == free) };
        // A chunk that the count does not include is allocated alone.
        let most = if says_none { 1 } else { wanted.most.min((free - kept) as usize) };
        let is_there = |(chunk, _): &(ChunkId, Chunk)| !is_of_absent_node(layout, absent_nodes, *chunk);
        let found: Vec<_> = rows.free().filter(is_there).collect();
        for some in found.chunks(most) {
            let opened = open_together(endpoint, layout, wanted, some).await?;
            if !opened.is_empty() {
                // A chunk that the count did not include is not subtracted from it.
                if !says_none {
                    count_allocated(endpoint, layout, opened.len());
                }
                return Ok(opened);
            }
        }
        rows.advance();
        let sees_all = chunks <= rows.descriptors() * ROUNDS_FOR_MANY;
        if count == FreeCount::Distrusted && !sees_all && (round + 1).is_multiple_of(ROUNDS_ANYWAY) {
            rows.begin_anywhere(endpoint);
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
    Ok(Vec::new())
}

pub(crate) fn is_of_absent_node(layout: &Layout, absent_nodes: u64, chunk: ChunkId) -> bool {
    absent_nodes != 0 && absent_nodes >> layout.node_of(chunk) & 1 == 1
}

/// Chunks that the count of free chunks includes although they have no memory.
pub(crate) fn counted_without_memory(layout: &Layout, absent_nodes: u64) -> u32 {
    let (chunks, absent) = (layout.usable_chunks(), layout.absent_chunks());
    if absent_nodes == 0 {
        return absent;
    }
    // The count includes their chunks, which are all free. Those without memory count once.
    let of_nodes = (1..layout.nodes_known()).filter(|node| absent_nodes >> node & 1 == 1);
    let of_nodes = of_nodes.filter_map(|node| layout.chunks_of(node));
    absent + of_nodes.map(|of_node| of_node.end.min(chunks).saturating_sub(of_node.start)).sum::<u32>()
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

/// The rows of descriptors that a search READs in one batch. They lie evenly spaced, so that the
/// chunks of a large value are of all memory nodes. All rows advance together. Once each row has
/// reached the beginning of the next one, they have covered all chunks.
struct Rows {
    /// The chunks that may be used. Behind the last one a row begins again at the first.
    chunks: u32,
    rows: Vec<Row>,
}

/// Descriptors side by side, as they were READ.
#[derive(Default)]
struct Row {
    first: u32,
    descriptors: Buffer,
}

impl Rows {
    /// A row for each chunk that is wanted, or as many rows as the pool has.
    fn from_anywhere<E: Endpoint>(endpoint: &E, chunks: u32, wanted: usize) -> Self {
        assert!((1..BATCH_VERBS_MAX).contains(&wanted), "{wanted} chunks are looked for in one batch");
        let count = wanted.min((chunks / ROW) as usize).max(1);
        let mut rows = Self { chunks, rows: std::iter::repeat_with(Row::default).take(count).collect() };
        rows.begin_anywhere(endpoint);
        rows
    }

    /// Begins at a random chunk. If clients began at the same chunk, they would READ the same
    /// descriptors at the same time, and all but one would lose the swaps.
    fn begin_anywhere<E: Endpoint>(&mut self, endpoint: &E) {
        let first = endpoint.random() % u64::from(self.chunks);
        let apart = u64::from(self.chunks.div_ceil(self.rows.len() as u32));
        for (row, number) in self.rows.iter_mut().zip(0..) {
            row.first = ((first + number * apart) % u64::from(self.chunks)) as u32;
        }
    }

    /// Descriptors that are READ at once.
    fn descriptors(&self) -> u32 {
        ROW * self.rows.len() as u32
    }

    /// READs them; returns the count of free chunks.
    async fn read<E: Endpoint>(&mut self, endpoint: &E, layout: &Layout) -> Result<u64, VerbError> {
        let mut batch = Batch::new();
        let free = batch.read_word(layout.free_chunks());
        let mut tickets = Vec::with_capacity(self.rows.len());
        for row in &mut self.rows {
            let mut into = std::mem::take(&mut row.descriptors);
            into.resize(row.length(self.chunks) as usize * Descriptor::BYTES as usize);
            tickets.push(batch.read(layout.descriptor(ChunkId(row.first)), into));
        }
        endpoint.post(&mut batch).await?;
        for (row, ticket) in self.rows.iter_mut().zip(tickets) {
            row.descriptors = batch.take(ticket);
        }
        Ok(batch.word(free))
    }

    /// The free chunks among them, by turns of the rows.
    fn free(&self) -> impl Iterator<Item = (ChunkId, Chunk)> {
        (0..ROW).flat_map(|index| self.rows.iter().filter_map(move |row| row.free(index)))
    }

    /// Advances to the descriptors behind these.
    fn advance(&mut self) {
        for row in &mut self.rows {
            row.first = (row.first + row.length(self.chunks)) % self.chunks;
        }
    }
}

impl Row {
    /// Its descriptors: fewer at the end of the pool's.
    fn length(&self, chunks: u32) -> u32 {
        ROW.min(chunks - self.first)
    }

    /// The chunk of one of its descriptors, if it is free.
    fn free(&self, index: u32) -> Option<(ChunkId, Chunk)> {
        let word = *self.descriptors.words().get(DESCRIPTOR_WORDS * index as usize)?;
        let free = Chunk::from_word(word).filter(|chunk| chunk.state == ChunkState::Free)?;
        Some((ChunkId(self.first + index), free))
    }
}
