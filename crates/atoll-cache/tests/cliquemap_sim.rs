//! `cliquemap-lru` and `cliquemap-lfu` on the simulated fabric: what they promise, under every liberty of the contract for verbs and messages, and whatever
//! becomes of clients.

use atoll_lab::simulated::{Case, Cliqued, Turmoil};
use atoll_sim::for_each_seed;
use std::cell::Cell;

#[test]
fn promise_1_it_is_linearizable_and_its_pool_is_sound_whatever_becomes_of_messages() {
    let hits = Cell::new(0);
    for_each_seed(500, |seed| {
        let case = Case::<Cliqued>::drawn(seed);
        match case.run(seed) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(error) => panic!(
                "seed {seed}: {error}\n{case:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test cliquemap_sim promise_1"
            ),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}

#[test]
fn promise_4_clients_that_die_hold_nothing_and_nobody_waits_for_them() {
    let kills = Cell::new(0);
    for_each_seed(300, |seed| {
        let turmoil = Turmoil::<Cliqued>::drawn(seed);
        match turmoil.run(seed) {
            Ok(ran) => kills.set(kills.get() + ran.kills),
            Err(error) => panic!(
                "seed {seed}: {error}\n{turmoil:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test cliquemap_sim promise_4"
            ),
        }
    });
    assert!(kills.get() > 0, "nobody died");
}
