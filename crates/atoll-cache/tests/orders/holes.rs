//! Holes of the table of objects that seeds show too rarely: a script each, which goes well while the hole is closed.
//!
//! | hole ([`Hole`]) | what goes wrong |
//! |---|---|
//! | `UntimelyCell` | a dead client's block is lost: a living one's cell tells of it that is out of date |
//! | `StrayExtension`, `UntoldOperation` | words beside an object are written into another |

use super::objects::{DEAD, HOLDER, OnTable, REPAIRER, chunk_of, own_and_die, slots, take_a_block, tight, write_cell};
use super::script::{Errand, directed, state_of, until};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::objects::Hole;
use atoll_cache::objects::slot::{Block, Slot};
use atoll_cache::objects::stock::{Cell, CellState};
use atoll_cache::{CacheError, Pooled, Value};
use atoll_fabric::batch::Operation;
use atoll_fabric::{Batch, Endpoint};
use atoll_lab::simulated::{Case, Client, Dittoed, Stored, load};
use atoll_pool::{ChunkState, read_word};

/// Seeds of a script at most: in some of them the director does not find what it needs.
const SEEDS: u64 = 20;

/// Plays a script, which goes well under every seed while the hole is closed, and wrong under one while it is open.
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
        let word = Slot(read_word(client.cache.engine().endpoint(), slot).await?);
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
        client.cache.engine().endpoint().post(&mut batch).await?;
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

/// A lookup has read its object, and will write words beside it. Its chunk is emptied meanwhile, and given to a large value.
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
        let word = Slot(read_word(client.cache.engine().endpoint(), slot).await?);
        if word.is_live() && state_of(client, chunk_of(client, word.block())).await?.state == ChunkState::Queued {
            return Ok(Some((word.block(), word)));
        }
    }
    Ok(None)
}
