//! Several memory nodes: what is in order between them, and chunks that come later.
//!
//! Verbs of one batch are in order on one node alone. A record must be there before the slot that
//! points to it, and a cell before the compare-and-swap that it tells of: on two nodes, for a round
//! trip more, the first is posted and awaited before. A client that meets a block of a node which
//! it does not know looks for new nodes before it takes the word for damaged.

use super::slot::{Block, Slot};
use super::{Core, Hole};
use crate::CacheError;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Ticket};
use atoll_pool::ChunkId;

/// A WRITE that takes effect before a verb which is added to the batch afterwards.
pub(super) enum Earlier {
    /// In the same batch.
    Added(Ticket),
    /// It has; this is its buffer.
    Done(Buffer),
}

impl Earlier {
    /// The buffer, once the batch has been posted.
    pub(super) fn take(self, batch: &mut Batch) -> Buffer {
        match self {
            Self::Added(ticket) => batch.take(ticket),
            Self::Done(buffer) => buffer,
        }
    }
}

impl<E: Endpoint> Core<E> {
    /// Whether a WRITE to `at` takes effect before a verb at `then` behind it in one batch.
    #[inline]
    pub(super) fn is_in_order(&self, at: Address, then: Address) -> bool {
        at.node() == then.node() || self.is_open(Hole::UnorderedNodes)
    }

    /// Adds the WRITE of `words` to `at` to a batch; posts that if `then` is elsewhere.
    pub(super) async fn write_before(
        &self,
        batch: &mut Batch,
        at: Address,
        words: Buffer,
        then: Address,
    ) -> Result<Earlier, CacheError> {
        let written = batch.write(at, words);
        if self.is_in_order(at, then) {
            return Ok(Earlier::Added(written));
        }
        self.client.endpoint.post(batch).await?;
        let buffer = batch.take(written);
        batch.clear();
        Ok(Earlier::Done(buffer))
    }

    /// Where a block is, and in which chunk; `None` if the word points outside the heap that this
    /// client knows.
    #[inline]
    pub(super) fn block_span(&self, block: Block) -> Option<(Address, ChunkId)> {
        let layout = &self.client.pool.layout;
        let offset = block.heap_offset();
        if self.is_open(Hole::TrustedBytes) {
            let chunk = ChunkId((offset / layout.chunk_bytes) as u32);
            return Some((layout.chunk(ChunkId(0)).add(offset), chunk));
        }
        let (number, within) = layout.divide(offset);
        let chunk = layout.checked_chunk(u32::try_from(number).ok()?)?;
        Some((layout.chunk(chunk).add(within), chunk))
    }

    /// Where a slot's block is and how many bytes of it to READ; `None` if the word is damaged.
    #[inline]
    pub(super) fn record_span(&self, word: Slot) -> Option<(Address, usize, ChunkId)> {
        let class = word.checked_class(self.shared.settings.large_class)?;
        let (at, chunk) = self.block_span(word.block())?;
        let (_, within) = self.client.pool.layout.divide(word.block().heap_offset());
        let room = self.client.pool.layout.chunk_bytes - within;
        let bytes = if self.is_open(Hole::TrustedBytes) { class.bytes() } else { class.bytes().min(room) };
        Some((at, bytes as usize, chunk))
    }

    /// The same, also if the block is on a node that this client does not know yet.
    pub(super) async fn find_record(&self, word: Slot) -> Result<Option<(Address, usize, ChunkId)>, CacheError> {
        match self.record_span(word) {
            None if self.client.pool.layout.may_grow() && !self.is_open(Hole::UnknownNode) => {
                self.client.learn_nodes().await?;
                Ok(self.record_span(word))
            }
            span => Ok(span),
        }
    }
}
