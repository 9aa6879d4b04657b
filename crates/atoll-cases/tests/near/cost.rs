//! What near caches under the cache cost: round trips on a simulated network.

use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Near, NearCache, Pooled, SetOptions};
use atoll_cases::compiled::sim;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Kind, Purpose};
use atoll_pool::PoolSettings;
use atoll_sim::network::{Network, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimOptions};
use std::rc::Rc;
use std::sync::Arc;

const KEYS: u64 = 16;

/// A client with a near cache in a pool that has all keys; it has looked up another one.
fn reader(make: impl Fn(NearCache) -> NearCache) -> (Sim, Rc<Cache<Near<sim::Forge>>>) {
    let settings = PoolSettings { clients_max: 3, ..ForgeOptions::default().for_capacity(8 << 20) };
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, 1)));
    let endpoints = [(); 2].map(|()| CaseEndpoint::new(sim.endpoint("client")));
    let near = Arc::new(make(NearCache::of_process(1 << 20).unwrap()));
    let [maker, endpoint] = endpoints;
    let cache = sim.block_on(async move {
        let pool = sim::Forge::format(&maker, settings).await.unwrap();
        let forge = sim::Forge::join(&pool, endpoint).await.unwrap();
        // A lookup of a remembered key would take one round trip.
        forge.set_address_cache(0);
        let cache = Rc::new(Cache::new(Near::with(forge, near)));
        for number in 0..=KEYS {
            cache.set(&number.to_le_bytes(), &[7; 100], &SetOptions::default()).await.unwrap();
        }
        let _ = cache.get(&KEYS.to_le_bytes(), &mut atoll_cache::Value::new()).await.unwrap();
        cache
    });
    (sim, cache.unwrap())
}

/// Round trips of what the client does.
fn round_trips<P: Future<Output = ()> + 'static>(sim: &Sim, play: P) -> u64 {
    let before = sim.traffic().unwrap();
    sim.block_on(play).unwrap();
    sim.traffic().unwrap().since(&before).of(Purpose::Request).round_trips
}

async fn get_all(cache: Rc<Cache<Near<sim::Forge>>>) {
    let keys: Vec<_> = (0..KEYS).map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut hits = 0;
    cache.get_many(&keys, |_, value| hits += u64::from(value.is_some())).await.unwrap();
    assert_eq!(hits, KEYS);
}

#[test]
fn copies_of_many_keys_are_made_in_the_round_trips_of_their_lookups() {
    let (sim, cache) = reader(NearCache::eager);
    assert_eq!(round_trips(&sim, get_all(cache.clone())), 2);
    let stats = cache.stats();
    assert_eq!((stats.near_copies, stats.near_hits), (KEYS + 1, 0));
    assert_eq!(round_trips(&sim, get_all(cache.clone())), 0);
    assert_eq!(cache.stats().near_hits, KEYS);
    // Leaving takes a task of the simulation.
    std::mem::forget(cache);
}

#[test]
fn the_pool_is_told_of_accesses_to_copies_by_one_lookup_of_many_keys() {
    let (sim, cache) = reader(|near| near);
    let (hits_before, rounds) = (cache.stats().hits, 100);
    let play = |cache: Rc<Cache<Near<sim::Forge>>>, is_part| async move {
        let mut value = atoll_cache::Value::new();
        for number in 0..rounds * KEYS {
            let key = (number % KEYS).to_le_bytes();
            let is_hit = match is_part {
                true => cache.get_part(&key, |_| 0..9, &mut value).await.unwrap().is_some(),
                false => cache.get(&key, &mut value).await.unwrap(),
            };
            assert!(is_hit);
        }
    };
    // So that all have copies.
    round_trips(&sim, play(cache.clone(), false));
    for (is_part, plays) in [(false, 2), (true, 3)] {
        let round_trips = round_trips(&sim, play(cache.clone(), is_part));
        // Of each thirty-second access to each key. Alone each would take two.
        assert!((4..=8).contains(&round_trips), "{round_trips}");
        // An access is counted once.
        let untold = plays * rounds * KEYS + hits_before - cache.stats().hits;
        assert!(untold < KEYS, "{untold}");
    }
    std::mem::forget(cache);
}
