//! The learned rule on the simulated fabric: promises 1 and 4 and the pool's invariants hold with it as with the others.

use atoll_cache::forge::ForgeOptions;
use atoll_lab::simulated::{Case, Forged, Turmoil};
use atoll_sim::for_each_seed;
use std::cell::Cell;

fn replay(seed: u64) -> String {
    format!("replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test glcache_sim")
}

/// A drawn case, with the rule.
fn learned(drawn: Case) -> Case {
    let subject = Forged { options: ForgeOptions::glcache(), ..drawn.subject.clone() };
    Case { subject, ..drawn }
}

#[test]
fn promise_1_histories_are_linearizable_and_the_pool_is_sound_whatever_the_schedule() {
    let hits = Cell::new(0);
    for_each_seed(1000, |seed| {
        let case = learned(Case::drawn(seed));
        match case.run(seed) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(error) => panic!("seed {seed}: {error}\n{case:?}\n{}", replay(seed)),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}

#[test]
fn promise_4_whoever_dies_wherever_nothing_is_wrong_and_nothing_is_lost() {
    let kills = Cell::new(0);
    for_each_seed(300, |seed| {
        let drawn: Turmoil = Turmoil::drawn(seed);
        let turmoil = Turmoil { case: learned(drawn.case.clone()), ..drawn };
        match turmoil.run(seed) {
            Ok(ran) => kills.set(kills.get() + ran.kills),
            Err(error) => panic!("seed {seed}: {error}\n{turmoil:?}\n{}", replay(seed)),
        }
    });
    assert!(kills.get() > 0, "a load in which nobody dies shows nothing");
}
