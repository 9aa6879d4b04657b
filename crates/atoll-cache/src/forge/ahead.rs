//! An evictor: a client whose only work is to make room ahead of need, so that a writer seldom has
//! to.
//!
//! | free chunks | the evictor | a writer that needs a chunk |
//! |---|---|---|
//! | more than are kept, and than the evictor's target | does nothing | allocates one |
//! | more than are kept | cleans or evicts a group | allocates one, and wakes the evictor |
//! | as many as are kept, or fewer | cleans or evicts a group | makes room itself, as without an evictor: see `room` |
//!
//! So a writer never waits for an evictor, and never uses the chunks that are kept for cleaning. It
//! sees no difference when the evictor dies.
//!
//! The target is a few chunks for each client, and at most one in [`CHUNKS_PER_KEPT`] of the
//! pool's. In a small pool that is the number of kept chunks. Then an evictor is ahead by one.
//!
//! A step cleans or evicts at most one group, and then frees what it has emptied. The next step
//! READs again how many chunks are free. Chunks that the evictor emptied and operations of other
//! clients still protect count as free: the evictor does not evict others in their stead.
//!
//! Writers of the evictor's process follow their own rules (`rules`). What an evictor evicts counts
//! as the eviction of the writer that allocates a chunk for it. By that a writer knows its share of
//! the pool, and the age of ghosts.
//!
//! A client whose program asks for removals wakes no evictor. An evictor would keep the removals of
//! that client's objects to itself.

use super::evict::Evicted;
use super::layout::Queue;
use super::operation::Operation;
use super::room::CHUNKS_PER_KEPT;
use super::technique::Technique;
use super::{Forge, Hole};
use crate::CacheError;
use crate::pooled::Ahead;
use atoll_fabric::{Endpoint, Purpose};

/// Free chunks beyond those that are kept, for each client.
const AHEAD_PER_CLIENT: u64 = 4;
/// The same for all clients. In the time in which writers use more, an evictor makes more.
const AHEAD_MAX: u64 = 16;
/// However many clients there are, at most one chunk in so many is free ahead of need.
const CHUNKS_PER_LEAST: u64 = 16;
/// Chunks of its stock that an evictor keeps: one for the objects of the next group that stay.
const STOCK_KEPT: usize = 1;

/// What an evictor has done for the next chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    /// Whether this client is an evictor.
    is_evictor: bool,
    /// Groups that it has evicted.
    evicted: u32,
    /// Groups that it has cleaned.
    cleaned: u32,
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Whether this client is an evictor.
    pub(super) fn is_evictor(&self) -> bool {
        self.effort.get().is_evictor
    }

    /// How many chunks an evictor keeps free.
    fn chunks_ahead(&self) -> u64 {
        // A pool that was made smaller has fewer chunks in use than clients may keep.
        let chunks = u64::from(self.client.pool.layout.chunks()).saturating_sub(self.client.chunks_out_of_use());
        let (kept, clients) = (self.chunks_kept(), u64::from(self.client.members_ever()));
        let least = kept.min(chunks / CHUNKS_PER_LEAST).max(1);
        (kept + (AHEAD_PER_CLIENT * clients).min(AHEAD_MAX)).min(chunks / u64::from(CHUNKS_PER_KEPT)).max(least)
    }

    /// One step of an evictor: see [`Pooled::evict_ahead`](crate::Pooled::evict_ahead).
    pub async fn evict_ahead(&self) -> Result<Ahead, CacheError> {
        self.effort.set(Effort { is_evictor: true, ..self.effort.get() });
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        let before = self.client.endpoint.purpose(Purpose::Eviction);
        let stepped = self.step_ahead(op).await;
        self.client.endpoint.purpose(before);
        if self.shared.reserve.is_attended() {
            self.shared.reserve.hand_over(&self.stats.take());
        }
        let stepped = self.judged(stepped).await;
        if let Err(CacheError::Verb(error)) = &stepped {
            self.client.note_failure(error);
        }
        stepped
    }

    async fn step_ahead(&self, op: &mut Operation) -> Result<Ahead, CacheError> {
        let _turn = self.turn_to_make_room(op, || false).await?;
        self.recheck_waiting(false).await?;
        self.free_ahead().await?;
        if !self.is_short().await? && !self.is_open(Hole::NeedlessEviction) {
            // By the time of the next need there may be something to clean.
            self.reset_effort();
            return Ok(Ahead::Enough);
        }
        let emptied = self.stock.waiting();
        if emptied > 0 && self.client.usable_free_chunks().await? + emptied > self.chunks_ahead() {
            return Ok(Ahead::Waits);
        }
        if self.stock.chunks.is_empty() {
            self.obtain_spare().await?;
        }
        self.adopt_rule();
        let effort = self.effort.get();
        if effort.evicted == 0 && self.clean(effort.cleaned).await? {
            self.effort.set(Effort { cleaned: effort.cleaned + 1, ..effort });
        } else {
            match self.evict(effort.evicted + 1).await? {
                Evicted::Progress => self.effort.set(Effort { evicted: effort.evicted + 1, ..effort }),
                Evicted::Stale => {}
                Evicted::Nothing => {
                    // All groups are open. This client's own can be queued now.
                    for queue in Queue::ALL {
                        self.close_group(queue, 0).await?;
                    }
                    return Ok(Ahead::Waits);
                }
            }
        }
        self.shared.reserve.note_live_objects(self.live_objects());
        // The rounds of this process's writers then find the windows flushed.
        self.flush_hotness().await?;
        if self.stock.waiting() > emptied {
            self.reset_effort();
        }
        self.free_ahead().await?;
        Ok(Ahead::Worked)
    }

    /// Whether fewer chunks are free than the evictor's target. While the count may be wrong, or
    /// memory is still being provided, writers make room themselves.
    async fn is_short(&self) -> Result<bool, CacheError> {
        let is_uncertain = self.client.are_counts_estimated() || self.client.pool.layout.absent_chunks() > 0;
        if is_uncertain || self.shared.reserve.is_refused() {
            return Ok(false);
        }
        Ok(self.client.usable_free_chunks().await? <= self.chunks_ahead())
    }

    /// Begins the work for the next chunk.
    fn reset_effort(&self) {
        self.effort.set(Effort { evicted: 0, cleaned: 0, ..self.effort.get() });
    }

    /// Frees the chunks that the evictor has emptied.
    async fn free_ahead(&self) -> Result<(), CacheError> {
        if self.stock.chunks.len() <= STOCK_KEPT {
            return Ok(());
        }
        while self.stock.chunks.len() > STOCK_KEPT {
            if let Some(freed) = self.free_stocked().await? {
                self.shared.reserve.offer(freed);
            }
        }
        self.reset_effort();
        // The count must include them when it is READ next.
        Ok(self.client.endpoint.flush().await?)
    }

    /// Obtains the chunk of the next group, if an evictor has freed one. An operation that begins a
    /// group leaves this to the next one, so that neither takes long.
    pub(super) async fn obtain_next(&self) -> Result<(), CacheError> {
        self.stock.wants_next.set(false);
        if self.stock.chunks.len() <= STOCK_KEPT && self.shared.reserve.is_attended() {
            self.obtain_offered(self.chunks_kept()).await?;
        }
        Ok(())
    }

    /// Adds a chunk to the stock that an evictor of this process has freed, if more chunks are free
    /// than are to be kept. Returns whether it did.
    pub(super) async fn obtain_offered(&self, kept: u64) -> Result<bool, CacheError> {
        while let Some(offered) = self.shared.reserve.take_offer() {
            let free = self.client.usable_free_chunks().await?;
            if free <= kept {
                self.shared.reserve.offer(offered);
                return Ok(false);
            }
            if self.client.allocate_known(offered).await? {
                self.stock.chunks.push(offered);
                self.call_evictor(free - 1, true).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Wakes the evictor of this process, if it is wanted. This client has obtained a chunk.
    pub(super) async fn call_evictor_if_short(&self, has_allocated: bool) -> Result<(), CacheError> {
        if !self.shared.reserve.is_attended() {
            return Ok(());
        }
        let free = self.client.usable_free_chunks().await?;
        self.call_evictor(free, has_allocated).await
    }

    /// The same, of a client that knows how many chunks are free. `has_allocated`: it has allocated
    /// the chunk, and evicted nothing for it.
    async fn call_evictor(&self, free: u64, has_allocated: bool) -> Result<(), CacheError> {
        let reserve = &self.shared.reserve;
        if !reserve.is_attended() || free > self.chunks_ahead() || self.client.are_counts_estimated() {
            return Ok(());
        }
        reserve.refuse(self.removals.is_on());
        if self.removals.is_on() {
            return Ok(());
        }
        self.announce_rule();
        self.take_counted();
        reserve.wake();
        let live_objects = reserve.live_objects();
        if has_allocated && live_objects > 0 {
            let cursors = self.cursors().await?;
            self.note_cursors(cursors);
            self.note_share(cursors, live_objects);
        }
        Ok(())
    }

    /// Takes over what the evictor has counted for the writers of this process.
    pub(super) fn take_counted(&self) {
        if self.client.is_member()
            && let Some(counted) = self.shared.reserve.take_counted()
        {
            self.stats.add(&counted);
        }
    }
}
