//! Holes of the table of objects that seeds show too rarely: a script each, which goes well while
//! the hole is closed.
//!
//! | hole ([`Hole`]) | what goes wrong |
//! |---|---|
//! | `RewrittenCells` | a block is put back a second time, after its chunk was cut for another class |
//! | `UntimelyCell` | a dead client's block is lost, since a living client's outdated cell tells of it |
//! | `PendingName` | a chunk is reused in which an inserter has just published a block |
//! | `TornLook` | a chunk is reused of which a client writes a block |
//! | `StrayExtension`, `UntoldOperation` | words beside an object are written into another |

use super::blocks::{
    DEAD, Found, HOLDER, OnTable, REPAIRER, address_of, cells_at, chunk_of, is_read, live_block, look_again,
    look_at_chunk, naming, own_and_die, publish, slots, stop_with_a_block, take, take_a_block, tight, write_cell,
};
use super::script::{Command, pool_of, show_order, state_of};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::table::Hole;
use atoll_cache::table::cell::CellState;
use atoll_cache::table::slot::{Block, Slot};
use atoll_cache::{CacheError, Engine, Pooled, Value};
use atoll_cases::{Case, Client, DittoSubject, Stop, Stops, load};
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::{ChunkId, ChunkState, read_word};
use std::ops::Range;
use std::rc::Rc;

/// Seeds of a script at most: in some of them the director does not find what it needs.
const SEEDS: Range<u64> = 0..20;

/// The holder has published the block and made no round. Client 2 has taken it since, and dies.
#[test]
fn a_cell_that_is_out_of_date_does_not_cost_a_block() {
    show_order(Hole::UntimelyCell, SEEDS, &tight(), async |director| {
        let (block, publishes) = take_a_block(director).await?;
        director.finish(&publishes, HOLDER).await;
        take(director, DEAD, block, CellState::Won).await?;
        director.kill(DEAD);
        director.tell(REPAIRER, Command::Repair).await;
        director.tell(HOLDER, Command::Tend).await;
        director.tell(REPAIRER, Command::Repair).await;
        Ok(())
    });
}

/// Client 0 dies with a block in its hands, and a repairer puts the block back. Client 2 joins at
/// the place meanwhile, and has seen the cell before. The block's chunk is cut for larger blocks,
/// and then client 2 tells what it has.
#[test]
fn what_was_left_in_cells_is_settled_once() {
    const JOINER: usize = 2;
    show_order(Hole::RewrittenCells, SEEDS, &tight(), async |director| {
        director.set_keys(JOINER, "f", 0..60).await;
        // No cell of a living client is out of date.
        director.tell(JOINER, Command::Tend).await;
        // Not the first block of its chunk: it is no block once the chunk is cut for larger ones.
        let chunk_bytes = pool_of(director).layout.chunk_bytes;
        let inner = live_block(director, |block| block.heap_offset() % chunk_bytes == 128).await?;
        let Some(block) = inner else { return Ok(()) };
        take(director, 0, block, CellState::Won).await?;
        director.kill(0);
        let cell = cells_at(director, 0);
        let settles = director.stops(REPAIRER).before(move |verb| {
            verb.at == cell && matches!(verb.operation, Operation::CompareAndSwap { desired: 0, .. })
        });
        director.begin(REPAIRER, Command::Repair);
        if !director.stops_at(&settles, REPAIRER).await {
            return Ok(());
        }
        director.tell(JOINER, Command::Rejoin).await;
        director.finish(&settles, REPAIRER).await;
        let chunk = chunk_of(director, block);
        let before = contents_of(director, chunk).await?;
        for key in 0..400 {
            director.set(format!("g{}", key % 30).as_bytes(), load::unique_value(3, key, 180)).await?;
            director.tell(REPAIRER, Command::Tend).await;
            if contents_of(director, chunk).await? != before {
                break;
            }
        }
        // It takes a block, so that it has something to tell.
        for key in 0..4 {
            director.tell(JOINER, Command::Set(format!("h{key}"), 180)).await;
            director.tell(JOINER, Command::Tend).await;
        }
        director.tell(JOINER, Command::Repair).await;
        director.tell(JOINER, Command::Repair).await;
        Ok(())
    });
}

/// The class of a chunk's blocks.
async fn contents_of<S: OnTable>(client: &Client<S>, chunk: ChunkId) -> Result<u64, CacheError> {
    Ok(read_word(client.endpoint(), pool_of(client).layout.contents(chunk)).await?)
}

/// Blocks of a chunk for values of 60 bytes.
const BLOCKS: usize = 4;

/// Blocks of a chunk that slots name.
async fn named_blocks<S: OnTable>(client: &Client<S>, chunk: ChunkId) -> Result<usize, CacheError> {
    let is_named = |slot: &Slot| !slot.is_free() && chunk_of(client, slot.block()) == chunk;
    Ok(slots(client).await?.iter().filter(|(_, slot)| is_named(slot)).count())
}

/// In front of the swap that makes a pending slot live; and the block that the slot names.
fn before_deciding(stops: &Stops) -> (Rc<Stop>, Found) {
    let found = Rc::new(std::cell::Cell::new(Block(0)));
    let block = found.clone();
    let stop = stops.before(move |verb| {
        let Operation::CompareAndSwap { expected, desired, .. } = verb.operation else { return false };
        let decides = Slot(expected).is_pending() && Slot(desired).is_live();
        if decides {
            block.set(Slot(expected).block());
        }
        decides
    });
    (stop, found)
}

/// An inserter stops before it decides its pending slot. A client that empties the block's chunk
/// makes the slot empty. The inserter publishes the block after that, and makes a round.
#[test]
fn a_block_of_a_pending_slot_is_its_inserters() {
    show_order(Hole::PendingName, SEEDS, &tight(), async |director| {
        // Where slots name all blocks of a chunk one look is enough.
        let is_wanted = async |block| Ok(named_blocks(director, chunk_of(director, block)).await? == BLOCKS);
        let inserted = stop_with_a_block(director, before_deciding, is_wanted).await?;
        let (block, decides) = inserted.expect("no new key gets a block that was taken from a slot");
        let chunk = own_and_die(director, block, ChunkState::Leaving).await?;
        let looks = look_at_chunk(director, chunk).await;
        publish(director, &decides).await;
        director.finish(&looks, REPAIRER).await;
        Ok(())
    });
}

/// In the middle of the WRITE of a record that its batch publishes; and the record's block.
fn within_record(stops: &Stops) -> (Rc<Stop>, Found) {
    let found = Rc::new(std::cell::Cell::new(Block(0)));
    let block = found.clone();
    let published = |verb: &Verb| match verb.operation {
        Operation::CompareAndSwap { desired, .. } => {
            let slot = Slot(desired);
            (slot.is_live() || slot.is_pending()).then(|| slot.block())
        }
        _ => None,
    };
    let stop = stops.within_write(move |verbs| {
        let swap = verbs.iter().position(|verb| published(verb).is_some())?;
        block.set(published(&verbs[swap])?);
        verbs[..swap].iter().rposition(|verb| matches!(verb.operation, Operation::Write { .. }))
    });
    (stop, found)
}

/// A record is being written at the emptier's first look at its block, and published before the
/// look at the cells. The director writes another record there at the last look.
#[test]
fn two_torn_looks_at_a_block_are_not_one() {
    show_order(Hole::TornLook, SEEDS, &tight(), async |director| {
        let (endpoint, me) = (director.endpoint(), director.cache.engine().client().me().slot as usize);
        let written = stop_with_a_block(director, within_record, async |_| Ok(true)).await?;
        let (block, writes) = written.expect("no block is ever taken from a slot");
        let chunk = own_and_die(director, block, ChunkState::Leaving).await?;
        let first = look_at_chunk(director, chunk).await;
        publish(director, &writes).await;
        let second = look_again(director, &first).await;
        let last = director.stops(REPAIRER).before_batch(0);
        second.release();
        director.stops_at(&last, REPAIRER).await;
        let mut has_block = false;
        if let Some((_, word)) = naming(director, block).await?.first() {
            take(director, me, block, CellState::Trying).await?;
            has_block = naming(director, block).await?.is_empty();
            let mut batch = Batch::new();
            batch.write_word(address_of(director, block), word.0);
            endpoint.post(&mut batch).await?;
        }
        director.finish(&last, REPAIRER).await;
        if has_block && state_of(director, chunk).await?.state != ChunkState::Leaving {
            return Err(CacheError::Damaged { what: "a chunk is used anew although a block of it is in hands" });
        }
        write_cell(director, me, 0).await?;
        director.tell(REPAIRER, Command::Repair).await;
        Ok(())
    });
}

/// A lookup has read its object, and will write words beside it. Meanwhile the object's chunk is
/// emptied, and allocated for a large value.
#[test]
fn words_beside_an_object_are_never_written_into_another() {
    let options = DittoOptions { experts: "lru-k".parse().unwrap(), sample_buckets: 2, ..DittoOptions::default() };
    let case = Case { subject: DittoSubject { options }, clients: 4, chunks: 24, slots: 256, ..Case::default() };
    for hole in [Hole::StrayExtension, Hole::UntoldOperation] {
        show_order(hole, SEEDS, &case, async |director| {
            // One slab each is cut to its end, so that the first object's chunk is in use.
            director.set_keys(HOLDER, "h", 0..12).await;
            let Some(block) = live_block(director, |_| true).await? else { return Ok(()) };
            let at = address_of(director, block);
            let mut reads = None;
            for key in 0..12 {
                let stop = director.stops(HOLDER).behind(move |verb| verb.at == at && is_read(&verb.operation));
                director.begin(HOLDER, Command::Get(format!("h{key}")));
                if director.stops_at(&stop, HOLDER).await {
                    reads = Some(stop);
                    break;
                }
                stop.release();
            }
            let Some(reads) = reads else { return Ok(()) };
            let chunk = own_and_die(director, block, ChunkState::Leaving).await?;
            director.tell(REPAIRER, Command::Repair).await;
            // A chunk that rests is looked at in every round.
            director.tell(REPAIRER, Command::Tend).await;
            for key in 0..12 {
                director.set(format!("large{key}").as_bytes(), load::unique_value(3, key, 400)).await?;
                if state_of(director, chunk).await?.state.is_extent() {
                    break;
                }
            }
            director.finish(&reads, HOLDER).await;
            director.tell(HOLDER, Command::Tend).await;
            let mut value = Value::new();
            for key in 0..12 {
                director.cache.get(format!("large{key}").as_bytes(), &mut value).await?;
            }
            if director.cache.engine().stats().damaged > 0 {
                return Err(CacheError::Damaged { what: "a large value has words of another object" });
            }
            director.tell(REPAIRER, Command::Repair).await;
            Ok(())
        });
    }
}
