//! `forge` on the simulated fabric: promises 1, 5 and the pool's invariants, under every liberty of the contract.

mod load;
mod simulated;

use atoll_cache::{CacheError, Condition, SetOptions, Value};
use atoll_sim::for_each_seed;
use atoll_sim::history::{self, Call, Outcome, Seen};
use simulated::{Case, Client};
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

/// Large values: their extents are read after the slot, and pass to another record when the object is moved. A set-if-absent that is refused tells
/// what it has read.
#[test]
fn promise_1_a_change_of_a_large_object_never_decides_on_bytes_that_were_reused() {
    for_each_seed(1000, |seed| {
        let case =
            Case { chunk_bytes: 256, chunks: 24 + seed % 8, group_objects_max: 1, clients: 4, ..Case::default() };
        let checked = case.run_part(seed, |mut client| async move {
            let mut random = client.random();
            for step in 0..60 {
                let key = if random.below(3) == 0 { b"a" } else { b"b" };
                let value = load::unique_value(client.number, step, 400 + random.below(300));
                let condition = if random.below(2) == 0 { Condition::Always } else { Condition::IfAbsent };
                set_returning(&mut client, key, value, condition).await?;
                // Looked up often, it is moved to the main queue.
                client.cache.get(key, &mut Value::new()).await?;
            }
            Ok(client)
        });
        checked.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", replay(seed)));
    });
}

async fn set_returning(client: &mut Client, key: &[u8], value: Vec<u8>, when: Condition) -> Result<(), CacheError> {
    let recorded = if when == Condition::Always { history::Condition::Always } else { history::Condition::IfAbsent };
    let pending = client.history.begin(client.number, key, Call::set_if(value.clone(), recorded));
    let mut old = Value::new();
    let options = SetOptions { condition: when, ..SetOptions::default() };
    let outcome = client.cache.set_returning(key, &value, &options, Some(&mut old)).await?;
    let seen = if outcome.old.is_some() { Seen::value(old.bytes()) } else { Seen::Absent };
    client.history.end(pending, Outcome::Set { stored: outcome.stored, seen, token: None });
    Ok(())
}
