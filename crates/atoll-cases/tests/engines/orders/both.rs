//! Orders that matter to `forge` and to the table of objects.

use super::script::{Scene, at_every_batch, pool_of, set_some, settle, until};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::{CacheError, Condition, Expiry, Pooled, SetOptions, Value};
use atoll_cases::{Case, Client, Cliqued, Dittoed, Forged, Load, Stored, Subject, load};
use atoll_fabric::Endpoint;
use atoll_pool::registry::{self, PlaceState};
use atoll_sim::history::Evictions;
use atoll_sim::{Distance, History};
use std::cell::Cell;
use std::rc::Rc;

/// Client 1 repairs what client 0 left. At every moment of that client 2 takes chunks and dies,
/// client 3 shuts it out and comes anew.
fn repair_while_clients_come_and_die<S: Subject>() {
    at_every_batch(10, |batches| {
        let case = Case::<S> { clients: 4, chunks: 60, rejoins: 1, evictions: Evictions::Anytime, ..Case::default() };
        let (sim, _) = case.formatted(batches)?;
        let (scene, history, was_reached) =
            (Scene::new(&sim, batches), Rc::new(History::new()), Rc::new(Cell::new(false)));
        case.play(&sim, &history, |mut client| {
            let (scene, was_reached) = (scene.clone(), was_reached.clone());
            async move {
                scene.enter(&mut client).await?;
                until(&client, || scene.tasks.iter().all(|task| task.get().is_some())).await;
                match client.number {
                    0 => {
                        set_some(&mut client, "zero", 0).await?;
                        scene.die(&client).await
                    }
                    1 => {
                        until(&client, || scene.is_dead(0)).await;
                        scene.stopping(&mut client, async |client| client.cache.engine().repair().await).await?;
                        until(&client, || scene.act.get() == 1).await;
                        settle(&mut client).await?;
                    }
                    2 => {
                        until(&client, || scene.is_stopped() || scene.is_over.get()).await;
                        set_some(&mut client, "two", 0).await?;
                        scene.die(&client).await
                    }
                    _ => {
                        until(&client, || scene.is_dead(2)).await;
                        was_reached.set(scene.is_stopped());
                        // Joining in a dead client's place it repairs, too: nothing of the client
                        // that is shut out after that.
                        client.rejoin().await?;
                        set_some(&mut client, "three", 0).await?;
                        shut_out(&client, 2).await?;
                        scene.release();
                        until(&client, || scene.is_over.get()).await;
                        set_some(&mut client, "three", 3).await?;
                        for step in 0..9 {
                            client.get(format!("three{step}").as_bytes()).await?;
                        }
                        scene.act.set(1);
                    }
                }
                Ok(client)
            }
        })?;
        case.verify(&sim)?;
        history.check_with(case.evictions).map_err(|violation| violation.to_string())?;
        Ok(was_reached.get())
    });
}

/// Shuts out the client at this place, which is dead, and leaves what it held to others.
async fn shut_out<S: Subject>(client: &Client<S>, slot: u32) -> Result<(), CacheError> {
    let endpoint = &client.cache.engine().client().endpoint;
    let places = registry::places(endpoint, pool_of(client)).await?;
    let place = places.iter().find(|place| place.incarnation.slot == slot).expect("it has a place");
    // The repairer may have done it.
    if place.state == PlaceState::Taken {
        registry::fence_dead(endpoint, pool_of(client), place).await?;
    }
    Ok(())
}

#[test]
fn a_repair_leaves_alone_who_comes_or_dies_meanwhile() {
    repair_while_clients_come_and_die::<Forged>();
}

#[test]
fn a_repair_on_the_table_of_objects_leaves_alone_who_comes_or_dies_meanwhile() {
    repair_while_clients_come_and_die::<Stored>();
    repair_while_clients_come_and_die::<Dittoed>();
}

/// Client 0 sets a large object again, if it is there; at every moment of that client 1 replaces it
/// and uses its chunks for others. It is there all the time.
fn change_while_chunks_are_used_anew<S: Subject>() {
    const LARGE: u64 = 400;
    let mut reached = 0;
    for seed in 0..12 {
        at_every_batch(2, |batches| {
            let load = Load { expiring: false, ..Case::<S>::default().load };
            let case = Case::<S> { clients: 2, chunks: 24, evictions: Evictions::Never, load, ..Case::default() };
            let (sim, _) = case.formatted(seed)?;
            let (scene, history) = (Scene::new(&sim, batches), Rc::new(History::new()));
            let was_reached = Rc::new(Cell::new(false));
            case.play(&sim, &history, |mut client| {
                let (scene, was_reached) = (scene.clone(), was_reached.clone());
                async move {
                    scene.enter(&mut client).await?;
                    if client.number == 0 {
                        client.set(b"k", load::unique_value(0, 0, LARGE)).await?;
                        let value = load::unique_value(0, 1, LARGE);
                        let options = SetOptions { condition: Condition::IfPresent, ..SetOptions::default() };
                        let doing = async |client: &mut Client<S>| client.cache.set(b"k", &value, &options).await;
                        let outcome = scene.stopping(&mut client, doing).await?;
                        assert!(outcome.stored, "the object was there all the time");
                        return Ok(client);
                    }
                    until(&client, || scene.is_stopped() || scene.is_over.get()).await;
                    if scene.is_stopped() {
                        was_reached.set(true);
                        client.set(b"k", load::unique_value(1, 0, LARGE)).await?;
                        for step in 1..8 {
                            client.set(&step.to_string().into_bytes(), load::unique_value(1, step, LARGE)).await?;
                        }
                    }
                    scene.release();
                    Ok(client)
                }
            })?;
            case.verify(&sim)?;
            reached += u64::from(was_reached.get());
            Ok(was_reached.get())
        });
    }
    println!("{reached} stops");
}

#[test]
fn a_change_never_decides_by_chunks_that_another_large_object_has() {
    change_while_chunks_are_used_anew::<Forged>();
    change_while_chunks_are_used_anew::<Stored>();
    change_while_chunks_are_used_anew::<Dittoed>();
}

/// Client 0 sets a key until a moment that comes while it stands still; at every batch of that
/// client 1 sets the key if it is absent, before that moment. Afterwards nothing is there: either
/// client 1 found what client 0 had set, or client 0 removes what it sets too late.
fn set_until_a_moment_that_comes_meanwhile<S: Subject>(operations_before: u32, least: u64) {
    const MOMENT_MS: u64 = 50;
    const MS: u64 = 1_000_000;
    at_every_batch(least, |batches| {
        let case = Case::<S> { clients: 2, evictions: Evictions::Never, ..Case::default() };
        let (sim, _) = case.formatted(batches)?;
        let (scene, history) = (Scene::new(&sim, batches), Rc::new(History::new()));
        let was_reached = Rc::new(Cell::new(false));
        case.play(&sim, &history, |mut client| {
            let (scene, was_reached) = (scene.clone(), was_reached.clone());
            async move {
                scene.enter(&mut client).await?;
                let mut value = Value::new();
                if client.number == 0 {
                    // Whether the set makes a round first, which looks at the clock, depends on
                    // these.
                    for _ in 0..operations_before {
                        client.cache.get(b"another", &mut value).await?;
                    }
                    let moment_ms = client.cache.now_ms().await? + MOMENT_MS;
                    // Until what it knows of the clock is too old.
                    client.cache.engine().client().endpoint.pause(5 * MS).await;
                    let options = SetOptions { expiry: Expiry::AtMs(moment_ms), ..SetOptions::default() };
                    let doing = async |client: &mut Client<S>| {
                        client.cache.set_returning(b"k", b"until", &options, Some(&mut value)).await
                    };
                    scene.stopping(&mut client, doing).await?;
                    return Ok(client);
                }
                // Who has never looked at the clock does not know how long it waits.
                client.cache.now_ms().await?;
                until(&client, || scene.is_stopped() || scene.is_over.get()).await;
                if scene.is_stopped() {
                    was_reached.set(true);
                    let options = SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() };
                    client.cache.set(b"k", b"for good", &options).await?;
                }
                client.cache.engine().client().endpoint.pause(2 * MOMENT_MS * MS).await;
                client.cache.now_ms().await?;
                scene.release();
                until(&client, || scene.is_over.get()).await;
                assert!(!client.cache.get(b"k", &mut value).await?, "{:?} is there", value.bytes());
                Ok(client)
            }
        })?;
        case.verify(&sim)?;
        Ok(was_reached.get())
    });
}

#[test]
fn a_change_judges_by_the_clock_before_it_looks() {
    for operations_before in 0..4 {
        set_until_a_moment_that_comes_meanwhile::<Forged>(operations_before, 5);
        set_until_a_moment_that_comes_meanwhile::<Stored>(operations_before, 5);
        set_until_a_moment_that_comes_meanwhile::<Dittoed>(operations_before, 5);
        set_until_a_moment_that_comes_meanwhile::<Cliqued>(operations_before, 1);
    }
}

/// Client 0 has died. Client 1 adds a memory node, and at every batch of that client 2 repairs and
/// counts everything anew: the new chunks are counted as free once.
fn count_anew_while_a_node_is_added<S: Subject>(subject: &S) {
    at_every_batch(5, |batches| {
        let case = Case::<S> {
            subject: subject.clone(),
            clients: 3,
            growth_chunks: 20,
            distance: Distance::Near,
            evictions: Evictions::Anytime,
            ..Case::default()
        };
        let growth_bytes = case.growth_bytes();
        let (sim, _) = case.formatted(batches)?;
        let (scene, history) = (Scene::new(&sim, batches), Rc::new(History::new()));
        let was_reached = Rc::new(Cell::new(false));
        case.play_ungrown(&sim, &history, |mut client| {
            let (scene, was_reached) = (scene.clone(), was_reached.clone());
            async move {
                scene.enter(&mut client).await?;
                // An engine that says when it is at rest is so from here on.
                set_some(&mut client, "some", 0).await?;
                until(&client, || scene.tasks.iter().take(3).all(|task| task.get().is_some())).await;
                match client.number {
                    0 => scene.die(&client).await,
                    1 => {
                        until(&client, || scene.is_dead(0)).await;
                        let adds = async |client: &mut Client<S>| client.cache.engine().grow(growth_bytes).await;
                        scene.stopping(&mut client, adds).await?;
                    }
                    _ => {
                        until(&client, || scene.is_stopped() || scene.is_over.get()).await;
                        was_reached.set(scene.is_stopped());
                        client.cache.engine().repair().await?;
                        scene.release();
                        until(&client, || scene.is_over.get()).await;
                    }
                }
                Ok(client)
            }
        })?;
        case.verify(&sim)?;
        Ok(was_reached.get())
    });
}

#[test]
fn the_chunks_of_a_new_node_are_counted_once() {
    count_anew_while_a_node_is_added(&Forged::default());
    count_anew_while_a_node_is_added(&Stored);
    // Clients say when they are at rest where a WRITE beside the slot may be under way.
    let experts = "gds+lirs+lfu".parse().expect("they are policies");
    count_anew_while_a_node_is_added(&Dittoed { options: DittoOptions::paper(experts) });
}
