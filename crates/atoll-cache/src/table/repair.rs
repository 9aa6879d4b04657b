//! What a client of the table may have held when it died, and how a repairer settles it: see
//! [`atoll_pool::repair`].
//!
//! | what is found | what the client may have been doing | what is done |
//! |---|---|---|
//! | a chunk Open, owner dead | cutting it, keeping it in stock | own it, put it in use (see `reclaim`) |
//! | a chunk Leaving, owner dead | emptying it | own it, empty it (see `drain`) |
//! | Extent, owner dead | writing a large object, or publishing it | Bound if an object has it, else free |
//! | Bound, no object has it | freeing the extents of an object it made dead | free |
//! | a cell of a dead client | taking a block, holding it, inserting | the block is released, if no client has it (see `settle`) |
//! | a wrong count | anything | recounted by a client that is alone |
//!
//! Every step is one compare-and-swap from the word that was seen. So a repairer may die anywhere,
//! and another repairer continues.

use super::drain::{DrainLook, Emptied, Keeps};
use super::{Core, Hole};
use crate::CacheError;
use crate::index::{Index, extents, fence_suspect, walk};
use atoll_fabric::{Endpoint, VerbError};
use atoll_pool::registry::{Lookups, Place, Roll};
use atoll_pool::repair::{Estate, Seen};
use atoll_pool::{Chunk, ChunkId, ChunkState, Client, chunks};

impl<E: Endpoint> Core<E> {
    /// Makes this client the owner of every chunk that a dead owner was cutting or emptying, and
    /// continues with it. Returns how many.
    async fn steal(&self, descriptors: &[chunks::Descriptor], roll: &Roll) -> Result<u64, CacheError> {
        let mut stolen = 0;
        for (index, descriptor) in descriptors.iter().enumerate() {
            let (Some(found), chunk) = (descriptor.chunk, ChunkId(index as u32)) else { continue };
            let is_dead = !roll.has(found.owner_slot, found.owner_epoch);
            if !matches!(found.state, ChunkState::Open | ChunkState::Leaving)
                || !is_dead
                || self.is_open(Hole::LeakedChunks)
            {
                continue;
            }
            let mine = Chunk::owned(found.state, self.client.me(), found.generation);
            if !chunks::transition(&self.client.endpoint, &self.client.pool.layout, chunk, found.word(), mine).await? {
                continue;
            }
            stolen += 1;
            match found.state {
                ChunkState::Open => self.fresh.push_orphan(chunk, mine),
                _ => self.drains.push(Emptied::begun(chunk, mine, Keeps::Objects)),
            }
        }
        Ok(stolen)
    }
}

impl<E: Endpoint> Estate for Core<E> {
    type Endpoint = E;
    type Error = CacheError;

    fn client(&self) -> &Client<E> {
        &self.client
    }

    async fn settle(&self, seen: &Seen) -> Result<(u64, Vec<Place>), CacheError> {
        let mut chunks = self.steal(&seen.descriptors, &seen.roll).await?;
        if !self.is_open(Hole::LeakedExtents) {
            chunks += extents::sweep(self, extents::suspects(seen)).await?;
        }
        let settled = self.settle_cells(&seen.places).await?;
        self.recheck_orphans().await?;
        self.recheck_waiting(DrainLook::All).await?;
        Ok((chunks, settled))
    }

    async fn forget_absent(&self) -> Result<bool, CacheError> {
        self.forget_absent_blocks().await
    }

    fn has_unsettled(&self) -> bool {
        self.stock.borrow().has_foreign()
    }

    async fn settle_own(&self) -> Result<u64, CacheError> {
        extents::recheck_bound(self).await
    }

    async fn recount_own(&self) -> Result<(), CacheError> {
        self.recount_dead().await
    }

    async fn counted_anew(&self) -> Result<(), CacheError> {
        self.limit.note_recounted();
        Ok(())
    }

    async fn count_objects(&self) -> Result<u64, CacheError> {
        walk::count_live(self).await
    }

    fn lookups(&self) -> Lookups {
        self.stats.lookups()
    }

    fn objects_reserved(&self) -> u64 {
        self.limit().reserved()
    }

    async fn note_deaths(&self, deaths: u64) -> Result<(), CacheError> {
        self.look_at_deaths(deaths).await
    }

    async fn begin_round(&self) -> Result<(), CacheError> {
        self.look_for_drains().await?;
        self.publish_cells().await?;
        self.publish_dead();
        if self.extension_bytes() > 0 {
            // A client that waits for this round relies on this: no WRITE of an extension is under
            // way.
            self.client.endpoint.flush().await?;
        }
        Ok(())
    }

    async fn end_round(&self) -> Result<(), CacheError> {
        if self.fresh.has_orphans() {
            Box::pin(self.recheck_orphans()).await?;
        }
        if !self.drains.is_empty() {
            Box::pin(self.recheck_waiting(DrainLook::InRound)).await?;
        }
        Ok(())
    }

    async fn fence_suspect(&self, place: &Place) -> Result<bool, VerbError> {
        fence_suspect(&self.client, place, self.is_open(Hole::UnfencedRepair)).await
    }
}
