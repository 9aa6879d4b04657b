//! What orders on the table of objects speak of: a block in a client's hands, the cells that tell
//! of it, and the slots that name it.
//!
//! In most orders client 0, the holder, has allocated a block and written its record, and has
//! swapped no slot yet. Client 1 repairs, client 2 dies, and client 3 is the director.

use super::script::{Command, Director, pool_of, state_of};
use atoll_cache::table::cell::{Cell, CellState};
use atoll_cache::table::layout::{BUCKET_BYTES, BUCKET_SLOTS, CELLS};
use atoll_cache::table::slot::{Block, Slot};
use atoll_cache::table::{Hole, TablePool};
use atoll_cache::{CacheError, Pooled};
use atoll_cases::endpoint::CaseEndpoint;
use atoll_cases::{Case, Client, KvsSubject, Stop, Stops, Subject};
use atoll_fabric::batch::Operation;
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState, read_word, registry};
use std::ops::Range;
use std::rc::Rc;

/// An engine on the table of objects.
pub(crate) trait OnTable: Subject<Hole = Hole, Engine: Pooled<CaseEndpoint, Shared = TablePool>> {}

impl<S: Subject<Hole = Hole, Engine: Pooled<CaseEndpoint, Shared = TablePool>>> OnTable for S {}

/// The client that has a block in its hands.
pub(crate) const HOLDER: usize = 0;
/// The client that repairs, or empties the block's chunk.
pub(crate) const REPAIRER: usize = 1;
/// The client that dies.
pub(crate) const DEAD: usize = 2;

/// A pool of so few chunks that blocks are taken from victims.
pub(crate) fn tight() -> Case<KvsSubject> {
    Case { clients: 4, chunks: 12, slots: 128, rejoins: 1, ..Case::default() }
}

/// Whether a verb is a READ of a buffer.
pub(crate) fn is_read(operation: &Operation) -> bool {
    matches!(operation, Operation::Read { .. })
}

/// The address of a client's first cell.
pub(crate) fn cells_at<S: OnTable>(client: &Client<S>, slot: usize) -> Address {
    client.cache.engine().shared().layout().cells(slot as u32)
}

/// The cells of a client that say something.
pub(crate) async fn cells<S: OnTable>(client: &Client<S>, slot: usize) -> Result<Vec<Cell>, CacheError> {
    let mut buffer = Buffer::new();
    buffer.resize(8 * CELLS);
    let words = client.endpoint().read(cells_at(client, slot), buffer).await?;
    Ok(words.words().iter().filter_map(|word| Cell::from_word(*word)).collect())
}

/// WRITEs a client's first cell.
pub(crate) async fn write_cell<S: OnTable>(client: &Client<S>, slot: usize, word: u64) -> Result<(), CacheError> {
    let mut batch = Batch::new();
    batch.write_word(cells_at(client, slot), word);
    Ok(client.endpoint().post(&mut batch).await?)
}

/// All slots of the index, each with its address.
pub(crate) async fn slots<S: OnTable>(client: &Client<S>) -> Result<Vec<(Address, Slot)>, CacheError> {
    let shared = client.cache.engine().shared();
    let mut slots = Vec::new();
    for slot in 0..u64::from(shared.settings().buckets) * BUCKET_SLOTS as u64 {
        let at = shared.layout().slot(slot);
        slots.push((at, Slot(read_word(client.endpoint(), at).await?)));
    }
    Ok(slots)
}

/// The live slots that name a block.
pub(crate) async fn naming<S: OnTable>(client: &Client<S>, block: Block) -> Result<Vec<(Address, Slot)>, CacheError> {
    let names = |slot: &Slot| slot.is_live() && slot.names(block);
    Ok(slots(client).await?.into_iter().filter(|(_, slot)| names(slot)).collect())
}

/// The first live block in a queued chunk for which this holds.
pub(crate) async fn live_block<S: OnTable>(
    client: &Client<S>,
    is_wanted: impl Fn(Block) -> bool,
) -> Result<Option<Block>, CacheError> {
    for (_, slot) in slots(client).await? {
        let is_live = slot.is_live() && is_wanted(slot.block());
        if is_live && state_of(client, chunk_of(client, slot.block())).await?.state == ChunkState::Queued {
            return Ok(Some(slot.block()));
        }
    }
    Ok(None)
}

/// Takes a block from its slot, as a client does: WRITEs a cell, then swaps the slot.
pub(crate) async fn take<S: OnTable>(
    client: &Client<S>,
    slot: usize,
    block: Block,
    state: CellState,
) -> Result<(), CacheError> {
    if let Some((at, word)) = naming(client, block).await?.first() {
        write_cell(client, slot, Cell::told(state, word.tag(), block).word()).await?;
        let mut batch = Batch::new();
        batch.compare_and_swap(*at, word.0, Slot::EMPTY.0);
        client.endpoint().post(&mut batch).await?;
    }
    Ok(())
}

/// The chunk of a block.
pub(crate) fn chunk_of<S: OnTable>(client: &Client<S>, block: Block) -> ChunkId {
    ChunkId((block.heap_offset() / pool_of(client).layout.chunk_bytes) as u32)
}

/// The address of a block.
pub(crate) fn address_of<S: OnTable>(client: &Client<S>, block: Block) -> Address {
    let layout = &pool_of(client).layout;
    layout.chunk(chunk_of(client, block)).add(block.heap_offset() % layout.chunk_bytes)
}

/// Where the index is, in the home's region.
pub(crate) fn index_of<S: OnTable>(client: &Client<S>) -> Range<u64> {
    let shared = client.cache.engine().shared();
    let first = shared.layout().bucket(0).offset();
    first..first + u64::from(shared.settings().buckets) * BUCKET_BYTES
}

/// A block that a stop finds.
pub(crate) type Found = Rc<std::cell::Cell<Block>>;

/// In front of the swap that makes a slot name a block, live or pending; and that block.
pub(crate) fn before_publishing<S: OnTable>(client: &Client<S>, stops: &Stops) -> (Rc<Stop>, Found) {
    let (index, block) = (index_of(client), Rc::new(std::cell::Cell::new(Block(0))));
    let named = block.clone();
    let stop = stops.before(move |verb| {
        let Operation::CompareAndSwap { desired, .. } = verb.operation else { return false };
        let word = Slot(desired);
        let publishes = index.contains(&verb.at.offset()) && (word.is_live() || word.is_pending());
        if publishes {
            named.set(word.block());
        }
        publishes
    });
    (stop, block)
}

/// In front of a READ of more cells than one client has.
pub(crate) fn before_all_cells<S: OnTable>(client: &Client<S>, stops: &Stops) -> Rc<Stop> {
    let first = cells_at(client, 0);
    let is_there = move |operation: &Operation| matches!(operation, Operation::Read { into } if into.len() > 8 * CELLS);
    stops.before(move |verb| verb.at == first && is_there(&verb.operation))
}

/// The repairer begins to repair, and stops before its first look at all cells.
pub(crate) async fn look_at_cells<S: OnTable>(director: &Director<S>) -> Rc<Stop> {
    let looks = before_all_cells(director, &director.stops(REPAIRER));
    director.begin(REPAIRER, Command::Repair);
    director.reached(&looks).await;
    looks
}

/// The repairer continues with a chunk that client 2 owned. It stops before its first look at the
/// cells after it has READ the blocks.
pub(crate) async fn look_at_chunk<S: OnTable>(director: &Director<S>, chunk: ChunkId) -> Rc<Stop> {
    let at = pool_of(director).layout.chunk(chunk);
    let reads = director.stops(REPAIRER).before(move |verb| verb.at == at && is_read(&verb.operation));
    director.begin(REPAIRER, Command::Repair);
    director.reached(&reads).await;
    let looks = before_all_cells(director, &director.stops(REPAIRER));
    reads.release();
    director.reached(&looks).await;
    looks
}

/// The repairer goes on from one look at the cells to the next.
pub(crate) async fn look_again<S: OnTable>(director: &Director<S>, first: &Stop) -> Rc<Stop> {
    let second = before_all_cells(director, &director.stops(REPAIRER));
    first.release();
    director.stops_at(&second, REPAIRER).await;
    second
}

/// The holder sets keys until it stops where `arm` says, with a block that it took from a slot and
/// that is wanted. Gives the block and the stop.
pub(crate) async fn stop_with_a_block<S: OnTable>(
    director: &Director<S>,
    arm: impl Fn(&Stops) -> (Rc<Stop>, Found),
    is_wanted: impl AsyncFn(Block) -> Result<bool, CacheError>,
) -> Result<Option<(Block, Rc<Stop>)>, CacheError> {
    for key in 0..1000 {
        let (stop, block) = arm(&director.stops(HOLDER));
        director.begin(HOLDER, Command::Set(format!("h{key}"), 60));
        if director.stops_at(&stop, HOLDER).await {
            let has_told = |cell: &Cell| cell.state == CellState::Won && cell.block == block.get();
            if cells(director, HOLDER).await?.iter().any(has_told) && is_wanted(block.get()).await? {
                return Ok(Some((block.get(), stop)));
            }
        }
        director.finish(&stop, HOLDER).await;
    }
    Ok(None)
}

/// The holder sets keys until it is about to publish a block that it took from a slot, and that is
/// wanted.
pub(crate) async fn take_block<S: OnTable>(
    director: &Director<S>,
    is_wanted: impl Fn(Block) -> bool,
) -> Result<Option<(Block, Rc<Stop>)>, CacheError> {
    let arm = |stops: &Stops| before_publishing(director, stops);
    stop_with_a_block(director, arm, async |block| Ok(is_wanted(block))).await
}

/// The same for any block.
pub(crate) async fn take_a_block<S: OnTable>(director: &Director<S>) -> Result<(Block, Rc<Stop>), CacheError> {
    Ok(take_block(director, |_| true).await?.expect("no block is ever taken from a slot"))
}

/// The holder publishes its block and makes a round. After that no cell tells of the block.
pub(crate) async fn publish<S: OnTable>(director: &Director<S>, stop: &Stop) {
    director.finish(stop, HOLDER).await;
    director.tell(HOLDER, Command::Tend).await;
}

/// Client 2 dies, and a cell of it tells of a block that a living client has.
pub(crate) async fn die_with_a_cell<S: OnTable>(director: &Director<S>, block: Block) -> Result<(), CacheError> {
    director.kill(DEAD);
    write_cell(director, DEAD, Cell::told(CellState::Won, 0, block).word()).await
}

/// Client 2 becomes the owner of the block's chunk in this state, and dies.
pub(crate) async fn own_and_die<S: OnTable>(
    director: &Director<S>,
    block: Block,
    state: ChunkState,
) -> Result<ChunkId, CacheError> {
    let (chunk, endpoint) = (chunk_of(director, block), director.endpoint());
    let dead = registry::places(endpoint, pool_of(director)).await?[DEAD].incarnation;
    let used = state_of(director, chunk).await?;
    assert_eq!(used.state, ChunkState::Queued);
    let mut batch = Batch::new();
    let owned = Chunk::owned(state, dead, used.generation);
    batch.compare_and_swap(pool_of(director).layout.descriptor(chunk), used.word(), owned.word());
    endpoint.post(&mut batch).await?;
    director.kill(DEAD);
    Ok(chunk)
}
