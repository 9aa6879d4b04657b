//! Orders that matter to the table of objects: a block changes hands between the looks of a client
//! that repairs or empties its chunk. `blocks` has the roles.

use super::blocks::{
    HOLDER, OnTable, REPAIRER, before_publishing, cells, cells_at, chunk_of, die_with_a_cell, index_of, is_read,
    look_again, look_at_cells, look_at_chunk, naming, own_and_die, publish, take, take_a_block, take_block, tight,
    write_cell,
};
use super::script::{Command, Director, count, direct, pool_of, state_of};
use atoll_cache::table::cell::{Cell, CellState};
use atoll_cache::table::layout::CELLS;
use atoll_cache::table::slot::Block;
use atoll_cache::{CacheError, Pooled};
use atoll_cases::{KvsSubject, Stop};
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::{ChunkId, ChunkState, read_word};
use std::rc::Rc;

/// A cell of a dead client still names a block that a living client has. A repairer looks for a
/// slot that names the block before the living client publishes it, and at the cells after that.
#[test]
fn a_block_is_not_put_back_that_was_published_between_the_looks_of_a_repair() {
    direct(&tight(), 1, async |director| {
        let (block, publishes) = take_a_block(director).await?;
        die_with_a_cell(director, block).await?;
        let looks = look_at_cells(director).await;
        publish(director, &publishes).await;
        director.finish(&looks, REPAIRER).await;
        assert_eq!(naming(director, block).await?.len(), 1, "the object is where its client has put it");
        Ok(())
    });
}

/// A block is published between the looks of a client that empties its chunk, and of a client that
/// puts the chunk in use before it is cut to its end.
#[test]
fn a_chunk_is_not_reused_of_which_a_block_was_published_between_the_looks() {
    for state in [ChunkState::Leaving, ChunkState::Open] {
        direct(&tight(), 1, async move |director| {
            let (block, publishes) = take_a_block(director).await?;
            let chunk = own_and_die(director, block, state).await?;
            let looks = look_at_chunk(director, chunk).await;
            publish(director, &publishes).await;
            director.finish(&looks, REPAIRER).await;
            Ok(())
        });
    }
}

/// The block is published before the first look at the cells. It is taken before the second look at
/// the slots, and published again, with another record, before the second look at the cells. No
/// client has it at any look, and it is not what it was.
fn used_between_looks(
    first_look: impl AsyncFn(&Director<KvsSubject>, Block) -> Result<Rc<Stop>, CacheError> + Copy + 'static,
) {
    let used = count(&tight(), 6, async move |director| {
        let (block, publishes) = take_a_block(director).await?;
        let first = first_look(director, block).await?;
        publish(director, &publishes).await;
        let index = index_of(director);
        let again = move |verb: &Verb| index.contains(&verb.at.offset()) && is_read(&verb.operation);
        let named = director.stops(REPAIRER).before(again);
        first.release();
        director.reached(&named).await;
        let taken = take_block(director, |taken| taken == block).await?;
        let second = look_again(director, &named).await;
        let is_used = taken.is_some() && second.is_reached();
        if let Some((_, publishes)) = taken {
            publish(director, &publishes).await;
        }
        director.finish(&second, REPAIRER).await;
        Ok(is_used)
    });
    assert!(used > 0, "no block was used between the looks");
}

#[test]
fn a_block_is_not_put_back_that_was_used_between_the_looks_of_a_repair() {
    used_between_looks(async |director, block| {
        die_with_a_cell(director, block).await?;
        Ok(look_at_cells(director).await)
    });
}

#[test]
fn a_chunk_is_not_reused_of_which_a_block_was_used_between_the_looks() {
    async fn look(director: &Director<KvsSubject>, block: Block, state: ChunkState) -> Result<Rc<Stop>, CacheError> {
        let chunk = own_and_die(director, block, state).await?;
        Ok(look_at_chunk(director, chunk).await)
    }
    used_between_looks(async |director, block| look(director, block, ChunkState::Leaving).await);
    used_between_looks(async |director, block| look(director, block, ChunkState::Open).await);
}

/// The block is in the holder's hands at the first look at the cells. At the second look a slot
/// names it, and no cell tells of it.
#[test]
fn a_chunk_is_not_reused_of_which_a_block_was_in_hands_at_the_first_look() {
    direct(&tight(), 1, async |director| {
        let (block, publishes) = take_a_block(director).await?;
        let chunk = own_and_die(director, block, ChunkState::Leaving).await?;
        let first = look_at_chunk(director, chunk).await;
        let second = look_again(director, &first).await;
        publish(director, &publishes).await;
        director.finish(&second, REPAIRER).await;
        Ok(())
    });
}

/// The block is published between the looks at the cells, and taken by another client, the
/// director, before the second look at the slots.
#[test]
fn a_chunk_is_not_reused_of_which_a_block_was_taken_between_the_looks() {
    direct(&tight(), 1, async |director| {
        let me = director.cache.engine().client().me().slot as usize;
        let (block, publishes) = take_a_block(director).await?;
        let chunk = own_and_die(director, block, ChunkState::Leaving).await?;
        let looks = look_at_chunk(director, chunk).await;
        publish(director, &publishes).await;
        let looks_again = director.stops(REPAIRER).before_batch(0);
        looks.release();
        director.reached(&looks_again).await;
        take(director, me, block, CellState::Trying).await?;
        director.finish(&looks_again, REPAIRER).await;
        assert_eq!(state_of(director, chunk).await?.state, ChunkState::Leaving, "a block of it is in hands");
        write_cell(director, me, 0).await?;
        director.tell(REPAIRER, Command::Repair).await;
        Ok(())
    });
}

/// Client 0 is dead here. Client 2 joins at its place while a repairer is about to settle the cells
/// there. The repairer has READ what client 2 wrote: that it tries to take a block. Client 2 has
/// written that block's record since.
#[test]
fn a_repairer_settles_no_cell_of_a_client_that_has_joined_at_the_place() {
    const JOINER: usize = 2;
    direct(&tight(), 1, async |director| {
        director.set_keys(JOINER, "f", 0..100).await;
        director.kill(0);
        let place = cells_at(director, 0);
        let is_whole = |operation: &Operation| matches!(operation, Operation::Read { into } if into.len() == 8 * CELLS);
        let reads = director.stops(REPAIRER).before(move |verb| verb.at == place && is_whole(&verb.operation));
        director.begin(REPAIRER, Command::Repair);
        director.reached(&reads).await;
        director.tell(JOINER, Command::Rejoin).await;
        let mut key = 100;
        let wins = loop {
            let wins = director.stops(JOINER).before(move |verb| {
                let Operation::WriteWord { value } = verb.operation else { return false };
                let is_cell = (place.offset()..place.offset() + 8 * CELLS as u64).contains(&verb.at.offset());
                is_cell && Cell::from_word(value).is_some_and(|cell| cell.state == CellState::Won)
            });
            director.begin(JOINER, Command::Set(format!("f{key}"), 60));
            if director.stops_at(&wins, JOINER).await {
                break wins;
            }
            wins.release();
            key += 1;
            assert!(key < 1000, "no block is ever taken");
        };
        let goes_on = director.stops(REPAIRER).before_batch(0);
        reads.release();
        director.reached(&goes_on).await;
        let (publishes, block) = before_publishing(director, &director.stops(JOINER));
        wins.release();
        director.reached(&publishes).await;
        director.finish(&goes_on, REPAIRER).await;
        let told = cells(director, 0).await?;
        assert!(told.iter().any(|cell| cell.block == block.get()), "the cell of a block in hands was made empty");
        director.finish(&publishes, JOINER).await;
        Ok(())
    });
}

/// A client that does nothing but make rounds has a block in its hands, and another client empties
/// the block's chunk.
#[test]
fn a_client_gives_up_a_block_in_its_hands_whose_chunk_is_emptied() {
    direct(&tight(), 1, async |director| {
        let block = keep_a_block(director, |_| true).await?.expect("there is none");
        let chunk = own_and_die(director, block, ChunkState::Leaving).await?;
        director.tell(REPAIRER, Command::Repair).await;
        assert_eq!(state_of(director, chunk).await?.state, ChunkState::Leaving, "a block of it is in hands");
        let tag = cells(director, HOLDER).await?.iter().find(|cell| cell.block == block).map_or(0, |cell| cell.tag);
        assert!(is_emptied_soon(director, chunk).await?, "the chunk waits for ever");
        // Its bytes are zero, so that no record of its last life is taken for one of the next, and
        // the next life has higher tags.
        assert_eq!(state_of(director, chunk).await?.state, ChunkState::Free);
        let (layout, endpoint) = (&pool_of(director).layout, director.endpoint());
        let mut bytes = Buffer::new();
        bytes.resize(layout.chunk_bytes as usize);
        let bytes = endpoint.read(layout.chunk(chunk), bytes).await?;
        assert!(bytes.words().iter().all(|word| *word == 0), "records of its last life are in it");
        let next = read_word(endpoint, layout.note(chunk)).await?;
        assert!(next >= tag.into(), "tags go on from {next}, and {tag} was used");
        Ok(())
    });
}

/// The same for a block that the client took after it had looked which chunks are emptied.
#[test]
fn a_client_is_told_again_that_a_chunk_is_emptied() {
    let told = count(&tight(), 12, async |director| {
        director.set_keys(HOLDER, "f", 0..60).await;
        let mut chunk = ChunkId(0);
        while state_of(director, chunk).await?.state != ChunkState::Queued {
            chunk.0 += 1;
        }
        let layout = &pool_of(director).layout;
        let block = Block::at(u64::from(chunk.0) * layout.chunk_bytes);
        own_and_die(director, block, ChunkState::Leaving).await?;
        let at = layout.chunk(chunk);
        let looks = director.stops(REPAIRER).before(move |verb| verb.at == at);
        director.begin(REPAIRER, Command::Repair);
        director.reached(&looks).await;
        director.tell(HOLDER, Command::Tend).await;
        let kept = keep_a_block(director, |block| chunk_of(director, block) == chunk).await?;
        director.finish(&looks, REPAIRER).await;
        if kept.is_some() {
            assert!(is_emptied_soon(director, chunk).await?, "the chunk waits for ever");
        }
        Ok(kept.is_some())
    });
    assert!(told > 0, "no client had a block of the chunk");
}

/// The holder sets keys until it keeps a block like that between operations, and a cell tells so.
async fn keep_a_block<S: OnTable>(
    director: &Director<S>,
    is_wanted: impl Fn(Block) -> bool,
) -> Result<Option<Block>, CacheError> {
    for key in 0..300 {
        director.tell(HOLDER, Command::Set(format!("h{}", key % 70), 60)).await;
        let before = cells(director, HOLDER).await?;
        if before.iter().any(|cell| is_wanted(cell.block)) {
            director.tell(HOLDER, Command::Tend).await;
            let told = cells(director, HOLDER).await?;
            if let Some(cell) = told.iter().find(|cell| is_wanted(cell.block)) {
                return Ok(Some(cell.block));
            }
        }
    }
    Ok(None)
}

/// All clients make rounds; whether the chunk is emptied within ten.
async fn is_emptied_soon<S: OnTable>(director: &Director<S>, chunk: ChunkId) -> Result<bool, CacheError> {
    for _ in 0..10 {
        director.tell(HOLDER, Command::Tend).await;
        director.tell(REPAIRER, Command::Tend).await;
        if state_of(director, chunk).await?.state != ChunkState::Leaving {
            return Ok(true);
        }
    }
    Ok(false)
}
