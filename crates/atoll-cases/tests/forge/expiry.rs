//! Promise 2: the bytes of dead objects are used again before most live objects are evicted.

use atoll_cache::{CacheError, Expiry, SetOptions};
use atoll_cases::{Case, Client};
use atoll_fabric::Endpoint;
use atoll_sim::for_each_seed;
use std::cell::RefCell;
use std::rc::Rc;

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
    client.endpoint().pause(50_000_000).await;
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
