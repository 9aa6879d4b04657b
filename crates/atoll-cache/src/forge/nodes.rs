//! Several memory nodes: the order of verbs on them, and chunks that are added later.
//!
//! Verbs of one batch are in order on one node alone. A WRITE that must precede a verb on another
//! node is posted and awaited first, for one more round trip:
//!
//! | must be there | before | otherwise |
//! |---|---|---|
//! | a record | the slot that points to it | a client that died in between leaves a slot that points to nothing |
//! | a group's map | the state Queued of its chunk | an evictor reads another group's map |
//! | a protection | the look at the slot that makes it count | the chunk is reused between them |
//!
//! On one node, where everything is in one batch, nothing changes. All other words that an
//! operation changes together (a chunk's state and its contents, a queue's cursors and its nodes)
//! are on the home.
//!
//! A client may meet a chunk of a node that it does not know yet, in a slot, a queue or a list of
//! extents. It looks for new nodes before it treats such a word as damaged.

use super::operation::Operation;
use super::technique::Technique;
use super::{Forge, Hole};
pub(super) use crate::node_order::Earlier;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_pool::ChunkId;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Whether a WRITE to `at` takes effect before a verb at `then` behind it in one batch. If not,
    /// it is written [first](Self::write_first).
    #[inline]
    pub(super) fn is_in_order(&self, at: Address, then: Address) -> bool {
        at.node() == then.node() || self.is_open(Hole::UnorderedNodes)
    }

    /// WRITEs `words` to `at` now, and returns them. Callers must box it, and must have no batch of
    /// their own meanwhile. Otherwise every operation's state would be larger, and it is moved
    /// whenever an operation begins.
    #[cold]
    pub(super) async fn write_first(&self, at: Address, words: Buffer) -> Result<Buffer, VerbError> {
        let mut batch = Batch::new();
        let written = batch.write(at, words);
        self.client.endpoint.post(&mut batch).await?;
        Ok(batch.take(written))
    }

    /// Protects `chunk` now, as [`Forge::write_first`] does its WRITE.
    #[cold]
    pub(super) async fn protect_first(&self, op: &mut Operation, chunk: ChunkId) -> Result<(), VerbError> {
        let mut batch = Batch::new();
        self.client.member().protect(&mut batch, &mut op.notes.protection, chunk);
        self.client.endpoint.post(&mut batch).await
    }
}
