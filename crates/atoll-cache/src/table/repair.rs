//! What a client of the table may have held when it died, and how it is settled: see
//! [`atoll_pool::repair`].
//!
//! | what is found | what the client may have been doing | what is done |
//! |---|---|---|
//! | a chunk Open, owner dead | cutting it, keeping it in stock | own it, put it in use (see `adopt`) |
//! | a chunk Leaving, owner dead | emptying it | own it, empty it (see `drain`) |
//! | Extent, owner dead | writing a large object, or publishing it | Bound if an object has it, else free |
//! | Bound, no object has it | freeing the extents of an object it made dead | free |
//! | a cell of a dead client | taking a block, holding it, inserting | the block is put back, if nobody has it |
//! | a wrong count | anything | counted anew by a client that is alone |
//!
//! A repairer settles a dead client's cell: it finds out who has the block, and clears the cell.
//!
//! | what the repairer sees | who has the block | what it does |
//! |---|---|---|
//! | another repairer that lives settles a cell of the same block | that one may | asks again later |
//! | the cell says trying, and the block's record has another tag than the client saw | not the client | |
//! | a slot of the bucket that the record tells names the block | the slot, unless it is pending | |
//! | such a slot is pending, and no living client's cell names the block | the dead client, which was inserting | CAS slot -> empty, looks again |
//! | a shelf names the block | the shelf | |
//! | a living client's cell names the block | that client has it, had it before, or is just losing it | asks again after a round of that client, in which it tells anew what it has |
//! | nothing of this twice, and the record is still the same | nobody | makes the cell say won, names the block as a dead one in a bucket |
//!
//! Two repairers that settle cells of one block at the same time would put it back twice. So a
//! repairer first makes itself the cell's settler, by a compare-and-swap, and looks at the places
//! again: the cell is that of a client which is not alive. Then it READs all cells. Of two
//! repairers at least one sees that the other is a settler, and gives its cell up for now.
//!
//! A repairer that stands still keeps the one cell that it settles, as it keeps what it has in
//! hand; all others are settled without it. What a dead settler had begun another one goes on with.
//! Its place is not free before that, so that no later client of the place seems to be the settler.
//!
//! Every step is one compare-and-swap from what was seen, so that a repairer may die anywhere and
//! another one go on.

use super::block::Lying;
use super::class::Class;
use super::drain::{DrainLook, Emptied, Keeps};
use super::layout::{BUCKET_SLOTS, CELLS};
use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::stock::{Cell, CellState};
use super::{Core, Hole};
use crate::CacheError;
use crate::extent;
use crate::index::{Index, fence_suspect, walk};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_pool::in_flight::ROUNDS_PROVING;
use atoll_pool::registry::{self, Place, PlaceState, Roll};
use atoll_pool::repair::{Estate, Seen};
use atoll_pool::{Chunk, ChunkId, ChunkState, Client, Incarnation, chunks};
use std::collections::HashSet;

/// Looks at a block that changes under the look.
const LOOKS_MAX: u32 = 1_000;

/// A dead client's cell whose block a living one's names, too, until that one has told anew what it
/// has.
#[derive(Debug)]
pub(super) struct Doubt {
    cell: Cell,
    dead: Incarnation,
    living: Incarnation,
    /// Rounds that the living one had announced then.
    rounds: u32,
}

/// What became of the block of a dead client's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// It was put back.
    PutBack,
    /// Somebody has it.
    Had,
    /// That cannot be said yet.
    Unknown,
}

impl<E: Endpoint> Core<E> {
    /// Makes this client the owner of every chunk that a dead owner was cutting or emptying, and
    /// goes on with it; how many.
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
                ChunkState::Open => self.orphans.borrow_mut().push((chunk, mine)),
                _ => self.drains.push(Emptied::begun(chunk, mine, Keeps::Objects)),
            }
        }
        Ok(stolen)
    }

    /// Settles the cells of all that are not alive, and what the last client of this one's place
    /// left; gives the Fenced places that are settled.
    async fn settle_cells(&self, before: &[Place]) -> Result<Vec<Place>, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let is_alive = self.who_is_alive().await?;
        let (mut done, mut all_settled) = (Vec::new(), true);
        let mine = self.client.me().slot;
        for slot in 0..self.client.pool.settings.clients_max {
            // In its own cells it settles what the place's last client left there.
            if is_alive[slot as usize] && (slot != mine || !self.stock.borrow().has_foreign()) {
                continue;
            }
            let was = before.iter().find(|place| place.incarnation.slot == slot);
            let is_settled = self.settle_cells_of(op, slot).await?;
            all_settled &= is_settled;
            done.extend(was.filter(|place| is_settled && place.state == PlaceState::Fenced).copied());
        }
        if all_settled {
            self.doubts.borrow_mut().clear();
        }
        if !done.is_empty() {
            // Looked at last: a client that was shut out becomes the settler of nothing more.
            let cells = self.all_cells().await?;
            let settlers: HashSet<u32> = cells.iter().filter_map(|word| Cell::from_word(*word)?.settler).collect();
            done.retain(|place| !settlers.contains(&place.incarnation.slot));
        }
        Ok(done)
    }

    /// Which places have a client that lives.
    async fn who_is_alive(&self) -> Result<Vec<bool>, CacheError> {
        let places = registry::places(&self.client.endpoint, &self.client.pool).await?;
        Ok(self.which_are_alive(&places))
    }

    fn which_are_alive(&self, places: &[Place]) -> Vec<bool> {
        let lives = |slot| places.iter().any(|place| place.incarnation.slot == slot && place.state.is_alive());
        (0..self.client.pool.settings.clients_max).map(lives).collect()
    }

    async fn settle_cells_of(&self, op: &mut Operation, client: u32) -> Result<bool, CacheError> {
        let at = self.shared.layout.cells(client);
        let mut buffer = Buffer::new();
        buffer.resize(8 * CELLS);
        let cells = self.client.endpoint.read(at, buffer).await?;
        let (mut is_settled, is_mine) = (true, client == self.client.me().slot);
        // After the cells: a settler that is not alive now will not go on.
        let is_alive = self.who_is_alive().await?;
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

    async fn swap_cell(&self, at: Address, from: u64, to: u64) -> Result<bool, VerbError> {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, from, to);
        self.client.endpoint.post(&mut batch).await?;
        Ok(batch.swapped(swap))
    }

    /// Makes this client the settler of a cell; gives the cell with that. `None` if another one is
    /// that lives, or the cell is a living client's.
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
        // Another repairer may have settled the cell long ago. Then a client that joined at the
        // place may tell the same of a later life of the block.
        if client != me && self.who_is_alive().await?[client as usize] {
            self.swap_cell(at, mine.word(), Cell { settler: None, ..cell }.word()).await?;
            return Ok(None);
        }
        Ok(Some(mine))
    }

    /// Puts the block of a dead client's cell, which is at `cell_at` and whose settler is this
    /// client, back, if nobody has it.
    async fn settle_block(
        &self,
        op: &mut Operation,
        cell: &mut Cell,
        cell_at: Address,
        client: u32,
    ) -> Result<Settled, CacheError> {
        if self.block_span(cell.block).is_none() {
            self.client.learn_nodes().await?;
        }
        let Some((at, chunk)) = self.block_span(cell.block) else { return Ok(Settled::Had) };
        for _ in 0..LOOKS_MAX {
            let descriptor = chunks::descriptors(&self.client.endpoint, &self.client.pool.layout, chunk, 1).await?[0];
            let class = u8::try_from(descriptor.contents).ok().and_then(Class::from_code);
            let in_use =
                descriptor.chunk.is_some_and(|chunk| matches!(chunk.state, ChunkState::Open | ChunkState::Queued));
            // Of a chunk that is emptied, it is the one's who empties it.
            let Some(class) = class.filter(|_| in_use) else { return Ok(Settled::Had) };
            let lying = self.read_lying(op, at, class).await?;
            let has_tag = lying.tag() == Some(cell.tag);
            if cell.state == CellState::Trying && !has_tag {
                return Ok(Settled::Had);
            }
            let mut look_again = false;
            // Twice: `drain` says why.
            for look in 0..2 {
                if look > 0 && lying.is_torn() && self.read_lying(op, at, class).await? != lying {
                    look_again = true;
                    break;
                }
                if let Some((slot, word)) = self.naming(op, cell.block, lying).await? {
                    if !word.is_pending() {
                        return Ok(Settled::Had);
                    }
                    if let Some(settled) = self.had_by_the_living(*cell, cell_at, client).await? {
                        return Ok(settled);
                    }
                    self.swap_slot(slot, word, Slot::EMPTY).await?;
                    look_again = true;
                    break;
                }
                if self.shelved_blocks(chunk, class).await?.contains(&cell.block) {
                    return Ok(Settled::Had);
                }
                if let Some(settled) = self.had_by_the_living(*cell, cell_at, client).await? {
                    return Ok(settled);
                }
            }
            if look_again || self.read_lying(op, at, class).await? != lying {
                continue;
            }
            if cell.state == CellState::Trying && !self.is_open(Hole::UntoldSettling) {
                // Should this client die while it writes into the block, there is no tag any more
                // by which the next one could tell.
                let won = Cell { state: CellState::Won, ..*cell };
                if !self.swap_cell(cell_at, cell.word(), won.word()).await? {
                    return Err(CacheError::Damaged { what: "another client changed a cell that this one settles" });
                }
                *cell = won;
            }
            // What is torn has the tag of the record that was being written.
            let tag = lying.tag().unwrap_or_else(|| self.shared.settings.next_tag(cell.tag));
            let is_placed = self.place_dead_anywhere(op, class, cell.block, tag).await?;
            if is_placed {
                return Ok(Settled::PutBack);
            }
            // Every slot names something: the chunk goes.
            self.drain_chunk_of(cell.block).await?;
            return Ok(Settled::Unknown);
        }
        Ok(Settled::Unknown)
    }

    /// The slot that names a block, in the bucket that its record tells.
    async fn naming(
        &self,
        op: &mut Operation,
        block: super::slot::Block,
        lying: Lying,
    ) -> Result<Option<(u64, Slot)>, CacheError> {
        let Some(bucket) = lying.bucket() else { return Ok(None) };
        let hash = KeyHash { bucket, fingerprint: 0, mark: 0, whole: 0 };
        self.read_bucket(op, hash).await?;
        let mut seen = (0..BUCKET_SLOTS).map(|place| op.seen(hash, place));
        Ok(seen.find(|(word, _)| word.names(block)).map(|(word, slot)| (slot, word)))
    }

    async fn read_lying(&self, op: &mut Operation, at: Address, class: Class) -> Result<Lying, CacheError> {
        let mut buffer = std::mem::take(&mut op.record);
        buffer.resize(class.bytes() as usize);
        let mut buffer = self.client.endpoint.read(at, buffer).await?;
        let lying = self.lying(&mut buffer, 0, class.bytes() as usize);
        op.record = buffer;
        Ok(lying)
    }

    /// What the cells of the living say of the block of a dead client's cell: that one of them has
    /// it, or that one may. `None` if they do not name it.
    async fn had_by_the_living(
        &self,
        cell: Cell,
        cell_at: Address,
        client: u32,
    ) -> Result<Option<Settled>, CacheError> {
        let before = registry::places(&self.client.endpoint, &self.client.pool).await?;
        let cells = self.all_cells().await?;
        // Looked at after the cells: whoever WROTE one has joined before that.
        let places = registry::places(&self.client.endpoint, &self.client.pool).await?;
        let is_alive = self.which_are_alive(&places);
        let mine = self.client.me().slot as usize;
        if client as usize != mine && is_alive[client as usize] {
            // A client has joined at the place, and settles what was left in its cells.
            return Ok(Some(Settled::Unknown));
        }
        let is_settled_elsewhere = |(index, word): (usize, &u64)| {
            let is_it = self.shared.layout.cells(0).add(8 * index as u64) == cell_at;
            let settler = Cell::from_word(*word).filter(|other| other.block == cell.block && !is_it)?.settler?;
            (settler as usize != mine && is_alive.get(settler as usize).copied().unwrap_or(false)).then_some(())
        };
        if cells.iter().enumerate().any(|each| is_settled_elsewhere(each).is_some()) {
            return Ok(Some(Settled::Unknown));
        }
        let of_block = |(index, word): (usize, &u64)| {
            let (client, cell_index) = (index / CELLS, index % CELLS);
            let is_left = client == mine && self.stock.borrow().is_foreign(cell_index);
            let is_living = is_alive.get(client).copied().unwrap_or(false) && !is_left;
            let other = Cell::from_word(*word).filter(|other| is_living && other.block == cell.block)?;
            Some((client as u32, other))
        };
        let Some((living, other)) = cells.iter().enumerate().find_map(of_block) else { return Ok(None) };
        let place_of = |slot| places.iter().find(|place| place.incarnation.slot == slot);
        let (Some(dead), Some(living)) = (place_of(client), place_of(living)) else {
            return Ok(Some(Settled::Unknown));
        };
        let doubt = Doubt { cell, dead: dead.incarnation, living: living.incarnation, rounds: living.rounds() };
        let same = |noted: &&Doubt| (noted.cell, noted.dead, noted.living) == (cell, doubt.dead, doubt.living);
        let rounds = self.doubts.borrow().iter().find(same).map(|noted| noted.rounds);
        // It tells what it has in every round, before it says that it makes one. After so many it
        // has told since the doubt began, whatever else it did meanwhile.
        let has_told = |place: &Place, since: u32| {
            place.incarnation == doubt.living && place.rounds().wrapping_sub(since) >= ROUNDS_PROVING
        };
        let is_timely = rounds.is_some_and(|since| before.iter().any(|place| has_told(place, since)))
            || self.is_open(Hole::UntimelyCell);
        if other.state == CellState::Won && is_timely {
            return Ok(Some(Settled::Had));
        }
        if rounds.is_none() {
            self.doubts.borrow_mut().retain(|noted| (noted.cell, noted.dead.slot) != (cell, client));
            self.doubts.borrow_mut().push(doubt);
        }
        Ok(Some(Settled::Unknown))
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
            chunks += extent::sweep(self, extent::suspects(seen)).await?;
        }
        let settled = self.settle_cells(&seen.places).await?;
        self.recheck_orphans().await?;
        self.recheck_waiting(DrainLook::All).await?;
        Ok((chunks, settled))
    }

    fn has_unsettled(&self) -> bool {
        self.stock.borrow().has_foreign()
    }

    async fn settle_own(&self) -> Result<u64, CacheError> {
        extent::recheck_bound(self).await
    }

    async fn count_objects(&self) -> Result<u64, CacheError> {
        walk::count_live(self).await
    }

    fn objects_reserved(&self) -> u64 {
        self.limit().reserved()
    }

    async fn recount_own(&self) -> Result<(), CacheError> {
        self.recount_dead().await
    }

    async fn counted_anew(&self) -> Result<(), CacheError> {
        self.recounted.set(true);
        Ok(())
    }

    async fn note_deaths(&self, deaths: u64) -> Result<(), CacheError> {
        self.look_at_deaths(deaths).await
    }

    async fn begin_round(&self) -> Result<(), CacheError> {
        self.look_for_drains().await?;
        self.tell_cells().await?;
        self.tell_dead();
        if self.extension_bytes() > 0 {
            // A client that waits for this round relies on it that no WRITE of an extension is
            // under way.
            self.client.endpoint.flush().await?;
        }
        Ok(())
    }

    async fn end_round(&self) -> Result<(), CacheError> {
        if !self.orphans.borrow().is_empty() {
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
