//! The holes of Ditto's published prototype and of the table of objects, one case each. It passes
//! under every seed while the hole is closed, and some seed shows the damage once the hole is open.
//! `kvs` is the same table without what `ditto` adds.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `Tag` | the tag of the record in the slot | `a_lookup_never_gives_another_record_of_its_block` |
//! | `EarlyReuse` | reading all cells before a chunk is reused | `a_chunk_is_not_used_anew_while_a_client_or_a_shelf_has_a_block_of_it` |
//! | `PendingName` | looking again for a block that a pending slot named | `a_block_of_a_pending_slot_is_its_inserters` of `orders` |
//! | `KeptShelf` | taking a chunk from its shelf before it is emptied | the same |
//! | `StrayExtension` | a rest before a chunk of objects with extensions is reused | `words_beside_an_object_are_never_written_into_another` of `orders` |
//! | `UntoldOperation` | saying that an operation begins, before it looks at anything | `words_beside_an_object_are_never_written_into_another` of `orders` |
//! | `WrappedTag` | a rest for blocks whose tags begin again | `a_slot_word_that_comes_back_is_not_taken_for_the_old_one` |
//! | `UntimelyCell` | asking again after a round of the cell's client | `a_cell_that_is_out_of_date_does_not_cost_a_block` of `orders` |
//! | `RewrittenCells` | leaving cells alone that were there before | `what_was_left_in_cells_is_settled_once` |
//! | `UntoldSettling` | writing that a block is the dead client's, before it is put back | `a_block_comes_back_although_who_puts_it_back_dies` |
//! | `UntoldTaking` | cells | `blocks_that_a_dead_client_had_come_back` |
//! | `LeakedBlocks` | repair of cells | the same |
//! | `LeakedChunks` | owners in descriptors, and repair | `chunks_that_a_dead_client_cut_or_emptied_come_back` |
//! | `UnorderedNodes` | awaiting what must be there before a verb on another node | `what_one_node_says_of_another_was_there_before` |
//!
//! The holes of `orders` are scripts, since seeds show them too rarely. `cargo test -p atoll-cases
//! --test table holes:: -- --nocapture` prints how many seeds show each of the others.

use atoll_cache::ditto::DittoOptions;
use atoll_cache::table::layout::CELLS;
use atoll_cache::table::{self, Hole};
use atoll_cache::{CacheError, Condition, Pooled};
use atoll_cases::holes::{Shown, show, show_faulty_case, show_run};
use atoll_cases::{Case, Cast, Client, DittoSubject, FaultyCase, KvsSubject, Load, Subject, load};
use atoll_fabric::Endpoint;
use atoll_sim::history::Evictions;
use atoll_sim::{After, ClientId, Fault, Random, Strategy};
use std::cell::Cell;
use std::rc::Rc;

/// One key, whose blocks are few: a delayed lookup finds another record of its key where it looks,
/// perhaps one that is written and not published.
#[test]
fn a_lookup_never_gives_another_record_of_its_block() {
    let case = |_| Case::<KvsSubject> { clients: 6, strategy: Strategy::Priorities, ..Case::default() };
    show(Hole::Tag, 100, Shown::ByOneIn50, |seed, hole| {
        let checked = Case { hole, ..case(seed) }.run_part(seed, |client| async move {
            let mut random = client.random();
            for step in 0..100 {
                if client.number >= 2 {
                    client.get(b"k").await?;
                    continue;
                }
                if random.below(4) == 0 {
                    client.delete(b"k").await?;
                }
                client.set(b"k", load::unique_value(client.number, step, 30)).await?;
            }
            Ok(client)
        });
        checked.map(drop)
    });
}

/// Values of many sizes in a pool so tight that chunks change their class all the time, and clients
/// that are slow with the blocks that they took. What one client leaves of a chunk, other clients
/// find on a shelf.
#[test]
fn a_chunk_is_not_used_anew_while_a_client_or_a_shelf_has_a_block_of_it() {
    for (hole, publish_delay_ns_max) in [(Hole::EarlyReuse, 20_000), (Hole::KeptShelf, 0)] {
        let case = |seed| Case { chunks: 14 + seed % 6, clients: 4, publish_delay_ns_max, ..Case::default() };
        let run = |case: &Case<KvsSubject>, seed| case.run_part(seed, several_sizes).map(drop);
        show_run(hole, 100, case, run);
    }
}

async fn set_some_size<S: Subject>(client: &mut Client<S>, random: &mut Random, step: u64) -> Result<(), CacheError> {
    let key = [b'a' + random.below(6) as u8];
    let bytes = random.pick(&[10, 60, 100, 180, 700]) + random.below(20);
    client.set(&key, load::unique_value(client.number, step, bytes)).await
}

async fn several_sizes<S: Subject>(mut client: Client<S>) -> Result<Client<S>, CacheError> {
    let mut random = client.random();
    for step in 0..80 {
        match random.below(4) {
            0 => drop(client.get(&[b'a' + random.below(6) as u8]).await?),
            _ => set_some_size(&mut client, &mut random, step).await?,
        }
    }
    Ok(client)
}

/// Tags of two bits, one key, and a client that takes long to publish: another one uses two blocks
/// in turn, so that its slot's word comes back meanwhile. Both have a round after every operation,
/// so that no block rests for long.
#[test]
fn a_slot_word_that_comes_back_is_not_taken_for_the_old_one() {
    let options = DittoOptions { tag_bits: 2, ..DittoOptions::default() };
    show(Hole::WrappedTag, 100, Shown::ByOneIn50, |seed, hole| {
        let subject = DittoSubject { options: options.clone() };
        let case = Case { subject, chunks: 60, clients: 2, publish_delay_ns_max: 200_000, hole, ..Case::default() };
        let done = Rc::new(Cell::new(false));
        let checked = case.run_part(seed, |client| {
            let done = done.clone();
            async move {
                let steps = if client.number == 0 { 10 } else { 600 };
                for step in 0..steps {
                    if done.get() {
                        break;
                    }
                    let value = load::unique_value(client.number, step, 20);
                    client.set_returning(b"k", value, Condition::Always).await?;
                    client.cache.tend().await?;
                }
                done.set(true);
                Ok(client)
            }
        });
        checked.map(drop)
    });
}

fn deadly<S: Subject>(faulty: &mut FaultyCase<S>) {
    faulty.faults.kills_max = 4;
    faulty.faults.steps_between = 200;
}

/// So little room that every client takes blocks of other clients all the time.
fn tight<S: Subject>(faulty: &mut FaultyCase<S>) {
    faulty.case.chunks = 18;
    faulty.case.evictions = Evictions::Anytime;
    faulty.case.load = Load { keys: 8, operations: 60, lookups: 20, ..faulty.case.load };
}

/// Blocks that a dead client had taken from slots, or had in its hands.
#[test]
fn blocks_that_a_dead_client_had_come_back() {
    for hole in [Hole::UntoldTaking, Hole::LeakedBlocks] {
        show_faulty_case::<KvsSubject>(hole, 100, Shown::ByOneIn50, |faulty| {
            deadly(faulty);
            tight(faulty);
        });
    }
}

#[test]
fn chunks_that_a_dead_client_cut_or_emptied_come_back() {
    show_faulty_case::<DittoSubject>(Hole::LeakedChunks, 60, Shown::ByOneIn50, deadly);
}

/// A slot that points to a block whose record its writer never wrote, or a block taken that no cell
/// tells of.
#[test]
fn what_one_node_says_of_another_was_there_before() {
    show_faulty_case::<KvsSubject>(Hole::UnorderedNodes, 150, Shown::ByOneIn50, |faulty| {
        deadly(faulty);
        faulty.case.nodes = 3;
        faulty.case.load.lookups = 10;
    });
}

/// Steps that the repair of the next test takes at most.
const REPAIR_STEPS: u64 = 250;

/// One client dies just after it has taken a block, another at every step at which it puts that
/// one's block back, and a third repairs what is left.
#[test]
fn a_block_comes_back_although_who_puts_it_back_dies() {
    let run = |seed, hole| {
        let case = Case::<KvsSubject> { clients: 3, verified: false, hole, ..Case::default() };
        let (sim, _) = case.formatted(seed)?;
        let (cast, history) = (Cast::new(sim.control()), Rc::default());
        case.play(&sim, &history, |client| {
            let (cast, number) = (cast.clone(), client.number as usize);
            async move {
                let me = cast.enter(&client).await?;
                if number == 0 {
                    // The first object's chunk is not the client's own any more when the client
                    // takes that object's block.
                    for (step, key) in (0..).zip([b"a", b"b", b"c", b"d", b"e", b"f", b"a"]) {
                        client.set(key, load::unique_value(0, step, 100)).await?;
                    }
                    cast.control.kill(me);
                }
                // A task that kills itself ends here.
                cast.wait_for_deaths(&client, number.max(1)).await;
                if number == 1 {
                    cast.control.fault(me, Fault::Kill, After::Steps(seed % REPAIR_STEPS));
                }
                client.cache.engine().repair().await?;
                Ok(client)
            }
        })?;
        case.verify(&sim)
    };
    // A kill at every step of the repair, and some of those steps are the ones.
    let steps = 0..20 * REPAIR_STEPS;
    steps.clone().for_each(|seed| run(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    let shown = steps.filter(|seed| run(*seed, Some(Hole::UntoldSettling)).is_err()).count();
    println!("UntoldSettling: shown by kills at {shown} steps");
    assert!(shown > 0, "the hole is open and no kill shows it");
}

/// A client dies with blocks in hand. A second one settles its cells, and at any time meanwhile a
/// third one joins at its place: a cell that is settled stays so.
#[test]
fn what_was_left_in_cells_is_settled_once() {
    show(Hole::RewrittenCells, 200, Shown::ByOneIn50, |seed, hole| {
        let case = Case::<KvsSubject> { clients: 3, chunks: 40, rejoins: 1, verified: false, hole, ..Case::default() };
        let (sim, _) = case.formatted(seed)?;
        let (control, history) = (sim.control(), Rc::default());
        let dead: Rc<Cell<Option<ClientId>>> = Rc::default();
        let is_repaired = Rc::new(Cell::new(false));
        case.play(&sim, &history, |mut client| {
            let (control, dead, is_repaired, number) =
                (control.clone(), dead.clone(), is_repaired.clone(), client.number);
            async move {
                client.cache.tend().await?;
                if number == 0 {
                    for (step, bytes) in (0..).zip([20, 60, 100, 150, 60, 100, 150, 20]) {
                        client.set(&[b'a' + step as u8 % 4], load::unique_value(0, step, bytes)).await?;
                    }
                    let me = control.identified(client.endpoint().identity()).expect("it has posted");
                    dead.set(Some(me));
                    control.kill(me);
                }
                while dead.get().is_none_or(|task| control.is_alive(task)) {
                    client.endpoint().pause(1_000).await;
                }
                if number == 1 {
                    client.cache.engine().repair().await?;
                    is_repaired.set(true);
                    // It lives on for a while.
                    client.endpoint().pause(100_000_000).await;
                    return Ok(client);
                }
                let delay_ns = client.random().below(40_000);
                client.endpoint().pause(delay_ns).await;
                client.rejoin().await?;
                while !is_repaired.get() {
                    client.endpoint().pause(1_000).await;
                }
                for step in 0..4 {
                    client.set(b"a", load::unique_value(2, step, 20 + 40 * step)).await?;
                    client.cache.tend().await?;
                    client.cache.engine().repair().await?;
                }
                let engine = client.cache.engine();
                let (layout, me) = (engine.pool().layout(), engine.client().me().slot);
                for cell in 0..CELLS as u64 {
                    let word = atoll_pool::read_word(&engine.client().endpoint, layout.cell(me, cell)).await?;
                    if table::cell::Cell::from_word(word).is_some_and(|cell| cell.settler.is_some()) {
                        return Err(CacheError::Damaged { what: "a cell that was settled says that it is not" });
                    }
                }
                Ok(client)
            }
        })?;
        case.verify(&sim)
    });
}
