//! The chunks in a client's stock, all in state Open. Beside it are chunks that other clients
//! protect: those that this client emptied and cannot reuse yet, and those that it settles later as
//! a repairer.
//!
//! A chunk comes here from a group that was evicted or cleaned, or from the pool's free chunks (see
//! `room`). An operation draws the chunks that it fills. The client frees the chunks that it does
//! not need soon. While it cleans a group, one chunk is set aside for the objects that stay.

use super::Forge;
use super::layout::Queue;
use super::operation::Operation;
use super::ring::Node;
use super::technique::Technique;
use crate::CacheError;
use crate::backoff::Backoff;
use crate::extent::OpenChunk;
use crate::open_chunks::OpenChunks;
use atoll_fabric::{Endpoint, Purpose};
use atoll_pool::loan::Lender;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};
use std::cell::{Cell, RefCell};

/// Chunks that a client keeps in stock between operations.
const STOCK_KEPT: usize = 4;

/// A client's chunks that no operation has drawn.
#[derive(Debug)]
pub(super) struct Stock {
    pub(super) chunks: OpenChunks,
    /// The chunk that is set aside for the objects that stay of the group that is being cleaned.
    aside: Cell<Option<OpenChunk>>,
    /// Whether a group has begun, and no operation has looked for the next group's chunk since.
    pub(super) wants_next: Cell<bool>,
    /// By queue, the last group for whose next one this client has tried to make room beside its
    /// operations.
    pub(super) provided_for: Cell<[Option<OpenChunk>; 2]>,
    /// How many chunks the operation that makes room wants.
    pub(super) wanted: Cell<usize>,
    /// Lent to the operation that makes room.
    pub(super) turn: Lender<()>,
    /// Chunks that this client emptied and an operation of another client still protects.
    waiting: RefCell<Vec<ChunkId>>,
    /// Chunks that this client owns as a repairer. It settles them when no client protects them.
    postponed: RefCell<Vec<ChunkId>>,
    /// When an update next checks whether the waiting chunks are still protected.
    backoff: Cell<Backoff>,
}

/// Chunks that this client settles now, because it could not before.
pub(super) struct Postponed<'s> {
    pub(super) chunks: Vec<ChunkId>,
    of: &'s RefCell<Vec<ChunkId>>,
}

impl Drop for Postponed<'_> {
    fn drop(&mut self) {
        self.of.borrow_mut().append(&mut self.chunks);
    }
}

impl Stock {
    /// A stock without chunks.
    pub(super) fn new() -> Self {
        Self {
            chunks: OpenChunks::default(),
            aside: Cell::default(),
            wants_next: Cell::default(),
            provided_for: Cell::default(),
            wanted: Cell::default(),
            turn: Lender::new(()),
            waiting: RefCell::default(),
            postponed: RefCell::default(),
            backoff: Cell::default(),
        }
    }

    /// Moves `missing` chunks to the operation's, if one stays in stock. Returns whether it did.
    #[inline]
    fn draw(&self, drawn: &mut Vec<OpenChunk>, missing: usize) -> bool {
        let has_enough = self.chunks.len() > missing;
        if has_enough {
            self.chunks.draw(drawn, missing);
        }
        has_enough
    }

    /// How many chunks a client keeps. It frees the rest, so that every client can allocate them.
    #[inline]
    pub(super) fn kept(&self) -> usize {
        STOCK_KEPT.max(self.wanted.get())
    }

    /// Sets a chunk aside, if there is one. No other operation of this client draws it. Returns
    /// whether there was one.
    pub(super) fn set_aside(&self) -> bool {
        let chunk = self.chunks.pop();
        self.aside.set(chunk);
        chunk.is_some()
    }

    /// Takes back the chunk that was set aside, if it was not used.
    pub(super) fn end_aside(&self) {
        if let Some(chunk) = self.aside.take() {
            self.chunks.push(chunk);
        }
    }

    /// The chunk that was set aside, or else any chunk of the stock.
    pub(super) fn pop_aside(&self) -> Option<OpenChunk> {
        self.aside.take().or_else(|| self.chunks.pop())
    }

    /// Whether there are chunks that this client emptied and another client protects.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// How many chunks this client emptied and another client protects.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.borrow().len() as u64
    }

    /// Notes a chunk that this client emptied and another client protects.
    pub(super) fn let_wait(&self, chunk: ChunkId) {
        self.waiting.borrow_mut().push(chunk);
        self.backoff.take();
    }

    /// Notes a chunk that this client owns as a repairer, and a client protects.
    pub(super) fn postpone(&self, chunk: ChunkId) {
        self.postponed.borrow_mut().push(chunk);
    }

    /// Whether there are chunks that this client settles later.
    pub(super) fn has_postponed(&self) -> bool {
        !self.postponed.borrow().is_empty()
    }

    /// Takes those chunks. What is left of them when the guard is dropped is postponed again.
    pub(super) fn take_postponed(&self) -> Postponed<'_> {
        Postponed { chunks: self.postponed.take(), of: &self.postponed }
    }

    fn is_look_due(&self) -> bool {
        let mut backoff = self.backoff.get();
        let is_due = backoff.is_due();
        self.backoff.set(backoff);
        is_due
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Draws chunks from the stock until the operation has `chunks`. One chunk must stay for the
    /// objects of a cleaned group: without it, a client evicts what fits. Returns whether the
    /// operation has enough.
    #[inline]
    pub(super) fn draw_stock(&self, op: &mut Operation, chunks: usize) -> bool {
        let missing = chunks.saturating_sub(op.notes.chunks.len());
        missing == 0 || self.stock.draw(&mut op.notes.chunks, missing)
    }

    /// Frees the chunks in the stock beyond the first `kept`.
    pub(super) async fn free_stock_beyond(&self, kept: usize) -> Result<(), CacheError> {
        let mut surplus = Vec::new();
        self.stock.chunks.draw(&mut surplus, self.stock.chunks.len().saturating_sub(kept));
        let before = self.client.endpoint.purpose(Purpose::Eviction);
        let freed = self.client.free_open(&surplus).await;
        self.client.endpoint.purpose(before);
        Ok(freed?)
    }

    /// Frees a chunk of the stock, if there is one. Returns its number, and the generation in which
    /// it is free.
    pub(super) async fn free_stocked(&self) -> Result<Option<OpenChunk>, CacheError> {
        let Some((chunk, generation)) = self.stock.chunks.pop() else { return Ok(None) };
        let before = self.client.endpoint.purpose(Purpose::Eviction);
        let freed = self.client.free_own(chunk, Chunk::owned(ChunkState::Open, self.client.me(), generation)).await;
        self.client.endpoint.purpose(before);
        freed?;
        Ok(Some((chunk, generation.wrapping_add(1))))
    }

    /// Takes a chunk that nothing points to or protects into the stock.
    pub(super) async fn reuse_chunk(&self, chunk: ChunkId, leaving: Chunk) -> Result<(), CacheError> {
        let generation = leaving.generation.wrapping_add(1);
        let open = Chunk { state: ChunkState::Open, generation, ..leaving };
        if !chunks::transition(&self.client.endpoint, &self.client.pool.layout, chunk, leaving.word(), open).await? {
            return Err(CacheError::Damaged { what: "another client changed the state of a leaving group" });
        }
        // A chunk that this client does not need is freed, so that every client can allocate it. A
        // chunk of a memory node that is gone is of no use to it.
        if !self.client.is_chunk_absent(chunk) && self.stock.chunks.len() < self.stock.kept() {
            self.stock.chunks.push((chunk, generation));
            return Ok(());
        }
        Ok(self.client.free_own(chunk, open).await?)
    }

    /// Takes the waiting chunks into the stock that no operation protects any more. Unless
    /// `forced`, the client checks more rarely the longer all of them have been protected: the
    /// client that protects them may stand still.
    pub(super) async fn recheck_waiting(&self, forced: bool) -> Result<(), CacheError> {
        if !self.stock.has_waiting() || !forced && !self.stock.is_look_due() {
            return Ok(());
        }
        // Taken before the READ: another operation of this client may let a chunk wait meanwhile.
        // What was READ need not show that chunk's protection.
        let waiting = self.stock.waiting.take();
        let protected = self.client.protected_among(&waiting).await;
        let protected = protected.inspect_err(|_| self.stock.waiting.borrow_mut().extend(&waiting))?;
        for chunk in waiting {
            if protected.contains(&chunk) {
                self.stock.waiting.borrow_mut().push(chunk);
            } else {
                let leaving = self.leaving(chunk).await?;
                self.unlink_late(chunk, None).await?;
                self.reuse_chunk(chunk, leaving).await?;
                self.stock.backoff.take();
            }
        }
        Ok(())
    }

    /// The descriptor of a chunk that this client owns because it leaves its queue.
    async fn leaving(&self, chunk: ChunkId) -> Result<Chunk, CacheError> {
        let damaged = CacheError::Damaged { what: "another client changed the state of a leaving group" };
        self.leaving_now(chunk).await?.ok_or(damaged)
    }

    /// The same; `None` if this client does not own the chunk for that reason.
    pub(super) async fn leaving_now(&self, chunk: ChunkId) -> Result<Option<Chunk>, CacheError> {
        let descriptor = chunks::descriptors(&self.client.endpoint, &self.client.pool.layout, chunk, 1).await?[0];
        let me = self.client.me();
        let ours = |found: &Chunk| *found == Chunk::owned(ChunkState::Leaving, me, found.generation);
        Ok(descriptor.chunk.filter(ours))
    }

    /// Queues all waiting chunks again, because the client leaves the pool. The next evictor of
    /// such a chunk finds no objects in it, and waits for the protection instead.
    pub(super) async fn free_waiting(&self) -> Result<(), CacheError> {
        self.recheck_waiting(true).await?;
        for chunk in self.stock.waiting.take() {
            self.requeue_emptied(chunk).await?;
        }
        Ok(())
    }

    /// Puts an emptied group, which no node points to, into the small queue.
    async fn requeue_emptied(&self, chunk: ChunkId) -> Result<(), CacheError> {
        let layout = self.client.pool.layout.clone();
        let leaving = self.leaving(chunk).await?;
        // A new generation, because a group that was cleaned has left a node of its own behind.
        let generation = leaving.generation.wrapping_add(1);
        let queued = Chunk { state: ChunkState::Queued, generation, ..leaving };
        if !chunks::transition(&self.client.endpoint, &layout, chunk, leaving.word(), queued).await? {
            return Err(CacheError::Damaged { what: "another client changed the state of a leaving group" });
        }
        let node = Node { chunk, generation: generation as u16, segment: 0 };
        self.enqueue(Queue::Small, node).await
    }
}
