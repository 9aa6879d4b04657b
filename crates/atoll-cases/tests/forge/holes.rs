//! The holes of the published prototypes, one case each: it passes under every seed while the hole
//! is closed, and some seed shows the damage once the hole is opened.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `Validation` | checksum, key and generation in every record | `a_lookup_never_gives_torn_or_foreign_bytes` |
//! | `Generation` | the tag of the chunk's generation in the slot | `a_lookup_never_gives_a_record_of_a_later_life_of_its_chunk`, a script in `orders` |
//! | `DuplicateKey` | pending slots | `two_insertions_of_a_key_never_both_stay` |
//! | `Protection` | protections, which chunks wait for | `a_slot_word_that_comes_back_is_not_taken_for_the_old_one` |
//! | `LostUpdate` | beginning anew after a lost compare-and-swap | `no_update_is_lost_to_another_or_to_a_regrouping` |
//! | `OvertakenBySight` | a mark in records of changes that depend on nothing | `a_set_is_not_done_since_a_counter_was_counted` |
//! | `OvertakenByCopy` | comparing tokens | `a_set_is_not_done_since_the_object_was_moved` |
//! | `EarlyReuse` | moving and unlinking before a chunk's reuse | `hot_objects_outlive_the_chunk_that_they_are_moved_from` |
//! | `UnfilledNode` | dequeuers taking back the tickets that they pass | `a_group_whose_enqueuer_was_slow_is_not_stranded`, the same at the wrap of the cursors |
//! | `DroppedSet` | evicting for a writer without room | `a_set_that_returned_can_be_read` |
//! | `IdleEvictor` | letting any client evict | `writers_need_no_other_client_to_be_busy` |
//! | `StaleNode` | the generation in the ring's nodes | `a_node_of_a_cleaned_group_does_not_take_the_next_one` |
//! | `UntakenExpiry` | taking an expired object away before telling that it has expired | `what_has_expired_for_one_never_comes_back_for_another` |
//! | `UncheckedAddress` | a READ of the slot beside that of the record | `a_lookup_where_an_object_was_gives_nothing_that_was_replaced` |
//! | `UnknownNode` | looking for new memory nodes before a word is taken for damaged | `a_chunk_of_a_node_that_came_meanwhile_is_no_damage` |
//! | `TrustedBytes` | checking every address and length against the heap | `hostile_slot_words_are_never_followed_out_of_the_heap` |
//!
//! `cargo test -p atoll-cases --test forge holes:: -- --nocapture` prints how many seeds show each.

use atoll_cache::Pooled;
use atoll_cache::forge::Hole;
use atoll_cache::{CacheError, Condition, SetOptions};
use atoll_cases::Load;
use atoll_cases::{Case, Client, ForgePoolWords, Forged, load};
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState};
use atoll_sim::history::Evictions;
use atoll_sim::{Random, for_each_seed};
use std::cell::Cell;
use std::rc::Rc;

/// Seeds of a case of which one must show its hole, at most. All cases are made so that one in
/// twenty does: another schedule is no false alarm.
const SEEDS_TO_SHOW: usize = 50;

/// Runs a case under `seeds` seeds with the hole closed, which must always pass, and open, which
/// must not.
fn show(hole: Hole, seeds: u64, case: impl Fn(u64) -> Case, run: impl Fn(&Case, u64) -> Result<(), String>) {
    for_each_seed(seeds, |seed| {
        let case = case(seed);
        if let Err(error) = run(&case, seed) {
            panic!(
                "seed {seed}, no hole open: {error}\n{case:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test forge holes::"
            );
        }
    });
    let mut shown: Vec<(u64, String)> = Vec::new();
    for seed in 0..seeds {
        if let Err(error) = run(&Case { hole: Some(hole), ..case(seed) }, seed) {
            shown.push((seed, error));
        }
    }
    println!("{hole:?}: shown by {} of {seeds} seeds", shown.len());
    let harmed: Vec<_> = shown.iter().filter(|(_, error)| hole.is_shown_by(error)).collect();
    let few = || {
        format!("{hole:?} is open, and {} of {seeds} seeds show its harm, {:?}: {shown:#?}", harmed.len(), hole.harms())
    };
    assert!(harmed.len() * SEEDS_TO_SHOW >= seeds as usize, "{}", few());
    let (seed, error) = harmed[0];
    println!("  seed {seed}: {}", error.lines().next().unwrap_or_default());
}

fn drawn_load(case: &Case, seed: u64) -> Result<(), String> {
    case.run(seed).map(drop)
}

#[test]
fn a_lookup_never_gives_torn_or_foreign_bytes() {
    show(Hole::Validation, 150, Case::drawn, drawn_load);
}

/// Every other client remembers addresses.
#[test]
fn a_lookup_where_an_object_was_gives_nothing_that_was_replaced() {
    show(Hole::UncheckedAddress, 100, Case::drawn, drawn_load);
}

/// A pool with room for everything, so that a miss is a mistake: insertions and deletions of a few
/// keys in one bucket.
#[test]
fn two_insertions_of_a_key_never_both_stay() {
    let case = |_| Case {
        chunk_bytes: 1024,
        chunks: 80,
        group_objects_max: 12,
        clients: 8,
        slots: 16,
        evictions: Evictions::Never,
        load: Load {
            keys: 3,
            operations: 100,
            value_bytes_max: 30,
            lookups: 5,
            mixed: true,
            expiring: false,
            dropped: 0,
        },
        ..Case::default()
    };
    show(Hole::DuplicateKey, 100, case, drawn_load);
}

/// The tag in a slot has 16 bits of the generation. Here one client makes room for a large object
/// again and again, and all free their chunks after every operation and turn the generation of
/// every free chunk to a multiple of 2^16, while client 0 takes long to publish, so that a reused
/// chunk gives the same slot words as before: only intents keep a change from taking one for the
/// other. (No lookups: they rely on it that no chunk is reused so often while they look.)
#[test]
fn a_slot_word_that_comes_back_is_not_taken_for_the_old_one() {
    const REJOINS: usize = 1200;
    let case = |seed| Case {
        chunk_bytes: 256,
        chunks: 14 + seed % 4,
        group_objects_max: 1,
        rejoins: REJOINS,
        hesitation_ns: 50_000,
        // The ring's nodes tell groups apart by the same bits.
        verified: false,
        ..Case::default()
    };
    show(Hole::Protection, 150, case, |case, seed| {
        let done = Rc::new(Cell::new(false));
        let checked = case.run_part(seed, |mut client| {
            let done = done.clone();
            async move {
                if client.number == 0 {
                    for step in 0..150 {
                        client
                            .set_returning(b"k", load::unique_value(client.number, step, 20), Condition::Always)
                            .await?;
                    }
                    done.set(true);
                }
                for step in 0..REJOINS as u64 {
                    if done.get() {
                        break;
                    }
                    if client.number == 1 {
                        client.cache.set(b"large", &[0; 1200], &SetOptions::default()).await?;
                        client.cache.delete(b"large").await?;
                    } else {
                        let value = load::unique_value(client.number, step, 20);
                        client.set_returning(b"k", value, Condition::Always).await?;
                    }
                    client.rejoin().await?;
                    turn_free_generations(&mut client).await?;
                }
                Ok(client)
            }
        });
        checked.map(drop)
    });
}

/// Makes the low 16 bits of every free chunk's generation zero.
async fn turn_free_generations(client: &mut Client) -> Result<(), CacheError> {
    let forge = client.cache.engine();
    let layout = &forge.pool().pool().layout;
    for number in 0..layout.chunks() {
        let mut batch = Batch::new();
        let at = layout.descriptor(ChunkId(number));
        let read = batch.read_word(at);
        forge.client().endpoint.post(&mut batch).await?;
        let word = batch.word(read);
        let Some(chunk @ Chunk { state: ChunkState::Free, generation, .. }) = Chunk::from_word(word) else { continue };
        if generation & 0xffff != 0 {
            let turned = Chunk { generation: (generation | 0xffff).wrapping_add(1), ..chunk };
            let mut batch = Batch::new();
            batch.compare_and_swap(at, word, turned.word());
            forge.client().endpoint.post(&mut batch).await?;
        }
    }
    Ok(())
}

/// Counters among objects that are set and regrouped all the time.
fn counters_and_sets(_seed: u64) -> Case {
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
fn no_update_is_lost_to_another_or_to_a_regrouping() {
    show(Hole::LostUpdate, 150, counters_and_sets, drawn_load);
}

/// A set that a counter overtook did not take place before it: the counter has counted what was
/// there.
#[test]
fn a_set_is_not_done_since_a_counter_was_counted() {
    show(Hole::OvertakenBySight, 150, counters_and_sets, drawn_load);
}

/// A set that found its slot changed by a regrouping was overtaken by nobody.
#[test]
fn a_set_is_not_done_since_the_object_was_moved() {
    let load =
        Load { keys: 2, operations: 200, value_bytes_max: 60, lookups: 20, mixed: true, expiring: false, dropped: 0 };
    let case = |_| Case { chunk_bytes: 256, group_objects_max: 2, clients: 4, load: load.clone(), ..Case::default() };
    show(Hole::OvertakenByCopy, 150, case, drawn_load);
}

/// Hot small objects, and large ones whose failed attempts leave a client with so many chunks that
/// it gives further ones away.
#[test]
fn hot_objects_outlive_the_chunk_that_they_are_moved_from() {
    let case =
        |seed| Case { chunk_bytes: 256, chunks: 30 + seed % 8, group_objects_max: 4, clients: 5, ..Case::default() };
    show(Hole::EarlyReuse, 300, case, |case, seed| {
        let checked = case.run_part(seed, |mut client| async move {
            let mut random = client.random();
            for step in 0..400 {
                if random.below(3) == 0 {
                    let value = load::unique_value(client.number, step, 200 + random.below(1500));
                    client.set(format!("large {}", random.below(2)).as_bytes(), value).await?;
                    continue;
                }
                let key = format!("small {}", random.below(8)).into_bytes();
                if !client.get(&key).await? {
                    client.set(&key, load::unique_value(client.number, step, 10)).await?;
                }
            }
            Ok(client)
        });
        checked.map(drop)
    });
}

/// A load that does little else than put groups through small rings.
fn many_groups() -> Case {
    Case {
        chunk_bytes: 256,
        chunks: 10,
        group_objects_max: 1,
        subject: Forged { ring_log2: Some(5), ..Forged::default() },
        load: Load {
            keys: 8,
            operations: 60,
            value_bytes_max: 30,
            lookups: 10,
            mixed: false,
            expiring: false,
            dropped: 0,
        },
        ..Case::default()
    }
}

#[test]
fn a_group_whose_enqueuer_was_slow_is_not_stranded() {
    show(Hole::UnfilledNode, 300, |_| many_groups(), drawn_load);
}

#[test]
fn a_group_whose_enqueuer_was_slow_is_not_stranded_at_the_wrap_of_the_cursors() {
    for ring_log2 in [5, 8] {
        let turned = |seed| Forged {
            ring_log2: Some(ring_log2),
            ring_position: u32::MAX - (seed % 20) as u32,
            ..Forged::default()
        };
        let case = |seed| Case { subject: turned(seed), ..many_groups() };
        show(Hole::UnfilledNode, 300, case, drawn_load);
    }
}

/// A ring of more than 2^19 nodes has fewer bits of laps than a node has room for.
#[test]
fn the_queues_of_a_large_pool_go_on_at_the_wrap_of_the_cursors() {
    for_each_seed(3, |seed| {
        let turned = Forged { ring_log2: Some(20), ring_position: u32::MAX - seed as u32, ..Forged::default() };
        let case = Case { subject: turned, ..many_groups() };
        case.run(seed).unwrap();
    });
}

#[test]
fn a_set_that_returned_can_be_read() {
    let case = |_| Case {
        clients: 1,
        evictions: Evictions::Never,
        load: Load {
            keys: 3,
            operations: 30,
            value_bytes_max: 30,
            lookups: 50,
            mixed: true,
            expiring: false,
            dropped: 0,
        },
        ..Case::default()
    };
    show(Hole::DroppedSet, 50, case, drawn_load);
}

/// Client 0 has joined and does nothing.
#[test]
fn writers_need_no_other_client_to_be_busy() {
    show(Hole::IdleEvictor, 100, Case::drawn, |case, seed| {
        let load = case.load.clone();
        let playing = Rc::new(Cell::new(case.clients - 1));
        let checked = case.run_part(seed, |client| {
            let (load, playing) = (load.clone(), playing.clone());
            async move {
                if client.number == 0 {
                    while playing.get() > 0 {
                        client.cache.engine().client().endpoint.pause(10_000).await;
                    }
                    return Ok(client);
                }
                let done = load::run(&client.cache, client.number, client.seed, &load, 1, &client.history).await;
                playing.set(playing.get() - 1);
                done.map(|()| client)
            }
        });
        checked.map(drop)
    });
}

/// Deletions make groups worth cleaning, which leaves their nodes behind.
#[test]
fn a_node_of_a_cleaned_group_does_not_take_the_next_one() {
    let load =
        Load { keys: 16, operations: 120, value_bytes_max: 80, lookups: 40, mixed: true, expiring: false, dropped: 0 };
    let case = |_| Case { chunks: 18, group_objects_max: 2, load: load.clone(), ..Case::default() };
    show(Hole::StaleNode, 100, case, drawn_load);
}

/// Clients without a free chunk find the node that came; the others meet its chunks in slots and
/// queues.
#[test]
fn a_chunk_of_a_node_that_came_meanwhile_is_no_damage() {
    let load =
        Load { keys: 40, operations: 60, value_bytes_max: 400, lookups: 40, mixed: true, expiring: false, dropped: 0 };
    let case = |seed| Case {
        chunks: 18,
        nodes: 1 + (seed % 3) as u32,
        growth_chunks: 60,
        group_objects_max: 1,
        load: load.clone(),
        ..Case::default()
    };
    show(Hole::UnknownNode, 100, case, drawn_load);
}

/// What expired for one client must not be found, or given a later end, by another whose clock is
/// behind.
#[test]
fn what_has_expired_for_one_never_comes_back_for_another() {
    let load =
        Load { keys: 1, operations: 60, value_bytes_max: 20, lookups: 60, mixed: true, expiring: true, dropped: 0 };
    let case = |_| Case { clients: 4, chunks: 40, load: load.clone(), ..Case::default() };
    show(Hole::UntakenExpiry, 100, case, drawn_load);
}

/// Slots of present keys are made to point anywhere, mostly far outside the region.
#[test]
fn hostile_slot_words_are_never_followed_out_of_the_heap() {
    let case = |_| Case { clients: 2, steps_max: 60_000_000, ..Case::default() };
    show(Hole::TrustedBytes, 16, case, |case, seed| {
        let (sim, pool) = case.formatted(seed)?;
        let words = ForgePoolWords { pool };
        let history = Rc::default();
        case.play(&sim, &history, |mut client| async move {
            for key in [b"a", b"b", b"c"] {
                client.set(key, vec![7; 40]).await?;
            }
            Ok(client)
        })?;
        let mut random = Random::stream(seed, 9);
        for slot in words.slots() {
            let word = sim.peek_word(slot);
            if word >> 56 != 0 {
                // Length code and fingerprint stay, so that lookups come by.
                sim.poke_word(slot, word >> 48 << 48 | random.word() >> random.below(48).max(16));
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
