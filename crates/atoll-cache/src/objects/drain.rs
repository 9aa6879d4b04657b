//! How a whole chunk is emptied, without moving anything: to be cut for another class, or to hold a large value.
//!
//! | step | verbs |
//! |---|---|
//! | own the chunk | CAS Queued -> Leaving |
//! | say so | FAA drains: clients that see it give up blocks of such chunks that they hold |
//! | take it from its shelf | READ the class's shelves; CAS -> 0 |
//! | look at every block | READ the chunk; READ the bucket that its record tells |
//! | unname it | CAS the slot -> empty: an object there is evicted |
//! | wait for hands | READ all cells: none names a block of the chunk; if a block was torn, READ the chunk again |
//! | look again | READ the buckets, the cells, the chunk: the same records, and nothing names them |
//! | with extensions, or when tags begin anew: rest | READ signals until every other client has had a round |
//! | make its records void | WRITE zeros, and the tag to go on from |
//! | use it | CAS Leaving -> Open or Free |
//!
//! Why so often: a client tells in a cell that it takes a block before it does, and until a slot names the block or it has given it up. Somebody may have written
//! the record that is seen before the first look and name it after that, and be seen no more in the cells: then a slot names the block at the second look, or
//! somebody has taken it since, who has not written a new record, so that a cell names it. Nobody can pass both looks with one record.
//!
//! A block READ while its record is written is torn: nobody knows where it is named. Then the block is READ between the looks at the cells, too. Whoever wrote at the first
//! READ told of it in a cell, and if no cell did afterwards, all of its record is there at the second; what is torn then is the next one, of which a cell tells, or
//! else it is whole at the third. So bytes that are torn and the same three times are nobody's.
//!
//! A chunk whose blocks are in the hands of a client that does nothing waits; its drainer goes on to others. Nothing goes back to Queued, because somebody may have
//! given a block up.

use super::block::Lying;
use super::class::Class;
use super::layout::{BUCKET_SLOTS, CELLS, SLOTS_BYTES};
use super::slab::FreshChunk;
use super::slot::{Block, Slot};
use super::stock::Cell;
use super::{Core, Hole};
use crate::CacheError;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::registry::Grace;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks, read_word};

/// A chunk that this client empties.
#[derive(Debug)]
pub(super) struct Emptied {
    pub(super) chunk: ChunkId,
    /// Its state: Open until others have been told, then Leaving.
    owned: Chunk,
    is_told: bool,
    /// The rest of a chunk that must wait for operations under way, and the tag to go on from then.
    grace: Option<(Grace, u16)>,
}

impl Emptied {
    /// Begins with a chunk that this client owns.
    pub(super) fn begun(chunk: ChunkId, owned: Chunk) -> Self {
        Self { chunk, owned, is_told: false, grace: None }
    }
}

/// The blocks of a chunk, as they lie there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) class: Option<Class>,
    pub(super) lying: Vec<Lying>,
    /// The highest tag that any of them has, or the chunk began with.
    pub(super) tag: u16,
}

impl Blocks {
    /// Whether the bucket is not known in which one of them may be named.
    pub(super) fn has_torn(&self) -> bool {
        self.lying.iter().any(|lying| lying.is_torn())
    }
}

/// Buckets READ in one batch.
const BUCKETS_AT_ONCE: usize = 16;
/// Looks at a chunk in one go.
const LOOKS: u32 = 4;

impl<E: Endpoint> Core<E> {
    /// Whether a block's chunk is being emptied.
    pub(super) async fn is_leaving(&mut self, block: Block) -> Result<bool, CacheError> {
        let Some((_, chunk)) = self.block_span(block) else { return Ok(true) };
        let word = read_word(&self.endpoint, self.shared.pool.layout.descriptor(chunk)).await?;
        Ok(Chunk::from_word(word).is_some_and(|chunk| chunk.state == ChunkState::Leaving))
    }

    /// Gives blocks up whose chunks others have begun to empty since this client last looked.
    pub(super) async fn look_for_drains(&mut self) -> Result<(), CacheError> {
        let drains = read_word(&self.endpoint, self.shared.layout.drains()).await?;
        if drains != self.drains_seen {
            self.give_up_drained().await?;
            self.drains_seen = drains;
        }
        Ok(())
    }

    /// Begins to empty a chunk that is in use; whether this client does now.
    pub(super) async fn begin_draining(&mut self, chunk: ChunkId) -> Result<bool, CacheError> {
        let layout = self.shared.pool.layout.clone();
        let word = read_word(&self.endpoint, layout.descriptor(chunk)).await?;
        let Some(found) = Chunk::from_word(word).filter(|chunk| chunk.state == ChunkState::Queued) else {
            return Ok(false);
        };
        let leaving = Chunk::owned(ChunkState::Leaving, self.me(), found.generation);
        if !chunks::transition(&self.endpoint, &layout, chunk, word, leaving).await? {
            return Ok(false);
        }
        self.stats.groups_cleaned += 1;
        self.waiting.push(Emptied::begun(chunk, leaving));
        self.recheck_waiting(false).await?;
        Ok(true)
    }

    /// Goes on with the chunks that this client empties. Those that are empty become fresh chunks, or free ones.
    pub(super) async fn recheck_waiting(&mut self, freed: bool) -> Result<(), CacheError> {
        for mut emptied in std::mem::take(&mut self.waiting) {
            let Some(tag) = self.go_on(&mut emptied).await? else {
                self.waiting.push(emptied);
                continue;
            };
            let layout = self.shared.pool.layout.clone();
            let tag_at = layout.descriptor(emptied.chunk).add(24);
            let mut void = std::mem::take(&mut self.scratch);
            void.resize(layout.chunk_bytes as usize);
            void.words_mut().fill(0);
            let mut batch = Batch::new();
            batch.write_word(tag_at, tag.into());
            let voided = batch.write(layout.chunk(emptied.chunk), void);
            self.endpoint.post(&mut batch).await?;
            self.scratch = batch.take(voided);
            self.searches_left_out = 0;
            if freed {
                chunks::free(&self.endpoint, &layout, emptied.chunk, emptied.owned).await?;
                continue;
            }
            let generation = emptied.owned.generation.wrapping_add(1);
            let open = Chunk { state: ChunkState::Open, generation, ..emptied.owned };
            if chunks::transition(&self.endpoint, &layout, emptied.chunk, emptied.owned.word(), open).await? {
                self.chunks.push(FreshChunk { chunk: emptied.chunk, generation });
            }
        }
        Ok(())
    }

    /// Goes on with one chunk; once it is empty, the tag that its next life goes on from.
    async fn go_on(&mut self, emptied: &mut Emptied) -> Result<Option<u16>, CacheError> {
        let layout = self.shared.pool.layout.clone();
        if let Some((grace, tag)) = &mut emptied.grace {
            let is_over = grace.is_over(&self.endpoint, &self.shared.pool).await?;
            return Ok(is_over.then_some(*tag));
        }
        if emptied.owned.state == ChunkState::Open {
            let leaving = Chunk { state: ChunkState::Leaving, ..emptied.owned };
            chunks::transition(&self.endpoint, &layout, emptied.chunk, emptied.owned.word(), leaving).await?;
            emptied.owned = leaving;
        }
        if !std::mem::replace(&mut emptied.is_told, true) {
            let mut batch = Batch::new();
            batch.fetch_and_add(self.shared.layout.drains(), 1);
            self.endpoint.post(&mut batch).await?;
        }
        self.give_up_own(emptied.chunk);
        for _ in 0..LOOKS {
            let blocks = self.blocks(emptied.chunk).await?;
            if let Some(class) = blocks.class.filter(|_| !self.is_open(Hole::KeptShelf)) {
                self.unshelve(emptied.chunk, class).await?;
            }
            let unnamed = self.unname(emptied.chunk, &blocks).await?;
            if self.is_open(Hole::EarlyReuse) {
                return Ok(Some(blocks.tag));
            }
            self.tell_cells().await?;
            if self.is_in_hands(emptied.chunk).await? {
                return Ok(None);
            }
            if unnamed > 0 || blocks.has_torn() && self.blocks(emptied.chunk).await? != blocks {
                continue;
            }
            if self.unname(emptied.chunk, &blocks).await? > 0 {
                continue;
            }
            if self.is_in_hands(emptied.chunk).await? {
                return Ok(None);
            }
            let again = self.blocks(emptied.chunk).await?;
            if again != blocks {
                continue;
            }
            // What was torn may have had any tag.
            let begins_anew = again.tag > self.shared.settings.tag_mask / 2 || again.has_torn();
            if !begins_anew && (self.extension_bytes() == 0 || self.is_open(Hole::StrayExtension)) {
                return Ok(Some(again.tag));
            }
            // Where its tags begin anew, nobody may remember those of before; and a WRITE of an extension that nobody waits for must have landed.
            self.endpoint.flush().await?;
            let grace = Grace::begin(&self.endpoint, &self.shared.pool, self.me()).await?;
            emptied.grace = Some((grace, if begins_anew { 0 } else { again.tag }));
            return Ok(None);
        }
        Ok(None)
    }

    /// Forgets blocks of this client's own stock that are of the chunk.
    fn give_up_own(&mut self, chunk: ChunkId) {
        let chunk_bytes = self.shared.pool.layout.chunk_bytes;
        let is_in = |block: Block| block.heap_offset() / chunk_bytes == u64::from(chunk.0);
        for held in self.stock.take_out(is_in) {
            self.let_go(held);
        }
    }

    /// READs a chunk's blocks.
    pub(super) async fn blocks(&mut self, chunk: ChunkId) -> Result<Blocks, CacheError> {
        let layout = self.shared.pool.layout.clone();
        let descriptor = chunks::descriptors(&self.endpoint, &layout, chunk, 1).await?[0];
        let class = u8::try_from(descriptor.contents).ok().and_then(Class::from_code);
        let mut blocks = Blocks { class, lying: Vec::new(), tag: descriptor.engine as u16 };
        let Some(class) = class else { return Ok(blocks) };
        let mut buffer = std::mem::take(&mut self.scratch);
        buffer.resize(layout.chunk_bytes as usize);
        let mut buffer = self.endpoint.read(layout.chunk(chunk), buffer).await?;
        for index in 0..class.blocks(layout.chunk_bytes) {
            let bytes = class.bytes() as usize;
            let lying = self.lying(&mut buffer, index as usize * bytes, bytes);
            blocks.tag = blocks.tag.max(lying.tag().unwrap_or(0));
            blocks.lying.push(lying);
        }
        self.scratch = buffer;
        Ok(blocks)
    }

    /// The slots that name a block of the chunk, in the buckets that the blocks' records tell.
    pub(super) async fn named(&mut self, chunk: ChunkId, blocks: &Blocks) -> Result<Vec<(u64, Slot)>, CacheError> {
        let mut named = Vec::new();
        let Some(class) = blocks.class else { return Ok(named) };
        let lying = blocks.lying.iter().enumerate();
        let lying: Vec<(Block, u32)> =
            lying.filter_map(|(index, lying)| Some((self.block_of(chunk, class, index), lying.bucket()?))).collect();
        for some in lying.chunks(BUCKETS_AT_ONCE) {
            let mut batch = Batch::new();
            for (_, bucket) in some {
                let mut buffer = Buffer::new();
                buffer.resize(SLOTS_BYTES as usize);
                batch.read(self.shared.layout.bucket(*bucket), buffer);
            }
            self.endpoint.post(&mut batch).await?;
            for (index, (block, bucket)) in some.iter().enumerate() {
                let slots = batch.take_nth(index);
                let words = slots.words().iter().map(|word| Slot(*word)).enumerate();
                let first = u64::from(*bucket) * BUCKET_SLOTS as u64;
                let naming = words.filter(|(_, word)| word.names(*block));
                named.extend(naming.map(|(place, word)| (first + place as u64, word)));
            }
        }
        Ok(named)
    }

    /// Makes every slot empty that names a block of the chunk; how many there were.
    async fn unname(&mut self, chunk: ChunkId, blocks: &Blocks) -> Result<u64, CacheError> {
        let named = self.named(chunk, blocks).await?;
        for (slot, word) in &named {
            let extents = if word.is_live() { self.extents_of(*slot, *word).await? } else { Some(None) };
            let Some(extents) = extents else { continue };
            if !self.swap_slot(*slot, *word, Slot::EMPTY).await? || !word.is_live() {
                continue;
            }
            self.stats.evictions += 1;
            self.count_removed(1).await?;
            if let Some(extents) = extents {
                self.free_extents(&extents).await?;
            }
        }
        Ok(named.len() as u64)
    }

    /// Whether somebody's cell names a block of the chunk.
    async fn is_in_hands(&mut self, chunk: ChunkId) -> Result<bool, CacheError> {
        let chunk_bytes = self.shared.pool.layout.chunk_bytes;
        let cells = self.all_cells().await?;
        let is_in = |cell: Cell| cell.block.heap_offset() / chunk_bytes == u64::from(chunk.0);
        Ok(cells.iter().any(|word| Cell::from_word(*word).is_some_and(is_in)))
    }

    /// The cells of all clients that ever were.
    pub(super) async fn all_cells(&mut self) -> Result<Vec<u64>, CacheError> {
        let ever = read_word(&self.endpoint, self.shared.pool.layout.members_ever()).await?;
        let clients = ever.min(self.shared.pool.settings.clients_max.into()) as u32;
        let mut words = Vec::with_capacity(clients as usize * CELLS);
        for first in (0..clients).step_by(64) {
            let count = (clients - first).min(64) as usize;
            let mut buffer = Buffer::new();
            buffer.resize(8 * CELLS * count);
            let buffer = self.endpoint.read(self.shared.layout.cells(first), buffer).await?;
            words.extend_from_slice(buffer.words());
        }
        Ok(words)
    }
}
