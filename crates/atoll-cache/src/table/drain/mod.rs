//! How a whole chunk is emptied: to cut it for another class, to hold a large value, or to take it
//! out of use.
//!
//! | step | verbs |
//! |---|---|
//! | own the chunk | CAS Queued -> Leaving |
//! | announce the drain | FAA drains: clients that see it give up blocks of such chunks that they hold |
//! | take it from its shelf | READ the class's shelves; CAS -> 0 |
//! | look at every block | READ the chunk; READ the buckets that its records name |
//! | unname the blocks | CAS the slots -> empty, in one batch: the objects there are evicted; or they are moved before, see `gather` |
//! | wait for holders | READ all cells: none names a block of the chunk |
//! | if slots named not all of its blocks: look again | READ the other blocks' buckets, the cells, the chunk: the same records, and nothing names them; if a block was torn, READ the chunk before that, too |
//! | with extensions, or when tags start over: rest | READ signals until every other client has had a round |
//! | make its records void | WRITE zeros, and the tag to continue from |
//! | use it | CAS Leaving -> Open or Free |
//!
//! A client that empties several chunks takes each step for all of them. So it READs the cells once
//! or twice for all together.
//!
//! **Why no block that is in use is voided.** A client names a block in its cell before it takes
//! the block. It keeps the name there until a slot names the block, or until it gives the block up.
//!
//! | block | owner |
//! |---|---|
//! | a live or a dead slot names it | the drainer, once its own CAS has unnamed it |
//! | a pending slot names it | the inserter |
//! | no slot names it | unknown: hence the second look |
//!
//! The second look is for a block that no slot named. Its owner may have written the record before
//! the first look, and may publish the slot later and clear its cell. Then a slot names the block
//! at the second look. Or another client has taken the block again and has not written its record
//! yet. Then a cell names it. So no block passes both looks with one record while a client has it.
//! No two records are the same: each has a token of its own, even a dead one.
//!
//! **Torn blocks.** A block that is READ while its record is written is torn: it does not show
//! which slot would name it. So the drainer READs the block once more between the two looks at the
//! cells. A cell named the block while the record was written. If no cell names it afterwards, the
//! second READ sees that whole record. A second READ that is torn too met the next record. Then
//! either a cell names that record's block, or the third READ sees it whole. So no client has a
//! block whose bytes are torn and the same in three READs.
//!
//! A chunk waits while an idle client holds blocks of it. Its drainer continues with other chunks.
//! No chunk returns to Queued, because a client may have given a block of it up.
//!
//! | module | concept |
//! |---|---|
//! | `emptied` | the chunks that a client empties, and the stage of each |
//! | `blocks` | the blocks of a chunk, and the slots that name them |
//! | `unname` | the step after which no slot names a block of the chunk |

mod blocks;
mod emptied;
mod unname;

pub(super) use blocks::{Blocks, Naming};
pub(super) use emptied::{DRAINS_MAX, DrainLook, Drains, Emptied, Keeps};

use super::operation::Operation;
use super::slot::Block;
use super::{Core, Hole};
use crate::CacheError;
use crate::backoff::Backoff;
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::registry::Grace;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks, read_word};
use emptied::Stage;
use unname::Unnamed;

/// Looks at a chunk in one go.
const LOOKS: u32 = 4;
/// Attempts without room after which objects are evicted instead of moved.
const ATTEMPTS_FOR_ROOM: u32 = 8;
impl<E: Endpoint> Core<E> {
    /// Whether a block's chunk is being emptied.
    pub(super) async fn is_leaving(&self, block: Block) -> Result<bool, CacheError> {
        let Some((_, chunk)) = self.block_span(block) else { return Ok(true) };
        let word = read_word(&self.client.endpoint, self.client.pool.layout.descriptor(chunk)).await?;
        Ok(Chunk::from_word(word).is_some_and(|chunk| chunk.state == ChunkState::Leaving))
    }

    /// Gives up blocks whose chunks other clients have begun to empty since this client last
    /// looked.
    pub(super) async fn look_for_drains(&self) -> Result<(), CacheError> {
        let drains = read_word(&self.client.endpoint, self.shared.layout.drains()).await?;
        if drains != self.drains.seen.get() {
            self.give_up_drained().await?;
            self.drains.seen.set(drains);
        }
        Ok(())
    }

    /// Makes this client the drainer of a chunk in use; returns whether it is.
    pub(super) async fn claim_chunk(&self, chunk: ChunkId, keeps: Keeps) -> Result<bool, CacheError> {
        let layout = self.client.pool.layout.clone();
        let word = read_word(&self.client.endpoint, layout.descriptor(chunk)).await?;
        let Some(found) = Chunk::from_word(word).filter(|chunk| chunk.state == ChunkState::Queued) else {
            return Ok(false);
        };
        let leaving = Chunk::owned(ChunkState::Leaving, self.client.me(), found.generation);
        if !chunks::transition(&self.client.endpoint, &layout, chunk, word, leaving).await? {
            return Ok(false);
        }
        self.stats.groups_cleaned.add(1);
        self.drains.push(Emptied::begun(chunk, leaving, keeps));
        Ok(true)
    }

    /// Whether this client may claim another chunk. It may not if as many as it empties at a time
    /// rest: one more would rest as long.
    pub(super) fn may_claim_chunk(&self) -> bool {
        self.drains.resting() < DRAINS_MAX && self.drains.len() < DRAINS_MAX + self.drains.more.get()
    }

    /// Chunks that this client empties and that may be free soon. Chunks that wait for an idle
    /// client do not count.
    pub(super) fn chunks_on_their_way(&self) -> usize {
        self.drains.under_way.borrow().iter().filter(|emptied| !emptied.is_stuck()).count()
    }

    /// Begins to empty a chunk in use, where the index has no slot left; returns whether this
    /// client does now. Its objects are evicted: moved objects would need as many slots as before.
    pub(super) async fn begin_draining(&self, chunk: ChunkId) -> Result<bool, CacheError> {
        let is_claimed = self.claim_chunk(chunk, Keeps::Nothing).await?;
        if is_claimed {
            self.recheck_waiting(DrainLook::ForRoom).await?;
        }
        Ok(is_claimed)
    }

    /// Continues with the chunks that this client empties, as far as `look` includes them. Empty
    /// chunks become fresh or free.
    pub(super) async fn recheck_waiting(&self, look: DrainLook) -> Result<(), CacheError> {
        // A writer that waits for chunks looks each time.
        let is_wanted = look == DrainLook::All || self.drains.more.get() > 0;
        let is_due = |emptied: &mut Emptied| is_wanted || emptied.backoff.is_due();
        let due: Vec<Emptied> = self.drains.under_way.borrow_mut().extract_if(.., is_due).collect();
        if due.is_empty() {
            return Ok(());
        }
        // A function of its own, so that a writer that waits for nothing is not slowed.
        Box::pin(self.recheck_due(due, look)).await
    }

    async fn recheck_due(&self, mut due: Vec<Emptied>, look: DrainLook) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        let gone_on = self.go_on(op, &mut due).await;
        self.drains.under_way.borrow_mut().append(&mut due);
        gone_on?;
        let is_empty = |emptied: &Emptied| matches!(emptied.stage, Stage::Empty(_));
        loop {
            let empty = self.drains.under_way.borrow_mut().extract_if(.., |emptied| is_empty(emptied)).next();
            let Some(Emptied { chunk, owned, stage, .. }) = empty else { break };
            if let Stage::Empty(tag) = stage {
                self.reuse(chunk, owned, tag, look != DrainLook::ForRoom).await?;
            }
        }
        Ok(())
    }

    /// Makes a chunk without blocks a fresh one, or a free one.
    async fn reuse(&self, chunk: ChunkId, owned: Chunk, tag: u16, freed: bool) -> Result<(), CacheError> {
        assert_eq!(owned.state, ChunkState::Leaving, "a chunk is reused by the client that emptied it");
        let layout = self.client.pool.layout.clone();
        self.clear_dead(chunk).await?;
        let mut void = self.spares.take(layout.chunk_bytes as usize);
        void.words_mut().fill(0);
        let (tag_at, blocks_at) = (layout.note(chunk), layout.chunk(chunk));
        let mut batch = Batch::new();
        batch.write_word(tag_at, tag.into());
        if !self.is_in_order(tag_at, blocks_at) {
            // Once the records are void, only this word has the tag to continue from.
            self.client.endpoint.post(&mut batch).await?;
            batch.clear();
        }
        let voided = batch.write(blocks_at, void);
        self.client.endpoint.post(&mut batch).await?;
        self.spares.keep(batch.take(voided));
        self.fresh.note_search(true);
        if freed || self.client.is_chunk_absent(chunk) {
            return Ok(self.client.free_own(chunk, owned).await?);
        }
        let generation = owned.generation.wrapping_add(1);
        let open = Chunk { state: ChunkState::Open, generation, ..owned };
        if chunks::transition(&self.client.endpoint, &layout, chunk, owned.word(), open).await? {
            self.fresh.chunks.push((chunk, generation));
        } else {
            self.client.check_membership().await?;
        }
        Ok(())
    }

    /// Continues with these chunks until they are empty, or rest, or wait for clients that hold
    /// blocks of them.
    async fn go_on(&self, op: &mut Operation, waiting: &mut [Emptied]) -> Result<(), CacheError> {
        let layout = self.client.pool.layout.clone();
        let (mut tells, mut rested) = (false, Vec::new());
        for emptied in &mut *waiting {
            if let Stage::Resting(grace, _) = &mut emptied.stage {
                if grace.is_over(&self.client.observer()).await? {
                    rested.push(emptied.chunk);
                }
                continue;
            }
            if emptied.owned.state == ChunkState::Open {
                let leaving = Chunk { state: ChunkState::Leaving, ..emptied.owned };
                if !chunks::transition(&self.client.endpoint, &layout, emptied.chunk, emptied.owned.word(), leaving)
                    .await?
                {
                    self.client.check_membership().await?;
                }
                emptied.owned = leaving;
            }
            // Look again now and then: a client may have taken a block since the last look.
            tells |= emptied.attempts == 0 || emptied.attempts.is_power_of_two();
            emptied.attempts = emptied.attempts.saturating_add(1);
        }
        if !rested.is_empty() {
            self.end_rest(waiting, &rested).await?;
        }
        if tells {
            let mut batch = Batch::new();
            batch.fetch_and_add(self.shared.layout.drains(), 1);
            self.client.endpoint.post(&mut batch).await?;
        }
        let in_use = waiting.iter_mut().filter(|emptied| matches!(emptied.stage, Stage::InUse));
        let mut restless: Vec<&mut Emptied> = in_use.collect();
        for emptied in &restless {
            self.give_up_own(emptied.chunk);
        }
        if restless.iter().any(|emptied| emptied.attempts > 1) {
            // A chunk is not looked at again while a client still holds a block of it.
            self.publish_cells().await?;
            let in_hands = self.chunks_in_hands().await?;
            restless.retain(|emptied| emptied.attempts <= 1 || !in_hands.contains(&emptied.chunk));
        }
        for _ in 0..LOOKS {
            if restless.is_empty() {
                break;
            }
            restless = self.look_twice(op, restless).await?;
        }
        Ok(())
    }

    /// Makes the chunks empty that have rested. A client that died meanwhile may have a cell that
    /// names a block whose tags start over. A repairer settles that cell first.
    async fn end_rest(&self, waiting: &mut [Emptied], rested: &[ChunkId]) -> Result<(), CacheError> {
        let in_hands = self.chunks_in_hands().await?;
        for emptied in waiting {
            if let Stage::Resting(_, tag) = emptied.stage
                && rested.contains(&emptied.chunk)
                && !in_hands.contains(&emptied.chunk)
            {
                emptied.stage = Stage::Empty(tag);
            }
        }
        Ok(())
    }

    /// Unnames all blocks of these chunks and looks twice whether any client has one. Returns the
    /// chunks in which something changed meanwhile.
    async fn look_twice<'e>(
        &self,
        op: &mut Operation,
        chunks: Vec<&'e mut Emptied>,
    ) -> Result<Vec<&'e mut Emptied>, CacheError> {
        let (mut quiet, mut restless) = (Vec::with_capacity(chunks.len()), Vec::new());
        for emptied in chunks {
            let (blocks, contents) = self.read_blocks(emptied.chunk).await?;
            let mut contents = Some(contents).filter(|_| emptied.keeps == Keeps::Objects);
            if let Some(class) = blocks.class.filter(|_| !self.is_open(Hole::KeptShelf)) {
                self.unshelve(emptied.chunk, class).await?;
            }
            let waits = emptied.crowded < ATTEMPTS_FOR_ROOM && self.is_sparse();
            let unnamed = self.unname(op, emptied.chunk, &blocks, contents.as_mut(), waits).await?;
            contents.into_iter().for_each(|contents| self.spares.keep(contents));
            if self.is_open(Hole::EarlyReuse) {
                emptied.stage = Stage::Empty(blocks.tag);
                continue;
            }
            match unnamed {
                Unnamed::All(others) => quiet.push((emptied, blocks, others)),
                Unnamed::Changed => restless.push(emptied),
                // Room may appear at any time, even if no client gives a block up.
                Unnamed::Crowded => {
                    emptied.crowded += 1;
                    emptied.backoff = Backoff::default();
                }
            }
        }
        if quiet.is_empty() {
            return Ok(restless);
        }
        self.publish_cells().await?;
        let in_hands = self.chunks_in_hands().await?;
        quiet.retain(|(emptied, ..)| !in_hands.contains(&emptied.chunk));
        let (mut empty, mut unnamed) = (Vec::with_capacity(quiet.len()), Vec::new());
        for (emptied, blocks, others) in quiet {
            if others.is_empty() {
                empty.push((emptied, blocks));
                continue;
            }
            let is_restless = blocks.has_torn() && self.blocks(emptied.chunk).await? != blocks
                || !self.named(emptied.chunk, &blocks, &others).await?.is_empty();
            if is_restless { restless.push(emptied) } else { unnamed.push((emptied, blocks)) }
        }
        if !unnamed.is_empty() {
            let in_hands = self.chunks_in_hands().await?;
            unnamed.retain(|(emptied, _)| !in_hands.contains(&emptied.chunk));
        }
        for (emptied, blocks) in unnamed {
            let is_same = self.blocks(emptied.chunk).await? == blocks;
            if is_same { empty.push((emptied, blocks)) } else { restless.push(emptied) }
        }
        for (emptied, blocks) in empty {
            // A torn block may have had any tag.
            let begins_anew = blocks.tag > self.shared.settings.tag_mask / 2 || blocks.has_torn();
            let rests = begins_anew || self.extension_bytes() > 0 && !self.is_open(Hole::StrayExtension);
            emptied.stage = if rests {
                // If its tags start over, no operation may remember the former tags. Unawaited
                // WRITEs of extensions must have landed.
                self.client.endpoint.flush().await?;
                let grace = Grace::begin(&self.client.observer()).await?;
                Stage::Resting(grace, if begins_anew { 0 } else { blocks.tag })
            } else {
                Stage::Empty(blocks.tag)
            };
        }
        Ok(restless)
    }

    /// Forgets blocks of the chunk in this client's own stock.
    fn give_up_own(&self, chunk: ChunkId) {
        let chunk_bytes = self.client.pool.layout.chunk_bytes;
        let is_in = |block: Block| block.heap_offset() / chunk_bytes == u64::from(chunk.0);
        let taken = self.stock.borrow_mut().take_out(is_in);
        for held in taken {
            self.let_go(held);
        }
    }
}
