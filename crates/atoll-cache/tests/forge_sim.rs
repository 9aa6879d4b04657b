//! `forge` on the simulated fabric: promises 1, 5 and the pool's invariants, under every liberty of the contract.

mod load;
mod simulated;

use atoll_sim::for_each_seed;
use simulated::Case;
use std::cell::Cell;

fn replay(seed: u64) -> String {
    format!("replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test forge_sim")
}

#[test]
fn promise_1_histories_are_linearizable_and_the_pool_is_sound_whatever_the_schedule() {
    let hits = Cell::new(0);
    for_each_seed(1000, |seed| {
        let case = Case::drawn(seed);
        match case.run(seed) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(error) => panic!("seed {seed}: {error}\n{case:?}\n{}", replay(seed)),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}
