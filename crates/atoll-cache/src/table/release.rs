//! How a client releases what it holds: blocks become dead blocks that slots name, and chunks
//! become free.

use super::Core;
use super::class::{CLASSES, Class};
use super::drain::DrainLook;
use super::held::Held;
use super::layout::BUCKET_SLOTS;
use super::operation::Operation;
use super::replacement::Sampling;
use super::room::{TRIES_MAX, pause_ns};
use super::slot::{Block, KeyHash, Slot};
use crate::CacheError;
use atoll_fabric::{Address, Batch, Endpoint};
use atoll_pool::ChunkId;

impl<E: Endpoint> Core<E> {
    /// Releases blocks of classes that have more than `kept` of them. It keeps at most as many
    /// blocks as the pool has chunks for a client. In a small pool, the blocks that many clients
    /// keep would be much of it.
    pub(super) async fn release_beyond(&self, kept: usize) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let in_all = self.kept_in_all(kept);
        loop {
            let surplus = self.stock.borrow_mut().pop_surplus(kept, in_all);
            let Some(held) = surplus else { break };
            let is_given = self.release_block(op, held).await;
            let is_kept = match &is_given {
                Ok(is_given) => !is_given,
                // If the outcome is unknown, a slot may name it.
                Err(CacheError::Verb(error)) => error.took_no_effect(),
                Err(_) => true,
            };
            if is_kept {
                self.stock.borrow_mut().put(held);
            }
            if is_given? {
                continue;
            }
            // Every slot names a block. The client keeps what it may keep. For more, it empties the
            // block's chunk, or another one.
            let block = held.block;
            if kept > 0 || !self.drain_chunk_of(block).await? && !self.drain_some_chunk().await? {
                break;
            }
        }
        Ok(())
    }

    /// How many blocks a client keeps in all, if it keeps `kept` of each class.
    fn kept_in_all(&self, kept: usize) -> usize {
        let of_pool = self.client.pool.layout.chunks() / self.client.pool.settings.clients_max;
        (of_pool.max(1) as usize).min(kept * CLASSES)
    }

    /// Whether there are more blocks than `kept` of each class.
    pub(super) fn has_surplus(&self, kept: usize) -> bool {
        self.stock.borrow().surplus(kept, self.kept_in_all(kept)).is_some()
    }

    /// Begins to empty the chunk of a block; returns whether this client does now.
    pub(super) async fn drain_chunk_of(&self, block: Block) -> Result<bool, CacheError> {
        let Some((_, chunk)) = self.block_span(block) else { return Ok(false) };
        Box::pin(self.begin_draining(chunk)).await
    }

    /// Begins to empty the chunk of some block that a slot of a random bucket names.
    async fn drain_some_chunk(&self) -> Result<bool, CacheError> {
        let sample = self.sample(1, &[], Sampling::default(), None).await?;
        let live = sample.candidates.iter().map(|candidate| candidate.word);
        let words: Vec<Slot> = sample.free.iter().map(|(_, word)| *word).chain(live).collect();
        for word in words {
            if self.drain_chunk_of(word.block()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Releases a block from the stock: a slot of some bucket names it as dead. `false` if none of
    /// the inspected buckets has room.
    async fn release_block(&self, op: &mut Operation, held: Held) -> Result<bool, CacheError> {
        if let Some(at) = self.block_span(held.block).map(|(at, _)| at) {
            let mut batch = Batch::new();
            self.publish_won(&mut batch, held, at).await?;
            if !batch.is_empty() {
                self.client.endpoint.post(&mut batch).await?;
            }
        }
        let is_placed = self.place_dead_anywhere(op, held.class, held.block, held.tag).await?;
        if is_placed {
            self.let_go(held);
        }
        Ok(is_placed)
    }

    /// Names a block as dead in a bucket, if nothing names it; returns whether there was room.
    pub(super) async fn place_dead(
        &self,
        op: &mut Operation,
        bucket: u32,
        class: Class,
        block: Block,
        tag: u16,
    ) -> Result<bool, CacheError> {
        let is_gone = |(_, chunk): &(Address, ChunkId)| self.client.is_chunk_absent(*chunk);
        if self.block_span(block).as_ref().is_some_and(is_gone) {
            // With its memory node. The chunk is free, or becomes free, as a whole.
            return Ok(true);
        }
        let hash = KeyHash { bucket, fingerprint: 0, mark: 0, whole: 0 };
        self.read_bucket(op, hash).await?;
        let places = (0..BUCKET_SLOTS).map(|place| op.seen(hash, place)).filter(|(word, _)| word.is_free());
        // An empty slot before a history entry, an old entry before a young one.
        let age = |word: Slot| word.any_history().map_or(u64::MAX, |(_, id)| self.history_age(id));
        let Some((word, slot)) = places.max_by_key(|(word, _)| age(*word)) else { return Ok(false) };
        self.encode_dead(op, bucket, tag);
        let Some((at, record)) = self.outgoing_record(op, block) else { return Ok(false) };
        let address = self.shared.layout.slot(slot);
        let mut batch = Batch::new();
        let written = self.write_before(&mut batch, at, record, address).await?;
        let swap = batch.compare_and_swap(address, word.0, Slot::dead(class, block, tag).0);
        self.client.endpoint.post(&mut batch).await?;
        op.outgoing = written.take(&mut batch);
        let is_placed = batch.swapped(swap);
        if is_placed {
            self.note_dead(block, class, 1);
        }
        Ok(is_placed)
    }

    /// Releases everything that this client holds; `false` if other clients hold what that would
    /// need.
    pub(super) async fn release_all(&self) -> Result<bool, CacheError> {
        let mut is_done = false;
        self.is_leaving_pool.set(true);
        for tried in 1..=TRIES_MAX {
            // Again in each round: moves out of a chunk that is emptied may have cut another chunk,
            // and have blocks left over.
            self.free_fresh_chunks().await?;
            self.end_slabs().await?;
            self.stock.borrow_mut().end_aging();
            self.release_beyond(0).await?;
            self.recheck_orphans().await?;
            self.recheck_waiting(DrainLook::All).await?;
            self.publish_cells().await?;
            let has_chunks = !self.fresh.chunks.is_empty() || !self.slabs.borrow().is_empty();
            // This includes what the place's last client left in its cells: in a free place no
            // client would look for it.
            is_done = !has_chunks
                && !self.fresh.has_orphans()
                && self.drains.is_empty()
                && self.stock.borrow().is_empty()
                && !self.stock.borrow().has_foreign();
            if is_done {
                break;
            }
            self.client.endpoint.pause(pause_ns(tried)).await;
            Box::pin(atoll_pool::repair::round(self)).await?;
        }
        self.is_leaving_pool.set(false);
        self.free_fresh_chunks().await?;
        Ok(is_done)
    }
}
