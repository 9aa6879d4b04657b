//! The holes that `forge` and the table of objects both can have, one case each. It passes under
//! every seed while the hole is closed, and some seed shows the damage once the hole is open.
//!
//! | hole | closed by | test |
//! |---|---|---|
//! | `Validation` | checksum, key and generation or tag in every record | `a_lookup_never_gives_torn_or_foreign_bytes` |
//! | `DuplicateKey` | pending slots | `two_insertions_of_a_key_never_both_stay` |
//! | `LostUpdate` | retrying after a lost compare-and-swap | `no_update_is_lost_to_another_or_to_a_regrouping` |
//! | `OvertakenBySight` | a mark in records of changes that depend on nothing | `a_set_is_not_done_since_a_counter_was_counted` |
//! | `OvertakenByCopy` | comparing tokens | `a_set_is_not_done_since_the_object_was_moved` |
//! | `UntakenExpiry` | removing an expired object before telling that it has expired | `what_has_expired_for_one_never_comes_back_for_another` |
//! | `UnknownNode` | looking for new memory nodes before a word is taken for damaged | `a_chunk_of_a_node_that_came_meanwhile_is_no_damage` |
//! | `TrustedBytes` | checking every address and length against the heap | `hostile_slot_words_are_never_followed_out_of_the_heap` |
//! | `LeakedExtents` | the sweep of a repair | `extents_that_a_dead_client_wrote_or_was_about_to_free_come_back` |
//! | `UnfencedRepair` | the fence | `what_a_client_that_stands_still_could_still_write_is_not_reused` |
//!
//! `cargo test -p atoll-cases --test engines holes:: -- --nocapture` prints how many seeds show
//! each.

use atoll_cache::table::layout::BUCKET_SLOTS;
use atoll_cache::table::slot::Slot;
use atoll_cache::{CacheError, forge, table};
use atoll_cases::holes::{Hole, Shown, show, show_case, show_faulty_case};
use atoll_cases::{
    Case, Client, DittoSubject, FaultyCase, ForgePoolWords, ForgeSubject, KvsSubject, Load, Shared, Subject,
};
use atoll_fabric::Address;
use atoll_sim::history::Evictions;
use atoll_sim::{Fencing, Random};
use std::rc::Rc;
use std::sync::Arc;

#[test]
fn a_lookup_never_gives_torn_or_foreign_bytes() {
    show_case(forge::Hole::Validation, 150, Case::<ForgeSubject>::drawn);
    show_case(table::Hole::Validation, 100, Case::<DittoSubject>::drawn);
}

/// Insertions and deletions of a few keys. The pool of `forge` has one bucket and room for all, so
/// that a miss is a mistake. The table has two buckets whose free places change all the time: only
/// inserters that choose different places can both stay.
#[test]
fn two_insertions_of_a_key_never_both_stay() {
    fn crowded<S: Subject>(slots: u64, evictions: Evictions, load: Load) -> Case<S> {
        let (chunk_bytes, chunks, group_objects_max) = (1024, 80, if slots == 16 { 12 } else { 6 });
        Case { chunk_bytes, chunks, group_objects_max, clients: 8, slots, evictions, load, ..Case::default() }
    }
    show_case(forge::Hole::DuplicateKey, 100, |_| {
        crowded::<ForgeSubject>(16, Evictions::Never, Load::new(3, 100, 30, 5))
    });
    show_case(table::Hole::DuplicateKey, 100, |_| {
        crowded::<KvsSubject>(32, Evictions::Anytime, Load::new(8, 100, 30, 5))
    });
}

/// Counters among objects that are set, and moved, all the time.
fn counters_and_sets<S: Subject>(_seed: u64) -> Case<S> {
    Case { chunk_bytes: 1024, load: Load::new(4, 60, 40, 20), ..Case::default() }
}

#[test]
fn no_update_is_lost_to_another_or_to_a_regrouping() {
    show_case(forge::Hole::LostUpdate, 150, counters_and_sets::<ForgeSubject>);
    show_case(table::Hole::LostUpdate, 100, counters_and_sets::<DittoSubject>);
}

/// A SET that a counter overtook did not take place before it: the counter has counted what was
/// there. A SET that found its slot changed because the object was moved was overtaken by no
/// client.
#[test]
fn a_set_is_not_done_since_a_counter_was_counted_or_since_the_object_was_moved() {
    // More clients: a SET of `forge` gives its first attempt up whatever it finds.
    let load = Load::new(3, 150, 40, 20);
    let crowded = Case::<ForgeSubject> { clients: 6, load, ..counters_and_sets(0) };
    show_case(forge::Hole::OvertakenBySight, 150, |_| crowded.clone());
    show_case(table::Hole::OvertakenBySight, 100, counters_and_sets::<DittoSubject>);
    show_case(forge::Hole::OvertakenByCopy, 150, |_| {
        let load = Load::new(2, 300, 60, 20);
        Case::<ForgeSubject> { chunk_bytes: 256, group_objects_max: 2, clients: 6, load, ..Case::default() }
    });
    show_case(table::Hole::OvertakenByCopy, 100, |_| {
        let load = Load::new(1, 150, 40, 10);
        Case::<DittoSubject> { chunk_bytes: 1024, clients: 4, load, ..Case::default() }
    });
}

/// What expired for one client must not be found, or given a later end, by another client whose
/// clock is behind.
#[test]
fn what_has_expired_for_one_never_comes_back_for_another() {
    fn expiring<S: Subject>(operations: u64) -> Case<S> {
        let load = Load { expiring: true, ..Load::new(1, operations, 20, 60) };
        Case { clients: 4, chunks: 40, load, ..Case::default() }
    }
    show_case(forge::Hole::UntakenExpiry, 100, |_| expiring::<ForgeSubject>(150));
    show_case(table::Hole::UntakenExpiry, 100, |_| expiring::<DittoSubject>(150));
}

/// Clients without a free chunk find the node that was added. Other clients meet its chunks in
/// slots and queues.
#[test]
fn a_chunk_of_a_node_that_came_meanwhile_is_no_damage() {
    let growing = |seed: u64| (1 + (seed % 3) as u32, 18, 60);
    show_case(forge::Hole::UnknownNode, 100, |seed| {
        let ((nodes, chunks, growth_chunks), load) = (growing(seed), Load::new(40, 60, 400, 40));
        Case::<ForgeSubject> { chunks, nodes, growth_chunks, group_objects_max: 1, load, ..Case::default() }
    });
    show_case(table::Hole::UnknownNode, 60, |seed| {
        let ((nodes, chunks, growth_chunks), load) = (growing(seed), Load::new(60, 80, 400, 40));
        Case::<KvsSubject> { chunks, nodes, growth_chunks, slots: 128, load, ..Case::default() }
    });
}

/// Slots of present keys are made to point anywhere, mostly far outside the region. `slots` gives
/// the addresses of all slots, and `is_live` tells the words of objects.
fn hostile_slot_words<S: Subject<Hole: Hole>>(
    hole: S::Hole,
    slots: impl Fn(&Arc<Shared<S>>) -> Vec<Address>,
    is_live: impl Fn(u64) -> bool,
) {
    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
    let case = Case::<S> { clients: 2, steps_max: 60_000_000, ..Case::default() };
    show(hole, 16, Shown::ByOneIn50, |seed, hole| {
        let case = Case { hole, ..case.clone() };
        let (sim, pool) = case.formatted(seed)?;
        let history = Rc::default();
        case.play(&sim, &history, |client: Client<S>| async move {
            for key in KEYS {
                client.set(key, vec![7; 40]).await?;
            }
            Ok(client)
        })?;
        let mut random = Random::stream(seed, 9);
        for slot in slots(&pool) {
            let word = sim.peek_word(slot);
            if is_live(word) {
                // Length or class and fingerprint stay, so that lookups come by.
                sim.poke_word(slot, word >> 48 << 48 | random.word() >> random.below(48).max(16));
            }
        }
        case.play(&sim, &history, |client: Client<S>| async move {
            for key in KEYS {
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

#[test]
fn hostile_slot_words_are_never_followed_out_of_the_heap() {
    let of_forge = |pool: &Arc<forge::ForgePool>| ForgePoolWords { pool: pool.clone() }.slots().collect();
    hostile_slot_words::<ForgeSubject>(forge::Hole::TrustedBytes, of_forge, |word| word >> 56 != 0);
    let of_table = |pool: &Arc<table::TablePool>| {
        let slots = u64::from(pool.settings().buckets) * BUCKET_SLOTS as u64;
        (0..slots).map(|slot| pool.layout().slot(slot)).collect()
    };
    hostile_slot_words::<KvsSubject>(table::Hole::TrustedBytes, of_table, |word| Slot(word).is_live());
}

#[test]
fn extents_that_a_dead_client_wrote_or_was_about_to_free_come_back() {
    fn large_values<S: Subject>(faulty: &mut FaultyCase<S>, chunk_bytes: u32) {
        faulty.faults.kills_max = 4;
        faulty.faults.steps_between = 200;
        faulty.case.chunk_bytes = chunk_bytes;
        faulty.case.load.value_bytes_max = 900;
    }
    show_faulty_case(forge::Hole::LeakedExtents, 300, Shown::ByOne, |faulty| {
        large_values::<ForgeSubject>(faulty, 256);
    });
    show_faulty_case(table::Hole::LeakedExtents, 100, Shown::ByOneIn50, |faulty| {
        large_values::<KvsSubject>(faulty, 512);
    });
}

#[test]
fn what_a_client_that_stands_still_could_still_write_is_not_reused() {
    fn standing_still<S: Subject>(faulty: &mut FaultyCase<S>, pauses_max: u32, steps_between: u64, ns_max: u64) {
        (faulty.faults.pauses_max, faulty.faults.steps_between, faulty.faults.ns_max) =
            (pauses_max, steps_between, ns_max);
        faulty.fencing = Fencing::Observed;
        (faulty.times.suspect_ns, faulty.times.look_ns) = (5_000, 1_000);
    }
    show_faulty_case(forge::Hole::UnfencedRepair, 300, Shown::ByOne, |faulty| {
        standing_still::<ForgeSubject>(faulty, 6, 200, 1_000_000);
    });
    show_faulty_case(table::Hole::UnfencedRepair, 300, Shown::ByOneIn50, |faulty| {
        // So little room that every client takes blocks of other clients all the time.
        (faulty.case.chunks, faulty.case.evictions) = (18, Evictions::Anytime);
        faulty.case.load = Load { keys: 20, operations: 60, lookups: 20, ..faulty.case.load };
        standing_still::<KvsSubject>(faulty, 30, 60, 10_000_000);
    });
}
