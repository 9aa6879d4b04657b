//! Engines on the table of objects, on the simulated fabric: promises 1, 4, 5 and the pool's
//! invariants, under every liberty of the contract and whatever goes wrong.

use atoll_cache::EnginePool;
use atoll_cache::Pooled;
use atoll_cases::{Case, Dittoed, Queueing, Stored, Subject, Turmoil, load};
use atoll_fabric::{Batch, Endpoint};
use atoll_sim::for_each_seed;
use std::cell::Cell;
use std::rc::Rc;

fn promise_1<S: Subject>(engine: &str) {
    let hits = Cell::new(0);
    for_each_seed(500, |seed| {
        let case = Case::<S>::drawn(seed);
        match case.run(seed) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(error) => panic!(
                "{engine}, seed {seed}: {error}\n{case:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test table sim::"
            ),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}

fn promise_4<S: Subject>(engine: &str) {
    let (runs, kills) = (Cell::new(0), Cell::new(0));
    for_each_seed(300, |seed| {
        let turmoil = Turmoil::<S>::drawn(seed);
        match turmoil.run(seed) {
            Ok(ran) => {
                runs.set(runs.get() + 1);
                kills.set(kills.get() + ran.kills);
            }
            Err(error) => panic!(
                "{engine}, seed {seed}: {error}\n{turmoil:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test table sim::"
            ),
        }
    });
    println!("{engine}: {} kills", kills.get());
    assert!(runs.get() < 100 || kills.get() > runs.get() / 3, "clients die in few of the runs: {}", kills.get());
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

/// A client that dies may leave an object counted against the limit that is not there. Writers that
/// live do not wait for ever for the room that it had reserved.
fn limit_comes_back<S: Subject>(engine: &str) {
    for_each_seed(20, |seed| {
        let case = Case::<S> { clients: 4, objects_max: 2, ..Case::default() };
        let (sim, shared) = case.formatted(seed).unwrap();
        let resident = shared.pool().layout.resident_objects();
        let (control, history) = (sim.control(), Rc::default());
        let deaths = Rc::new(Cell::new(0));
        let played = case.play(&sim, &history, |mut client| {
            let (control, deaths) = (control.clone(), deaths.clone());
            async move {
                if client.number < 2 {
                    let endpoint = &client.cache.engine().client().endpoint;
                    let mut reservation = Batch::new();
                    reservation.fetch_and_add(resident, 1);
                    endpoint.post(&mut reservation).await?;
                    deaths.set(deaths.get() + 1);
                    control.kill(control.identified(endpoint.identity()).expect("it has posted"));
                    endpoint.pause(1).await;
                }
                // A writer that ends before the two deaths never needs what they had reserved.
                while deaths.get() < 2 {
                    client.cache.engine().client().endpoint.pause(1_000).await;
                }
                // Neither of the two that live is ever alone.
                for step in 0..5 {
                    client.set(b"k", load::unique_value(client.number, step, 20)).await?;
                    client.delete(b"k").await?;
                }
                Ok(client)
            }
        });
        played.unwrap_or_else(|error| panic!("{engine}, seed {seed}: {error}"));
        case.verify(&sim).unwrap_or_else(|error| panic!("{engine}, seed {seed}: {error}"));
    });
}

#[test]
fn writers_have_the_limit_again_that_the_dead_had_used_up() {
    limit_comes_back::<Dittoed>("ditto");
    limit_comes_back::<Stored>("kvs");
    limit_comes_back::<Queueing>("queues");
}
