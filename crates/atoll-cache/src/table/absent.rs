//! What the table loses with the region of a memory node: see [`atoll_pool::loss`].
//!
//! | named | by | then |
//! |---|---|---|
//! | a block on the node | a slot | the slot becomes empty |
//! | a block on the node | a shelf | the shelf becomes empty |
//! | a block on the node | a cell, left by the last client of a place at which a client joins now | the cell becomes empty |
//! | a block on another node | a slot that is gone | a slot on another node names it as dead (see `reclaim`) |
//!
//! Which blocks of a chunk are named is found out chunk by chunk, by a client that owns the chunk
//! meanwhile.

use super::cell::Cell;
use super::class::Class;
use super::{Core, shelf::Shelf};
use crate::CacheError;
use crate::index::absent;
use atoll_fabric::Endpoint;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};

impl<E: Endpoint> Core<E> {
    /// Makes everything empty that names a block on an absent node, and names the blocks again that
    /// were named there. `false` if a cell is being settled, or this client still empties chunks.
    pub(super) async fn forget_absent_blocks(&self) -> Result<bool, CacheError> {
        absent::forget(self).await?;
        for class in Class::all() {
            for word in self.shelves(class).await? {
                let chunk = Shelf::from_word(word).map(|shelf| shelf.chunk);
                if let Some(chunk) = chunk.filter(|chunk| self.client.is_chunk_absent(*chunk)) {
                    self.unshelve(chunk, class).await?;
                }
            }
        }
        let are_cells_empty = self.forget_absent_cells().await?;
        let layout = self.client.pool.layout.clone();
        for (number, descriptor) in (0..).zip(self.client.all_descriptors().await?) {
            let Some(found) = descriptor.chunk.filter(|chunk| chunk.state == ChunkState::Queued) else { continue };
            let chunk = ChunkId(number);
            let leaving = Chunk::owned(ChunkState::Leaving, self.client.me(), found.generation);
            if chunks::transition(&self.client.endpoint, &layout, chunk, found.word(), leaving).await? {
                self.fresh.push_orphan(chunk, leaving);
                self.recheck_orphans().await?;
            }
        }
        Ok(are_cells_empty && self.drains.is_empty())
    }

    /// Empties the cells that name blocks on absent nodes. No client uses these nodes, so the cells
    /// are those of dead ones. `false` if one has changed meanwhile.
    async fn forget_absent_cells(&self) -> Result<bool, CacheError> {
        let (first, mut are_empty) = (self.shared.layout.cells(0), true);
        for (number, word) in (0..).zip(self.all_cells().await?) {
            // Something else than a client may have written a block outside the heap.
            let span = Cell::from_word(word).and_then(|cell| self.block_span(cell.block));
            if span.is_some_and(|(_, chunk)| self.client.is_chunk_absent(chunk)) {
                are_empty &= self.swap_cell(first.add(8 * number), word, 0).await?;
            }
        }
        Ok(are_empty)
    }
}
