//! The hazards of DiFache's prototype. Each has a guard ([`Hole`]): with it no run fails, and
//! without it some run fails by the harm that the hazard names.
//!
//! | hazard | closed by | test |
//! |---|---|---|
//! | 1 a copy that is valid before it is filled | copies carry what they depend on, as it was before the READ | `what_a_copy_depends_on...` |
//! | 2 a local write against a local fill | a write ends the validity of its own node's copies | `a_write_ends...` |
//! | 3 a displacement hides a key from an invalidator | no invalidator looks a key up | none can be written |
//! | 4 a WRITE of a state clobbers another object's | invalidation words are changed by fetch-and-add alone, and never change their place | none can be written |
//! | 5 another object under the same place | a record names its object | `a_record_names...` |
//! | 6 a buffer that is used again under a reader | the segment's generation, after the copy | `a_reader_looks...` |
//! | 7 a mode switch against operations under way | every node is told in the transition; a write looks again | `every_node_is_told...`, `a_write_that_found...` |
//! | 8 a crash that holds a mode lock | there is no lock; another client ends the transition | `a_transition_of_a_dead_client...` |
//! | 9 a writer that dies before it has invalidated | a burial ends the validity of all copies | `a_burial_ends...` |
//! | 9 a process that dies alone, and those that share its near region | no verb reaches an ended region; a switch waits until they are dead | `a_switch_waits_for_clients...`, `explored::exporters_die...` |
//! | 10 one node sees the new value, another the old | regular by default; linearizable on demand | `object::a_write_under_way...`, `a_writer_s_bit...`, `a_switch_waits...` |
//! | 11 newcomers that a writer does not know | a writer looks for them after it has told the members | `a_write_looks_for_newcomers` |
//! | 11 newcomers that do not know what is on | a newcomer READs all modes once it is a member | `a_newcomer_reads...`, `a_newcomer_is_a_member...` |
//! | 12 owner sets | a node is an owner before it READs; a writer looks whether all are to be told | `a_node_is_an_owner...`, `a_writer_that_has_told...` |
//! | 13 counters carry into mode bits | separate words | none can be written |
//! | 14 a READ of 64 bytes is not atomic | a slot is one word; a record is checked after it was copied | `a_reader_looks...` |
//! | a memory node ends, and modes and owners with it | no copy outlives it; each node forgets its modes; all are owners; no client uses it before | `no_copy_outlives...`, and those in `absences` |
//! | 15 atomics in a cached object | they switch caching off for good | `an_atomic_switches...` |
//!
//! The guards of the central manager, the peer, have their tests at the end.

use crate::case::NearCase;
use atoll_near::{Hole, Promise, Protocol};
use atoll_sim::replay_command;

/// Of so many seeds, at least `wanted` must show the hole.
fn show(hole: Hole, seeds: u64, wanted: usize, case: impl Fn(u64) -> NearCase) {
    for seed in 0..seeds {
        if let Err(error) = case(seed).run() {
            panic!("{hole:?}, seed {seed}, no hole open: {error}\nreplay: {}", replay_command(seed));
        }
    }
    let run = |seed| NearCase { hole: Some(hole), ..case(seed) }.run().err();
    let shown: Vec<String> = (0..seeds).filter_map(run).collect();
    let harm = |error: &&String| {
        ["the old", "no order of the operations explains", "no client wrote", "stays torn"]
            .iter()
            .any(|harm| error.contains(harm))
    };
    let harmed: Vec<&String> = shown.iter().filter(harm).collect();
    println!(
        "{hole:?}: shown by {} of {seeds} seeds; the first: {}",
        harmed.len(),
        harmed.first().map_or("", |error| error)
    );
    assert_eq!(harmed.len(), shown.len(), "{hole:?}: another failure than the harm: {shown:?}");
    assert!(harmed.len() >= wanted, "{hole:?}: shown by {} of {seeds} seeds", harmed.len());
}

/// Few objects that are read and written by all.
fn crowded(seed: u64) -> NearCase {
    NearCase {
        promise: Promise::Regular,
        objects: 1,
        words: 1,
        writes: 20,
        switches: 10,
        operations: 60,
        ..NearCase::drawn(seed)
    }
}

fn linearizable(seed: u64) -> NearCase {
    // The time to find that no order explains a history grows fast with its length.
    NearCase { promise: Promise::Linearizable, operations: 20, ..crowded(seed) }
}

#[test]
fn what_a_copy_depends_on_is_looked_at_before_its_object_is_read() {
    show(Hole::SampleFirst, 200, 4, crowded);
}

#[test]
fn a_hit_looks_at_what_the_copy_depends_on() {
    show(Hole::LookOfHits, 100, 20, crowded);
}

#[test]
fn a_write_ends_the_validity_of_copies_of_its_own_node() {
    show(Hole::OwnChanges, 200, 4, |seed| NearCase { clients_per_node: 2, ..crowded(seed) });
}

#[test]
fn a_record_names_its_object() {
    show(Hole::RecordNamesObject, 100, 4, |seed| NearCase { objects: 3, ..crowded(seed) });
}

#[test]
fn a_reader_looks_at_the_segment_s_generation_after_it_has_copied() {
    show(Hole::SegmentGeneration, 400, 2, |seed| NearCase {
        nodes: 2,
        clients_per_node: 3,
        objects: 4,
        words: 3,
        stripes: 8,
        writes: 30,
        switches: 2,
        segment_bytes: 128,
        near_bytes: 1024,
        operations: 150,
        ..crowded(seed)
    });
}

#[test]
fn every_node_is_told_before_a_transition_ends() {
    show(Hole::ToldInTransition, 200, 4, crowded);
}

#[test]
fn a_write_that_found_the_mode_off_looks_again_after_it_has_landed() {
    crate::explored::a_write_meets_a_switch(Hole::SecondLookOfWrites, Promise::Regular);
}

#[test]
fn a_write_looks_for_newcomers() {
    show(Hole::Newcomers, 400, 2, |seed| NearCase { kills: 6, nodes: 4, ..crowded(seed) });
}

#[test]
fn a_newcomer_reads_the_modes_before_its_first_operation() {
    crate::explored::a_newcomer_writes(Hole::ModesOfNewcomers);
}

#[test]
fn a_newcomer_is_a_member_before_it_reads_the_modes() {
    crate::explored::a_newcomer_writes(Hole::MemberBeforeModes);
}

#[test]
fn a_node_is_an_owner_before_it_reads_what_it_copies() {
    show(Hole::OwnerBits, 100, 4, |seed| NearCase { owners_from: 1, ..crowded(seed) });
}

#[test]
fn a_writer_that_has_told_the_owners_looks_whether_all_are_to_be_told() {
    show(Hole::SecondLookForOwners, 400, 2, |seed| NearCase {
        owners_from: 2 + (seed % 3) as u8,
        nodes: 4,
        kills: 6,
        writes: 30,
        ..crowded(seed)
    });
}

#[test]
fn an_atomic_switches_caching_off() {
    show(Hole::PinnedAtomics, 100, 4, |seed| NearCase { atomics: true, ..crowded(seed) });
}

#[test]
fn a_writer_s_bit_forbids_copies_while_it_writes() {
    show(Hole::WriterBits, 100, 4, linearizable);
}

#[test]
fn a_switch_waits_for_writes_that_invalidate_nothing() {
    crate::explored::a_write_meets_a_switch(Hole::Bypasses, Promise::Linearizable);
}

#[test]
fn a_burial_ends_the_validity_of_all_copies() {
    crate::explored::a_dead_writer_leaves_no_old_copy(Hole::LossesAtBurial);
}

#[test]
fn a_switch_waits_for_clients_of_an_ended_region_that_may_write() {
    crate::shared::an_orphan_writes_while_a_stripe_is_switched_on(Hole::BypassesOfOrphans);
}

#[test]
fn no_copy_outlives_the_region_of_its_object() {
    show(Hole::CopiesOfLostNode, 100, 4, |seed| NearCase {
        absences: 2,
        nodes: 3,
        clients_per_node: 2,
        ..crowded(seed)
    });
}

/// The same beside a central manager.
fn managed(seed: u64) -> NearCase {
    NearCase { protocol: Protocol::CmCache, writes: 30, ..linearizable(seed) }
}

#[test]
fn the_manager_handles_one_request_of_an_object_at_a_time() {
    show(Hole::OneRequestAtATime, 100, 4, |seed| NearCase { in_flight: 2, ..managed(seed) });
}

#[test]
fn the_manager_does_a_change_once_however_often_it_is_asked() {
    show(Hole::ChangesOnce, 200, 4, managed);
}
