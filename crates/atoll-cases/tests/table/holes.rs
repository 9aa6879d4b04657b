//! The holes of Ditto's published prototype, and those that the table of objects could have of its
//! own, one case each: it passes under every seed while the hole is closed, and some seed shows the
//! damage once the hole is opened. `kvs` is the same table without what `ditto` adds.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `Validation` | checksum, key and tag in every record | `a_lookup_never_gives_torn_or_foreign_bytes` |
//! | `Tag` | the tag of the record in the slot | `a_lookup_never_gives_another_record_of_its_block` |
//! | `DuplicateKey` | pending slots | `two_insertions_of_a_key_never_both_stay` |
//! | `LostUpdate` | beginning anew after a lost compare-and-swap | `no_update_is_lost_to_another` |
//! | `OvertakenBySight` | a mark in records of changes that depend on nothing | `a_set_is_not_done_since_a_counter_was_counted` |
//! | `OvertakenByCopy` | comparing tokens | `a_set_is_not_done_since_the_object_was_moved` |
//! | `UntakenExpiry` | taking an expired object away before telling that it has expired | `what_has_expired_for_one_never_comes_back_for_another` |
//! | `TrustedBytes` | checking every address and length against the heap | `hostile_slot_words_are_never_followed_out_of_the_heap` |
//! | `EarlyReuse` | reading all cells before a chunk is used anew | `a_chunk_is_not_used_anew_while_somebody_has_a_block_of_it` |
//! | `PendingName` | looking again for a block that a pending slot named | `a_block_of_a_pending_slot_is_its_inserters` of `orders` |
//! | `KeptShelf` | taking a chunk from its shelf before it is emptied | `a_shelf_names_no_block_of_a_chunk_that_is_used_anew` |
//! | `StrayExtension` | a rest before a chunk of objects with extensions is used anew | `words_beside_an_object_are_never_written_into_another` of `orders` |
//! | `UntoldOperation` | saying that an operation begins, before it looks at anything | `words_beside_an_object_are_never_written_into_another` of `orders` |
//! | `WrappedTag` | a rest for blocks whose tags begin anew | `a_slot_word_that_comes_back_is_not_taken_for_the_old_one` |
//! | `UnknownNode` | looking for new memory nodes before a word is taken for damaged | `a_block_of_a_node_that_came_meanwhile_is_no_damage` |
//! | `UntimelyCell` | asking again after a round of the cell's client | `a_cell_that_is_out_of_date_does_not_cost_a_block` of `orders` |
//! | `RewrittenCells` | leaving cells alone that were there before | `what_was_left_in_cells_is_settled_once` |
//! | `UntoldSettling` | writing that a block is the dead client's, before it is put back | `a_block_comes_back_although_who_puts_it_back_dies` |
//! | `UntoldTaking` | cells | `a_block_that_a_dead_client_had_taken_comes_back` |
//! | `LeakedBlocks` | repair of cells | `what_a_dead_client_had_in_its_hands_comes_back` |
//! | `LeakedChunks` | owners in descriptors, and repair | `chunks_that_a_dead_client_cut_or_emptied_come_back` |
//! | `LeakedExtents` | the sweep of a repair | `extents_that_a_dead_client_wrote_or_was_about_to_free_come_back` |
//! | `UnfencedRepair` | the fence | `what_a_client_that_stands_still_could_still_write_is_not_reused` |
//! | `UnorderedNodes` | awaiting what must be there before a verb on another node | `what_one_node_says_of_another_was_there_before` |
//!
//! Those of `orders` are scripts, since seeds show them too rarely. `cargo test -p atoll-cases
//! --test table holes:: -- --nocapture` prints how many seeds show each of the others.

use atoll_cache::ditto::DittoOptions;
use atoll_cache::table::layout::{BUCKET_SLOTS, CELLS};
use atoll_cache::table::slot::Slot;
use atoll_cache::table::{self, Hole};
use atoll_cache::{CacheError, Condition, Pooled};
use atoll_cases::{Case, Client, Dittoed, Load, Stored, Subject, Turmoil, load};
use atoll_fabric::Endpoint;
use atoll_sim::history::Evictions;
use atoll_sim::{After, ClientId, Fault, Fencing, Random, Strategy, for_each_seed};
use std::cell::Cell;
use std::rc::Rc;

/// Seeds of a case of which one must show its hole, at most. All cases are made so that one in
/// twenty does: another schedule is no false alarm.
const SEEDS_TO_SHOW: usize = 50;

/// Runs `run` under `seeds` seeds with the hole closed, which must always pass, and open, which
/// must not.
fn show(hole: Hole, seeds: u64, run: impl Fn(u64, Option<Hole>) -> Result<(), String>) {
    for_each_seed(seeds, |seed| {
        if let Err(error) = run(seed, None) {
            panic!(
                "{hole:?}, seed {seed}, no hole open: {error}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test table holes::"
            );
        }
    });
    let shown: Vec<(u64, String)> = (0..seeds).filter_map(|seed| Some((seed, run(seed, Some(hole)).err()?))).collect();
    let harmed: Vec<_> = shown.iter().filter(|(_, error)| hole.is_shown_by(error)).collect();
    println!("{hole:?}: shown by {} of {seeds} seeds, its harm by {}", shown.len(), harmed.len());
    let few = || {
        format!("{hole:?} is open, and {} of {seeds} seeds show its harm, {:?}: {shown:#?}", harmed.len(), hole.harms())
    };
    assert!(harmed.len() * SEEDS_TO_SHOW >= seeds as usize, "{}", few());
    let (seed, error) = harmed[0];
    println!("  seed {seed}: {}", error.lines().next().unwrap_or_default());
}

/// The same for cases that play their load.
fn show_case<S: Subject<Hole = Hole>>(hole: Hole, seeds: u64, case: impl Fn(u64) -> Case<S>) {
    show(hole, seeds, |seed, hole| Case { hole, ..case(seed) }.run(seed).map(drop));
}

/// The same for drawn cases in which things go wrong.
fn show_turmoil<S: Subject<Hole = Hole>>(hole: Hole, seeds: u64, change: impl Fn(u64, &mut Turmoil<S>)) {
    show(hole, seeds, |seed, hole| {
        let mut turmoil = Turmoil::<S>::drawn(seed);
        change(seed, &mut turmoil);
        turmoil.case.hole = hole;
        turmoil.run(seed).map(drop)
    });
}

#[test]
fn a_lookup_never_gives_torn_or_foreign_bytes() {
    show_case(Hole::Validation, 100, Case::<Dittoed>::drawn);
}

/// One key, whose blocks are few: a delayed lookup finds another record of its key where it looks,
/// perhaps one that is written and not published.
#[test]
fn a_lookup_never_gives_another_record_of_its_block() {
    let case = |_| Case::<Stored> { clients: 6, strategy: Strategy::Priorities, ..Case::default() };
    show(Hole::Tag, 100, |seed, hole| {
        let checked = Case { hole, ..case(seed) }.run_part(seed, |mut client| async move {
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

/// Insertions and deletions of keys in two buckets, whose free places change all the time: only
/// inserters that choose different places can both stay.
#[test]
fn two_insertions_of_a_key_never_both_stay() {
    show_case(Hole::DuplicateKey, 100, |_| Case::<Stored> {
        chunk_bytes: 1024,
        chunks: 80,
        clients: 8,
        slots: 32,
        load: Load {
            keys: 8,
            operations: 100,
            value_bytes_max: 30,
            lookups: 5,
            mixed: true,
            expiring: false,
            dropped: 0,
        },
        ..Case::default()
    });
}

/// Counters among objects that are set all the time.
fn counters_and_sets(_seed: u64) -> Case<Dittoed> {
    Case {
        chunk_bytes: 1024,
        load: Load {
            keys: 4,
            operations: 60,
            value_bytes_max: 40,
            lookups: 20,
            mixed: true,
            expiring: false,
            dropped: 0,
        },
        ..Case::default()
    }
}

#[test]
fn no_update_is_lost_to_another() {
    show_case(Hole::LostUpdate, 100, counters_and_sets);
}

/// A set that a counter overtook did not take place before it: the counter has counted what was
/// there.
#[test]
fn a_set_is_not_done_since_a_counter_was_counted() {
    show_case(Hole::OvertakenBySight, 100, counters_and_sets);
}

/// A set that found its slot changed since a chunk is emptied was overtaken by nobody.
#[test]
fn a_set_is_not_done_since_the_object_was_moved() {
    let load =
        Load { keys: 1, operations: 150, value_bytes_max: 40, lookups: 10, mixed: true, expiring: false, dropped: 0 };
    let case = |_| Case::<Dittoed> { chunk_bytes: 1024, clients: 4, load: load.clone(), ..Case::default() };
    show_case(Hole::OvertakenByCopy, 100, case);
}

/// What expired for one client must not be found, or given a later end, by another whose clock is
/// behind.
#[test]
fn what_has_expired_for_one_never_comes_back_for_another() {
    let load =
        Load { keys: 1, operations: 150, value_bytes_max: 20, lookups: 60, mixed: true, expiring: true, dropped: 0 };
    show_case(Hole::UntakenExpiry, 100, |_| Case::<Dittoed> {
        clients: 4,
        chunks: 40,
        load: load.clone(),
        ..Case::default()
    });
}

/// Slots of present keys are made to point anywhere, mostly far outside the region.
#[test]
fn hostile_slot_words_are_never_followed_out_of_the_heap() {
    show(Hole::TrustedBytes, 16, |seed, hole| {
        let case = Case::<Stored> { clients: 2, steps_max: 60_000_000, hole, ..Case::default() };
        let (sim, pool) = case.formatted(seed)?;
        let history = Rc::default();
        case.play(&sim, &history, |mut client| async move {
            for key in [b"a", b"b", b"c"] {
                client.set(key, vec![7; 40]).await?;
            }
            Ok(client)
        })?;
        let mut random = Random::stream(seed, 9);
        for slot in 0..u64::from(pool.settings().buckets) * BUCKET_SLOTS as u64 {
            let (at, word) = (pool.layout().slot(slot), sim.peek_word(pool.layout().slot(slot)));
            if Slot(word).is_live() {
                // Class and fingerprint stay, so that lookups come by.
                sim.poke_word(at, word >> 48 << 48 | random.word() >> random.below(48).max(16));
            }
        }
        case.play(&sim, &history, |mut client| async move {
            for key in [b"a", b"b", b"c"] {
                let got = client.get(key).await.map(drop);
                let set = client.set(key, vec![8; 40]).await;
                let deleted = client.delete(key).await;
                for outcome in [got, set, deleted] {
                    match outcome {
                        Ok(()) | Err(CacheError::Damaged { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(client)
        })
    });
}

/// Values of many sizes in a pool so tight that chunks change their class all the time, and clients
/// that are slow with the blocks that they took.
#[test]
fn a_chunk_is_not_used_anew_while_somebody_has_a_block_of_it() {
    let case = |seed| Case::<Stored> { chunks: 14 + seed % 6, clients: 4, hesitation_ns: 20_000, ..Case::default() };
    show(Hole::EarlyReuse, 100, |seed, hole| {
        let checked = Case { hole, ..case(seed) }.run_part(seed, several_sizes);
        checked.map(drop)
    });
}

/// Values of many sizes: what one client leaves of a chunk others find on a shelf.
#[test]
fn a_shelf_names_no_block_of_a_chunk_that_is_used_anew() {
    let case = |seed| Case::<Stored> { chunks: 14 + seed % 6, clients: 4, ..Case::default() };
    show(Hole::KeptShelf, 100, |seed, hole| {
        let checked = Case { hole, ..case(seed) }.run_part(seed, several_sizes);
        checked.map(drop)
    });
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
    show(Hole::WrappedTag, 100, |seed, hole| {
        let subject = Dittoed { options: options.clone() };
        let case = Case { subject, chunks: 60, clients: 2, hesitation_ns: 200_000, hole, ..Case::default() };
        let done = Rc::new(Cell::new(false));
        let checked = case.run_part(seed, |mut client| {
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

/// Clients without a free chunk find the node that came; the others meet its blocks in slots.
#[test]
fn a_block_of_a_node_that_came_meanwhile_is_no_damage() {
    let load =
        Load { keys: 60, operations: 80, value_bytes_max: 400, lookups: 40, mixed: true, expiring: false, dropped: 0 };
    show_case(Hole::UnknownNode, 60, |seed| Case::<Stored> {
        chunks: 18,
        slots: 128,
        nodes: 1 + (seed % 3) as u32,
        growth_chunks: 60,
        load: load.clone(),
        ..Case::default()
    });
}

fn deadly<S: Subject>(turmoil: &mut Turmoil<S>) {
    turmoil.faults.kills_max = 4;
    turmoil.faults.steps_between = 200;
}

/// So little room that every client takes blocks of others all the time.
fn tight<S: Subject>(turmoil: &mut Turmoil<S>) {
    turmoil.case.chunks = 18;
    turmoil.case.evictions = Evictions::Anytime;
    turmoil.case.load = Load { keys: 8, operations: 60, lookups: 20, ..turmoil.case.load };
}

#[test]
fn a_block_that_a_dead_client_had_taken_comes_back() {
    show_turmoil::<Stored>(Hole::UntoldTaking, 100, |_, turmoil| {
        deadly(turmoil);
        tight(turmoil);
    });
}

#[test]
fn what_a_dead_client_had_in_its_hands_comes_back() {
    show_turmoil::<Stored>(Hole::LeakedBlocks, 100, |_, turmoil| {
        deadly(turmoil);
        tight(turmoil);
    });
}

#[test]
fn chunks_that_a_dead_client_cut_or_emptied_come_back() {
    show_turmoil::<Dittoed>(Hole::LeakedChunks, 60, |_, turmoil| deadly(turmoil));
}

#[test]
fn extents_that_a_dead_client_wrote_or_was_about_to_free_come_back() {
    show_turmoil::<Stored>(Hole::LeakedExtents, 100, |_, turmoil| {
        deadly(turmoil);
        turmoil.case.chunk_bytes = 512;
        turmoil.case.load.value_bytes_max = 900;
    });
}

#[test]
fn what_a_client_that_stands_still_could_still_write_is_not_reused() {
    show_turmoil::<Stored>(Hole::UnfencedRepair, 300, |_, turmoil| {
        tight(turmoil);
        turmoil.case.load.keys = 20;
        turmoil.faults.pauses_max = 30;
        turmoil.faults.steps_between = 60;
        turmoil.faults.ns_max = 10_000_000;
        turmoil.fencing = Fencing::Observed;
        turmoil.times.suspect_ns = 5_000;
        turmoil.times.look_ns = 1_000;
    });
}

/// A slot that points to a block whose record its writer never wrote, or a block taken that no cell
/// tells of.
#[test]
fn what_one_node_says_of_another_was_there_before() {
    show_turmoil::<Stored>(Hole::UnorderedNodes, 150, |_, turmoil| {
        deadly(turmoil);
        turmoil.case.nodes = 3;
        turmoil.case.load.lookups = 10;
    });
}

/// Steps that the repair of the next test takes at most.
const REPAIR_STEPS: u64 = 250;

/// One client dies just after it has taken a block, another at every step at which it puts that
/// one's block back, and a third repairs what is left.
#[test]
fn a_block_comes_back_although_who_puts_it_back_dies() {
    let run = |seed, hole| {
        let case = Case::<Stored> { clients: 3, verified: false, hole, ..Case::default() };
        let (sim, _) = case.formatted(seed)?;
        let (control, history) = (sim.control(), Rc::default());
        let tasks: Rc<[Cell<Option<ClientId>>; 3]> = Rc::default();
        case.play(&sim, &history, |mut client| {
            let (control, tasks, number) = (control.clone(), tasks.clone(), client.number as usize);
            async move {
                client.cache.tend().await?;
                let me = control.identified(client.cache.engine().client().endpoint.identity()).expect("it has posted");
                tasks[number].set(Some(me));
                if number == 0 {
                    // The chunk of the first one is not its own any more when it takes that one's
                    // block.
                    for (step, key) in (0..).zip([b"a", b"b", b"c", b"d", b"e", b"f", b"a"]) {
                        client.set(key, load::unique_value(0, step, 100)).await?;
                    }
                    control.kill(me);
                }
                // A task that kills itself ends here.
                while tasks[..number.max(1)].iter().any(|task| task.get().is_none_or(|task| control.is_alive(task))) {
                    client.cache.engine().client().endpoint.pause(1_000).await;
                }
                if number == 1 {
                    control.fault(me, Fault::Kill, After::Steps(seed % REPAIR_STEPS));
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
    show(Hole::RewrittenCells, 200, |seed, hole| {
        let case = Case::<Stored> { clients: 3, chunks: 40, rejoins: 1, verified: false, hole, ..Case::default() };
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
                    let me =
                        control.identified(client.cache.engine().client().endpoint.identity()).expect("it has posted");
                    dead.set(Some(me));
                    control.kill(me);
                }
                while dead.get().is_none_or(|task| control.is_alive(task)) {
                    client.cache.engine().client().endpoint.pause(1_000).await;
                }
                if number == 1 {
                    client.cache.engine().repair().await?;
                    is_repaired.set(true);
                    // It lives on for a while.
                    client.cache.engine().client().endpoint.pause(100_000_000).await;
                    return Ok(client);
                }
                let delay_ns = client.random().below(40_000);
                client.cache.engine().client().endpoint.pause(delay_ns).await;
                client.rejoin().await?;
                while !is_repaired.get() {
                    client.cache.engine().client().endpoint.pause(1_000).await;
                }
                for step in 0..4 {
                    client.set(b"a", load::unique_value(2, step, 20 + 40 * step)).await?;
                    client.cache.tend().await?;
                    client.cache.engine().repair().await?;
                }
                let engine = client.cache.engine();
                let at = engine.pool().layout().cells(engine.client().me().slot);
                for cell in 0..CELLS as u64 {
                    let word = atoll_pool::read_word(&engine.client().endpoint, at.add(8 * cell)).await?;
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
