//! Clients that have many operations under way at once.

use atoll_cases::{Case, Cliqued, Dittoed, Forged, Load, Queueing, Stored, Subject, Turmoil};
use atoll_sim::for_each_seed;

/// Random histories are linearizable, and the pool is sound.
fn histories<S: Subject>(lanes: u64, seeds: u64) {
    for_each_seed(seeds, |seed| {
        let drawn = Case::<S>::drawn(seed);
        let load = Load {
            operations: drawn.load.operations.max(2 * lanes),
            keys: drawn.load.keys.max(2 * lanes),
            ..drawn.load
        };
        Case { lanes, load, ..drawn }.run(seed).unwrap_or_else(|error| panic!("seed {seed}, {lanes} lanes: {error}"));
    });
}

/// The same with futures that are dropped on the way.
fn dropped<S: Subject>(lanes: u64, seeds: u64) {
    for_each_seed(seeds, |seed| {
        let drawn = Turmoil::<S>::drawn(seed).with_lanes(lanes).with_dropped(40);
        let context = |error| panic!("seed {seed}, {lanes} lanes, with dropped futures: {error}");
        drawn.case.run(seed).map(drop).unwrap_or_else(context);
        drawn.run(seed).map(drop).unwrap_or_else(context);
    });
}

/// The same while clients die.
fn deaths<S: Subject>(lanes: u64, seeds: u64) {
    for_each_seed(seeds, |seed| {
        let turmoil = Turmoil::<S>::drawn(seed).with_lanes(lanes);
        turmoil.run(seed).unwrap_or_else(|error| panic!("seed {seed}, {lanes} lanes: {error}"));
    });
}

fn whatever_is_under_way<S: Subject>() {
    for lanes in [2, 4, 16, 64] {
        histories::<S>(lanes, 100);
        deaths::<S>(lanes, 100);
        dropped::<S>(lanes, 50);
    }
    dropped::<S>(1, 300);
}

#[test]
fn forge_is_linearizable_with_many_operations_of_a_client_under_way() {
    whatever_is_under_way::<Forged>();
}

#[test]
fn the_table_is_linearizable_with_many_operations_of_a_client_under_way() {
    whatever_is_under_way::<Stored>();
    whatever_is_under_way::<Dittoed>();
    whatever_is_under_way::<Queueing>();
}

#[test]
fn cliquemap_is_linearizable_with_many_operations_of_a_client_under_way() {
    whatever_is_under_way::<Cliqued>();
}
