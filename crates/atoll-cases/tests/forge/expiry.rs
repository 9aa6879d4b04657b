//! Promise 2: expiry follows the pool's clock within the stated skew, and dead bytes come back.

use atoll_cache::Pooled;
use atoll_cache::{CacheError, Expiry, SetOptions};
use atoll_cases::{Case, Client, Cliqued, Dittoed, Forged, Learned, Load, Queueing, Stored, Subject, Turmoil};
use atoll_fabric::Endpoint;
use atoll_sim::history::Evictions;
use atoll_sim::{Faults, for_each_seed};
use std::cell::RefCell;
use std::rc::Rc;

/// Runs in which nothing is evicted, so that a miss is explained by an expiry alone, and in which
/// wall clocks are wrong by up to years and monotone ones run at rates of their own.
fn nothing_is_served_late_or_lost_early<S: Subject>(seeds: u64) {
    let mut hits = 0;
    for_each_seed(seeds, |seed| {
        let drawn = Turmoil::<S>::drawn(seed);
        let load = Load { operations: 60, mixed: true, expiring: true, value_bytes_max: 200, ..drawn.case.load };
        let roomy = Case { chunks: 400, slots: 1024, objects_max: 0, evictions: Evictions::Never, ..drawn.case };
        let faults = Faults {
            clock_jumps_max: 4,
            clock_jump_ms_max: drawn.faults.clock_jump_ms_max,
            clock_drift_per_mille_max: 200,
            ns_max: 10_000_000,
            ..Faults::host(0, 4, 200)
        };
        let turmoil = Turmoil { case: Case { load, ..roomy }, faults, resized_chunks: 0, ..drawn };
        hits += turmoil.run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}")).checked.hits;
    });
    assert!(hits > 1000, "{hits} hits show little");
}

#[test]
fn promise_2_forge_serves_nothing_after_its_expiry_and_loses_nothing_before() {
    nothing_is_served_late_or_lost_early::<Forged>(150);
    nothing_is_served_late_or_lost_early::<Learned>(40);
}

#[test]
fn promise_2_the_table_of_objects_serves_nothing_after_its_expiry_and_loses_nothing_before() {
    nothing_is_served_late_or_lost_early::<Dittoed>(80);
    nothing_is_served_late_or_lost_early::<Stored>(80);
    nothing_is_served_late_or_lost_early::<Queueing>(40);
}

#[test]
fn promise_2_cliquemap_serves_nothing_after_its_expiry_and_loses_nothing_before() {
    nothing_is_served_late_or_lost_early::<Cliqued>(40);
}

/// How a pool's objects die.
#[derive(Clone, Copy, Debug)]
enum Death {
    Expired,
    Deleted,
    Overwritten,
}

#[test]
fn promise_2_the_room_of_dead_objects_comes_back_before_most_live_ones_are_evicted() {
    for death in [Death::Expired, Death::Deleted, Death::Overwritten] {
        for_each_seed(5, |seed| {
            let kept = Rc::new(RefCell::new(0));
            let case = Case {
                chunk_bytes: 1024,
                chunks: 120,
                group_objects_max: 16,
                slots: 4096,
                clients: 1,
                ..Case::default()
            };
            let played = case.run_part(seed, |mut client| {
                let kept = kept.clone();
                async move {
                    *kept.borrow_mut() = live_kept(&mut client, death).await?;
                    Ok(client)
                }
            });
            played.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            // Without the room of the dead a third of the live objects would go. Some go although
            // there are dead ones elsewhere: a client looks at few groups before it evicts, and
            // cannot clean without a chunk in its hands.
            assert!(*kept.borrow() >= 340, "{death:?}, seed {seed}: {} of 400 live objects are kept", kept.borrow());
        });
    }
}

/// Fills most of the pool with 400 objects that stay and as many that die, then writes as many new
/// ones as three quarters of those; how many of the first are still there.
async fn live_kept(client: &mut Client, death: Death) -> Result<u64, CacheError> {
    let value = [7u8; 72];
    let set = SetOptions::default();
    let expiring = SetOptions { expiry: Expiry::InMs(30), ..set };
    for index in 0..400u64 {
        client.cache.set(&index.to_le_bytes(), &value, &set).await?;
        let options = if matches!(death, Death::Expired) { &expiring } else { &set };
        client.cache.set(&(1000 + index).to_le_bytes(), &value, options).await?;
    }
    client.cache.engine().client().endpoint.pause(50_000_000).await;
    if let Death::Deleted = death {
        for index in 0..400u64 {
            client.cache.delete(&(1000 + index).to_le_bytes()).await?;
        }
    }
    for index in 0..300u64 {
        let key = if let Death::Overwritten = death { 1000 + index } else { 2000 + index };
        client.cache.set(&key.to_le_bytes(), &value, &set).await?;
    }
    let mut kept = 0;
    for index in 0..400u64 {
        kept += u64::from(client.cache.peek(&index.to_le_bytes()).await?.is_some());
    }
    Ok(kept)
}
