//! A pool becomes smaller and larger again in every case, while clients die and stand still: no
//! verb touches memory that was given back to the host. Nor memory that was not provided yet, where
//! a pool is used while that is still going on.
//!
//! The simulator fails a run in which one does ([`SimError::Absent`](atoll_sim::SimError)). On one
//! host such a verb kills its process, once the host is full.

use atoll_cache::forge::Hole;
use atoll_cases::{Case, Dittoed, Forged, Load, Queueing, Stored, Subject, Turmoil};
use atoll_sim::history::Evictions;
use atoll_sim::{Distance, Random, for_each_seed};

fn resizing<S: Subject>(seed: u64) -> Turmoil<S> {
    let turmoil = Turmoil::<S>::drawn(seed);
    let resized_chunks = Random::stream(seed, 31).pick(&[1, 2, 4, turmoil.case.chunks / 4]);
    let case = turmoil.case;
    Turmoil { resized_chunks, case: Case { subject: case.subject.forgetful(), ..case }, ..turmoil }
}

fn no_verb_touches_memory_that_was_given_back<S: Subject>(seeds: u64) {
    for_each_seed(seeds, |seed| {
        if let Err(error) = resizing::<S>(seed).run(seed) {
            let (_, trace) = resizing::<S>(seed).run_traced(seed, 400);
            panic!("seed {seed}: {error}\n{:?}\n{trace}", resizing::<S>(seed));
        }
    });
}

#[test]
fn no_verb_of_forge_touches_memory_that_was_given_back() {
    no_verb_touches_memory_that_was_given_back::<Forged>(200);
}

#[test]
fn no_verb_of_the_table_of_objects_touches_memory_that_was_given_back() {
    no_verb_touches_memory_that_was_given_back::<Dittoed>(80);
    no_verb_touches_memory_that_was_given_back::<Stored>(80);
    no_verb_touches_memory_that_was_given_back::<Queueing>(40);
}

fn no_verb_touches_memory_that_is_not_provided_yet<S: Subject>(seeds: u64) {
    for_each_seed(seeds, |seed| {
        let turmoil = Turmoil::<S> { sparse: true, ..Turmoil::drawn(seed) };
        if let Err(error) = turmoil.run(seed) {
            let (_, trace) = turmoil.run_traced(seed, 400);
            panic!("seed {seed}: {error}\n{turmoil:?}\n{trace}");
        }
    });
}

#[test]
fn no_verb_of_forge_touches_memory_that_is_not_provided_yet() {
    no_verb_touches_memory_that_is_not_provided_yet::<Forged>(150);
}

#[test]
fn no_verb_of_the_table_of_objects_touches_memory_that_is_not_provided_yet() {
    no_verb_touches_memory_that_is_not_provided_yet::<Dittoed>(60);
    no_verb_touches_memory_that_is_not_provided_yet::<Stored>(60);
    no_verb_touches_memory_that_is_not_provided_yet::<Queueing>(30);
}

/// A discarder that does not wait for the operations that were under way.
#[test]
fn memory_that_is_given_back_while_an_operation_is_under_way_is_touched() {
    const SEEDS: u64 = 200;
    let run = |seed| {
        let mut turmoil = resizing::<Forged>(seed);
        turmoil.case.hole = Some(Hole::HastyDiscard);
        // So little room that what is retired was just evicted.
        (turmoil.case.chunks, turmoil.case.evictions, turmoil.resized_chunks) = (20, Evictions::Anytime, 10);
        turmoil.case.load = Load { keys: 8, operations: 200, value_bytes_max: 900, lookups: 80, ..turmoil.case.load };
        (turmoil.case.clients, turmoil.case.nodes, turmoil.case.distance) = (6, 1, Distance::Near);
        // Clients that stand still show it, and none that is dead.
        (turmoil.sparse, turmoil.faults.kills_max) = (false, 0);
        (turmoil.faults.pauses_max, turmoil.faults.steps_between) = (40, 200);
        turmoil.run(seed)
    };
    let shown: Vec<_> = (0..SEEDS).filter_map(|seed| run(seed).err()).collect();
    println!("shown by {} of {SEEDS} seeds", shown.len());
    assert!(shown.iter().all(|error| Hole::HastyDiscard.is_shown_by(error)), "{shown:?}");
    assert!(shown.len() >= 4, "{} of {SEEDS} seeds show it", shown.len());
}
