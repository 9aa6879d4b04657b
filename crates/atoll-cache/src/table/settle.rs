//! How the cells of a dead client are settled.
//!
//! A repairer settles a cell: it finds out which client has the block, and clears the cell.
//!
//! | what the repairer sees | who has the block | what it does |
//! |---|---|---|
//! | a living repairer settles another cell of the same block | perhaps that repairer | asks again later |
//! | the cell says trying, and the block's record has another tag than the client saw | not the client | |
//! | a slot names the block, in the bucket that the record gives | the slot, unless it is pending | |
//! | such a slot is pending, and no living client's cell names the block | the dead client, which was inserting | CAS slot -> empty, looks again |
//! | a shelf names the block | the shelf | |
//! | a living client's cell names the block | that client has it, had it before, or is just losing it | asks again after a round of that client, in which it republishes its cells |
//! | nothing of this twice, and the record is still the same | no client | makes the cell say won, names the block as a dead one in a bucket |
//!
//! Two repairers that settle cells of one block at the same time would release it twice. So a
//! repairer first makes itself the cell's settler, by a compare-and-swap, and checks again that the
//! cell's client is dead. Then it READs all cells. Of two repairers at least one sees that the
//! other is a settler, and gives its cell up for now.
//!
//! A repairer that stands still keeps the one cell that it settles, as it keeps the blocks that it
//! holds. All other cells are settled without it. Another repairer continues the work of a dead
//! settler. The place of a dead settler is not free before that. So no later client of the place is
//! mistaken for the settler.

use super::block::Image;
use super::cell::{CELLS, Cell, CellState};
use super::class::Class;
use super::layout::BUCKET_SLOTS;
use super::operation::Operation;
use super::slot::{Block, KeyHash, Slot};
use super::suspicion::Settled;
use super::{Core, Hole};
use crate::CacheError;
use crate::index::Index;
use atoll_fabric::{Address, Buffer, Endpoint};
use atoll_pool::registry::{Place, PlaceState};
use atoll_pool::{ChunkState, chunks};
use std::collections::HashSet;

/// Looks at a block that changes during a look.
const LOOKS_MAX: u32 = 1_000;

impl<E: Endpoint> Core<E> {
    /// Settles the cells of all dead clients, and those that the last client of this one's place
    /// left. Returns the Fenced places that are settled.
    pub(super) async fn settle_cells(&self, before: &[Place]) -> Result<Vec<Place>, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let is_alive = self.living_places().await?;
        let (mut done, mut all_settled) = (Vec::new(), true);
        let mine = self.client.me().slot;
        for slot in 0..self.client.pool.settings.clients_max {
            // In its own cells the client settles what the place's last client left there.
            if is_alive[slot as usize] && (slot != mine || !self.stock.borrow().has_foreign()) {
                continue;
            }
            let was = before.iter().find(|place| place.incarnation.slot == slot);
            let is_settled = self.settle_cells_of(op, slot).await?;
            all_settled &= is_settled;
            done.extend(was.filter(|place| is_settled && place.state == PlaceState::Fenced).copied());
        }
        if all_settled {
            self.suspicions.borrow_mut().clear();
        }
        if !done.is_empty() {
            // READ last: a client that is shut out by then does not become a settler any more.
            let cells = self.all_cells().await?;
            let settlers: HashSet<u32> = cells.iter().filter_map(|word| Cell::from_word(*word)?.settler).collect();
            done.retain(|place| !settlers.contains(&place.incarnation.slot));
        }
        Ok(done)
    }

    async fn settle_cells_of(&self, op: &mut Operation, client: u32) -> Result<bool, CacheError> {
        let at = self.shared.layout.cells(client);
        let mut buffer = Buffer::new();
        buffer.resize(8 * CELLS);
        let cells = self.client.endpoint.read(at, buffer).await?;
        let (mut is_settled, is_mine) = (true, client == self.client.me().slot);
        // READ after the cells: a settler that is dead now will not continue.
        let is_alive = self.living_places().await?;
        // A client that has joined at the place meanwhile settles what was left in its cells.
        if !is_mine && is_alive[client as usize] {
            return Ok(false);
        }
        for (index, word) in cells.words().iter().enumerate() {
            if *word == 0 || is_mine && !self.stock.borrow().is_foreign(index) {
                if is_mine && *word == 0 && self.stock.borrow().is_foreign(index) {
                    // Another repairer has settled it.
                    self.stock.borrow_mut().disinherit(index);
                }
                continue;
            }
            let cell_at = at.add(8 * index as u64);
            let Some(cell) = Cell::from_word(*word) else {
                // No client wrote it.
                self.swap_cell(cell_at, *word, 0).await?;
                continue;
            };
            let Some(mut cell) = self.become_settler(cell_at, client, cell, &is_alive).await? else {
                is_settled = false;
                continue;
            };
            let settled = match self.is_open(Hole::LeakedBlocks) {
                true => Settled::Had,
                false => self.settle_block(op, &mut cell, cell_at, client).await?,
            };
            if settled == Settled::Unknown {
                is_settled = false;
                self.swap_cell(cell_at, cell.word(), Cell { settler: None, ..cell }.word()).await?;
                continue;
            }
            self.swap_cell(cell_at, cell.word(), 0).await?;
            if is_mine {
                self.stock.borrow_mut().disinherit(index);
            }
        }
        Ok(is_settled)
    }

    /// Makes this client the settler of a cell, and returns the cell with that. `None` if a living
    /// client is the settler, or if the cell's client lives.
    async fn become_settler(
        &self,
        at: Address,
        client: u32,
        cell: Cell,
        is_alive: &[bool],
    ) -> Result<Option<Cell>, CacheError> {
        let me = self.client.me().slot;
        let is_anothers = |by: u32| by != me && is_alive.get(by as usize).copied().unwrap_or(false);
        if cell.settler.is_some_and(is_anothers) {
            return Ok(None);
        }
        let mine = Cell { settler: Some(me), ..cell };
        if cell.settler != Some(me) && !self.swap_cell(at, cell.word(), mine.word()).await? {
            return Ok(None);
        }
        // Another repairer may have settled the cell long ago. Then the cell may be a new client's,
        // which has joined at the place and holds a later life of the block.
        if client != me && self.living_places().await?[client as usize] {
            self.swap_cell(at, mine.word(), Cell { settler: None, ..cell }.word()).await?;
            return Ok(None);
        }
        Ok(Some(mine))
    }

    /// Releases the block of a dead client's cell, if no client has it. The cell is at `cell_at`,
    /// and this client is its settler.
    async fn settle_block(
        &self,
        op: &mut Operation,
        cell: &mut Cell,
        cell_at: Address,
        client: u32,
    ) -> Result<Settled, CacheError> {
        assert_eq!(cell.settler, Some(self.client.me().slot), "a repairer settles only cells that it has claimed");
        if self.block_span(cell.block).is_none() {
            self.client.learn_nodes().await?;
        }
        let Some((at, chunk)) = self.block_span(cell.block) else { return Ok(Settled::Had) };
        for _ in 0..LOOKS_MAX {
            let descriptor = chunks::descriptors(&self.client.endpoint, &self.client.pool.layout, chunk, 1).await?[0];
            let class = u8::try_from(descriptor.contents).ok().and_then(Class::from_code);
            let in_use =
                descriptor.chunk.is_some_and(|chunk| matches!(chunk.state, ChunkState::Open | ChunkState::Queued));
            // The block of a chunk that is emptied belongs to the drainer.
            let Some(class) = class.filter(|_| in_use) else { return Ok(Settled::Had) };
            let image = self.read_image(op, at, class).await?;
            let has_tag = image.tag() == Some(cell.tag);
            if cell.state == CellState::Trying && !has_tag {
                return Ok(Settled::Had);
            }
            let mut look_again = false;
            // Twice: `drain` says why.
            for look in 0..2 {
                if look > 0 && image.is_torn() && self.read_image(op, at, class).await? != image {
                    look_again = true;
                    break;
                }
                if let Some((slot, word)) = self.naming(op, cell.block, image).await? {
                    if !word.is_pending() {
                        return Ok(Settled::Had);
                    }
                    if let Some(settled) = self.living_holder(*cell, cell_at, client).await? {
                        return Ok(settled);
                    }
                    self.swap_slot(slot, word, Slot::EMPTY).await?;
                    look_again = true;
                    break;
                }
                if self.shelved_blocks(chunk, class).await?.contains(&cell.block) {
                    return Ok(Settled::Had);
                }
                if let Some(settled) = self.living_holder(*cell, cell_at, client).await? {
                    return Ok(settled);
                }
            }
            if look_again || self.read_image(op, at, class).await? != image {
                continue;
            }
            if cell.state == CellState::Trying && !self.is_open(Hole::UntoldSettling) {
                // The next write into the block destroys the tag. If this client dies there, the
                // next repairer must not need the tag any more.
                let won = Cell { state: CellState::Won, ..*cell };
                // A settler is known by its place. One that had seen the last client of this place
                // dead may have taken the cell, and given it back.
                if !self.swap_cell(cell_at, cell.word(), won.word()).await? {
                    return Ok(Settled::Unknown);
                }
                *cell = won;
            }
            // A torn block has the tag of the record that was being written.
            let tag = image.tag().unwrap_or_else(|| self.shared.settings.next_tag(cell.tag));
            let is_placed = self.place_dead_anywhere(op, class, cell.block, tag).await?;
            if is_placed {
                return Ok(Settled::PutBack);
            }
            // Every slot names a block: the chunk is emptied.
            self.drain_chunk_of(cell.block).await?;
            return Ok(Settled::Unknown);
        }
        Ok(Settled::Unknown)
    }

    /// The slot that names a block, in the bucket that its record names.
    async fn naming(&self, op: &mut Operation, block: Block, image: Image) -> Result<Option<(u64, Slot)>, CacheError> {
        let Some(bucket) = image.bucket() else { return Ok(None) };
        let hash = KeyHash { bucket, fingerprint: 0, mark: 0, whole: 0 };
        self.read_bucket(op, hash).await?;
        let mut seen = (0..BUCKET_SLOTS).map(|place| op.seen(hash, place));
        Ok(seen.find(|(word, _)| word.names(block)).map(|(word, slot)| (slot, word)))
    }

    async fn read_image(&self, op: &mut Operation, at: Address, class: Class) -> Result<Image, CacheError> {
        let mut buffer = std::mem::take(&mut op.record);
        buffer.resize(class.bytes() as usize);
        let mut buffer = self.client.endpoint.read(at, buffer).await?;
        let image = self.image(&mut buffer, 0, class.bytes() as usize);
        op.record = buffer;
        Ok(image)
    }
}
