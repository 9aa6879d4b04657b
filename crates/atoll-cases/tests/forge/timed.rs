//! The engine on a simulated network in virtual time: the same protocol code, with what its verbs
//! cost.

use atoll_cache::Pooled;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Lasting, Near, SetOptions, Value};
use atoll_cases::compiled::sim;
use atoll_cases::endpoint::CaseEndpoint;
use atoll_fabric::{Kind, Purpose};
use atoll_sim::network::traffic::{Posted, Traffic};
use atoll_sim::network::{Network, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Random, Sim, SimOptions};
use std::rc::Rc;

const CLIENTS: u16 = 24;
const COMPUTE_NODES: u16 = 3;
const KEYS: u64 = 100;
const GETS: u64 = 200;

/// What GETs posted that all hit, and how long all of it took.
fn gets_that_hit() -> (Posted, u64) {
    let base = ForgeOptions::default().for_capacity(8 << 20);
    let settings = atoll_pool::PoolSettings { clients_max: u32::from(CLIENTS) + 2, ..base };
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, COMPUTE_NODES)));
    let endpoint = CaseEndpoint::new(sim.endpoint("maker"));
    let pool = sim.block_on(async move { sim::Forge::format(&endpoint, settings).await.unwrap() }).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (pool, endpoint) = (pool.clone(), CaseEndpoint::new(sim.endpoint_on("client", number % COMPUTE_NODES)));
            let cache = sim.block_on(async move {
                let forge = sim::Forge::join(&pool, endpoint).await.unwrap();
                // With it a GET of a known key takes one round trip.
                forge.set_address_cache(0);
                Cache::new(forge)
            });
            Rc::new(std::cell::RefCell::new(Some(cache.unwrap())))
        })
        .collect();
    let run = |gets: bool| {
        for client in &clients {
            let place = client.clone();
            let cache = client.take().unwrap();
            sim.spawn("client", async move {
                let mut value = Value::new();
                for number in 0..if gets { GETS } else { KEYS } {
                    let key = (number % KEYS).to_le_bytes();
                    if gets {
                        assert!(cache.get(&key, &mut value).await.unwrap());
                    } else {
                        cache.set(&key, &[7; 100], &SetOptions::default()).await.unwrap();
                    }
                }
                *place.borrow_mut() = Some(cache);
            });
        }
        sim.run().unwrap();
        sim.traffic().unwrap()
    };
    let before = run(false);
    let passed = run(true).since(&before);
    // Leaving takes a task of the simulation.
    clients.into_iter().for_each(|client| std::mem::forget(client.take()));
    (passed.of(Purpose::Request), passed.ns)
}

#[test]
fn a_get_that_hits_takes_two_round_trips_and_the_time_of_two() {
    let (posted, ns) = gets_that_hit();
    let gets = u64::from(CLIENTS) * GETS;
    assert!((2 * gets..2 * gets + gets / 10).contains(&posted.round_trips), "{posted:?} for {gets} GETs");
    assert!((2 * 1500..2 * 2500).contains(&(ns / GETS)), "{} ns each", ns / GETS);
    assert_eq!(gets_that_hit(), (posted, ns), "the same seed, the same digits");
}

/// What so many clients posted together, each of which joined a new pool, played and left.
fn played<P: Future<Output = ()>>(
    settings: atoll_pool::PoolSettings,
    clients: u16,
    play: impl Fn(u16, Rc<Cache<sim::Forge>>) -> P + Copy + 'static,
) -> Traffic {
    let settings = atoll_pool::PoolSettings { clients_max: u32::from(clients) + 2, ..settings };
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, COMPUTE_NODES)));
    let endpoint = CaseEndpoint::new(sim.endpoint("maker"));
    let pool = sim.block_on(async move { sim::Forge::format(&endpoint, settings).await.unwrap() }).unwrap();
    for number in 0..clients {
        let (pool, endpoint) = (pool.clone(), CaseEndpoint::new(sim.endpoint_on("client", number % COMPUTE_NODES)));
        sim.spawn("client", async move {
            let cache = Rc::new(Cache::new(sim::Forge::join(&pool, endpoint).await.unwrap()));
            play(number, cache.clone()).await;
            Rc::into_inner(cache).expect("the play is over").into_engine().leave().await.unwrap();
        });
    }
    sim.run().unwrap();
    sim.traffic().unwrap()
}

/// Round trips of making room, for each SET of a large value, by this many clients of a full pool.
fn round_trips_for_room(clients: u16) -> f64 {
    const SETS: u64 = 60;
    let settings = ForgeOptions::default().for_capacity(32 << 20);
    let value_bytes = 5 * settings.chunk_bytes as usize;
    let traffic = played(settings, clients, move |number, cache| async move {
        let value = vec![7; value_bytes];
        for set in 0..SETS {
            let key = (u64::from(number) << 32 | set).to_le_bytes();
            cache.set(&key, &value, &SetOptions::default()).await.unwrap();
        }
    });
    traffic.of(Purpose::Eviction).round_trips as f64 / (u64::from(clients) * SETS) as f64
}

#[test]
fn looking_for_free_chunks_costs_less_than_evicting_however_many_clients_look() {
    let (few, many) = (round_trips_for_room(24), round_trips_for_room(96));
    println!("round trips for each SET: 24 clients {few:.1}, 96 clients {many:.1}");
    // Five chunks for each value and one more: with searches that all began at one place and went
    // through everything it was twice as many.
    assert!(few < 130.0 && many < 130.0, "24 clients {few:.1}, 96 clients {many:.1}");
}

/// Verbs that tell of dead records, for each record that was overwritten in a group that is full.
fn verbs_for_a_dead_record(value_bytes: usize) -> f64 {
    const KEYS: u64 = 2_000;
    let settings = ForgeOptions::default().for_capacity(64 << 20);
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, COMPUTE_NODES)));
    let endpoint = CaseEndpoint::new(sim.endpoint("client"));
    sim.block_on(async move {
        let pool = sim::Forge::format(&endpoint, settings).await.unwrap();
        let cache = Cache::new(sim::Forge::join(&pool, endpoint).await.unwrap());
        for set in 0..2 * KEYS {
            let key = (set % KEYS).to_le_bytes();
            // A record of the same length would get the place of one that died.
            let value_bytes = value_bytes + 16 * (set / KEYS) as usize;
            cache.set(&key, &vec![7; value_bytes], &SetOptions::default()).await.unwrap();
        }
        cache.into_engine().leave().await.unwrap();
    })
    .unwrap();
    sim.traffic().unwrap().of(Purpose::Collection).verbs as f64 / KEYS as f64
}

#[test]
fn of_small_records_that_die_every_second_is_counted() {
    let (small, longer) = (verbs_for_a_dead_record(100), verbs_for_a_dead_record(4_000));
    println!("verbs for each dead record: {small:.2} of 100 bytes, {longer:.2} of 4000");
    // The pool is told of every chunk's worth besides, which is up to an eighth of a verb for each
    // of the longer ones.
    assert!((0.48..0.53).contains(&small) && (0.99..1.13).contains(&longer), "{small:.2} and {longer:.2}");
}

/// A length at random, of at most so many bytes: seldom that of the record before, whose place this
/// one would get.
fn some_length(random: u64, most: usize) -> usize {
    (random >> 8) as usize % (most + 1)
}

/// Verbs of cleaning for each SET by this many clients together, of keys most of which fit. The
/// lower a key, the more often it is written.
fn verbs_for_cleaning(clients: u16) -> f64 {
    const SETS: u64 = 120_000;
    const KEYS: f64 = 60_000.0;
    let base = ForgeOptions { object_bytes_mean: 280, ..ForgeOptions::default() }.for_capacity(8 << 20);
    let settings = atoll_pool::PoolSettings { chunk_bytes: 8 << 10, ..base };
    let traffic = played(settings, clients, move |number, cache| async move {
        let mut state = u64::from(number) + 1;
        for _ in 0..SETS / u64::from(clients) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
            let key = ((unit * unit * unit * KEYS) as u64).to_le_bytes();
            cache.set(&key, &[7; 464][..some_length(state, 464)], &SetOptions::default()).await.unwrap();
        }
    });
    traffic.of(Purpose::Collection).verbs as f64 / SETS as f64
}

#[test]
fn cleaning_costs_no_more_the_more_clients_clean() {
    let (few, many) = (verbs_for_cleaning(2), verbs_for_cleaning(64));
    println!("verbs of cleaning for each SET: 2 clients {few:.2}, 64 clients {many:.2}");
    // Of many clients none sees more than a part of the groups before others have cleaned them. If
    // what others reclaim counts as dead, no client evicts, and all clean what is hardly dead.
    assert!(many < 1.5 * few, "2 clients {few:.2}, 64 clients {many:.2}");
}

/// A simulation with memory for a pool, and the endpoint of its only client.
fn alone(settings: &atoll_pool::PoolSettings) -> (Sim, CaseEndpoint) {
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, 1)));
    let endpoint = CaseEndpoint::new(sim.endpoint("client"));
    (sim, endpoint)
}

/// Times of SETs of new keys by one client of a full pool, in order, and what they posted for room.
fn times_of_sets<G: Pooled<CaseEndpoint> + 'static>() -> (Vec<u64>, Posted) {
    const SETS: u64 = 6_000;
    let settings = ForgeOptions::default().for_capacity(2 << 20);
    let (sim, endpoint) = alone(&settings);
    let times = sim.block_on(async move {
        let pool = G::format(&endpoint, settings).await.unwrap();
        let cache = Cache::new(G::join(&pool, endpoint).await.unwrap());
        let now_ns = || cache.engine().client().endpoint.virtual_ns();
        let mut times = Vec::new();
        for set in 0..3 * SETS {
            let begun_ns = now_ns();
            cache.set(&set.to_le_bytes(), &[7; 232], &SetOptions::default()).await.unwrap();
            if set >= 2 * SETS {
                times.push(now_ns() - begun_ns);
            }
        }
        assert!(cache.stats().evictions > SETS, "{:?}", cache.stats());
        cache.into_engine().leave().await.unwrap();
        times.sort_unstable();
        times
    });
    (times.unwrap(), sim.traffic().unwrap().of(Purpose::Eviction))
}

#[test]
fn no_set_waits_for_room_that_its_client_makes_beside_it() {
    let (alone, posted_alone) = times_of_sets::<sim::Forge>();
    let (beside, posted) = times_of_sets::<Lasting<Near<sim::Forge>>>();
    let percentile = |times: &[u64], percent: usize| times[times.len() * percent / 100];
    let tail = |times: &[u64]| percentile(times, 99) as f64 / percentile(times, 50) as f64;
    println!(
        "p99 over p50: {:.1} alone, {:.1} beside; evicting: {posted_alone:?}, {posted:?}",
        tail(&alone),
        tail(&beside)
    );
    assert!(tail(&beside) < 2.0 && tail(&alone) > 3.0, "{:.1} alone, {:.1} beside", tail(&alone), tail(&beside));
    // What is counted for making room is that, although SETs and it alternate.
    assert!((0.95..1.05).contains(&(posted.verbs as f64 / posted_alone.verbs as f64)), "{posted_alone:?}, {posted:?}");
}

#[test]
fn overwriting_with_values_of_one_length_needs_no_cleaning() {
    const KEYS: u64 = 5_000;
    let settings = ForgeOptions::default().for_capacity(2 << 20);
    let (sim, endpoint) = alone(&settings);
    let stats = sim.block_on(async move {
        let pool = sim::Forge::format(&endpoint, settings).await.unwrap();
        let cache = Cache::new(sim::Forge::join(&pool, endpoint).await.unwrap());
        let mut random = Random::stream(1, 7);
        for set in 0..10 * KEYS {
            let key = if set < KEYS { set } else { random.below(KEYS) };
            cache.set(&key.to_le_bytes(), &[7; 232], &SetOptions::default()).await.unwrap();
        }
        let stats = cache.stats();
        cache.into_engine().leave().await.unwrap();
        stats
    });
    let stats = stats.unwrap();
    // Now and then a place has had as many records as it may have.
    assert!(stats.places_reused > 9 * 4 * KEYS / 5 && stats.orphans == 0, "{stats:?}");
    assert!(stats.groups_cleaned < 300 && stats.evictions == stats.evictions_index, "{stats:?}");
}

#[test]
fn a_client_that_cleans_beside_its_operations_evicts_nothing_that_fits() {
    const KEYS: u64 = 5_000;
    let settings = ForgeOptions::default().for_capacity(2 << 20);
    let (sim, endpoint) = alone(&settings);
    let stats = sim.block_on(async move {
        let pool = sim::Forge::format(&endpoint, settings).await.unwrap();
        let cache = Cache::new(Lasting::new(sim::Forge::join(&pool, endpoint).await.unwrap()));
        let mut random = Random::stream(1, 7);
        for set in 0..5 * KEYS {
            let key = if set < KEYS { set } else { random.below(KEYS) };
            let value_bytes = some_length(random.below(u64::MAX), 464);
            cache.set(&key.to_le_bytes(), &[7; 464][..value_bytes], &SetOptions::default()).await.unwrap();
        }
        let stats = cache.stats();
        cache.into_engine().leave().await.unwrap();
        stats
    });
    let stats = stats.unwrap();
    assert!(stats.groups_cleaned > 100 && stats.evictions == stats.evictions_index, "{stats:?}");
}
