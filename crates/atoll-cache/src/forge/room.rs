//! How room is made. A client that needs a chunk does this itself and waits for no other client.
//!
//! | first that applies | gives a chunk by | loses |
//! |---|---|---|
//! | more chunks are free than are kept for cleaning | allocating one | nothing |
//! | a group has much dead memory | cleaning it: see `cleaning` | nothing |
//! | little of the pool is dead, or cleaning is not possible | evicting the oldest group of a queue: see `evict` | objects |
//!
//! A few free chunks are kept for clients that clean: what is live in a group goes to another chunk
//! first. A client takes one of them when it has none in stock.

use super::evict::Evicted;
use super::layout::Queue;
use super::operation::Operation;
use super::ring::Node;
use super::{Forge, Hole};
use crate::CacheError;
use crate::backoff::Backoff;
use atoll_fabric::{Batch, Endpoint, Purpose};
use atoll_pool::chunks::FreeCount;
use atoll_pool::loan::Loan;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks, read_word};

/// Chunks that a client keeps in stock between operations.
pub(super) const STOCK_KEPT: usize = 4;
/// Tries, each after a pause, before a writer gives up because others hold everything.
const TRIES_MAX: u32 = 2_000;
/// Times that a writer who needs several chunks begins anew with none.
const ROUNDS_MAX: u32 = 3;
/// Since somebody has died, one search in so many looks for free chunks although the pool counts
/// none.
const LOOKS_ANYWAY: u64 = 64;
/// One chunk in so many is kept free for clients that clean, one for each client at most.
const CHUNKS_PER_KEPT: u32 = 64;

/// Tries to have a spare chunk while operations of other clients protect what this client emptied.
const SPARE_TRIES: u32 = 8;

/// How long a writer waits after so many tries: all of them together take two seconds, in which the
/// dead are found and repaired.
fn pause_ns(tried: u32) -> u64 {
    1_000 * u64::from(tried.min(1_000))
}

impl<E: Endpoint> Forge<E> {
    /// Draws chunks from the stock until the operation has so many, if one is left then to which
    /// objects of a cleaned group go; whether it did.
    #[inline]
    pub(super) fn draw_stock(&self, op: &mut Operation, chunks: usize) -> bool {
        if chunks <= op.notes.chunks.len() {
            return true;
        }
        let mut stock = self.stock.borrow_mut();
        let missing = chunks.saturating_sub(op.notes.chunks.len());
        let spare = usize::from(missing > 0 && !op.notes.is_restocked);
        let has_enough = stock.len() >= missing + spare;
        if has_enough {
            let left = stock.len() - missing;
            op.notes.chunks.extend(stock.drain(left..));
        }
        has_enough
    }

    /// Fills the stock to `chunks`, and a spare one if that can be had. One operation of the client
    /// makes room at a time: most often there is enough for the others then.
    pub(super) async fn restock(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        self.stock.borrow_mut().append(&mut op.notes.chunks);
        let (_turn, has_waited) = self.turn_to_make_room(op).await?;
        if has_waited && self.stock.borrow().len() > chunks {
            return Ok(());
        }
        self.client.in_flight().renew(&mut op.entry);
        let before = self.client.endpoint.purpose(Purpose::Eviction);
        self.stock_wanted.set(chunks + 1);
        let restocked = self.fill_stock(op, chunks).await;
        let left = self.stock.borrow().len().saturating_sub(chunks);
        op.notes.chunks = self.stock.borrow_mut().split_off(left);
        self.stock_wanted.set(0);
        op.notes.is_restocked = true;
        self.client.endpoint.purpose(before);
        restocked
    }

    /// Waits until no other operation of this client makes room; whether it had to.
    async fn turn_to_make_room(&self, op: &mut Operation) -> Result<(Loan<'_, ()>, bool), CacheError> {
        if let Some(turn) = self.making_room.lend() {
            return Ok((turn, false));
        }
        // It holds nothing up meanwhile.
        self.release_reservation(op);
        self.client.in_flight().leave(&mut op.entry);
        let turn = self.making_room.lent().await;
        self.client.begin(&mut op.entry).await?;
        Ok((turn, true))
    }

    async fn fill_stock(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        if self.stock.borrow().is_empty() {
            self.obtain_spare().await?;
        }
        for round in 1.. {
            match self.obtain_chunks(op, chunks).await {
                // Writers of large values who keep from each other what they have so far: those who
                // give it up let another one end first.
                Err(CacheError::OutOfMemory) if chunks > 1 && round < ROUNDS_MAX => {
                    self.free_stock_beyond(0).await?;
                    self.client.endpoint.pause(self.client.endpoint.random() % (u64::from(round) * 10_000_000)).await;
                }
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        if self.stock.borrow().len() == chunks {
            match self.obtain_chunk(op, 1).await {
                Ok(()) | Err(CacheError::OutOfMemory) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a chunk to an empty stock, to which a group that is cleaned can move: one that this
    /// client emptied and that was protected then, or one of those that are kept.
    pub(super) async fn obtain_spare(&self) -> Result<(), CacheError> {
        for tried in 0..SPARE_TRIES {
            self.recheck_waiting(true).await?;
            if !self.stock.borrow().is_empty() {
                return Ok(());
            }
            if let Some(spare) = self.allocate(FreeCount::Trusted, 0).await? {
                self.stock.borrow_mut().push(spare);
                return Ok(());
            }
            if self.waiting.borrow().is_empty() {
                return Ok(());
            }
            // A protection lasts as long as one operation.
            self.client.endpoint.pause(pause_ns(tried)).await;
        }
        Ok(())
    }

    async fn obtain_chunks(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        while self.stock.borrow().len() < chunks {
            self.obtain_chunk(op, TRIES_MAX).await?;
        }
        Ok(())
    }

    /// Adds a chunk to the stock.
    async fn obtain_chunk(&self, op: &mut Operation, tries: u32) -> Result<(), CacheError> {
        let (before, mut effort, mut tried, mut cleaned) = (self.stock.borrow().len(), 0, 0, 0);
        let kept = self.chunks_kept();
        self.recheck_waiting(false).await?;
        while self.stock.borrow().len() <= before {
            let count = match self.client.are_counts_estimated() {
                false if tried == 0 => FreeCount::Glance,
                false => FreeCount::Trusted,
                true if tried > 0 || self.client.endpoint.random().is_multiple_of(LOOKS_ANYWAY) => FreeCount::Ignored,
                true => FreeCount::Distrusted,
            };
            // With nothing to evict, what is kept for cleaning is there to be used.
            if let Some(chunk) = self.allocate(count, if tried == 0 { kept } else { 0 }).await? {
                self.stock.borrow_mut().push(chunk);
                return Ok(());
            }
            if self.is_open(Hole::IdleEvictor) && self.client.me().slot != 0 {
                return Err(CacheError::OutOfMemory);
            }
            if effort == 0 && self.clean(cleaned).await? {
                cleaned += 1;
                continue;
            }
            match self.evict(effort + 1).await? {
                Evicted::Progress => effort += 1,
                Evicted::Stale => {}
                Evicted::Nothing => {
                    effort += 1;
                    tried += 1;
                    if tried >= tries {
                        return Err(CacheError::OutOfMemory);
                    }
                    // What is left is in open groups: our own can go into the queues now.
                    for queue in Queue::ALL {
                        self.close_group(queue, 0).await?;
                    }
                    self.recheck_waiting(true).await?;
                    self.client.endpoint.pause(pause_ns(tried)).await;
                    // It relies on nothing that it has seen. Somebody who died may hold it all.
                    self.client.in_flight().renew(&mut op.entry);
                    Box::pin(self.tend()).await?;
                }
            }
        }
        Ok(())
    }

    /// Free chunks that are kept for clients that clean.
    fn chunks_kept(&self) -> u64 {
        let (chunks, clients) = (self.client.pool.layout.chunks(), self.client.pool.settings.clients_max);
        u64::from((chunks / CHUNKS_PER_KEPT).min(clients).max(1))
    }

    /// Takes a free chunk, if there is one besides those that are to be kept.
    pub(super) async fn allocate(&self, count: FreeCount, kept: u64) -> Result<Option<(ChunkId, u32)>, CacheError> {
        loop {
            let layout = &self.client.pool.layout;
            let found =
                chunks::allocate(&self.client.endpoint, layout, self.client.me(), ChunkState::Open, count, kept)
                    .await?;
            // None that this client knows of: perhaps a memory node was added.
            if found.is_some() || !self.client.learn_nodes().await? {
                return Ok(found);
            }
        }
    }

    /// Counts an object against the limit, evicting until there is room.
    pub(super) async fn reserve_object(&self, op: &mut Operation) -> Result<(), CacheError> {
        let before = self.client.endpoint.purpose(Purpose::Eviction);
        let reserved = self.make_room_for_object(op).await;
        self.client.endpoint.purpose(before);
        reserved
    }

    async fn make_room_for_object(&self, op: &mut Operation) -> Result<(), CacheError> {
        let (at, max) = (self.client.pool.layout.resident_objects(), self.client.pool.settings.objects_max);
        let (mut effort, mut tried) = (0, 0);
        // One of this client's at a time: those that count themselves in and out again would be in
        // each other's way.
        let (_turn, _) = self.turn_to_make_room(op).await?;
        loop {
            let mut batch = Batch::new();
            let resident = batch.fetch_and_add(at, 1);
            self.client.endpoint.post(&mut batch).await?;
            if batch.word(resident) < max {
                op.set_reserved(&self.reserved, true);
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.fetch_and_add(at, u64::MAX);
            self.client.endpoint.post(&mut batch).await?;
            effort += 1;
            if let Evicted::Nothing = self.evict(effort).await? {
                tried += 1;
                if tried >= TRIES_MAX {
                    return Err(CacheError::OutOfMemory);
                }
                for queue in Queue::ALL {
                    self.close_group(queue, 0).await?;
                }
                // It holds no reservation meanwhile: another client that waits counts anew only
                // while all others are at rest.
                self.client.wait_aside(&mut op.entry, pause_ns(tried)).await?;
                Box::pin(self.tend()).await?;
                // Each client that died may have left an object counted that is not there: the
                // limit may be used up by those.
                if self.client.are_counts_estimated() {
                    Box::pin(atoll_pool::repair::recount(self)).await?;
                }
            }
        }
    }

    /// Evicts until no more objects are resident than may be: what a client that died had not
    /// counted may have been too many.
    pub(super) async fn evict_to_limit(&self) -> Result<(), CacheError> {
        let max = self.client.pool.settings.objects_max;
        for effort in 1..=TRIES_MAX {
            let resident = read_word(&self.client.endpoint, self.client.pool.layout.resident_objects()).await?;
            if max == 0 || resident <= max {
                break;
            }
            if let Evicted::Nothing = self.evict(effort).await? {
                break;
            }
            self.client.endpoint.flush().await?;
        }
        Ok(())
    }

    /// Gives a reservation back that the operation did not use.
    #[inline]
    pub(super) fn release_reservation(&self, op: &mut Operation) {
        if op.has_reserved() {
            op.set_reserved(&self.reserved, false);
            let mut batch = Batch::new();
            batch.fetch_and_add(self.client.pool.layout.resident_objects(), u64::MAX);
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }

    /// Takes a chunk that nothing points to or protects into the stock.
    pub(super) async fn reuse_chunk(&self, chunk: ChunkId, leaving: Chunk) -> Result<(), CacheError> {
        let generation = leaving.generation.wrapping_add(1);
        let open = Chunk { state: ChunkState::Open, generation, ..leaving };
        if !chunks::transition(&self.client.endpoint, &self.client.pool.layout, chunk, leaving.word(), open).await? {
            return Err(CacheError::Damaged { what: "somebody else changed the state of a leaving group" });
        }
        // What this client does not need is better in everybody's hands.
        if self.stock.borrow().len() < self.stock_wanted.get().max(STOCK_KEPT) {
            self.stock.borrow_mut().push((chunk, generation));
            return Ok(());
        }
        Ok(self.client.free_own(chunk, open).await?)
    }

    /// Takes those waiting chunks into the stock that nobody protects any more. Unless it is
    /// `forced`, a call looks the more rarely the longer all of them have been protected: the
    /// holder of a protection may stand still.
    pub(super) async fn recheck_waiting(&self, forced: bool) -> Result<(), CacheError> {
        if self.waiting.borrow().is_empty() || !forced && !self.is_waiting_due() {
            return Ok(());
        }
        let protected = self.client.protected_chunks().await?;
        for chunk in self.waiting.take() {
            if protected.contains(&chunk) {
                self.waiting.borrow_mut().push(chunk);
            } else {
                let leaving = self.emptied(chunk).await?;
                self.reuse_chunk(chunk, leaving).await?;
                self.waiting_backoff.set(Backoff::default());
            }
        }
        Ok(())
    }

    fn is_waiting_due(&self) -> bool {
        let mut backoff = self.waiting_backoff.get();
        let is_due = backoff.is_due();
        self.waiting_backoff.set(backoff);
        is_due
    }

    /// Notes a chunk that this client emptied and another one protects.
    pub(super) fn let_wait(&self, chunk: ChunkId) {
        self.waiting.borrow_mut().push(chunk);
        self.waiting_backoff.set(Backoff::default());
    }

    /// The descriptor of a chunk that this client emptied.
    async fn emptied(&self, chunk: ChunkId) -> Result<Chunk, CacheError> {
        let descriptor = chunks::descriptors(&self.client.endpoint, &self.client.pool.layout, chunk, 1).await?[0];
        let me = self.client.me();
        let ours = |found: &Chunk| *found == Chunk::owned(ChunkState::Leaving, me, found.generation);
        let damaged = CacheError::Damaged { what: "somebody else changed the state of a leaving group" };
        descriptor.chunk.filter(ours).ok_or(damaged)
    }

    /// Gives all waiting chunks away; for leaving. They go into a queue again, where whoever evicts
    /// one next finds nothing in it and waits instead.
    pub(super) async fn free_waiting(&self) -> Result<(), CacheError> {
        self.recheck_waiting(true).await?;
        for chunk in self.waiting.take() {
            self.requeue_emptied(chunk).await?;
        }
        Ok(())
    }

    /// Puts a group that this client emptied, and nothing else points to, into the small queue.
    async fn requeue_emptied(&self, chunk: ChunkId) -> Result<(), CacheError> {
        let layout = self.client.pool.layout.clone();
        let leaving = self.emptied(chunk).await?;
        // A new generation, because a group that was cleaned has left a node of its own behind.
        let generation = leaving.generation.wrapping_add(1);
        let queued = Chunk { state: ChunkState::Queued, generation, ..leaving };
        if !chunks::transition(&self.client.endpoint, &layout, chunk, leaving.word(), queued).await? {
            return Err(CacheError::Damaged { what: "somebody else changed the state of a leaving group" });
        }
        let node = Node { chunk, generation: generation as u16, segment: 0 };
        self.enqueue(Queue::Small, node).await
    }
}
