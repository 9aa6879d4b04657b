//! Several memory nodes: the order of verbs on them, and chunks that are added later.
//!
//! Verbs of one batch are in order on one node alone (see [`node_order`](crate::node_order)).
//!
//! | must be there | before |
//! |---|---|
//! | a record | the slot that points to it |
//! | a cell | the compare-and-swap that takes the cell's block |
//!
//! A client may meet a block of a node that it does not know yet. It looks for new nodes before it
//! treats the word as damaged.

use super::slot::Block;
use super::{Core, Hole};
use crate::CacheError;
use crate::node_order::Earlier;
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;

impl<E: Endpoint> Core<E> {
    /// Whether a WRITE to `at` takes effect before a verb at `then` behind it in one batch.
    #[inline]
    pub(super) fn is_in_order(&self, at: Address, then: Address) -> bool {
        at.node() == then.node() || self.is_open(Hole::UnorderedNodes)
    }

    /// Adds the WRITE of `words` to `at` to a batch. Posts the batch if `then` is on another node.
    pub(super) async fn write_before(
        &self,
        batch: &mut Batch,
        at: Address,
        words: Buffer,
        then: Address,
    ) -> Result<Earlier, CacheError> {
        let written = Earlier::add(batch, at, words, true);
        if self.is_in_order(at, then) {
            return Ok(written);
        }
        self.client.endpoint.post(batch).await?;
        let buffer = written.take(batch);
        batch.clear();
        Ok(Earlier::Done(buffer))
    }

    /// The address of a block, and its chunk; `None` if the word points outside the heap that this
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
}
