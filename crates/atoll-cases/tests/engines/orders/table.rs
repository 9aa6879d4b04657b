//! Orders that matter to the table of objects. Client 0 has a block in its hands in all of them,
//! the record written and no slot swapped yet.

use super::script::{Errand, Script, direct, pool_of, state_of, until};
use atoll_cache::table::cell::{Cell, CellState};
use atoll_cache::table::layout::{BUCKET_BYTES, BUCKET_SLOTS, CELLS};
use atoll_cache::table::slot::{Block, Slot};
use atoll_cache::table::{Hole, TablePool};
use atoll_cache::{CacheError, Pooled};
use atoll_cases::client::Hesitant;
use atoll_cases::{Case, Client, Stop, Stops, Stored, Subject};
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState, read_word, registry};
use std::ops::Range;
use std::rc::Rc;

/// An engine on the table of objects.
pub(crate) trait OnTable: Subject<Hole = Hole, Engine: Pooled<Hesitant, Shared = TablePool>> {}

impl<S: Subject<Hole = Hole, Engine: Pooled<Hesitant, Shared = TablePool>>> OnTable for S {}

type Table = Client<Stored>;

/// Who has the block, who settles or empties its chunk, and who is dead. The last is the director.
pub(crate) const HOLDER: usize = 0;
pub(crate) const REPAIRER: usize = 1;
pub(crate) const DEAD: usize = 2;

/// A pool of so few chunks that blocks are taken from victims.
pub(crate) fn tight() -> Case<Stored> {
    Case { clients: 4, chunks: 12, slots: 128, rejoins: 1, ..Case::default() }
}

pub(crate) fn cells_at<S: OnTable>(client: &Client<S>, slot: usize) -> Address {
    client.cache.engine().shared().layout().cells(slot as u32)
}

pub(crate) async fn cells<S: OnTable>(client: &Client<S>, slot: usize) -> Result<Vec<Cell>, CacheError> {
    let mut buffer = Buffer::new();
    buffer.resize(8 * CELLS);
    let words = client.cache.engine().client().endpoint.read(cells_at(client, slot), buffer).await?;
    Ok(words.words().iter().filter_map(|word| Cell::from_word(*word)).collect())
}

pub(crate) async fn write_cell<S: OnTable>(client: &Client<S>, slot: usize, word: u64) -> Result<(), CacheError> {
    let mut batch = Batch::new();
    batch.write_word(cells_at(client, slot), word);
    Ok(client.cache.engine().client().endpoint.post(&mut batch).await?)
}

pub(crate) fn slots<S: OnTable>(client: &Client<S>) -> impl Iterator<Item = Address> + use<S> {
    let shared = client.cache.engine().shared().clone();
    let slots = u64::from(shared.settings().buckets) * BUCKET_SLOTS as u64;
    (0..slots).map(move |slot| shared.layout().slot(slot))
}

/// Where the index is, in the home's region.
fn index_of<S: OnTable>(client: &Client<S>) -> Range<u64> {
    let shared = client.cache.engine().shared();
    let first = shared.layout().bucket(0).offset();
    first..first + u64::from(shared.settings().buckets) * BUCKET_BYTES
}

/// In front of the swap that makes a slot name a block, live or pending, and that block.
pub(crate) fn before_publishing<S: OnTable>(
    client: &Client<S>,
    stops: &Stops,
) -> (Rc<Stop>, Rc<std::cell::Cell<Block>>) {
    let index = index_of(client);
    let block = Rc::new(std::cell::Cell::new(Block(0)));
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

/// In front of a READ of more cells than one client's.
pub(crate) fn before_all_cells<S: OnTable>(client: &Client<S>, stops: &Stops) -> Rc<Stop> {
    let first = cells_at(client, 0);
    let is_there = move |operation: &Operation| matches!(operation, Operation::Read { into } if into.len() > 8 * CELLS);
    stops.before(move |verb| verb.at == first && is_there(&verb.operation))
}

/// The repairer goes on with a chunk that client 2 owned, up to its first look at the cells after
/// it has READ the blocks.
pub(crate) async fn look_at_chunk<S: OnTable>(script: &Script, director: &Client<S>, chunk: ChunkId) -> Rc<Stop> {
    let (at, endpoint) = (pool_of(director).layout.chunk(chunk), &director.cache.engine().client().endpoint);
    let is_read = |operation: &Operation| matches!(operation, Operation::Read { .. });
    let reads = script.stops(REPAIRER).before(move |verb| verb.at == at && is_read(&verb.operation));
    script.begin(REPAIRER, Errand::Repair);
    reads.reached(endpoint).await;
    let looks = before_all_cells(director, &script.stops(REPAIRER));
    reads.release();
    looks.reached(endpoint).await;
    looks
}

/// The holder sets keys until it is about to publish a block that it took from a slot: the block,
/// and where it stands.
pub(crate) async fn take_a_block<S: OnTable>(
    script: &Script,
    director: &Client<S>,
) -> Result<(Block, Rc<Stop>), CacheError> {
    Ok(take_block(script, director, |_| true).await?.expect("no block is ever taken from a slot"))
}

/// The same for a block like that, if the holder ever takes one.
async fn take_block<S: OnTable>(
    script: &Script,
    director: &Client<S>,
    is_wanted: impl Fn(Block) -> bool,
) -> Result<Option<(Block, Rc<Stop>)>, CacheError> {
    for key in 0..1000 {
        let (stop, block) = before_publishing(director, &script.stops(HOLDER));
        script.begin(HOLDER, Errand::Set(format!("h{key}"), 60));
        stop.reached(&director.cache.engine().client().endpoint).await;
        let has_told = |cell: &Cell| cell.state == CellState::Won && cell.block == block.get();
        if is_wanted(block.get()) && cells(director, HOLDER).await?.iter().any(has_told) {
            return Ok(Some((block.get(), stop)));
        }
        stop.release();
        script.ended(HOLDER, director).await;
    }
    Ok(None)
}

/// The holder publishes its block and makes a round, after which no cell tells of the block.
pub(crate) async fn publish<S: OnTable>(script: &Script, stop: &Stop, director: &Client<S>) {
    stop.release();
    script.ended(HOLDER, director).await;
    script.errand(HOLDER, Errand::Tend, director).await;
}

pub(crate) fn chunk_of<S: OnTable>(client: &Client<S>, block: Block) -> ChunkId {
    ChunkId((block.heap_offset() / pool_of(client).layout.chunk_bytes) as u32)
}

/// Client 2 becomes the owner of the block's chunk in this state, and dies.
pub(crate) async fn own_and_die<S: OnTable>(
    script: &Script,
    director: &Client<S>,
    block: Block,
    state: ChunkState,
) -> Result<ChunkId, CacheError> {
    let (chunk, endpoint) = (chunk_of(director, block), &director.cache.engine().client().endpoint);
    let dead = registry::places(endpoint, pool_of(director)).await?[DEAD].incarnation;
    let used = state_of(director, chunk).await?;
    assert_eq!(used.state, ChunkState::Queued);
    let mut batch = Batch::new();
    let owned = Chunk::owned(state, dead, used.generation);
    batch.compare_and_swap(pool_of(director).layout.descriptor(chunk), used.word(), owned.word());
    endpoint.post(&mut batch).await?;
    script.kill(DEAD);
    Ok(chunk)
}

/// A cell of a dead client still names a block that a living one has. A repairer looks for a slot
/// that names it before the living client publishes it, and at the cells after that.
#[test]
fn a_block_is_not_put_back_that_was_published_between_the_looks_of_a_repair() {
    direct(&tight(), 1, |script, client: Table| async move {
        match client.number as usize {
            HOLDER | REPAIRER => return script.serve(client).await,
            DEAD => return script.wait(client).await,
            _ => {}
        }
        let endpoint = &client.cache.engine().client().endpoint;
        let (block, publishes) = take_a_block(&script, &client).await?;
        script.kill(DEAD);
        write_cell(&client, DEAD, Cell::told(CellState::Won, 0, block).word()).await?;
        let looks = before_all_cells(&client, &script.stops(REPAIRER));
        script.begin(REPAIRER, Errand::Repair);
        looks.reached(endpoint).await;
        publish(&script, &publishes, &client).await;
        looks.release();
        script.ended(REPAIRER, &client).await;
        let mut names = 0;
        for slot in slots(&client) {
            let word = Slot(read_word(endpoint, slot).await?);
            names += u32::from(word.is_live() && word.names(block));
        }
        assert_eq!(names, 1, "the object is where its client has put it");
        Ok(client)
    });
}

/// The same for the chunk of the block, which is being emptied (or, not having been cut to its end,
/// put in use).
fn published_between_looks(state: ChunkState) {
    direct(&tight(), 1, move |script, client: Table| async move {
        match client.number as usize {
            HOLDER | REPAIRER => return script.serve(client).await,
            DEAD => return script.wait(client).await,
            _ => {}
        }
        let (block, publishes) = take_a_block(&script, &client).await?;
        let chunk = own_and_die(&script, &client, block, state).await?;
        let looks = look_at_chunk(&script, &client, chunk).await;
        publish(&script, &publishes, &client).await;
        looks.release();
        script.ended(REPAIRER, &client).await;
        Ok(client)
    });
}

#[test]
fn a_chunk_is_not_used_anew_of_which_a_block_was_published_between_the_looks() {
    published_between_looks(ChunkState::Leaving);
}

#[test]
fn a_block_is_named_once_that_was_published_while_its_chunk_was_put_in_use() {
    published_between_looks(ChunkState::Open);
}

/// The block is published before the first look at the cells, taken before the second look at the
/// slots, and published again, with another record, before the second look at the cells: nobody has
/// it at any look, and it is not what it was.
fn used_between_looks(
    prepare: impl AsyncFn(Rc<Script>, &Table, Block) -> Result<Rc<Stop>, CacheError> + Copy + 'static,
) {
    const SEEDS: u64 = 6;
    let used = Rc::new(std::cell::Cell::new(0));
    for seed in 0..SEEDS {
        let used = used.clone();
        direct(&tight(), seed, move |script, client: Table| {
            let used = used.clone();
            async move {
                match client.number as usize {
                    HOLDER | REPAIRER => return script.serve(client).await,
                    DEAD => return script.wait(client).await,
                    _ => {}
                }
                let endpoint = &client.cache.engine().client().endpoint;
                let (block, publishes) = take_a_block(&script, &client).await?;
                let first = prepare(script.clone(), &client, block).await?;
                publish(&script, &publishes, &client).await;
                let index = index_of(&client);
                let is_read = |operation: &Operation| matches!(operation, Operation::Read { .. });
                let again = move |verb: &Verb| index.contains(&verb.at.offset()) && is_read(&verb.operation);
                let named = script.stops(REPAIRER).before(again);
                first.release();
                named.reached(endpoint).await;
                let taken = take_block(&script, &client, |taken| taken == block).await?;
                let second = before_all_cells(&client, &script.stops(REPAIRER));
                named.release();
                until(&client, || second.is_reached() || script.has_ended(REPAIRER)).await;
                if let Some((_, publishes)) = taken {
                    used.set(used.get() + u32::from(second.is_reached()));
                    publish(&script, &publishes, &client).await;
                }
                second.release();
                script.ended(REPAIRER, &client).await;
                Ok(client)
            }
        });
    }
    println!("{} of {SEEDS} blocks were used between the looks", used.get());
    assert!(used.get() > 0);
}

/// Client 2 has left the block in its cell, and the repairer looks who has it.
async fn look_at_cell(script: Rc<Script>, director: &Table, block: Block) -> Result<Rc<Stop>, CacheError> {
    script.kill(DEAD);
    write_cell(director, DEAD, Cell::told(CellState::Won, 0, block).word()).await?;
    let looks = before_all_cells(director, &script.stops(REPAIRER));
    script.begin(REPAIRER, Errand::Repair);
    looks.reached(&director.cache.engine().client().endpoint).await;
    Ok(looks)
}

#[test]
fn a_block_is_not_put_back_that_was_used_between_the_looks_of_a_repair() {
    used_between_looks(look_at_cell);
}

#[test]
fn a_chunk_is_not_used_anew_of_which_a_block_was_used_between_the_looks() {
    used_between_looks(async |script, director, block| {
        let chunk = own_and_die(&script, director, block, ChunkState::Leaving).await?;
        Ok(look_at_chunk(&script, director, chunk).await)
    });
}

#[test]
fn a_block_is_named_once_that_was_used_while_its_chunk_was_put_in_use() {
    used_between_looks(async |script, director, block| {
        let chunk = own_and_die(&script, director, block, ChunkState::Open).await?;
        Ok(look_at_chunk(&script, director, chunk).await)
    });
}

/// The block is in the holder's hands at the first look at the cells, and named, with no cell that
/// tells of it, at the second.
#[test]
fn a_chunk_is_not_used_anew_of_which_a_block_was_in_hands_at_the_first_look() {
    direct(&tight(), 1, |script, client: Table| async move {
        match client.number as usize {
            HOLDER | REPAIRER => return script.serve(client).await,
            DEAD => return script.wait(client).await,
            _ => {}
        }
        let (block, publishes) = take_a_block(&script, &client).await?;
        let chunk = own_and_die(&script, &client, block, ChunkState::Leaving).await?;
        let first = look_at_chunk(&script, &client, chunk).await;
        let second = before_all_cells(&client, &script.stops(REPAIRER));
        first.release();
        until(&client, || second.is_reached() || script.has_ended(REPAIRER)).await;
        publish(&script, &publishes, &client).await;
        second.release();
        script.ended(REPAIRER, &client).await;
        Ok(client)
    });
}

/// The block is published between the looks at the cells, and taken by another client, the
/// director, before the second look at the slots.
#[test]
fn a_chunk_is_not_used_anew_of_which_a_block_was_taken_between_the_looks() {
    direct(&tight(), 1, |script, client: Table| async move {
        match client.number as usize {
            HOLDER | REPAIRER => return script.serve(client).await,
            DEAD => return script.wait(client).await,
            _ => {}
        }
        let (endpoint, me) =
            (&client.cache.engine().client().endpoint, client.cache.engine().client().me().slot as usize);
        let (block, publishes) = take_a_block(&script, &client).await?;
        let chunk = own_and_die(&script, &client, block, ChunkState::Leaving).await?;
        let looks = look_at_chunk(&script, &client, chunk).await;
        publish(&script, &publishes, &client).await;
        let looks_again = script.stops(REPAIRER).before_batch(0);
        looks.release();
        looks_again.reached(endpoint).await;
        for slot in slots(&client) {
            let word = Slot(read_word(endpoint, slot).await?);
            if word.is_live() && word.names(block) {
                write_cell(&client, me, Cell::told(CellState::Trying, word.tag(), block).word()).await?;
                let mut batch = Batch::new();
                batch.compare_and_swap(slot, word.0, Slot::EMPTY.0);
                endpoint.post(&mut batch).await?;
            }
        }
        looks_again.release();
        script.ended(REPAIRER, &client).await;
        assert_eq!(state_of(&client, chunk).await?.state, ChunkState::Leaving, "a block of it is in hands");
        write_cell(&client, me, 0).await?;
        script.errand(REPAIRER, Errand::Repair, &client).await;
        Ok(client)
    });
}

/// Client 0 is dead here, and the holder is client 2, which takes its place while a repairer is
/// about to settle the cells there. What the repairer has read there is the holder's: that it tries
/// to take a block, of which it has written the record since.
#[test]
fn a_repairer_settles_no_cell_of_a_client_that_has_taken_the_place() {
    const TAKER: usize = 2;
    direct(&tight(), 1, |script, client: Table| async move {
        match client.number as usize {
            TAKER | REPAIRER => return script.serve(client).await,
            0 => return script.wait(client).await,
            _ => {}
        }
        let endpoint = &client.cache.engine().client().endpoint;
        for key in 0..100 {
            script.errand(TAKER, Errand::Set(format!("f{key}"), 60), &client).await;
        }
        script.kill(0);
        let place = cells_at(&client, 0);
        let is_whole = |operation: &Operation| matches!(operation, Operation::Read { into } if into.len() == 8 * CELLS);
        let reads = script.stops(REPAIRER).before(move |verb| verb.at == place && is_whole(&verb.operation));
        script.begin(REPAIRER, Errand::Repair);
        reads.reached(endpoint).await;
        script.errand(TAKER, Errand::Rejoin, &client).await;
        let mut key = 100;
        let wins = loop {
            let wins = script.stops(TAKER).before(move |verb| {
                let Operation::WriteWord { value } = verb.operation else { return false };
                let is_cell = (place.offset()..place.offset() + 8 * CELLS as u64).contains(&verb.at.offset());
                is_cell && Cell::from_word(value).is_some_and(|cell| cell.state == CellState::Won)
            });
            script.begin(TAKER, Errand::Set(format!("f{key}"), 60));
            until(&client, || wins.is_reached() || script.has_ended(TAKER)).await;
            if wins.is_reached() {
                break wins;
            }
            wins.release();
            key += 1;
            assert!(key < 1000, "no block is ever taken");
        };
        let goes_on = script.stops(REPAIRER).before_batch(0);
        reads.release();
        goes_on.reached(endpoint).await;
        let (publishes, block) = before_publishing(&client, &script.stops(TAKER));
        wins.release();
        publishes.reached(endpoint).await;
        goes_on.release();
        script.ended(REPAIRER, &client).await;
        let told = cells(&client, 0).await?;
        assert!(told.iter().any(|cell| cell.block == block.get()), "the cell of a block in hands was made empty");
        publishes.release();
        script.ended(TAKER, &client).await;
        Ok(client)
    });
}

/// A client that does nothing but make rounds has a block in its hands, of a chunk that another one
/// empties.
#[test]
fn a_client_gives_up_a_block_in_its_hands_whose_chunk_is_emptied() {
    direct(&tight(), 1, |script, client: Table| async move {
        match client.number as usize {
            HOLDER | REPAIRER => return script.serve(client).await,
            DEAD => return script.wait(client).await,
            _ => {}
        }
        let block = keep_a_block(&script, &client, |_| true).await?.expect("there is none");
        let chunk = own_and_die(&script, &client, block, ChunkState::Leaving).await?;
        script.errand(REPAIRER, Errand::Repair, &client).await;
        assert_eq!(state_of(&client, chunk).await?.state, ChunkState::Leaving, "a block of it is in hands");
        let tag = cells(&client, HOLDER).await?.iter().find(|cell| cell.block == block).map_or(0, |cell| cell.tag);
        assert!(is_emptied_soon(&script, &client, chunk).await?, "the chunk waits for ever");
        // Void, so that nothing of its last life is taken for a record of the next, and with higher
        // tags.
        assert_eq!(state_of(&client, chunk).await?.state, ChunkState::Free);
        let (layout, endpoint) = (&pool_of(&client).layout, &client.cache.engine().client().endpoint);
        let mut bytes = Buffer::new();
        bytes.resize(layout.chunk_bytes as usize);
        let bytes = endpoint.read(layout.chunk(chunk), bytes).await?;
        assert!(bytes.words().iter().all(|word| *word == 0), "records of its last life are in it");
        let next = read_word(endpoint, layout.descriptor(chunk).add(24)).await?;
        assert!(next >= tag.into(), "tags go on from {next}, and {tag} was used");
        Ok(client)
    });
}

/// The same for a block that the client took after it had looked which chunks are emptied.
#[test]
fn a_client_is_told_again_that_a_chunk_is_emptied() {
    const SEEDS: u64 = 12;
    let told = Rc::new(std::cell::Cell::new(0));
    for seed in 0..SEEDS {
        let told = told.clone();
        direct(&tight(), seed, move |script, client: Table| {
            let told = told.clone();
            async move {
                match client.number as usize {
                    HOLDER | REPAIRER => return script.serve(client).await,
                    DEAD => return script.wait(client).await,
                    _ => {}
                }
                for key in 0..60 {
                    script.errand(HOLDER, Errand::Set(format!("f{key}"), 60), &client).await;
                }
                let in_use = async |number| state_of(&client, ChunkId(number)).await.map(|chunk| chunk.state);
                let mut number = 0;
                while in_use(number).await? != ChunkState::Queued {
                    number += 1;
                }
                let chunk = ChunkId(number);
                let block = Block::at(u64::from(number) * pool_of(&client).layout.chunk_bytes);
                own_and_die(&script, &client, block, ChunkState::Leaving).await?;
                let at = pool_of(&client).layout.chunk(chunk);
                let looks = script.stops(REPAIRER).before(move |verb| verb.at == at);
                script.begin(REPAIRER, Errand::Repair);
                looks.reached(&client.cache.engine().client().endpoint).await;
                script.errand(HOLDER, Errand::Tend, &client).await;
                let kept = keep_a_block(&script, &client, |block| chunk_of(&client, block) == chunk).await?;
                looks.release();
                script.ended(REPAIRER, &client).await;
                if kept.is_none() {
                    return Ok(client);
                }
                told.set(told.get() + 1);
                assert!(is_emptied_soon(&script, &client, chunk).await?, "the chunk waits for ever");
                Ok(client)
            }
        });
    }
    println!("{} of {SEEDS} clients had a block of the chunk", told.get());
    assert!(told.get() > 0);
}

/// The holder sets keys until it has a block like that in its hands between operations, and has
/// told so.
async fn keep_a_block<S: OnTable>(
    script: &Script,
    director: &Client<S>,
    is_wanted: impl Fn(Block) -> bool,
) -> Result<Option<Block>, CacheError> {
    for key in 0..300 {
        script.errand(HOLDER, Errand::Set(format!("h{}", key % 70), 60), director).await;
        let before = cells(director, HOLDER).await?;
        if before.iter().any(|cell| is_wanted(cell.block)) {
            script.errand(HOLDER, Errand::Tend, director).await;
            let told = cells(director, HOLDER).await?;
            if let Some(cell) = told.iter().find(|cell| is_wanted(cell.block)) {
                return Ok(Some(cell.block));
            }
        }
    }
    Ok(None)
}

/// All make rounds; whether the chunk is used anew soon.
async fn is_emptied_soon<S: OnTable>(
    script: &Script,
    director: &Client<S>,
    chunk: ChunkId,
) -> Result<bool, CacheError> {
    for _ in 0..10 {
        script.errand(HOLDER, Errand::Tend, director).await;
        script.errand(REPAIRER, Errand::Tend, director).await;
        if state_of(director, chunk).await?.state != ChunkState::Leaving {
            return Ok(true);
        }
    }
    Ok(false)
}
