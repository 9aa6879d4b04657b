//! Holes of the table of objects that seeds show too rarely: a script each, which goes well while
//! the hole is closed.
//!
//! | hole ([`Hole`]) | what goes wrong |
//! |---|---|
//! | `RewrittenCells` | a block is put back a second time, when its chunk has been cut for another class |
//! | `UntimelyCell` | a dead client's block is lost: a living one's cell tells of it that is out of date |
//! | `PendingName` | a chunk is used anew in which an inserter has just published a block |
//! | `TornLook` | a chunk is used anew of which a client writes a block |
//! | `StrayExtension`, `UntoldOperation` | words beside an object are written into another |

use super::script::{Errand, Script, directed, state_of, until};
use super::table::{
    DEAD, HOLDER, OnTable, REPAIRER, before_all_cells, cells, chunk_of, look_at_chunk, own_and_die, publish, slots,
    take_a_block, tight, write_cell,
};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::table::Hole;
use atoll_cache::table::cell::{Cell, CellState};
use atoll_cache::table::slot::{Block, Slot};
use atoll_cache::{CacheError, Pooled, Value};
use atoll_cases::{Case, Client, Dittoed, Stop, Stored, load};
use atoll_fabric::batch::Operation;
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::{ChunkId, ChunkState, read_word};
use std::rc::Rc;

/// Seeds of a script at most: in some of them the director does not find what it needs.
const SEEDS: u64 = 20;

/// Plays a script, which goes well under every seed while the hole is closed, and wrong under one
/// while it is open.
fn show(hole: Hole, run: impl Fn(u64, Option<Hole>) -> Result<(), String>) {
    for seed in 0..SEEDS {
        if let Err(error) = run(seed, None) {
            panic!("{hole:?}, seed {seed}, no hole open: {error}");
        }
    }
    let shown: Vec<_> = (0..SEEDS).filter_map(|seed| run(seed, Some(hole)).err()).collect();
    println!("{hole:?}: shown by {} of {SEEDS} seeds", shown.len());
    let Some(error) = shown.first() else { panic!("{hole:?} is open and no seed shows it") };
    println!("  {}", error.lines().next().unwrap_or_default());
}

/// The slot that names a block live, and its word.
async fn named<S: OnTable>(
    client: &Client<S>,
    block: Block,
) -> Result<Option<(atoll_fabric::Address, Slot)>, CacheError> {
    for slot in slots(client) {
        let word = Slot(read_word(&client.cache.engine().client().endpoint, slot).await?);
        if word.is_live() && word.names(block) {
            return Ok(Some((slot, word)));
        }
    }
    Ok(None)
}

/// Takes a block from its slot, as a client does: a cell first, then the swap.
async fn take<S: OnTable>(client: &Client<S>, slot: usize, block: Block, state: CellState) -> Result<(), CacheError> {
    if let Some((at, word)) = named(client, block).await? {
        write_cell(client, slot, Cell::told(state, word.tag(), block).word()).await?;
        let mut batch = Batch::new();
        batch.compare_and_swap(at, word.0, Slot::EMPTY.0);
        client.cache.engine().client().endpoint.post(&mut batch).await?;
    }
    Ok(())
}

/// The holder has published the block and made no round; client 2 has taken it since, and dies.
#[test]
fn a_cell_that_is_out_of_date_does_not_cost_a_block() {
    show(Hole::UntimelyCell, |seed, hole| {
        directed(&Case { hole, ..tight() }, seed, |script, client: Client<Stored>| async move {
            match client.number as usize {
                HOLDER | REPAIRER => return script.serve(client).await,
                DEAD => return script.wait(client).await,
                _ => {}
            }
            let (block, publishes) = take_a_block(&script, &client).await?;
            publishes.release();
            script.ended(HOLDER, &client).await;
            take(&client, DEAD, block, CellState::Won).await?;
            script.kill(DEAD);
            script.errand(REPAIRER, Errand::Repair, &client).await;
            script.errand(HOLDER, Errand::Tend, &client).await;
            script.errand(REPAIRER, Errand::Repair, &client).await;
            Ok(client)
        })
    });
}

/// Client 0 dies with a block in its hands. A repairer puts that back, and client 2, which takes
/// the place meanwhile, has seen the cell before that. The chunk of the block is cut for larger
/// ones, and then client 2 tells what it has.
#[test]
fn what_was_left_in_cells_is_settled_once() {
    const TAKER: usize = 2;
    show(Hole::RewrittenCells, |seed, hole| {
        directed(&Case { hole, ..tight() }, seed, |script, mut client: Client<Stored>| async move {
            match client.number as usize {
                TAKER | REPAIRER => return script.serve(client).await,
                0 => return script.wait(client).await,
                _ => {}
            }
            for key in 0..60 {
                script.errand(TAKER, Errand::Set(format!("f{key}"), 60), &client).await;
            }
            // No cell of a living client is out of date.
            script.errand(TAKER, Errand::Tend, &client).await;
            // Not the first block of its chunk: it is no block when that is cut for larger ones.
            let Some(block) = inner_block(&client).await? else { return Ok(client) };
            take(&client, 0, block, CellState::Won).await?;
            script.kill(0);
            let cell = super::table::cells_at(&client, 0);
            let settles = script.stops(REPAIRER).before(move |verb| {
                verb.at == cell && matches!(verb.operation, Operation::CompareAndSwap { desired: 0, .. })
            });
            script.begin(REPAIRER, Errand::Repair);
            until(&client, || settles.is_reached() || script.has_ended(REPAIRER)).await;
            if !settles.is_reached() {
                return Ok(client);
            }
            script.errand(TAKER, Errand::Rejoin, &client).await;
            settles.release();
            script.ended(REPAIRER, &client).await;
            let chunk = chunk_of(&client, block);
            let before = contents_of(&client, chunk).await?;
            for key in 0..400 {
                client.set(format!("g{}", key % 30).as_bytes(), load::unique_value(3, key, 180)).await?;
                script.errand(REPAIRER, Errand::Tend, &client).await;
                if contents_of(&client, chunk).await? != before {
                    break;
                }
            }
            // It takes a block, so that it has something to tell.
            for key in 0..4 {
                script.errand(TAKER, Errand::Set(format!("h{key}"), 180), &client).await;
                script.errand(TAKER, Errand::Tend, &client).await;
            }
            script.errand(TAKER, Errand::Repair, &client).await;
            script.errand(TAKER, Errand::Repair, &client).await;
            Ok(client)
        })
    });
}

/// A live object's block that is not the first of its chunk, which is in use.
async fn inner_block<S: OnTable>(client: &Client<S>) -> Result<Option<Block>, CacheError> {
    let chunk_bytes = super::script::pool_of(client).layout.chunk_bytes;
    for slot in slots(client) {
        let word = Slot(read_word(&client.cache.engine().client().endpoint, slot).await?);
        let is_inner = word.is_live() && word.block().heap_offset() % chunk_bytes == 128;
        if is_inner && state_of(client, chunk_of(client, word.block())).await?.state == ChunkState::Queued {
            return Ok(Some(word.block()));
        }
    }
    Ok(None)
}

/// The class of a chunk's blocks.
async fn contents_of<S: OnTable>(client: &Client<S>, chunk: ChunkId) -> Result<u64, CacheError> {
    let at = super::script::pool_of(client).layout.descriptor(chunk).add(8);
    Ok(read_word(&client.cache.engine().client().endpoint, at).await?)
}

/// An inserter stops before it decides its pending slot, which an emptier of the block's chunk
/// makes empty. The inserter publishes the block after that, and makes a round.
#[test]
fn a_block_of_a_pending_slot_is_its_inserters() {
    show(Hole::PendingName, |seed, hole| {
        directed(&Case { hole, ..tight() }, seed, |script, client: Client<Stored>| async move {
            match client.number as usize {
                HOLDER | REPAIRER => return script.serve(client).await,
                DEAD => return script.wait(client).await,
                _ => {}
            }
            let (block, decides) = insert_a_block(&script, &client).await?;
            let chunk = own_and_die(&script, &client, block, ChunkState::Leaving).await?;
            let looks = look_at_chunk(&script, &client, chunk).await;
            publish(&script, &decides, &client).await;
            looks.release();
            script.ended(REPAIRER, &client).await;
            Ok(client)
        })
    });
}

/// Blocks of a chunk for values of 60 bytes.
const BLOCKS: u64 = 4;

/// As `take_a_block`, for a key that is new, up to the swap that makes its pending slot live.
async fn insert_a_block<S: OnTable>(script: &Script, director: &Client<S>) -> Result<(Block, Rc<Stop>), CacheError> {
    let found = Rc::new(std::cell::Cell::new(Block(0)));
    for key in 0..1000 {
        let block = found.clone();
        let stop = script.stops(HOLDER).before(move |verb| {
            let Operation::CompareAndSwap { expected, desired, .. } = verb.operation else { return false };
            let decides = Slot(expected).is_pending() && Slot(desired).is_live();
            if decides {
                block.set(Slot(expected).block());
            }
            decides
        });
        script.begin(HOLDER, Errand::Set(format!("h{key}"), 60));
        until(director, || stop.is_reached() || script.has_ended(HOLDER)).await;
        let has_told = |cell: &Cell| cell.state == CellState::Won && cell.block == found.get();
        if stop.is_reached() && cells(director, HOLDER).await?.iter().any(has_told) {
            // Where slots name all of a chunk one look is enough.
            let chunk = chunk_of(director, found.get());
            if named_blocks(director, chunk).await? as u64 == BLOCKS {
                return Ok((found.get(), stop));
            }
        }
        stop.release();
        script.ended(HOLDER, director).await;
    }
    panic!("no new key gets a block that was taken from a slot");
}

/// A record is being written at the emptier's first look at its block, published before the look at
/// the cells, and another one is being written by the director at the last look.
#[test]
fn two_torn_looks_at_a_block_are_not_one() {
    show(Hole::TornLook, |seed, hole| {
        directed(&Case { hole, ..tight() }, seed, |script, client: Client<Stored>| async move {
            match client.number as usize {
                HOLDER | REPAIRER => return script.serve(client).await,
                DEAD => return script.wait(client).await,
                _ => {}
            }
            let (endpoint, me) =
                (&client.cache.engine().client().endpoint, client.cache.engine().client().me().slot as usize);
            let (block, writes) = write_a_block(&script, &client).await?;
            let chunk = own_and_die(&script, &client, block, ChunkState::Leaving).await?;
            let first = look_at_chunk(&script, &client, chunk).await;
            publish(&script, &writes, &client).await;
            let second = before_all_cells(&client, &script.stops(REPAIRER));
            first.release();
            until(&client, || second.is_reached() || script.has_ended(REPAIRER)).await;
            let last = script.stops(REPAIRER).before_batch(0);
            second.release();
            until(&client, || last.is_reached() || script.has_ended(REPAIRER)).await;
            let mut has_block = false;
            if let Some((_, word)) = named(&client, block).await? {
                take(&client, me, block, CellState::Trying).await?;
                has_block = named(&client, block).await?.is_none();
                let mut batch = Batch::new();
                let at = super::script::pool_of(&client).layout.chunk(chunk);
                let offset = block.heap_offset() % super::script::pool_of(&client).layout.chunk_bytes;
                batch.write_word(at.add(offset), word.0);
                endpoint.post(&mut batch).await?;
            }
            last.release();
            script.ended(REPAIRER, &client).await;
            if has_block && state_of(&client, chunk).await?.state != ChunkState::Leaving {
                return Err(CacheError::Damaged { what: "a chunk is used anew although a block of it is in hands" });
            }
            write_cell(&client, me, 0).await?;
            script.errand(REPAIRER, Errand::Repair, &client).await;
            Ok(client)
        })
    });
}

/// As `take_a_block`, up to the middle of the WRITE of the record.
async fn write_a_block<S: OnTable>(script: &Script, director: &Client<S>) -> Result<(Block, Rc<Stop>), CacheError> {
    let found = Rc::new(std::cell::Cell::new(Block(0)));
    for key in 0..1000 {
        let block = found.clone();
        let stop = script.stops(HOLDER).within_write(move |verbs| {
            let names = |word: Slot| word.is_live() || word.is_pending();
            let swap = verbs.iter().position(|verb| match verb.operation {
                Operation::CompareAndSwap { desired, .. } => names(Slot(desired)),
                _ => false,
            })?;
            let Operation::CompareAndSwap { desired, .. } = verbs[swap].operation else { return None };
            block.set(Slot(desired).block());
            verbs[..swap].iter().rposition(|verb| matches!(verb.operation, Operation::Write { .. }))
        });
        script.begin(HOLDER, Errand::Set(format!("h{key}"), 60));
        until(director, || stop.is_reached() || script.has_ended(HOLDER)).await;
        let has_told = |cell: &Cell| cell.state == CellState::Won && cell.block == found.get();
        if stop.is_reached() && cells(director, HOLDER).await?.iter().any(has_told) {
            return Ok((found.get(), stop));
        }
        stop.release();
        script.ended(HOLDER, director).await;
    }
    panic!("no block is ever taken from a slot");
}

/// A lookup has read its object, and will write words beside it. Its chunk is emptied meanwhile,
/// and given to a large value.
#[test]
fn words_beside_an_object_are_never_written_into_another() {
    let options = DittoOptions { experts: "lru-k".parse().unwrap(), sample_buckets: 2, ..DittoOptions::default() };
    for hole in [Hole::StrayExtension, Hole::UntoldOperation] {
        show(hole, |seed, hole| {
            let subject = Dittoed { options: options.clone() };
            let case = Case { subject, clients: 4, chunks: 24, slots: 256, hole, ..Case::default() };
            directed(&case, seed, |script, mut client: Client<Dittoed>| async move {
                match client.number as usize {
                    HOLDER | REPAIRER => return script.serve(client).await,
                    DEAD => return script.wait(client).await,
                    _ => {}
                }
                // One slab each is cut to its end, so that the first object's chunk is in use.
                for key in 0..12 {
                    script.errand(HOLDER, Errand::Set(format!("h{key}"), 60), &client).await;
                }
                let Some((block, _)) = first_in_use(&client).await? else { return Ok(client) };
                let at = super::script::pool_of(&client).layout.chunk(chunk_of(&client, block));
                let at = at.add(block.heap_offset() % super::script::pool_of(&client).layout.chunk_bytes);
                let is_read = move |operation: &Operation| matches!(operation, Operation::Read { .. });
                let mut reads = None;
                for key in 0..12 {
                    let stop = script.stops(HOLDER).behind(move |verb| verb.at == at && is_read(&verb.operation));
                    script.begin(HOLDER, Errand::Get(format!("h{key}")));
                    until(&client, || stop.is_reached() || script.has_ended(HOLDER)).await;
                    if stop.is_reached() {
                        reads = Some(stop);
                        break;
                    }
                    stop.release();
                }
                let Some(reads) = reads else { return Ok(client) };
                let chunk = own_and_die(&script, &client, block, ChunkState::Leaving).await?;
                script.errand(REPAIRER, Errand::Repair, &client).await;
                // A chunk that rests is looked at in every round.
                script.errand(REPAIRER, Errand::Tend, &client).await;
                for key in 0..12 {
                    client.set(format!("large{key}").as_bytes(), load::unique_value(3, key, 400)).await?;
                    if state_of(&client, chunk).await?.state.is_extent() {
                        break;
                    }
                }
                reads.release();
                script.ended(HOLDER, &client).await;
                script.errand(HOLDER, Errand::Tend, &client).await;
                let mut value = Value::new();
                for key in 0..12 {
                    client.cache.get(format!("large{key}").as_bytes(), &mut value).await?;
                }
                if atoll_cache::Engine::stats(client.cache.engine()).damaged > 0 {
                    return Err(CacheError::Damaged { what: "a large value has words of another object" });
                }
                script.errand(REPAIRER, Errand::Repair, &client).await;
                Ok(client)
            })
        });
    }
}

/// A live object in a chunk that is in use by all.
async fn first_in_use<S: OnTable>(client: &Client<S>) -> Result<Option<(Block, Slot)>, CacheError> {
    for slot in slots(client) {
        let word = Slot(read_word(&client.cache.engine().client().endpoint, slot).await?);
        if word.is_live() && state_of(client, chunk_of(client, word.block())).await?.state == ChunkState::Queued {
            return Ok(Some((word.block(), word)));
        }
    }
    Ok(None)
}

/// Blocks of a chunk that slots name.
async fn named_blocks<S: OnTable>(client: &Client<S>, chunk: ChunkId) -> Result<usize, CacheError> {
    let mut named = 0;
    for slot in slots(client) {
        let word = Slot(read_word(&client.cache.engine().client().endpoint, slot).await?);
        named += usize::from(!word.is_free() && chunk_of(client, word.block()) == chunk);
    }
    Ok(named)
}
