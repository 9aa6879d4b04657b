//! `cliquemap-lru` and `cliquemap-lfu` on the simulated fabric: what they promise when
//! servers die and messages are lost, and what their operations cost.

use atoll_baselines::cliquemap::{CliqueMap, CliqueMapOptions, CliqueMapPool, Server, VALUE_BYTES_MAX_MESSAGES};
use atoll_cache::EnginePool;
use atoll_cache::model::Model;
use atoll_cache::{
    Cache, CacheError, Condition, Engine, ExpireCondition, Expiry, Lasting, Meta, Pooled, SetOptions, Value,
};
use atoll_cases::{Load, load};
use atoll_fabric::{Clock, Endpoint, Kind, Purpose, VerbError};
use atoll_pool::PoolSettings;
use atoll_sim::history::Evictions;
use atoll_sim::network::{Network, Service, profiles};
use atoll_sim::sim::region;
use atoll_sim::{After, Fault, History, Random, Sim, SimEndpoint, SimOptions, for_each_seed};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A small pool, and the simulation around it.
fn small_pool(seed: u64, capacity_bytes: u64) -> (Sim, Arc<CliqueMapPool>) {
    let base = PoolSettings { chunk_bytes: 512, clients_max: 16, ..PoolSettings::for_capacity(capacity_bytes) };
    let settings = CliqueMapOptions::default().settings(PoolSettings { group_objects_max: 1, ..base }, 64);
    let bytes = settings.home_bytes();
    let sim = Sim::new(SimOptions::with_nodes(seed, vec![vec![region(bytes, Kind::Host)]]));
    let endpoint = sim.endpoint("maker");
    let pool = sim.block_on(async move { CliqueMapPool::format(&endpoint, settings).await.unwrap() });
    (sim, pool.unwrap())
}

/// Serves until no client holds the other end.
async fn serve(pool: Arc<CliqueMapPool>, endpoint: SimEndpoint, clients: Weak<()>) {
    let mut server = Server::start(&pool, endpoint).await.unwrap();
    server.serve(|| clients.strong_count() > 0).await.unwrap();
}

/// What a client does beside a server on a small pool.
fn beside_a_server<T: 'static>(
    seed: u64,
    capacity_bytes: u64,
    client: impl AsyncFnOnce(CliqueMap<SimEndpoint>, Rc<()>) -> T + 'static,
) -> T {
    let (sim, pool) = small_pool(seed, capacity_bytes);
    let present = Rc::new(());
    sim.spawn("server", serve(pool.clone(), sim.endpoint("server"), Rc::downgrade(&present)));
    let endpoint = sim.endpoint("client");
    let done = sim.block_on(async move { client(CliqueMap::join(&pool, endpoint).await.unwrap(), present).await });
    done.unwrap()
}

#[test]
fn a_server_that_dies_loses_the_cache_and_nothing_wrong_is_served_by_the_next() {
    let (died, hits) = (Cell::new(0), Cell::new(0));
    for_each_seed(300, |seed| {
        let (sim, pool) = small_pool(seed, 32 << 10);
        let (history, present) = (Rc::new(History::new()), Rc::new(()));
        let mut random = Random::stream(seed, 77);
        let (first, second) = (sim.endpoint("server"), sim.endpoint("the next server"));
        let identity = first.identity();
        let server = sim.spawn("server", serve(pool.clone(), first, Rc::downgrade(&present)));
        sim.control().fault(server, Fault::Kill, After::Steps(random.below(1500)));
        let (control, next, clients) = (sim.control(), pool.clone(), Rc::downgrade(&present));
        sim.spawn_spared("the next server", async move {
            if control.next_killed().await.is_some() {
                // What the first has in flight must not land in the second one's cache.
                while !second.shut_out(identity).await.unwrap() {
                    second.pause(1000).await;
                }
                serve(next, second, clients).await;
            }
        });
        for number in 0..3_u32 {
            let (pool, endpoint, history) = (pool.clone(), sim.endpoint("client"), history.clone());
            let present = present.clone();
            sim.spawn_spared("client", async move {
                let cache = Cache::new(Lasting::<CliqueMap<_>>::join(&pool, endpoint).await.unwrap());
                let load = Load::new(3, 40, 300, 50);
                for round in 0..4 {
                    // Values of different rounds differ.
                    match load::run(&cache, number + 16 * round, seed, &load, 1, &history).await {
                        Ok(()) => {}
                        Err(CacheError::Verb(VerbError::OutcomeUnknown)) => {}
                        Err(error) => panic!("client {number}: {error}"),
                    }
                }
                cache.engine().leave().await.unwrap();
                drop(present);
            });
        }
        drop(present);
        sim.run().unwrap();
        died.set(died.get() + sim.control().killed().len());
        match history.check_with(Evictions::Anytime) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    });
    assert!(died.get() > 0 && hits.get() > 0, "{} servers died, {} lookups hit", died.get(), hits.get());
}

#[test]
fn with_no_server_lookups_go_on_and_changes_end_with_an_unknown_outcome() {
    let outcome = beside_a_server(1, 32 << 10, async move |engine, present| {
        let (cache, mut value) = (Cache::new(engine), Value::new());
        cache.set(b"key", b"value", &SetOptions::default()).await.unwrap();
        drop(present);
        cache.engine().client().endpoint.pause(10_000_000).await;
        let unknown = cache.set(b"key", b"another", &SetOptions::default()).await;
        let hit = cache.get(b"key", &mut value).await.unwrap();
        cache.engine().leave().await.unwrap();
        (unknown, hit, value.bytes().to_vec())
    });
    let (unknown, hit, value) = outcome;
    assert_eq!(unknown, Err(CacheError::Verb(VerbError::OutcomeUnknown)));
    assert!(hit && value == b"value");
}

#[test]
fn values_up_to_the_longest_come_back_whole_and_longer_ones_are_refused() {
    beside_a_server(3, 2 << 20, async move |engine, present| {
        let (cache, mut value) = (Cache::new(engine), Value::new());
        let max = cache.value_bytes_max();
        assert_eq!(max, VALUE_BYTES_MAX_MESSAGES);
        for bytes in [0, 1, 4000, 4100, 50_000, max] {
            let (key, written) = (vec![b'k'; bytes % 5000], vec![bytes as u8; bytes]);
            cache.set(&key, &written, &SetOptions::default()).await.unwrap();
            assert!(cache.get(&key, &mut value).await.unwrap() && value.bytes() == written, "{bytes} bytes");
        }
        let refused = cache.set(b"key", &vec![7; max + 1], &SetOptions::default()).await;
        assert_eq!(refused, Err(CacheError::ValueTooLarge { bytes: max + 1, max }));
        cache.engine().leave().await.unwrap();
        drop(present);
    });
}

/// What an operation gives, but for tokens, which every engine makes its own.
async fn one_operation<G: Engine>(cache: &mut Cache<G>, random: &mut Random) -> String {
    let key = format!("key {}", random.below(6)).into_bytes();
    let value = vec![b'0' + random.below(10) as u8; random.below(200) as usize];
    let (mut old, options) = (Value::new(), SetOptions::default());
    let conditions = [Condition::Always, Condition::IfAbsent, Condition::IfPresent, Condition::IfToken(u64::MAX)];
    let bytes = |meta: Option<Meta>| meta.map(|meta| (meta.value_bytes, meta.expiry_ms));
    match random.below(12) {
        0..=2 => format!("{} {:?}", cache.get(&key, &mut old).await.unwrap(), old.bytes()),
        3 | 4 => {
            let condition = conditions[random.below(4) as usize];
            let expiry = [Expiry::Never, Expiry::Keep, Expiry::AtMs(1)][random.below(3) as usize];
            let set =
                cache.set(&key, &value, &SetOptions { condition, expiry, ..SetOptions::default() }).await.unwrap();
            format!("{} {:?} {}", set.stored, bytes(set.old), set.token == 0)
        }
        5 => {
            let set = cache.set_returning(&key, &value, &options, Some(&mut old)).await.unwrap();
            let seen = set.old.map(|_| old.bytes().to_vec());
            format!("{} {seen:?}", set.stored)
        }
        6 => format!("{:?}", cache.delete(&key).await.unwrap()),
        7 => format!("{:?}", cache.increment(&key, random.below(100) as i64).await.unwrap()),
        8 => format!("{:?}", cache.append(&key, b"more").await.unwrap()),
        9 => {
            let expiry = [Expiry::Never, Expiry::AtMs(1 << 45), Expiry::AtMs(1)][random.below(3) as usize];
            format!("{:?}", cache.expire(&key, expiry, ExpireCondition::default()).await.unwrap())
        }
        10 => format!("{:?} {}", bytes(cache.peek(&key).await.unwrap()), cache.objects().await.unwrap()),
        _ if random.below(8) == 0 => format!("{:?}", cache.flush().await.unwrap()),
        _ => {
            let (mut keys, mut cursor) = (Vec::new(), 0);
            loop {
                cursor = cache.scan(cursor, 2, |key| keys.push(key.to_vec())).await.unwrap();
                if cursor == 0 {
                    break;
                }
            }
            keys.sort();
            format!("{keys:?} {}", cache.random_key().await.unwrap().is_some())
        }
    }
}

#[test]
fn one_client_sees_what_the_model_says_whatever_becomes_of_messages() {
    for_each_seed(100, |seed| {
        beside_a_server(seed, 64 << 10, async move |engine, present| {
            let mut cache = Cache::new(engine);
            let clock = Clock::manual(1_700_000_000_000_000_000).0;
            let mut model = Cache::new(Model::new(clock));
            for step in 0..200 {
                let mut random = Random::stream(seed, step);
                let found = one_operation(&mut cache, &mut random.clone()).await;
                assert_eq!(found, one_operation(&mut model, &mut random).await, "seed {seed}, step {step}");
            }
            cache.engine().leave().await.unwrap();
            drop(present);
        });
    });
}

#[test]
fn a_get_is_two_reads_and_a_set_a_message_and_its_answer() {
    let settings = CliqueMapOptions::default().for_capacity(8 << 20);
    let nodes = vec![vec![region(settings.capacity_bytes, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(1, nodes, Network::new(profiles::CX5_100G, 1)));
    let maker = sim.endpoint("maker");
    let pool = sim.block_on(async move { CliqueMapPool::format(&maker, settings).await.unwrap() }).unwrap();
    let (present, endpoint) = (Rc::new(()), sim.endpoint("client"));
    let server = sim.endpoint_at("server", 0, Service::new(1, 1000));
    sim.spawn("server", serve(pool.clone(), server, Rc::downgrade(&present)));
    let control = sim.control();
    let counted = sim.block_on(async move {
        let (cache, mut value) = (Cache::new(CliqueMap::join(&pool, endpoint).await.unwrap()), Value::new());
        // The first looks for the server and at the clock.
        cache.set(b"key", b"value", &SetOptions::default()).await.unwrap();
        let begun = control.traffic().unwrap();
        let begun_ns = cache.engine().client().endpoint.virtual_ns();
        cache.set(b"key", &[7; 200], &SetOptions::default()).await.unwrap();
        let set_ns = cache.engine().client().endpoint.virtual_ns() - begun_ns;
        let set = control.traffic().unwrap();
        assert!(cache.get(b"key", &mut value).await.unwrap());
        let got = control.traffic().unwrap();
        cache.engine().leave().await.unwrap();
        drop(present);
        (set.since(&begun).of(Purpose::Request), got.since(&set).of(Purpose::Request), set_ns)
    });
    let (set, got, set_ns) = counted.unwrap();
    assert_eq!((set.messages, set.round_trips), (2, 0));
    assert_eq!((got.messages, got.round_trips, got.verbs), (0, 2, 2));
    assert!((2500..4500).contains(&set_ns), "a way there, {set_ns} ns, a core's time and a way back");
}
