//! How a client makes room. A client that needs a chunk does this itself and waits for no other
//! client.
//!
//! | first that applies | frees a chunk by | loses |
//! |---|---|---|
//! | more chunks are free than are kept for cleaning | allocating one | nothing |
//! | a group has much dead memory | cleaning it: see `cleaning` | nothing |
//! | little of the pool is dead, or cleaning is not possible | evicting the oldest group of a queue: see `evict` | objects |
//!
//! A few free chunks are kept for clients that clean: a group's live objects are copied to another
//! chunk first. A client takes one of them when it has none in stock.
//!
//! Where memory is far, a client does this beside its operations when it will soon need a chunk:
//! see `beside`. Where an evictor works (`ahead`), a few more chunks are free, so that most often
//! the first row applies.

use super::evict::Evicted;
use super::layout::Queue;
use super::operation::Operation;
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::extent::OpenChunk;
use crate::extent::turns::{self, Turn};
use crate::limit::Limit;
use atoll_fabric::{Endpoint, Purpose};
use atoll_pool::chunks::FreeCount;
use atoll_pool::loan::Loan;

/// Tries, each after a pause, before a writer gives up because other clients hold all chunks.
const TRIES_MAX: u32 = 2_000;
/// Times that a writer who needs several chunks looks for them, and releases them all in between.
const ROUNDS_MAX: u32 = 3;
/// Chunks that a writer draws at a time, of those that a large value needs.
const PORTION: usize = 32;
/// To evict for a chunk takes as long as to copy so many bytes.
const BYTES_PER_DRAW: usize = 32 << 10;
/// After a client has died, one search in so many looks for free chunks although the pool counts
/// none.
const LOOKS_ANYWAY: u64 = 64;
/// One chunk in so many is kept free for clients that clean: at most one for each client that there
/// ever was at a time.
pub(super) const CHUNKS_PER_KEPT: u32 = 64;

/// Tries to get a spare chunk while other clients' operations protect the chunks that this client
/// emptied.
const SPARE_TRIES: u32 = 8;
/// Tries to get a spare chunk where a client would evict although much is dead, each after twice
/// the pause of the last. Together they take ten milliseconds: as long as a client that cleans may
/// be without a processor.
const SPARE_TRIES_PATIENT: u32 = 10;

/// How long a writer waits after so many tries. All waits together take two seconds, and a few more
/// where its thread does other things meanwhile. In that time dead clients are found and repaired.
fn pause_ns(tried: u32) -> u64 {
    1_000 * u64::from(tried.min(1_000))
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Draws `chunks` for an operation, in portions if they are many: the client's other operations
    /// have their turns in between, and so has what its thread does besides. Where memory is far,
    /// each portion would take round trips, and the thread is free while it waits.
    pub(super) async fn restock(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        self.stock.chunks.put_back(&mut op.notes.chunks);
        if chunks <= PORTION || !self.client.endpoint.is_near() {
            return self.restock_portion(op, chunks, ROUNDS_MAX).await;
        }
        for round in 1.. {
            match Box::pin(self.restock_in_portions(op, chunks)).await {
                // The operation gives up what it has so far, the portions before among it: see
                // `fill_stock`.
                Err(CacheError::OutOfMemory) if round < ROUNDS_MAX => {
                    self.stock.chunks.put_back(&mut op.notes.chunks);
                    self.give_up_stock(round).await?;
                }
                outcome => return outcome,
            }
        }
        unreachable!("the last round ends it")
    }

    /// Frees the stock after a round in vain, and gives other clients time to use it.
    async fn give_up_stock(&self, round: u32) -> Result<(), CacheError> {
        self.free_stock_beyond(0).await?;
        turns::wait(&self.client, self.client.endpoint.random() % (u64::from(round) * 10_000_000)).await;
        Ok(())
    }

    async fn restock_in_portions(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        let (mut portions, mut turn) = (Vec::with_capacity(chunks), Turn::of_writer(&self.client));
        let restocked = loop {
            portions.append(&mut op.notes.chunks);
            if portions.len() >= chunks {
                break Ok(());
            }
            let portion = PORTION.min(chunks - portions.len());
            if let Err(error) = self.restock_portion(op, portion, 1).await {
                break Err(error);
            }
            turn.copied(portion * BYTES_PER_DRAW).await;
        };
        op.notes.chunks.append(&mut portions);
        restocked
    }

    /// Fills the stock to `chunks`, and a spare chunk if one can be had, in so many `rounds`. One
    /// operation of the client makes room at a time: most often that is enough for the other
    /// operations, which find room in the group that it has begun.
    async fn restock_portion(&self, op: &mut Operation, chunks: usize, rounds: u32) -> Result<(), CacheError> {
        let short_of = op.notes.short_of.take();
        let is_made = || {
            let has_room = || short_of.is_some_and(|(queue, bytes)| self.has_room(queue, bytes));
            self.stock.chunks.len() > chunks || has_room()
        };
        let Some(_turn) = self.turn_to_make_room(op, is_made).await? else { return Ok(()) };
        self.client.in_flight().renew(&mut op.entry);
        let before = self.client.endpoint.purpose(Purpose::Eviction);
        self.stock.wanted.set(chunks + 1);
        let restocked = self.fill_stock(op, chunks, rounds).await;
        self.stock.chunks.draw(&mut op.notes.chunks, chunks);
        self.stock.wanted.set(0);
        self.client.endpoint.purpose(before);
        restocked
    }

    /// Waits until no other operation of this client makes room. `None` if it had to wait and finds
    /// that there `is_room` now.
    pub(super) async fn turn_to_make_room(
        &self,
        op: &mut Operation,
        is_room: impl Fn() -> bool,
    ) -> Result<Option<Loan<'_, ()>>, CacheError> {
        if let Some(turn) = self.stock.turn.lend() {
            return Ok(Some(turn));
        }
        // It blocks no other client meanwhile.
        self.limit.release(&self.client, op);
        self.client.in_flight().leave(&mut op.entry);
        let turn = self.stock.turn.lent().await;
        self.client.begin(&mut op.entry).await?;
        Ok((!is_room()).then_some(turn))
    }

    async fn fill_stock(&self, op: &mut Operation, chunks: usize, rounds: u32) -> Result<(), CacheError> {
        if self.stock.chunks.is_empty() {
            self.obtain_spare().await?;
        }
        for round in 1.. {
            match self.obtain_chunks(op, chunks).await {
                // Writers of large values may block each other with the chunks that they have so
                // far. A writer that gives them up lets another writer finish first.
                Err(CacheError::OutOfMemory) if chunks > 1 && round < rounds => self.give_up_stock(round).await?,
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        if self.stock.chunks.len() == chunks {
            match self.obtain_some(op, 1, 1).await {
                Ok(()) | Err(CacheError::OutOfMemory) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a chunk to an empty stock, for the objects of a group that is cleaned. It is a chunk
    /// that this client emptied and that was protected then, or a chunk kept for cleaning.
    pub(super) async fn obtain_spare(&self) -> Result<(), CacheError> {
        for tried in 0..SPARE_TRIES {
            self.recheck_waiting(true).await?;
            if !self.stock.chunks.is_empty() {
                return Ok(());
            }
            if let Some(spare) = self.allocate(FreeCount::Trusted, 0).await? {
                self.stock.chunks.push(spare);
                return Ok(());
            }
            if !self.stock.has_waiting() {
                return Ok(());
            }
            // A protection lasts as long as one operation, or a vacancy.
            self.give_up_vacancies();
            self.client.endpoint.pause(pause_ns(tried)).await;
        }
        Ok(())
    }

    /// Waits for a spare chunk that another client frees. Returns whether there is one.
    pub(super) async fn await_spare(&self) -> Result<bool, CacheError> {
        for tried in 0..SPARE_TRIES_PATIENT {
            self.client.endpoint.pause(10_000 << tried).await;
            self.obtain_spare().await?;
            if !self.stock.chunks.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fills the stock to `chunks`. A search looks for the spare chunk, too.
    async fn obtain_chunks(&self, op: &mut Operation, chunks: usize) -> Result<(), CacheError> {
        while self.stock.chunks.len() < chunks {
            self.obtain_some(op, chunks + 1 - self.stock.chunks.len(), TRIES_MAX).await?;
        }
        Ok(())
    }

    /// Adds a chunk to the stock, and up to `most` if so many are free.
    pub(super) async fn obtain_some(&self, op: &mut Operation, most: usize, tries: u32) -> Result<(), CacheError> {
        let (before, mut effort, mut tried, mut cleaned) = (self.stock.chunks.len(), 0, 0, 0);
        let kept = self.chunks_kept();
        self.recheck_waiting(false).await?;
        if self.obtain_offered(kept).await? {
            return Ok(());
        }
        while self.stock.chunks.len() <= before {
            let count = match self.client.are_counts_estimated() {
                false if tried == 0 => FreeCount::Glance,
                false => FreeCount::Trusted,
                true if tried > 0 || self.client.endpoint.random().is_multiple_of(LOOKS_ANYWAY) => FreeCount::Ignored,
                true => FreeCount::Distrusted,
            };
            // With nothing to evict, the chunks kept for cleaning may be used.
            let found = self.allocate_several(most, count, if tried == 0 { kept } else { 0 }).await?;
            if !found.is_empty() {
                self.stock.chunks.extend(found);
                return self.call_evictor_if_short(effort == 0).await;
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
                    // All other groups are open. This client's own can be queued now.
                    for queue in Queue::ALL {
                        self.close_group(queue, 0).await?;
                    }
                    self.give_up_vacancies();
                    self.recheck_waiting(true).await?;
                    turns::wait(&self.client, pause_ns(tried)).await;
                    // The operation relies on nothing that it has seen. A client that died may hold
                    // all chunks.
                    self.client.in_flight().renew(&mut op.entry);
                    Box::pin(self.tend()).await?;
                }
            }
        }
        self.call_evictor_if_short(false).await
    }

    /// Free chunks that are kept for clients that clean.
    pub(super) fn chunks_kept(&self) -> u64 {
        let (chunks, clients) = (self.client.pool.layout.chunks(), self.client.members_ever());
        u64::from((chunks / CHUNKS_PER_KEPT).min(clients).max(1))
    }

    /// Allocates a free chunk, if there are more than are to be kept.
    pub(super) async fn allocate(&self, count: FreeCount, kept: u64) -> Result<Option<OpenChunk>, CacheError> {
        Ok(self.allocate_several(1, count, kept).await?.pop())
    }

    /// The same of several chunks, `most` at most.
    async fn allocate_several(&self, most: usize, count: FreeCount, kept: u64) -> Result<Vec<OpenChunk>, CacheError> {
        loop {
            let found = self.client.allocate_several(most, count, kept).await?;
            // There are none that this client knows of: perhaps a memory node was added.
            if !found.is_empty() || !self.client.learn_nodes().await? {
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
        let (mut effort, mut tried) = (0, 0);
        // One operation of this client at a time. Operations that count themselves in and out again
        // would block each other.
        let _turn = self.turn_to_make_room(op, || false).await?;
        loop {
            if self.limit.reserve(&self.client, op).await? {
                return Ok(());
            }
            effort += 1;
            if let Evicted::Nothing = self.evict(effort).await? {
                tried += 1;
                if tried >= TRIES_MAX {
                    return Err(CacheError::OutOfMemory);
                }
                for queue in Queue::ALL {
                    self.close_group(queue, 0).await?;
                }
                // It holds no reservation meanwhile. Another client that waits recounts only
                // while all other clients are at rest.
                self.client.wait_aside(&mut op.entry, pause_ns(tried)).await?;
                Box::pin(self.tend()).await?;
                // A client that died may have left an object counted that is not there. Such
                // objects may use up the limit.
                if self.client.are_counts_estimated() {
                    Box::pin(atoll_pool::repair::recount(self)).await?;
                }
            }
        }
    }

    /// Evicts until the resident objects are within the limit. A client that died may have left
    /// objects uncounted.
    pub(super) async fn evict_to_limit(&self) -> Result<(), CacheError> {
        for effort in 1..=TRIES_MAX {
            if !Limit::is_exceeded(&self.client).await? {
                break;
            }
            if let Evicted::Nothing = self.evict(effort).await? {
                break;
            }
            self.client.endpoint.flush().await?;
        }
        Ok(())
    }
}
