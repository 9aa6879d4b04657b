//! How much of the memory is dead: blocks that hold no object, and wait in slots and on shelves for
//! their next use.
//!
//! Word 2 of a chunk's descriptor counts the dead bytes in the chunk, and one word of the engine's
//! area those of all chunks. Every swap that makes a block dead, or takes a dead one, is followed
//! by unawaited FAAs. A client adds up what it tells, until its next round at most:
//! together clients keep a 64th of the heap to themselves, or a chunk each.
//!
//! A client that dies may leave both counts wrong. A client that is alone afterwards counts anew,
//! and notes the number of deaths. Until then a chunk's count is put right when the chunk is used
//! anew. A client that looks at all chunks may find less than the sum says. From then on
//! it subtracts the difference from what it READs.
//!
//! Only the choice between moving and evicting depends on the counts.

use super::Core;
use super::class::Class;
use super::slot::Block;
use crate::CacheError;
use crate::index::walk::SlotWalk;
use arrayvec::ArrayVec;
use atoll_fabric::{Batch, Endpoint, Ticket};
use atoll_pool::registry::{self, Place};
use atoll_pool::{ChunkId, chunks, read_word};
use std::collections::HashMap;

/// Chunks of which a client keeps to itself how much became dead.
const UNTOLD_CHUNKS: usize = 16;
/// Clients together keep at most one part of the heap's dead bytes in so many to themselves.
const UNTOLD_SHARE: u64 = 64;
/// Where one part of the heap in so many is dead, writers gather what lives instead of evicting it.
const DEAD_SHARE: u64 = 10;

/// What a client knows of the dead bytes of all chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Dead {
    /// Those that this client has not told of yet.
    untold: i64,
    /// The same, chunk by chunk.
    untold_of: ArrayVec<(ChunkId, i64), UNTOLD_CHUNKS>,
    /// What the pool's word said when this client last READ it.
    seen: i64,
    /// Whether a client has died since they were counted.
    is_doubtful: bool,
    /// How much more the pool's word said than all chunks together had, while that is doubtful.
    phantom: i64,
}

impl<E: Endpoint> Core<E> {
    /// Notes that blocks of a class became dead, or, with a number below zero, that dead ones were
    /// taken. They are in the chunk of `block`.
    pub(super) fn note_dead(&self, block: Block, class: Class, blocks: i64) {
        let Some((_, chunk)) = self.block_span(block) else { return };
        self.note_dead_bytes(chunk, blocks * class.bytes() as i64);
    }

    /// The same in bytes.
    pub(super) fn note_dead_bytes(&self, chunk: ChunkId, bytes: i64) {
        let layout = &self.client.pool.layout;
        let clients = u64::from(self.client.pool.settings.clients_max);
        let untold_max = (layout.heap_bytes() / (UNTOLD_SHARE * clients)).max(layout.chunk_bytes);
        let mut dead = self.dead.borrow_mut();
        dead.untold += bytes;
        match dead.untold_of.iter_mut().rev().find(|(of, _)| *of == chunk) {
            Some((_, untold)) => *untold += bytes,
            None => dead.untold_of.push((chunk, bytes)),
        }
        let is_much = dead.untold.unsigned_abs() > untold_max || dead.untold_of.is_full();
        drop(dead);
        if is_much {
            self.publish_dead();
        }
    }

    /// Tells the pool what this client has kept to itself, without waiting.
    pub(super) fn publish_dead(&self) {
        let mut dead = self.dead.borrow_mut();
        if dead.untold_of.is_empty() {
            return;
        }
        let mut batch = Batch::new();
        for (chunk, bytes) in dead.untold_of.drain(..).filter(|(_, bytes)| *bytes != 0) {
            batch.fetch_and_add(self.client.pool.layout.dead_bytes(chunk), bytes as u64);
        }
        let untold = std::mem::take(&mut dead.untold);
        if untold != 0 {
            batch.fetch_and_add(self.shared.layout.dead(), untold as u64);
            // What is READ from now on has it.
            dead.seen = dead.seen.saturating_add(untold);
        }
        drop(dead);
        if !batch.is_empty() {
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }

    /// Adds a READ of the pool's dead bytes to a batch.
    pub(super) fn read_dead(&self, batch: &mut Batch) -> Ticket {
        batch.read_word(self.shared.layout.dead())
    }

    /// Notes what such a READ gave.
    pub(super) fn note_dead_seen(&self, word: u64) {
        self.dead.borrow_mut().seen = word as i64;
    }

    /// Dead bytes of all chunks, as far as this client knows.
    pub(super) fn dead_bytes(&self) -> u64 {
        let dead = self.dead.borrow();
        dead.seen.saturating_add(dead.untold).saturating_sub(dead.phantom).max(0) as u64
    }

    /// Bytes of the chunks that may be used, as far as this client knows: those that have memory,
    /// and were not taken out of use.
    pub(super) fn usable_heap_bytes(&self) -> u64 {
        let layout = &self.client.pool.layout;
        let unusable = u64::from(layout.absent_chunks()) + self.client.chunks_out_of_use();
        layout.heap_bytes().saturating_sub(unusable * layout.chunk_bytes).max(layout.chunk_bytes)
    }

    /// Whether so much is dead, as far as this client knows, that nothing is to be evicted for
    /// memory.
    pub(super) fn is_sparse(&self) -> bool {
        self.dead_bytes() >= (self.usable_heap_bytes() / DEAD_SHARE).max(1)
    }

    /// The same by a look at the pool; and how many chunks are free and have memory.
    pub(super) async fn look_at_memory(&self) -> Result<(bool, u64), CacheError> {
        let mut batch = Batch::new();
        let dead = self.read_dead(&mut batch);
        let free = batch.read_word(self.client.pool.layout.free_chunks());
        self.client.endpoint.post(&mut batch).await?;
        self.note_dead_seen(batch.word(dead));
        // Those without memory are counted, too.
        let free = batch.word(free).wrapping_sub(self.client.pool.layout.absent_chunks().into());
        Ok((self.is_sparse(), (free as i64).max(0) as u64))
    }

    /// Notes that the sum of dead bytes was `before`, and that all chunks together have `found`,
    /// where a client that died may have left the sum wrong.
    pub(super) fn note_phantom(&self, before: u64, found: u64) {
        if self.dead.borrow_mut().is_doubtful {
            self.dead.borrow_mut().phantom = before as i64 - found as i64;
        }
    }

    /// Whether a client has died since dead bytes were counted, as far as this client knows.
    pub(super) fn are_dead_bytes_doubtful(&self) -> bool {
        self.dead.borrow_mut().is_doubtful
    }

    /// Notes how many clients have died.
    pub(super) async fn look_at_deaths(&self, deaths: u64) -> Result<(), CacheError> {
        let counted = read_word(&self.client.endpoint, self.shared.layout.dead_deaths()).await?;
        self.note_doubt(counted != deaths);
        Ok(())
    }

    fn note_doubt(&self, is_doubtful: bool) {
        self.dead.borrow_mut().is_doubtful = is_doubtful;
        if !is_doubtful {
            self.dead.borrow_mut().phantom = 0;
        }
    }

    /// Makes the count of a chunk that this client has emptied zero, where a client that died may
    /// have left it wrong.
    pub(super) async fn clear_dead(&self, chunk: ChunkId) -> Result<(), CacheError> {
        if !self.dead.borrow_mut().is_doubtful {
            return Ok(());
        }
        self.publish_dead();
        self.client.endpoint.flush().await?;
        let counted =
            chunks::descriptors(&self.client.endpoint, &self.client.pool.layout, chunk, 1).await?[0].dead_bytes;
        if counted != 0 {
            self.note_dead_bytes(chunk, -(counted as i64));
        }
        Ok(())
    }

    /// Counts dead bytes anew if this client is alone and another one has died since the last time.
    ///
    /// A client that does nothing counts as company: what it has told the pool may not have landed.
    /// The count stands only if no client has joined until all corrections have landed. Otherwise
    /// it is made again by the next client that is alone.
    pub(super) async fn recount_dead(&self) -> Result<(), CacheError> {
        let (deaths, _) = self.client.deaths().await?;
        self.look_at_deaths(deaths).await?;
        if !self.dead.borrow_mut().is_doubtful {
            return Ok(());
        }
        let before = registry::places(&self.client.endpoint, &self.client.pool).await?;
        if !self.is_alone_among(&before) {
            return Ok(());
        }
        self.publish_dead();
        self.client.endpoint.flush().await?;
        let counted_deaths = read_word(&self.client.endpoint, self.shared.layout.dead_deaths()).await?;
        // First, so that every memory node is known in which a slot may name a block.
        let descriptors = self.client.all_descriptors().await?;
        let found = self.find_dead_bytes().await?;
        let counted = read_word(&self.client.endpoint, self.shared.layout.dead()).await?;
        if !self.is_alone_since(&before).await? {
            return Ok(());
        }
        for (number, descriptor) in (0..).map(ChunkId).zip(&descriptors) {
            let off = found.get(&number).copied().unwrap_or(0).wrapping_sub(descriptor.dead_bytes);
            if off != 0 {
                let mut batch = Batch::new();
                batch.fetch_and_add(self.client.pool.layout.dead_bytes(number), off);
                self.client.endpoint.post(&mut batch).await?;
            }
        }
        let mut batch = Batch::new();
        batch.fetch_and_add(self.shared.layout.dead(), found.values().sum::<u64>().wrapping_sub(counted));
        self.client.endpoint.post(&mut batch).await?;
        if !self.is_alone_since(&before).await? {
            return Ok(());
        }
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.shared.layout.dead_deaths(), counted_deaths, deaths);
        self.client.endpoint.post(&mut batch).await?;
        self.note_doubt(!batch.swapped(swap));
        Ok(())
    }

    /// Whether no other client lives.
    fn is_alone_among(&self, places: &[Place]) -> bool {
        let me = self.client.me().slot;
        places.iter().all(|place| place.incarnation.slot == me || !place.state.is_alive())
    }

    /// Whether no client has come or gone since this look at the places.
    async fn is_alone_since(&self, before: &[Place]) -> Result<bool, CacheError> {
        let now = registry::places(&self.client.endpoint, &self.client.pool).await?;
        let states = |places: &[Place]| -> Vec<_> { places.iter().map(|p| (p.state, p.incarnation)).collect() };
        Ok(states(before) == states(&now))
    }

    /// The dead bytes of every chunk that has any.
    async fn find_dead_bytes(&self) -> Result<HashMap<ChunkId, u64>, CacheError> {
        let mut dead = self.dead_on_shelves().await?;
        let mut walk = SlotWalk::new(self);
        while let Some(slots) = walk.next().await? {
            for (_, word) in slots.filter(|(_, word)| word.is_dead() && !word.is_pending()) {
                if let Some((_, chunk)) = self.block_span(word.block()) {
                    *dead.entry(chunk).or_default() += word.class(self.shared.settings.large_class).bytes();
                }
            }
        }
        Ok(dead)
    }

    /// The pool's word as this client last saw it.
    pub(super) fn dead_seen(&self) -> u64 {
        self.dead.borrow_mut().seen as u64
    }
}
