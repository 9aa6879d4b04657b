//! Promise 4 of `forge` on the simulated fabric: clients die and stand still anywhere, and nothing wrong is served, nobody waits for ever, and
//! everything that they held comes back.

use atoll_lab::simulated::Turmoil;
use atoll_sim::for_each_seed;
use std::cell::Cell;

#[test]
fn promise_4_whoever_dies_wherever_nothing_is_wrong_and_nothing_is_lost() {
    let kills = Cell::new(0);
    for_each_seed(300, |seed| {
        let turmoil = Turmoil::drawn(seed);
        match turmoil.run(seed) {
            Ok(ran) => kills.set(kills.get() + ran.kills),
            Err(error) => panic!(
                "seed {seed}: {error}\n{turmoil:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cache --test forge_crashes"
            ),
        }
    });
    println!("{} kills", kills.get());
}
