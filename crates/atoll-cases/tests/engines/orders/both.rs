//! Orders that matter to `forge` and to the table of objects.

use super::interruption::{at_every_batch, run_interrupted};
use super::script::{pool_of, set_some, settle, until};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::{CacheError, Condition, Expiry, Pooled, SetOptions, Value};
use atoll_cases::{Case, Client, CliqueMapSubject, DittoSubject, ForgeSubject, KvsSubject, Load, Subject, load};
use atoll_fabric::Endpoint;
use atoll_pool::registry::{self, PlaceState};
use atoll_sim::history::Evictions;
use atoll_sim::{Distance, History};
use std::rc::Rc;

/// Client 1 repairs what client 0 left. Before every batch of the repair, client 2 allocates chunks
/// and dies, and client 3 shuts it out and joins again.
fn repair_while_clients_join_and_die<S: Subject>() {
    let case = Case::<S> { clients: 4, chunks: 60, rejoins: 1, evictions: Evictions::Anytime, ..Case::default() };
    at_every_batch(10, |batches| {
        let history = Rc::new(History::new());
        let was_stopped = run_interrupted(&case, batches, batches, &history, |run, mut client| async move {
            run.all_joined(&client, 4).await;
            match client.number {
                0 => {
                    set_some(&client, "zero", 0).await?;
                    run.die(&client).await
                }
                1 => {
                    run.died(&client, 0).await;
                    run.interrupt(&client, client.cache.engine().repair()).await?;
                    until(&client, || run.may_end.get()).await;
                    settle(&client).await?;
                }
                2 => {
                    run.stopped(&client).await;
                    set_some(&client, "two", 0).await?;
                    run.die(&client).await
                }
                _ => {
                    run.died(&client, 2).await;
                    run.note_stop();
                    // A client that joins in a dead client's place repairs too, but nothing of a
                    // client that is shut out later.
                    client.rejoin().await?;
                    set_some(&client, "three", 0).await?;
                    shut_out(&client, 2).await?;
                    run.release();
                    run.ended(&client).await;
                    set_some(&client, "three", 3).await?;
                    for step in 0..9 {
                        client.get(format!("three{step}").as_bytes()).await?;
                    }
                    run.may_end.set(true);
                }
            }
            Ok(client)
        })?;
        history.check_with(case.evictions).map_err(|violation| violation.to_string())?;
        Ok(was_stopped)
    });
}

/// Shuts out the client at this place, which is dead, and leaves what it held to other clients.
async fn shut_out<S: Subject>(client: &Client<S>, slot: u32) -> Result<(), CacheError> {
    let places = registry::places(client.endpoint(), pool_of(client)).await?;
    let place = places.iter().find(|place| place.incarnation.slot == slot).expect("it has a place");
    // The repairer may have done it.
    if place.state == PlaceState::Taken {
        registry::fence_dead(client.endpoint(), pool_of(client), place).await?;
    }
    Ok(())
}

#[test]
fn a_repair_leaves_alone_clients_that_join_or_die_meanwhile() {
    repair_while_clients_join_and_die::<ForgeSubject>();
    repair_while_clients_join_and_die::<KvsSubject>();
    repair_while_clients_join_and_die::<DittoSubject>();
}

/// Client 0 sets a large object again, if it is present. Before every batch of that, client 1
/// replaces the object and reuses its chunks. The object is present all the time.
fn change_while_chunks_are_reused<S: Subject>() {
    const LARGE: u64 = 400;
    let mut reached = 0;
    let load = Load { expiring: false, ..Case::<S>::default().load };
    let case = Case::<S> { clients: 2, chunks: 24, evictions: Evictions::Never, load, ..Case::default() };
    for seed in 0..12 {
        at_every_batch(2, |batches| {
            let was_stopped = run_interrupted(&case, seed, batches, &Rc::default(), |run, client| async move {
                if client.number == 0 {
                    client.set(b"k", load::unique_value(0, 0, LARGE)).await?;
                    let value = load::unique_value(0, 1, LARGE);
                    let options = SetOptions { condition: Condition::IfPresent, ..SetOptions::default() };
                    let outcome = run.interrupt(&client, client.cache.set(b"k", &value, &options)).await?;
                    assert!(outcome.stored, "the object was present all the time");
                    return Ok(client);
                }
                if run.stopped(&client).await {
                    client.set(b"k", load::unique_value(1, 0, LARGE)).await?;
                    for step in 1..8 {
                        client.set(&step.to_string().into_bytes(), load::unique_value(1, step, LARGE)).await?;
                    }
                }
                run.release();
                Ok(client)
            })?;
            reached += u64::from(was_stopped);
            Ok(was_stopped)
        });
    }
    println!("{reached} stops");
}

#[test]
fn a_change_never_decides_by_chunks_that_another_large_object_has() {
    change_while_chunks_are_reused::<ForgeSubject>();
    change_while_chunks_are_reused::<KvsSubject>();
    change_while_chunks_are_reused::<DittoSubject>();
}

/// Client 0 sets a key that expires at a moment, and the moment passes while it stands still.
/// Before every batch of that, client 1 sets the key if it is absent, before the moment. Afterwards
/// the key is absent: client 1 found the value of client 0, or client 0 removes what it published
/// too late.
fn set_until_a_moment_that_passes<S: Subject>(operations_before: u32, least: u64) {
    const MOMENT_MS: u64 = 50;
    const MS: u64 = 1_000_000;
    let case = Case::<S> { clients: 2, evictions: Evictions::Never, ..Case::default() };
    at_every_batch(least, |batches| {
        run_interrupted(&case, batches, batches, &Rc::default(), move |run, client| async move {
            let mut value = Value::new();
            if client.number == 0 {
                // Their number decides whether the SET begins with a round, which READs the clock.
                for _ in 0..operations_before {
                    client.cache.get(b"another", &mut value).await?;
                }
                let moment_ms = client.cache.now_ms().await? + MOMENT_MS;
                // Until what it knows of the clock is too old.
                client.endpoint().pause(5 * MS).await;
                let options = SetOptions { expiry: Expiry::AtMs(moment_ms), ..SetOptions::default() };
                let set = client.cache.set_returning(b"k", b"until", &options, Some(&mut value));
                run.interrupt(&client, set).await?;
                return Ok(client);
            }
            // A client that has never READ the clock does not know how long it waits.
            client.cache.now_ms().await?;
            if run.stopped(&client).await {
                let options = SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() };
                client.cache.set(b"k", b"for good", &options).await?;
            }
            client.endpoint().pause(2 * MOMENT_MS * MS).await;
            client.cache.now_ms().await?;
            run.release();
            run.ended(&client).await;
            assert!(!client.cache.get(b"k", &mut value).await?, "{:?} is present", value.bytes());
            Ok(client)
        })
    });
}

#[test]
fn a_change_judges_by_the_clock_before_it_looks() {
    for operations_before in 0..4 {
        set_until_a_moment_that_passes::<ForgeSubject>(operations_before, 5);
        set_until_a_moment_that_passes::<KvsSubject>(operations_before, 5);
        set_until_a_moment_that_passes::<DittoSubject>(operations_before, 5);
        set_until_a_moment_that_passes::<CliqueMapSubject>(operations_before, 1);
    }
}

/// Client 0 has died. Client 1 adds a memory node. Before every batch of that, client 2 repairs and
/// counts everything again: the new chunks are counted as free once.
fn count_again_while_a_node_is_added<S: Subject>(subject: S) {
    let (growth_chunks, distance) = (20, Distance::Near);
    let case = Case { subject, clients: 3, growth_chunks, distance, evictions: Evictions::Anytime, ..Case::default() };
    let growth_bytes = case.growth_bytes();
    at_every_batch(5, |batches| {
        run_interrupted(&case, batches, batches, &Rc::new(History::new()), move |run, client| async move {
            // An engine whose clients announce that they are at rest does so from here on.
            set_some(&client, "some", 0).await?;
            run.all_joined(&client, 3).await;
            match client.number {
                0 => run.die(&client).await,
                1 => {
                    run.died(&client, 0).await;
                    run.interrupt(&client, client.cache.engine().grow(growth_bytes)).await?;
                }
                _ => {
                    run.stopped(&client).await;
                    client.cache.engine().repair().await?;
                    run.release();
                    run.ended(&client).await;
                }
            }
            Ok(client)
        })
    });
}

#[test]
fn the_chunks_of_a_new_node_are_counted_once() {
    count_again_while_a_node_is_added(ForgeSubject::default());
    count_again_while_a_node_is_added(KvsSubject);
    // Clients announce that they are at rest where a WRITE beside the slot may be under way.
    let experts = "gds+lirs+lfu".parse().expect("they are policies");
    count_again_while_a_node_is_added(DittoSubject { options: DittoOptions::paper(experts) });
}
