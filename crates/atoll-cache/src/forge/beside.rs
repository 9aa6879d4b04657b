//! What a client does beside its operations, so that they seldom wait for it: it queues the groups
//! that are full, and makes room for the next ones.
//!
//! | its groups | its stock | the client |
//! |---|---|---|
//! | one is closed, and all its places are settled | | queues it |
//! | more than [`LEFT_RECORDS`] records, and an eighth, will fill the open one | | does nothing |
//! | fewer will | a chunk for the next group, and a spare one | does nothing |
//! | fewer will | fewer chunks | allocates, cleans or evicts, as a writer in need would: see `room` |
//!
//! It makes room once for each group. If it could not, the operation that needs a chunk tries
//! again, as without this. An operation that needs a chunk meanwhile waits for the one that is
//! being made. A chunk in stock caches nothing, so the client makes room late. A group that is
//! closed because of the extents of its large objects is not foreseen: the next one's chunk is
//! obtained by an operation. So are the chunks of large objects.
//!
//! Only a client whose operations wait for the fabric gains by this, and only if its caller lets it
//! work beside them (see [`Engine::work`](crate::Engine::work)). Where memory is near, a thread of
//! its own makes room (`ahead`).

use super::Forge;
use super::operation::Operation;
use super::technique::Technique;
use crate::CacheError;
use crate::extent::OpenChunk;
use atoll_fabric::{Endpoint, Purpose, purpose};

/// The client makes room when so many records will fill the group. To evict a group takes about as
/// many round trips as to write them.
const LEFT_RECORDS: u64 = 8;
/// Or when one part in so many of the group is left: often a client has to evict or clean more than
/// one group for a chunk.
const LEFT_ONE_IN: u64 = 8;
/// Chunks in stock that are not for the next group: one for the objects that stay of a group.
const STOCK_KEPT: usize = 1;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// By queue, the group that is nearly full, if there is no room yet for the next one.
    fn without_next(&self) -> [Option<OpenChunk>; 2] {
        if self.stock.chunks.len() > STOCK_KEPT {
            return [None; 2];
        }
        self.groups.borrow().nearly_full(LEFT_RECORDS, LEFT_ONE_IN, &self.client.pool.settings)
    }

    /// The same of those for which the client has not tried to make room.
    fn unprovided(&self) -> [Option<OpenChunk>; 2] {
        let (groups, provided) = (self.without_next(), self.stock.provided_for.get());
        std::array::from_fn(|queue| groups[queue].filter(|group| provided[queue] != Some(*group)))
    }

    /// Whether the client has something to do beside its operations. It leaves room to an operation
    /// that makes some.
    pub(super) fn has_work_beside(&self) -> bool {
        let lacks_room = || !self.is_evictor() && !self.stock.turn.is_lent() && self.unprovided() != [None; 2];
        (self.groups.borrow().has_settled() || lacks_room()) && !self.client.is_lost()
    }

    /// Does it.
    pub(super) async fn work_beside(&self) -> Result<(), CacheError> {
        purpose::apart(&*self.client.endpoint, Purpose::Request, self.work_apart()).await
    }

    async fn work_apart(&self) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        let unfinished = self.client.cut_off().begin();
        let before = self.client.endpoint.purpose(Purpose::Eviction);
        let worked = self.work_for_groups(op).await;
        self.client.endpoint.purpose(before);
        let outcome = self.end(op, worked, false).await;
        unfinished.end();
        outcome
    }

    async fn work_for_groups(&self, op: &mut Operation) -> Result<(), CacheError> {
        self.queue_settled_groups().await?;
        self.provide_next(op).await?;
        // Objects that stayed may have filled a group.
        self.queue_settled_groups().await
    }

    async fn provide_next(&self, op: &mut Operation) -> Result<(), CacheError> {
        let (unprovided, provided) = (self.unprovided(), self.stock.provided_for.get());
        if unprovided == [None; 2] || self.is_evictor() {
            return Ok(());
        }
        let Some(_turn) = self.stock.turn.lend() else { return Ok(()) };
        self.stock.provided_for.set(std::array::from_fn(|queue| unprovided[queue].or(provided[queue])));
        if self.stock.chunks.is_empty() {
            self.obtain_spare().await?;
        }
        // A nearly full group may be closed meanwhile, and the next one begun.
        while self.without_next() != [None; 2] {
            match self.obtain_some(op, STOCK_KEPT + 1 - self.stock.chunks.len(), 1).await {
                Err(CacheError::OutOfMemory) => break,
                obtained => obtained?,
            }
        }
        Ok(())
    }
}
