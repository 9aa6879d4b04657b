//! Engines on the table of objects, on the simulated fabric: promises 1, 4, 5 and the pool's invariants, under every liberty of the contract and
//! whatever goes wrong.

use atoll_lab::simulated::{Case, Dittoed, Queueing, Stored, Subject, Turmoil};
use atoll_sim::for_each_seed;
use std::cell::Cell;

fn promise_1<S: Subject>(engine: &str) {
    let hits = Cell::new(0);
    for_each_seed(500, |seed| {
        let case = Case::<S>::drawn(seed);
        match case.run(seed) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(error) => panic!(
                "{engine}, seed {seed}: {error}\n{case:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test objects_sim"
            ),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}

fn promise_4<S: Subject>(engine: &str) {
    let kills = Cell::new(0);
    for_each_seed(300, |seed| {
        let turmoil = Turmoil::<S>::drawn(seed);
        match turmoil.run(seed) {
            Ok(ran) => kills.set(kills.get() + ran.kills),
            Err(error) => panic!(
                "{engine}, seed {seed}: {error}\n{turmoil:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test objects_sim"
            ),
        }
    });
    println!("{engine}: {} kills", kills.get());
}

#[test]
fn promise_1_ditto_is_linearizable_and_its_pool_is_sound_whatever_the_schedule() {
    promise_1::<Dittoed>("ditto");
}

#[test]
fn promise_1_kvs_is_linearizable_and_its_pool_is_sound_whatever_the_schedule() {
    promise_1::<Stored>("kvs");
}

#[test]
fn promise_1_queues_are_linearizable_and_their_pool_is_sound_whatever_the_schedule() {
    promise_1::<Queueing>("queues");
}

#[test]
fn promise_4_whoever_dies_wherever_nothing_of_ditto_is_wrong_and_nothing_is_lost() {
    promise_4::<Dittoed>("ditto");
}

#[test]
fn promise_4_whoever_dies_wherever_nothing_of_kvs_is_wrong_and_nothing_is_lost() {
    promise_4::<Stored>("kvs");
}

#[test]
fn promise_4_whoever_dies_wherever_nothing_of_queues_is_wrong_and_nothing_is_lost() {
    promise_4::<Queueing>("queues");
}
