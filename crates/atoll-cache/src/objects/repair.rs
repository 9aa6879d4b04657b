//! What a client that died held comes back.
//!
//! Every client now and then looks at the other clients' leases. One that stands still is asked after: if it is dead, or the fabric has shut it out, its
//! place becomes Fenced (see `atoll_pool::registry`). The client that did so reclaims what it held; if that dies, too, another client does, after a
//! while. Until then nothing that a suspect could still write is touched.
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
//! Two repairers that settle cells of one block at the same time would put it back twice. So a repairer first makes itself the cell's
//! settler, by a compare-and-swap, and looks at the places again: the cell is that of a client which is not alive. Then it READs all cells.
//! Of two repairers at least one sees that the other is a settler, and gives its cell up for now.
//!
//! A repairer that stands still keeps the one cell that it settles, as it keeps what it has in hand; all others are settled without it.
//! What a dead settler had begun another one goes on with. Its place is not free before that, so that no later client of the place seems to
//! be the settler.
//!
//! Every step is one compare-and-swap from what was seen, so that a repairer may die anywhere and another one go on.

use super::block::Lying;
use super::class::Class;
use super::drain::{DrainLook, Emptied, Keeps};
use super::layout::{BUCKET_SLOTS, CELLS};
use super::replacement::Replacement;
use super::slot::{KeyHash, Slot};
use super::stock::{Cell, CellState};
use super::{Core, Hole, Objects};
use crate::CacheError;
use crate::extent::{self, Extent};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_pool::registry::{self, Place, PlaceState, Roll};
use atoll_pool::retirement::DISCARDS_IN_ROUND;
use atoll_pool::{Chunk, ChunkId, ChunkState, Incarnation, PoolError, chunks, read_word, retirement};
use std::collections::HashSet;

/// Descriptors READ at once.
const DESCRIPTORS_AT_ONCE: u32 = 1024;
/// Looks at a bucket whose objects change under the look, or at a block.
const LOOKS_MAX: u32 = 1_000;

/// What a look at the other clients came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Clients that were shut out.
    pub clients: u64,
    /// Chunks that had belonged to a dead client.
    pub chunks: u64,
    /// Blocks that had been in a dead client's hands.
    pub blocks: u64,
    /// Extents that no object had.
    pub extents: u64,
    /// Whether everything was counted anew.
    pub recounted: bool,
}

/// A dead client's cell whose block a living one's names, too, until that one has told anew what it has.
#[derive(Debug)]
pub(super) struct Doubt {
    cell: Cell,
    dead: Incarnation,
    living: Incarnation,
    /// Those that the living one had made then.
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
    /// Tells the others that this client is alive, and looks after those that may not be.
    pub(super) async fn tend(&mut self) -> Result<(), CacheError> {
        if self.member.is_none() {
            return Ok(());
        }
        if let Some(error) = &self.lost {
            return Err(CacheError::Verb(error.clone()));
        }
        self.check_membership().await?;
        self.look_for_drains().await?;
        self.tell_cells().await?;
        self.tell_dead();
        if self.extension_bytes() > 0 {
            // Whoever waits for this round relies on it that no WRITE of an extension is under way.
            self.endpoint.flush().await?;
        }
        if let Some(member) = &mut self.member {
            member.renew(&self.endpoint);
            // Whoever sees this relies on it that nothing was taken between what the cells say and this; nor must what it says of rest overtake it.
            self.endpoint.flush().await?;
        }
        if !self.orphans.is_empty() {
            Box::pin(self.recheck_orphans()).await?;
        }
        if !self.waiting.is_empty() {
            Box::pin(self.recheck_waiting(DrainLook::InRound)).await?;
        }
        let now_ns = self.endpoint.now_ns();
        if now_ns.wrapping_sub(self.looked_ns) < self.times.look_ns {
            return Ok(());
        }
        self.looked_ns = now_ns;
        self.learn_nodes().await?;
        Box::pin(self.look(false)).await?;
        let me = self.me();
        Box::pin(self.retirement.go_on(&self.endpoint, &self.shared.pool, me, DISCARDS_IN_ROUND)).await?;
        Ok(())
    }

    /// Looks after all other clients now, whether they stand still or not, and reclaims what the dead ones held. It harms no client whose lease moves.
    /// Tells also of what this client reclaimed when it joined.
    pub(super) async fn repair(&mut self) -> Result<Repaired, CacheError> {
        let joining = std::mem::take(&mut self.untold);
        let now = self.look(true).await?;
        Ok(Repaired {
            clients: joining.clients + now.clients,
            chunks: joining.chunks + now.chunks,
            blocks: joining.blocks + now.blocks,
            extents: joining.extents + now.extents,
            recounted: joining.recounted || now.recounted,
        })
    }

    async fn look(&mut self, everybody: bool) -> Result<Repaired, CacheError> {
        let mut repaired = Repaired::default();
        let (me, asked_ns) = (self.me(), self.endpoint.now_ns());
        let places = registry::places(&self.endpoint, &self.shared.pool).await?;
        let told_ns = self.endpoint.now_ns();
        let mut left_behind = everybody || self.stock.has_foreign();
        for place in places.iter().filter(|place| place.incarnation.slot != me.slot) {
            let still_ns = self.watch.still_ns(place, asked_ns, told_ns);
            let pool = &self.shared.pool;
            match place.state {
                PlaceState::Taken | PlaceState::Joining => {
                    let is_suspect = still_ns >= self.times.suspect_ns;
                    let fenced = match is_suspect {
                        true if self.is_open(Hole::UnfencedRepair) => {
                            registry::declare_dead(&self.endpoint, pool, place).await?
                        }
                        true => registry::fence_suspect(&self.endpoint, pool, place).await?,
                        false if everybody => registry::fence_dead(&self.endpoint, pool, place).await?,
                        false => false,
                    };
                    if fenced {
                        repaired.clients += 1;
                        left_behind = true;
                    }
                }
                PlaceState::Fenced if everybody || still_ns >= self.times.help_ns => left_behind = true,
                _ => {}
            }
        }
        self.stats.clients_fenced += repaired.clients;
        repaired.extents += Box::pin(self.recheck_bound()).await?;
        if left_behind {
            Box::pin(self.reclaim(&mut repaired)).await?;
        } else {
            let (deaths, counted) = self.deaths().await?;
            self.distrust = deaths != counted;
            self.look_at_deaths(deaths).await?;
        }
        Ok(repaired)
    }

    /// Reclaims what clients that are not alive held, and frees their places.
    pub(super) async fn reclaim(&mut self, repaired: &mut Repaired) -> Result<(), CacheError> {
        self.stats.repairs += 1;
        // A client that is shut out later may own what this look does not see: its place is left to the next one.
        let before = registry::places(&self.endpoint, &self.shared.pool).await?;
        let descriptors = self.all_descriptors().await?;
        let roll = Roll::of(&registry::places(&self.endpoint, &self.shared.pool).await?);
        repaired.chunks += self.steal(&descriptors, &roll).await?;
        retirement::reclaim(&self.endpoint, &self.shared.pool.layout, &descriptors, &roll).await?;
        repaired.extents += self.sweep_extents(extent::suspects(&descriptors, &roll)).await?;
        for place in self.settle_cells(&before, repaired).await? {
            registry::free(&self.endpoint, &self.shared.pool, &place).await?;
        }
        self.recheck_orphans().await?;
        self.recheck_waiting(DrainLook::All).await?;
        self.stats.chunks_repaired += repaired.chunks + repaired.extents;
        repaired.recounted = self.recount().await?;
        Ok(())
    }

    pub(super) async fn all_descriptors(&mut self) -> Result<Vec<chunks::Descriptor>, CacheError> {
        self.learn_nodes().await?;
        let layout = self.shared.pool.layout.clone();
        let all = layout.chunks();
        let mut descriptors = Vec::with_capacity(all as usize);
        while (descriptors.len() as u32) < all {
            let first = ChunkId(descriptors.len() as u32);
            descriptors.extend(chunks::descriptors(&self.endpoint, &layout, first, DESCRIPTORS_AT_ONCE).await?);
        }
        Ok(descriptors)
    }

    /// Makes this client the owner of every chunk that a dead owner was cutting or emptying, and goes on with it; how many.
    async fn steal(&mut self, descriptors: &[chunks::Descriptor], roll: &Roll) -> Result<u64, CacheError> {
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
            let mine = Chunk::owned(found.state, self.me(), found.generation);
            if !chunks::transition(&self.endpoint, &self.shared.pool.layout, chunk, found.word(), mine).await? {
                continue;
            }
            stolen += 1;
            match found.state {
                ChunkState::Open => self.orphans.push((chunk, mine)),
                _ => self.waiting.push(Emptied::begun(chunk, mine, Keeps::Objects)),
            }
        }
        Ok(stolen)
    }

    /// Settles the cells of all that are not alive, and what the last client of this one's place left; gives the Fenced places that are settled.
    async fn settle_cells(&mut self, before: &[Place], repaired: &mut Repaired) -> Result<Vec<Place>, CacheError> {
        let is_alive = self.who_is_alive().await?;
        let (mut done, mut all_settled) = (Vec::new(), true);
        let mine = self.me().slot;
        for slot in 0..self.shared.pool.settings.clients_max {
            // In its own cells it settles what the place's last client left there.
            if is_alive[slot as usize] && (slot != mine || !self.stock.has_foreign()) {
                continue;
            }
            let was = before.iter().find(|place| place.incarnation.slot == slot);
            let is_settled = self.settle_cells_of(slot, repaired).await?;
            all_settled &= is_settled;
            done.extend(was.filter(|place| is_settled && place.state == PlaceState::Fenced).copied());
        }
        if all_settled {
            self.doubts.clear();
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
    async fn who_is_alive(&mut self) -> Result<Vec<bool>, CacheError> {
        let places = registry::places(&self.endpoint, &self.shared.pool).await?;
        Ok(self.which_are_alive(&places))
    }

    fn which_are_alive(&self, places: &[Place]) -> Vec<bool> {
        let lives = |slot| places.iter().any(|place| place.incarnation.slot == slot && place.state.is_alive());
        (0..self.shared.pool.settings.clients_max).map(lives).collect()
    }

    async fn settle_cells_of(&mut self, client: u32, repaired: &mut Repaired) -> Result<bool, CacheError> {
        let at = self.shared.layout.cells(client);
        let mut buffer = Buffer::new();
        buffer.resize(8 * CELLS);
        let cells = self.endpoint.read(at, buffer).await?;
        let (mut is_settled, is_mine) = (true, client == self.me().slot);
        // After the cells: a settler that is not alive now will not go on.
        let is_alive = self.who_is_alive().await?;
        // A client that has joined at the place meanwhile settles what was left in its cells.
        if !is_mine && is_alive[client as usize] {
            return Ok(false);
        }
        for (index, word) in cells.words().iter().enumerate() {
            if *word == 0 || is_mine && !self.stock.is_foreign(index) {
                if is_mine && *word == 0 && self.stock.is_foreign(index) {
                    // Another repairer has settled it.
                    self.stock.disinherit(index);
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
                false => self.settle_block(&mut cell, cell_at, client).await?,
            };
            repaired.blocks += u64::from(settled == Settled::PutBack);
            if settled == Settled::Unknown {
                is_settled = false;
                self.swap_cell(cell_at, cell.word(), Cell { settler: None, ..cell }.word()).await?;
                continue;
            }
            self.swap_cell(cell_at, cell.word(), 0).await?;
            if is_mine {
                self.stock.disinherit(index);
            }
        }
        Ok(is_settled)
    }

    async fn swap_cell(&mut self, at: Address, from: u64, to: u64) -> Result<bool, VerbError> {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(at, from, to);
        self.endpoint.post(&mut batch).await?;
        Ok(batch.swapped(swap))
    }

    /// Makes this client the settler of a cell; gives the cell with that. `None` if another one is that lives, or the cell is a
    /// living client's.
    async fn become_settler(
        &mut self,
        at: Address,
        client: u32,
        cell: Cell,
        is_alive: &[bool],
    ) -> Result<Option<Cell>, CacheError> {
        let me = self.me().slot;
        let is_anothers = |by: u32| by != me && is_alive.get(by as usize).copied().unwrap_or(false);
        if cell.settler.is_some_and(is_anothers) {
            return Ok(None);
        }
        let mine = Cell { settler: Some(me), ..cell };
        if cell.settler != Some(me) && !self.swap_cell(at, cell.word(), mine.word()).await? {
            return Ok(None);
        }
        // Another repairer may have settled the cell long ago. Then a client that joined at the place may tell the same of a
        // later life of the block.
        if client != me && self.who_is_alive().await?[client as usize] {
            self.swap_cell(at, mine.word(), Cell { settler: None, ..cell }.word()).await?;
            return Ok(None);
        }
        Ok(Some(mine))
    }

    /// Puts the block of a dead client's cell, which is at `cell_at` and whose settler is this client, back, if nobody has it.
    async fn settle_block(&mut self, cell: &mut Cell, cell_at: Address, client: u32) -> Result<Settled, CacheError> {
        if self.block_span(cell.block).is_none() {
            self.learn_nodes().await?;
        }
        let Some((at, chunk)) = self.block_span(cell.block) else { return Ok(Settled::Had) };
        for _ in 0..LOOKS_MAX {
            let descriptor = chunks::descriptors(&self.endpoint, &self.shared.pool.layout, chunk, 1).await?[0];
            let class = u8::try_from(descriptor.contents).ok().and_then(Class::from_code);
            let in_use =
                descriptor.chunk.is_some_and(|chunk| matches!(chunk.state, ChunkState::Open | ChunkState::Queued));
            // Of a chunk that is emptied, it is the one's who empties it.
            let Some(class) = class.filter(|_| in_use) else { return Ok(Settled::Had) };
            let lying = self.read_lying(at, class).await?;
            let has_tag = lying.tag() == Some(cell.tag);
            if cell.state == CellState::Trying && !has_tag {
                return Ok(Settled::Had);
            }
            let mut look_again = false;
            // Twice: `drain` says why.
            for look in 0..2 {
                if look > 0 && lying.is_torn() && self.read_lying(at, class).await? != lying {
                    look_again = true;
                    break;
                }
                if let Some((slot, word)) = self.naming(cell.block, lying).await? {
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
            if look_again || self.read_lying(at, class).await? != lying {
                continue;
            }
            if cell.state == CellState::Trying && !self.is_open(Hole::UntoldSettling) {
                // Should this client die while it writes into the block, there is no tag any more by which the next one could tell.
                let won = Cell { state: CellState::Won, ..*cell };
                if !self.swap_cell(cell_at, cell.word(), won.word()).await? {
                    return Err(CacheError::Damaged { what: "another client changed a cell that this one settles" });
                }
                *cell = won;
            }
            // What is torn has the tag of the record that was being written.
            let tag = lying.tag().unwrap_or_else(|| self.shared.settings.next_tag(cell.tag));
            let is_placed = self.place_dead_anywhere(class, cell.block, tag).await?;
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
    async fn naming(&mut self, block: super::slot::Block, lying: Lying) -> Result<Option<(u64, Slot)>, CacheError> {
        let Some(bucket) = lying.bucket() else { return Ok(None) };
        let hash = KeyHash { bucket, fingerprint: 0, mark: 0, whole: 0 };
        self.read_bucket(hash).await?;
        let mut seen = (0..BUCKET_SLOTS).map(|place| self.seen(hash, place));
        Ok(seen.find(|(word, _)| word.names(block)).map(|(word, slot)| (slot, word)))
    }

    async fn read_lying(&mut self, at: Address, class: Class) -> Result<Lying, CacheError> {
        let mut buffer = std::mem::take(&mut self.record);
        buffer.resize(class.bytes() as usize);
        let mut buffer = self.endpoint.read(at, buffer).await?;
        let lying = self.lying(&mut buffer, 0, class.bytes() as usize);
        self.record = buffer;
        Ok(lying)
    }

    /// What the cells of the living say of the block of a dead client's cell: that one of them has it, or that one may. `None` if they do not name it.
    async fn had_by_the_living(
        &mut self,
        cell: Cell,
        cell_at: Address,
        client: u32,
    ) -> Result<Option<Settled>, CacheError> {
        let before = registry::places(&self.endpoint, &self.shared.pool).await?;
        let cells = self.all_cells().await?;
        // Looked at after the cells: whoever WROTE one has joined before that.
        let places = registry::places(&self.endpoint, &self.shared.pool).await?;
        let is_alive = self.which_are_alive(&places);
        let mine = self.me().slot as usize;
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
            let is_left = client == mine && self.stock.is_foreign(cell_index);
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
        let rounds = self.doubts.iter().find(same).map(|noted| noted.rounds);
        // It tells what it has in every round, before it says that it makes one.
        let has_told = |place: &Place| place.incarnation == doubt.living && Some(place.rounds()) != rounds;
        let is_timely = rounds.is_some() && before.iter().any(has_told) || self.is_open(Hole::UntimelyCell);
        if other.state == CellState::Won && is_timely {
            return Ok(Some(Settled::Had));
        }
        if rounds.is_none() {
            self.doubts.retain(|noted| (noted.cell, noted.dead.slot) != (cell, client));
            self.doubts.push(doubt);
        }
        Ok(Some(Settled::Unknown))
    }

    /// Frees what this client has bound lately and no object has: see [`crate::extent`].
    pub(super) async fn recheck_bound(&mut self) -> Result<u64, CacheError> {
        if self.lately_bound.is_empty() {
            return Ok(0);
        }
        self.endpoint.flush().await?;
        let (deaths, _) = self.deaths().await?;
        let extents = self.lately_bound.take(deaths);
        let bound = self.extent_io().still_bound(&extents).await?;
        self.sweep_extents(bound).await
    }

    /// Frees extents that no object has, and binds those of dead owners that one has.
    async fn sweep_extents(&mut self, suspects: Vec<(ChunkId, Chunk)>) -> Result<u64, CacheError> {
        if self.is_open(Hole::LeakedExtents) {
            return Ok(0);
        }
        let mut freed = 0;
        for (bucket, extents) in self.extent_io().by_bucket(suspects).await? {
            let had = match u32::try_from(bucket).ok().filter(|bucket| *bucket < self.shared.settings.buckets) {
                Some(bucket) => self.extents_of_bucket(bucket).await?,
                // A damaged word: no object is there.
                None => Some(HashSet::new()),
            };
            let Some(had) = had else { continue };
            for (extent, found) in extents {
                if !had.contains(&extent) {
                    freed += u64::from(self.free_extent(extent).await?);
                } else if found.state == ChunkState::Extent {
                    let bound = Chunk { state: ChunkState::Bound, ..found };
                    let layout = &self.shared.pool.layout;
                    chunks::transition(&self.endpoint, layout, extent.chunk, found.word(), bound).await?;
                }
            }
        }
        Ok(freed)
    }

    /// The extents that objects of a bucket have at one moment; `None` if the bucket does not stand still for that.
    async fn extents_of_bucket(&mut self, bucket: u32) -> Result<Option<HashSet<Extent>>, CacheError> {
        let hash = KeyHash { bucket, fingerprint: 0, mark: 0, whole: 0 };
        for _ in 0..LOOKS_MAX {
            self.read_bucket(hash).await?;
            let large = |core: &Self| -> Vec<(Slot, u64)> {
                let seen = (0..BUCKET_SLOTS).map(|place| core.seen(hash, place));
                seen.filter(|(word, _)| word.is_live() && word.is_large()).collect()
            };
            let slots = large(self);
            let mut extents = HashSet::new();
            for (word, slot) in &slots {
                if let Some(Some(listed)) = self.extents_of(*slot, *word).await? {
                    extents.extend(listed.all());
                }
            }
            self.read_bucket(hash).await?;
            if large(self) == slots {
                return Ok(Some(extents));
            }
        }
        Ok(None)
    }

    /// Counts everything anew if this client is alone and somebody has died since the last time; whether it did.
    pub(super) async fn recount(&mut self) -> Result<bool, CacheError> {
        let layout = self.shared.pool.layout.clone();
        self.recount_dead().await?;
        let (deaths, counted) = self.deaths().await?;
        let before = registry::places(&self.endpoint, &self.shared.pool).await?;
        self.distrust = deaths != counted;
        if !self.distrust || !registry::is_quiet(&before, self.me()) {
            return Ok(false);
        }
        self.endpoint.flush().await?;
        let objects = self.count_live_slots().await?;
        let descriptors = self.all_descriptors().await?;
        let is_free = |each: &&chunks::Descriptor| each.chunk.is_some_and(|chunk| chunk.state == ChunkState::Free);
        let free = descriptors.iter().filter(is_free).count() as u64;
        let counted_objects = registry::objects_exact(&self.endpoint, &self.shared.pool).await?;
        let counted_free = read_word(&self.endpoint, layout.free_chunks()).await?;
        let resident = read_word(&self.endpoint, layout.resident_objects()).await?;
        let after = registry::places(&self.endpoint, &self.shared.pool).await?;
        if !registry::was_quiet(&before, &after, self.me()) {
            return Ok(false);
        }
        self.recounted = true;
        // Added, not written: another client may have come just now.
        let mut batch = Batch::new();
        batch.fetch_and_add(layout.free_chunks(), free.wrapping_sub(counted_free));
        if self.shared.pool.settings.objects_max > 0 {
            // The operation under way may have counted an object that it is yet to insert.
            let promised = objects + u64::from(self.reserved);
            batch.fetch_and_add(layout.resident_objects(), promised.wrapping_sub(resident));
        }
        batch.compare_and_swap(layout.deaths_counted(), counted, deaths);
        self.endpoint.post(&mut batch).await?;
        self.distrust = false;
        self.count_objects(objects.wrapping_sub(counted_objects) as i64).await?;
        self.endpoint.flush().await?;
        Ok(true)
    }

    /// Clients shut out so far, and how many of those the last count has seen.
    pub(super) async fn deaths(&mut self) -> Result<(u64, u64), CacheError> {
        let mut batch = Batch::new();
        let deaths = batch.read_word(self.shared.pool.layout.deaths());
        let counted = batch.read_word(self.shared.pool.layout.deaths_counted());
        self.endpoint.post(&mut batch).await?;
        Ok((batch.word(deaths), batch.word(counted)))
    }

    async fn count_live_slots(&mut self) -> Result<u64, CacheError> {
        let buckets = self.shared.settings.buckets;
        let (mut first, mut live) = (0, 0);
        while first < buckets {
            let words = self.bucket_words(first).await?;
            live += words.iter().filter(|word| word.is_live()).count() as u64;
            first += (words.len() / BUCKET_SLOTS) as u32;
        }
        Ok(live)
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Adds a memory node with at most so many bytes, on a fabric whose regions are all there; gives its number. Elsewhere the region is made between
    /// [`claim`](atoll_pool::nodes::claim) and [`Claim::prepare`](atoll_pool::nodes::Claim::prepare).
    pub async fn grow(&mut self, bytes: u64) -> Result<u8, PoolError> {
        self.core.grow(bytes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pooled;
    use crate::kvs::{self, Kvs};
    use atoll_pool::PoolSettings;
    use atoll_sim::{Sim, SimEndpoint, SimOptions};

    /// An operation that has counted the object that it is to insert, and waits for memory, counts
    /// everything anew: the object stays counted.
    #[test]
    fn counting_anew_keeps_what_the_operation_under_way_has_counted() {
        let base = PoolSettings { chunk_bytes: 1024, objects_max: 10, ..PoolSettings::for_capacity(200 << 10) };
        let settings = kvs::options().settings(base, 64);
        let sim = Sim::new(SimOptions::new(1, settings.capacity_bytes));
        let endpoint = sim.endpoint("operator");
        let done = sim.block_on(async move {
            let shared = Kvs::<SimEndpoint>::format(&endpoint, settings).await.unwrap();
            let mut client = Kvs::<SimEndpoint>::join(&shared, endpoint).await.unwrap();
            let layout = shared.pool.layout.clone();
            client.reserve_object().await.unwrap();
            // Somebody died.
            let mut batch = Batch::new();
            batch.fetch_and_add(layout.deaths(), 1);
            client.core.endpoint.post(&mut batch).await.unwrap();
            assert!(client.core.recount().await.unwrap());
            assert_eq!(read_word(&client.core.endpoint, layout.resident_objects()).await.unwrap(), 1);
            client.core.release_reservation();
            client.leave().await.unwrap();
        });
        done.unwrap();
    }
}
