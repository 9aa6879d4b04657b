//! Promise 2 of `forge`: expiry follows the pool's clock within the stated skew, and dead bytes come back.

use atoll_cache::{CacheError, Expiry, SetOptions, Value};
use atoll_fabric::Endpoint;
use atoll_lab::simulated::{Case, Client};
use atoll_pool::clock::SKEW_MS;
use atoll_sim::{Liberties, for_each_seed};
use std::cell::RefCell;
use std::rc::Rc;

/// How wrong the simulator's wall clocks are at most.
const WALL_MS: u64 = Liberties::all().wall_clock_skew_ms_max;

/// A lookup, in true milliseconds.
struct Look {
    key: u64,
    begun_ms: u64,
    ended_ms: u64,
    /// The expiry that the value tells; `None` for a miss.
    expiry_ms: Option<u64>,
}

async fn set_until(client: &mut Client, key: u64, expiry_ms: u64) -> Result<(), CacheError> {
    let options = SetOptions { expiry: Expiry::AtMs(expiry_ms), ..SetOptions::default() };
    client.cache.set(&key.to_le_bytes(), &expiry_ms.to_le_bytes(), &options).await.map(drop)
}

async fn look(client: &mut Client, key: u64) -> Result<Look, CacheError> {
    let (mut value, begun_ms) = (Value::new(), client.true_ms());
    let hit = client.cache.get(&key.to_le_bytes(), &mut value).await?;
    let expiry_ms = hit.then(|| u64::from_le_bytes(value.bytes().try_into().expect("a value is a time")));
    Ok(Look { key, begun_ms, ended_ms: client.true_ms(), expiry_ms })
}

#[test]
fn promise_2_nothing_is_served_after_its_expiry_and_what_expired_for_one_has_expired_for_all() {
    let hits = RefCell::new(0);
    for_each_seed(300, |seed| {
        let looks = Rc::new(RefCell::new(Vec::new()));
        let case = Case { chunks: 40, ..Case::default() };
        let played = case.run_part(seed, |mut client| {
            let looks = looks.clone();
            async move {
                let mut random = client.random();
                for _ in 0..80 {
                    let key = random.below(3);
                    if random.below(5) == 0 {
                        let expiry_ms = client.true_ms() + 25 + random.below(60);
                        set_until(&mut client, key, expiry_ms).await?;
                    } else {
                        let look = look(&mut client, key).await?;
                        looks.borrow_mut().push(look);
                    }
                    client.cache.engine().endpoint().pause(random.below(4_000_000)).await;
                }
                Ok(client)
            }
        });
        played.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let looks = looks.borrow();
        for look in looks.iter() {
            let Some(expiry_ms) = look.expiry_ms else { continue };
            *hits.borrow_mut() += 1;
            assert!(
                look.begun_ms <= expiry_ms + WALL_MS + SKEW_MS,
                "seed {seed}: served {} ms after its expiry",
                look.begun_ms - expiry_ms
            );
            // Whoever missed the key once its value's time was over, by whatever clock, is followed by nobody who finds that value.
            let over = |miss: &&Look| {
                miss.key == look.key
                    && miss.expiry_ms.is_none()
                    && miss.ended_ms + SKEW_MS < look.begun_ms
                    && miss.begun_ms + WALL_MS >= expiry_ms
            };
            if let Some(miss) = looks.iter().find(over) {
                panic!("seed {seed}: found at {} what was gone at {}", look.begun_ms, miss.ended_ms);
            }
        }
    });
    let hits = hits.into_inner();
    assert!(hits > 1000, "{hits} hits show little");
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
            // Without the room of the dead a third of the live objects would go. Some go although there are dead ones elsewhere: a
            // client looks at few groups before it evicts, and cannot clean without a chunk in its hands.
            assert!(*kept.borrow() >= 340, "{death:?}, seed {seed}: {} of 400 live objects are kept", kept.borrow());
        });
    }
}

/// Fills most of the pool with 400 objects that stay and as many that die, then writes as many new ones as three quarters of those; how
/// many of the first are still there.
async fn live_kept(client: &mut Client, death: Death) -> Result<u64, CacheError> {
    let value = [7u8; 72];
    let set = SetOptions::default();
    let expiring = SetOptions { expiry: Expiry::InMs(30), ..set };
    for index in 0..400u64 {
        client.cache.set(&index.to_le_bytes(), &value, &set).await?;
        let options = if matches!(death, Death::Expired) { &expiring } else { &set };
        client.cache.set(&(1000 + index).to_le_bytes(), &value, options).await?;
    }
    client.cache.engine().endpoint().pause(50_000_000).await;
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
