//! How much of the memory is dead. A dead block holds no object, and waits in a slot or on a shelf
//! for its next use.
//!
//! Word 2 of a chunk's descriptor counts the dead bytes in the chunk. One word of the engine's area
//! counts the dead bytes in all chunks. Every swap that makes a block dead, or takes a dead block,
//! is followed by unawaited FAAs. A client adds up its counts, until its next round at most.
//! Unpublished counts of all clients together are at most a 64th of the heap, or a chunk for each
//! client.
//!
//! | fault | correction |
//! |---|---|
//! | a client died, and both counts may be wrong | a client that is alone afterwards recounts, and notes the number of deaths |
//! | a chunk's count is wrong until then | it is corrected when the chunk is reused |
//! | a client looked at all chunks and found less than the sum | it subtracts the difference from every sum that it READs later |
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

/// Chunks whose new dead bytes a client may leave unpublished.
const UNTOLD_CHUNKS: usize = 16;
/// The unpublished counts of all clients together are at most one part in so many of the heap.
const UNTOLD_SHARE: u64 = 64;
/// If one part in so many of the heap is dead, writers gather live objects instead of evicting
/// them.
const DEAD_SHARE: u64 = 10;

/// A client's view of the dead bytes of all chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Dead {
    /// Dead bytes that this client has not published yet.
    untold: i64,
    /// The unpublished bytes of each chunk.
    untold_of: ArrayVec<(ChunkId, i64), UNTOLD_CHUNKS>,
    /// The pool's word when this client last READ it.
    seen: i64,
    /// Whether a client has died since dead bytes were counted.
    is_doubtful: bool,
    /// The excess of the pool's word over the sum of all chunks, while it is doubtful.
    phantom: i64,
}

impl<E: Endpoint> Core<E> {
    /// Notes that blocks of a class became dead in the chunk of `block`. A negative number notes
    /// dead blocks that were taken.
    pub(super) fn note_dead(&self, block: Block, class: Class, blocks: i64) {
        let Some((_, chunk)) = self.block_span(block) else { return };
        self.note_dead_bytes(chunk, blocks * class.bytes() as i64);
    }

    /// As [`Self::note_dead`], in bytes.
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

    /// Publishes this client's counts, without waiting.
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
            // Later READs include it.
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

    /// Notes the word that such a READ returned.
    pub(super) fn note_dead_seen(&self, word: u64) {
        self.dead.borrow_mut().seen = word as i64;
    }

    /// Dead bytes of all chunks, as far as this client knows.
    pub(super) fn dead_bytes(&self) -> u64 {
        let dead = self.dead.borrow();
        dead.seen.saturating_add(dead.untold).saturating_sub(dead.phantom).max(0) as u64
    }

    /// Bytes of the usable chunks, as far as this client knows: chunks that have memory and are not
    /// out of use.
    pub(super) fn usable_heap_bytes(&self) -> u64 {
        let layout = &self.client.pool.layout;
        let unusable = u64::from(layout.absent_chunks()) + self.client.chunks_out_of_use();
        layout.heap_bytes().saturating_sub(unusable * layout.chunk_bytes).max(layout.chunk_bytes)
    }

    /// Whether so much is dead, as far as this client knows, that no object is to be evicted for
    /// memory.
    pub(super) fn is_sparse(&self) -> bool {
        self.dead_bytes() >= (self.usable_heap_bytes() / DEAD_SHARE).max(1)
    }

    /// Looks at the pool: whether much of its memory is dead, and how many chunks are free and have
    /// memory.
    pub(super) async fn look_at_memory(&self) -> Result<(bool, u64), CacheError> {
        let mut batch = Batch::new();
        let dead = self.read_dead(&mut batch);
        let free = batch.read_word(self.client.pool.layout.free_chunks());
        self.client.endpoint.post(&mut batch).await?;
        self.note_dead_seen(batch.word(dead));
        // Chunks without memory are counted, too.
        let free = batch.word(free).wrapping_sub(self.client.pool.layout.absent_chunks().into());
        Ok((self.is_sparse(), (free as i64).max(0) as u64))
    }

    /// Notes that the sum of dead bytes was `before` while all chunks together have `found`. A
    /// client that died may have left the sum wrong.
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

    /// Resets the count of a chunk that this client has emptied. A client that died may have left
    /// it wrong.
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

    /// Recounts dead bytes if this client is alone and another client has died since the last
    /// count.
    ///
    /// An idle client counts as present: the counts that it published may not have landed. The new
    /// count is valid only if no client has joined until all corrections have landed. Otherwise the
    /// next client that is alone counts again.
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
        // First, so that every memory node whose blocks a slot may name is known.
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

    /// Whether no client has joined or left since this look at the places.
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
