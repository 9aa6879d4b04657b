//! `forge` on the simulated fabric: promises 1, 5 and the pool's invariants, under every liberty of
//! the contract.

use atoll_cache::{Condition, Value};
use atoll_cases::{Case, Forged, load};
use atoll_sim::for_each_seed;
use std::cell::Cell;

fn replay(seed: u64) -> String {
    format!("replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test forge sim::")
}

#[test]
fn promise_1_histories_are_linearizable_and_the_pool_is_sound_whatever_the_schedule() {
    let hits = Cell::new(0);
    for_each_seed(1000, |seed| {
        let case = Case::<Forged>::drawn(seed);
        match case.run(seed) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(error) => panic!("seed {seed}: {error}\n{case:?}\n{}", replay(seed)),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}

/// Large values: their extents are read after the slot, and pass to another record when the object
/// is moved. A set-if-absent that is refused tells what it has read.
#[test]
fn promise_1_a_change_of_a_large_object_never_decides_on_bytes_that_were_reused() {
    for_each_seed(1000, |seed| {
        let case: Case =
            Case { chunk_bytes: 256, chunks: 24 + seed % 8, group_objects_max: 1, clients: 4, ..Case::default() };
        let checked = case.run_part(seed, |mut client| async move {
            let mut random = client.random();
            for step in 0..60 {
                let key = if random.below(3) == 0 { b"a" } else { b"b" };
                let value = load::unique_value(client.number, step, 400 + random.below(300));
                let condition = if random.below(2) == 0 { Condition::Always } else { Condition::IfAbsent };
                client.set_returning(key, value, condition).await?;
                // Looked up often, it is moved to the main queue.
                client.cache.get(key, &mut Value::new()).await?;
            }
            Ok(client)
        });
        checked.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", replay(seed)));
    });
}
