//! Promises 1, 4 and 5 of every engine on the simulated fabric, whatever the contract permits and
//! whatever goes wrong.

use atoll_cache::{CacheError, EnginePool};
use atoll_cases::promises::{
    Suite, faults_do_no_harm, histories_are_linearizable, on_engines_of_clients, on_every_engine, under_seeds,
};
use atoll_cases::{
    Case, Client, CliqueMapSubject, DittoSubject, FaultyCase, ForgeSubject, GlCacheSubject, KvsSubject, QueuesSubject,
    Subject, load,
};
use atoll_fabric::{Address, Batch, Endpoint};
use atoll_sim::Control;
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn promise_1_histories_are_linearizable_and_the_pool_is_sound_whatever_the_schedule() {
    histories_are_linearizable::<ForgeSubject>(1000, Case::drawn);
    histories_are_linearizable::<GlCacheSubject>(1000, Case::drawn);
    histories_are_linearizable::<DittoSubject>(500, Case::drawn);
    histories_are_linearizable::<KvsSubject>(500, Case::drawn);
    histories_are_linearizable::<QueuesSubject>(500, Case::drawn);
    histories_are_linearizable::<CliqueMapSubject>(500, Case::drawn);
}

/// Clients die in a third of the runs at least.
struct ClientsDie;

impl Suite for ClientsDie {
    fn run<S: Subject>(&self) {
        let runs = faults_do_no_harm(300, FaultyCase::<S>::drawn);
        let kills: u64 = runs.iter().map(|run| run.kills).sum();
        println!("{}: {kills} kills", S::NAME);
        assert!(runs.len() < 100 || kills > runs.len() as u64 / 3, "clients die in few of the runs: {kills}");
    }
}

#[test]
fn promise_4_wherever_clients_die_nothing_is_wrong_and_nothing_is_lost() {
    on_every_engine(&ClientsDie);
}

/// Each of two clients that die has counted an object against the limit that is not there. The two
/// that live get the room that the dead had reserved.
struct LimitComesBack;

impl Suite for LimitComesBack {
    fn run<S: Subject>(&self) {
        let case = Case::<S> { clients: 4, objects_max: 2, ..Case::default() };
        under_seeds::<S, _, _>(
            20,
            |_| case.clone(),
            |case, seed| {
                let (sim, shared) = case.formatted(seed)?;
                let resident = shared.pool().layout.resident_objects();
                let (control, deaths) = (sim.control(), Rc::new(Cell::new(0)));
                case.play(&sim, &Rc::default(), |client| {
                    writes_after_two_deaths(client, resident, control.clone(), deaths.clone())
                })?;
                case.verify(&sim)
            },
        );
    }
}

async fn writes_after_two_deaths<S: Subject>(
    client: Client<S>,
    resident: Address,
    control: Control,
    deaths: Rc<Cell<u32>>,
) -> Result<Client<S>, CacheError> {
    if client.number < 2 {
        let mut reservation = Batch::new();
        reservation.fetch_and_add(resident, 1);
        client.endpoint().post(&mut reservation).await?;
        deaths.set(deaths.get() + 1);
        control.kill(control.identified(client.endpoint().identity()).expect("it has posted"));
        client.endpoint().pause(1).await;
    }
    // A writer that ends before the two deaths never needs what they had reserved.
    while deaths.get() < 2 {
        client.endpoint().pause(1_000).await;
    }
    // Neither of the two that live is ever alone.
    for step in 0..5 {
        client.set(b"k", load::unique_value(client.number, step, 20)).await?;
        client.delete(b"k").await?;
    }
    Ok(client)
}

#[test]
fn writers_have_the_limit_again_that_the_dead_had_used_up() {
    on_engines_of_clients(&LimitComesBack);
}
