//! Clients that have many operations under way at once.

use atoll_cases::promises::{faults_do_no_harm, histories_are_linearizable, under_seeds};
use atoll_cases::{
    Case, CliqueMapSubject, DittoSubject, FaultyCase, ForgeSubject, KvsSubject, Load, QueuesSubject, Subject,
};

/// A drawn case in which each client has so many operations under way.
fn with_lanes<S: Subject>(seed: u64, lanes: u64) -> Case<S> {
    let drawn = Case::<S>::drawn(seed);
    let (operations, keys) = (drawn.load.operations.max(2 * lanes), drawn.load.keys.max(2 * lanes));
    Case { lanes, load: Load { operations, keys, ..drawn.load }, ..drawn }
}

/// Futures are dropped on the way, without faults and with them.
fn dropped<S: Subject>(lanes: u64, seeds: u64) {
    let drawn = |seed| FaultyCase::<S>::drawn(seed).with_lanes(lanes).with_dropped(40);
    under_seeds::<S, _, _>(seeds, drawn, |faulty, seed| {
        faulty.case.run(seed)?;
        faulty.run(seed)
    });
}

fn whatever_is_under_way<S: Subject>() {
    // The last ones are more than run at once.
    for lanes in [2, 4, 16, 80] {
        println!("{}: {lanes} lanes", S::NAME);
        histories_are_linearizable(100, |seed| with_lanes::<S>(seed, lanes));
        faults_do_no_harm(100, |seed| FaultyCase::<S>::drawn(seed).with_lanes(lanes));
        dropped::<S>(lanes, 50);
    }
    dropped::<S>(1, 300);
}

#[test]
fn forge_is_linearizable_with_many_operations_of_a_client_under_way() {
    whatever_is_under_way::<ForgeSubject>();
}

#[test]
fn the_table_is_linearizable_with_many_operations_of_a_client_under_way() {
    whatever_is_under_way::<KvsSubject>();
    whatever_is_under_way::<DittoSubject>();
    whatever_is_under_way::<QueuesSubject>();
}

#[test]
fn cliquemap_is_linearizable_with_many_operations_of_a_client_under_way() {
    whatever_is_under_way::<CliqueMapSubject>();
}
