//! The holes of the published prototypes, one case each. It passes under every seed while the hole
//! is closed, and some seed shows the damage once the hole is open.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `Generation` | the tag of the chunk's generation in the slot | `a_lookup_never_gives_a_record_of_a_later_life_of_its_chunk`, a script in `orders` |
//! | `Protection` | protections, which chunks wait for | `a_slot_word_that_comes_back_is_not_taken_for_the_old_one` |
//! | `ProtectedRoom` | the same of an evictor, which frees chunks for others | `an_evictor_frees_no_chunk_that_an_operation_protects` |
//! | `FirstsAlone` | notices of protections that are not among the firsts | `a_near_clients_protection_is_not_overlooked` |
//! | `EarlyReuse` | moving and unlinking before a chunk's reuse | `hot_objects_outlive_the_chunk_that_they_are_moved_from` |
//! | `UnfilledNode` | dequeuers taking back the tickets that they pass | `a_group_whose_enqueuer_was_slow_is_not_stranded`, the same at the wrap of the cursors |
//! | `DroppedSet` | evicting for a writer without room | `a_set_that_returned_can_be_read` |
//! | `IdleEvictor` | letting any client evict | `writers_need_no_other_client_to_be_busy` |
//! | `StaleNode` | the generation in the ring's nodes | `a_node_of_a_cleaned_group_does_not_take_the_next_one` |
//! | `UncheckedAddress` | a READ of the slot beside that of the record | `a_lookup_where_an_object_was_gives_nothing_that_was_replaced` |
//!
//! `cargo test -p atoll-cases --test forge holes:: -- --nocapture` prints how many seeds show each.

use atoll_cache::Pooled;
use atoll_cache::forge::Hole;
use atoll_cache::{CacheError, Condition, SetOptions};
use atoll_cases::holes::{show_case, show_run};
use atoll_cases::{Case, Client, ForgeSubject, Load, load};
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState};
use atoll_sim::history::Evictions;
use atoll_sim::{Distance, for_each_seed};
use std::cell::Cell;
use std::rc::Rc;

/// Every other client remembers addresses.
#[test]
fn a_lookup_where_an_object_was_gives_nothing_that_was_replaced() {
    show_case::<ForgeSubject>(Hole::UncheckedAddress, 100, Case::<ForgeSubject>::drawn);
}

#[test]
fn a_slot_word_that_comes_back_is_not_taken_for_the_old_one() {
    show_that_a_slot_word_comes_back(Hole::Protection, Distance::FromSeed);
}

#[test]
fn a_near_clients_protection_is_not_overlooked() {
    show_that_a_slot_word_comes_back(Hole::FirstsAlone, Distance::Near);
}

/// The tag in a slot has 16 bits of the generation. Here one client makes room for a large object
/// again and again, and all free their chunks after every operation and turn the generation of
/// every free chunk to a multiple of 2^16, while client 0 takes long to publish, so that a reused
/// chunk gives the same slot words as before: only intents keep a change from taking one for the
/// other. (No lookups: they rely on it that no chunk is reused so often while they look.)
fn show_that_a_slot_word_comes_back(hole: Hole, distance: Distance) {
    const REJOINS: usize = 1200;
    let case = |seed| Case {
        chunk_bytes: 256,
        chunks: 14 + seed % 4,
        group_objects_max: 1,
        rejoins: REJOINS,
        publish_delay_ns_max: 50_000,
        distance,
        // The ring's nodes tell groups apart by the same bits.
        verified: false,
        ..Case::default()
    };
    show_run::<ForgeSubject>(hole, 150, case, |case, seed| {
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

/// As above: an evictor takes what client 0 protects.
#[test]
fn an_evictor_frees_no_chunk_that_an_operation_protects() {
    const SETS: u64 = 150;
    let case = |seed| Case {
        chunk_bytes: 256,
        chunks: 14 + seed % 4,
        group_objects_max: 1,
        clients: 4,
        rejoins: 1200,
        publish_delay_ns_max: 50_000,
        verified: false,
        ..Case::default()
    };
    show_run::<ForgeSubject>(Hole::ProtectedRoom, 150, case, |case, seed| {
        let done = Rc::new(Cell::new(false));
        let checked = case.run_part(seed, |mut client| {
            let done = done.clone();
            async move {
                if client.number == 0 {
                    for step in 0..SETS {
                        let value = load::unique_value(client.number, step, 20);
                        client.set_returning(b"k", value, Condition::Always).await?;
                    }
                    done.set(true);
                }
                for step in 0..1200 {
                    if done.get() {
                        break;
                    }
                    match client.number {
                        1 => {
                            client.cache.set(b"large", &[0; 1200], &SetOptions::default()).await?;
                            client.rejoin().await?;
                        }
                        2 => {
                            let value = load::unique_value(client.number, step, 20);
                            client.set_returning(b"k", value, Condition::Always).await?;
                            client.rejoin().await?;
                        }
                        _ => drop(client.cache.engine().evict_ahead().await?),
                    }
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

/// Hot small objects, and large ones whose failed attempts leave a client with so many chunks that
/// it gives further ones away.
#[test]
fn hot_objects_outlive_the_chunk_that_they_are_moved_from() {
    let case =
        |seed| Case { chunk_bytes: 256, chunks: 30 + seed % 8, group_objects_max: 4, clients: 5, ..Case::default() };
    show_run::<ForgeSubject>(Hole::EarlyReuse, 300, case, |case, seed| {
        let checked = case.run_part(seed, |client| async move {
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
        subject: ForgeSubject { ring_log2: Some(5), ..ForgeSubject::default() },
        load: Load { mixed: false, ..Load::new(8, 60, 30, 10) },
        ..Case::default()
    }
}

#[test]
fn a_group_whose_enqueuer_was_slow_is_not_stranded() {
    show_case::<ForgeSubject>(Hole::UnfilledNode, 300, |_| many_groups());
}

#[test]
fn a_group_whose_enqueuer_was_slow_is_not_stranded_at_the_wrap_of_the_cursors() {
    for ring_log2 in [5, 8] {
        let turned = |seed| ForgeSubject {
            ring_log2: Some(ring_log2),
            ring_position: u32::MAX - (seed % 20) as u32,
            ..ForgeSubject::default()
        };
        let case = |seed| Case { subject: turned(seed), ..many_groups() };
        show_case::<ForgeSubject>(Hole::UnfilledNode, 300, case);
    }
}

/// A ring of more than 2^19 nodes has fewer bits of laps than a node has room for.
#[test]
fn the_queues_of_a_large_pool_go_on_at_the_wrap_of_the_cursors() {
    for_each_seed(3, |seed| {
        let turned =
            ForgeSubject { ring_log2: Some(20), ring_position: u32::MAX - seed as u32, ..ForgeSubject::default() };
        let case = Case { subject: turned, ..many_groups() };
        case.run(seed).unwrap();
    });
}

#[test]
fn a_set_that_returned_can_be_read() {
    let case = |_| Case { clients: 1, evictions: Evictions::Never, load: Load::new(3, 30, 30, 50), ..Case::default() };
    show_case::<ForgeSubject>(Hole::DroppedSet, 50, case);
}

/// Client 0 has joined and does nothing.
#[test]
fn writers_need_no_other_client_to_be_busy() {
    show_run::<ForgeSubject>(Hole::IdleEvictor, 100, Case::drawn, |case, seed| {
        let load = case.load.clone();
        let playing = Rc::new(Cell::new(case.clients - 1));
        let checked = case.run_part(seed, |client| {
            let (load, playing) = (load.clone(), playing.clone());
            async move {
                if client.number == 0 {
                    while playing.get() > 0 {
                        client.endpoint().pause(10_000).await;
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
    let load = Load::new(16, 120, 80, 40);
    let case = |_| Case { chunks: 18, group_objects_max: 2, load: load.clone(), ..Case::default() };
    show_case::<ForgeSubject>(Hole::StaleNode, 100, case);
}
