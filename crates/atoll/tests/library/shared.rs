//! The cache that threads share.

use atoll::cache::load::LEASE_PREFIX;
use atoll::cache::typed::{Plain, Serde};
use atoll::fabric::PoolFabric;
use atoll::{
    BuildError, Cache, ClientState, EngineOptions, Error, Lease, LoadError, Pool, PoolOptions, SetOptions, TypedError,
    Value,
};
use atoll_fabric::conformance::late::Late;
use atoll_fabric::shm::{ShmFabric, fork};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

fn options() -> PoolOptions {
    PoolOptions::default().capacity_bytes(16 << 20)
}

fn cache() -> Cache {
    Cache::builder().build(&Pool::anonymous(&options()).unwrap()).unwrap()
}

/// Does the same in this many threads, which begin together.
fn at_once(threads: usize, work: impl Fn() + Sync) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                work();
            });
        }
    });
}

#[test]
fn operations_do_what_they_say() {
    let cache = cache();
    assert_eq!(cache.get(b"k").unwrap(), None);
    cache.set(b"k", b"v").unwrap();
    assert_eq!(cache.get(b"k").unwrap().unwrap(), b"v");
    assert!(cache.contains(b"k").unwrap());
    assert!(!cache.set_if_absent(b"k", b"w").unwrap());
    assert_eq!(cache.append(b"k", b"w").unwrap(), 2);
    let found = cache.get_many(&[b"k", b"absent", b"k"]).unwrap();
    assert_eq!(found, [Some(b"vw".to_vec()), None, Some(b"vw".to_vec())]);
    assert_eq!(cache.take(b"k").unwrap().unwrap(), b"vw");
    assert!(!cache.delete(b"k").unwrap());
    assert_eq!(cache.increment(b"n", 5).unwrap(), 5);
    assert_eq!(cache.objects().unwrap(), 1);
    assert_eq!(cache.flush().unwrap(), 1);
    let statistics = cache.statistics();
    assert_eq!((statistics.pool.hits, statistics.loads), (3, 0));
    assert!(statistics.weight_bytes > 0);
}

#[test]
fn an_increment_of_a_text_is_an_error_and_leaves_it_alone() {
    let cache = cache();
    cache.set(b"k", b"text").unwrap();
    assert!(matches!(cache.increment(b"k", 1), Err(Error::NotANumber)));
    assert_eq!(cache.get(b"k").unwrap().unwrap(), b"text");
    cache.set(b"k", i64::MAX.to_string().as_bytes()).unwrap();
    assert!(matches!(cache.increment(b"k", 1), Err(Error::Overflow)));
}

#[test]
fn threads_beyond_the_places_of_the_pool_share_clients() {
    let pool = Pool::anonymous(&options().clients_max(2)).unwrap();
    let cache = Cache::builder().clients(8).build(&pool).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    cache.increment(b"n", 1).unwrap();
                }
            });
        }
    });
    assert_eq!(cache.increment(b"n", 0).unwrap(), 16 * 2000);
    // All places are taken, and come back with the last clone.
    assert!(pool.client().is_err());
    let other = cache.clone();
    drop(cache);
    assert_eq!(other.increment(b"n", 0).unwrap(), 16 * 2000);
    drop(other);
    let begun = Instant::now();
    // The thread that tends may have them for a moment.
    while pool.client().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "the clients have not left");
    }
}

#[test]
fn one_thread_loads_what_all_miss() {
    let (cache, loads) = (cache(), AtomicU32::new(0));
    at_once(8, || {
        for user in 0..10u32 {
            let load = || {
                loads.fetch_add(1, SeqCst);
                std::thread::sleep(Duration::from_millis(2));
                user.to_string().into_bytes()
            };
            let value = cache.get_with(&user.to_le_bytes(), load).unwrap();
            assert_eq!(value, user.to_string().as_bytes());
        }
    });
    assert_eq!(loads.load(SeqCst), 10);
    assert_eq!(cache.statistics().loads, 10);
}

#[test]
fn an_error_of_a_loader_is_shared_and_sets_nothing() {
    let (cache, loads, asking) = (cache(), AtomicU32::new(0), AtomicU32::new(0));
    at_once(4, || {
        let load = || {
            loads.fetch_add(1, SeqCst);
            while asking.load(SeqCst) < 4 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(200));
            Err::<Vec<u8>, _>("no such user".to_owned())
        };
        asking.fetch_add(1, SeqCst);
        match cache.try_get_with(b"k", load) {
            Err(LoadError::Loader(error)) => assert_eq!(*error, "no such user"),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(loads.load(SeqCst), 1);
    assert_eq!(cache.get(b"k").unwrap(), None);
    assert_eq!(cache.try_get_with(b"k", || Ok::<_, Infallible>(b"v".to_vec())).unwrap(), b"v");
}

#[test]
fn a_loader_that_panics_passes_its_turn() {
    let (cache, barrier) = (cache(), Barrier::new(2));
    std::thread::scope(|scope| {
        let panics = scope.spawn(|| {
            cache.get_with(b"k", || {
                barrier.wait();
                std::thread::sleep(Duration::from_millis(50));
                panic!("as a test wants it")
            })
        });
        barrier.wait();
        assert_eq!(cache.get_with(b"k", || b"v".to_vec()).unwrap(), b"v");
        assert!(panics.join().is_err());
    });
}

#[test]
fn of_all_processes_one_loads_and_when_it_dies_another_does() {
    let pool = Pool::anonymous(&options()).unwrap();
    // Each as another process has it.
    let caches: Vec<Cache> = (0..4).map(|_| Cache::builder().clients(1).build(&pool).unwrap()).collect();
    let loads = AtomicU32::new(0);
    let load = || {
        loads.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        Ok::<_, Infallible>(b"v".to_vec())
    };
    std::thread::scope(|scope| {
        for cache in &caches {
            scope.spawn(|| assert_eq!(cache.try_get_with_lease(b"k", Duration::from_secs(20), load).unwrap(), b"v"));
        }
    });
    assert_eq!(loads.load(SeqCst), 1);
    let lease = [LEASE_PREFIX, b"k"].concat();
    assert!(!caches[0].contains(&lease).unwrap(), "the lease was given back");
    // The one that has the lease is dead.
    caches[0].delete(b"k").unwrap();
    let begun = Instant::now();
    caches[0].set_for(&lease, b"", Duration::from_millis(100)).unwrap();
    assert_eq!(caches[1].try_get_with_lease(b"k", Duration::from_secs(20), load).unwrap(), b"v");
    assert!(begun.elapsed() >= Duration::from_millis(100), "it was waited for");
    assert_eq!(loads.load(SeqCst), 2);
}

#[test]
fn objects_expire_after_the_time_of_the_cache() {
    let pool = Pool::anonymous(&options()).unwrap();
    let lives = Cache::builder().time_to_live(Duration::from_millis(300)).build(&pool).unwrap();
    lives.set(b"k", b"v").unwrap();
    lives.set_for(b"longer", b"v", Duration::from_secs(60)).unwrap();
    assert!(lives.contains(b"k").unwrap());
    std::thread::sleep(Duration::from_millis(320));
    assert_eq!(lives.get(b"k").unwrap(), None);
    assert!(lives.contains(b"longer").unwrap());
    assert!(lives.expire(b"longer", Duration::from_millis(1)).unwrap());
    assert!(!lives.expire(b"absent", Duration::from_secs(1)).unwrap());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(lives.get(b"longer").unwrap(), None);
    let both = Cache::builder().time_to_live(Duration::from_secs(1)).time_to_idle(Duration::from_secs(1)).build(&pool);
    assert!(matches!(both, Err(BuildError::BothTimes)));
}

#[test]
fn a_lookup_renews_the_time_to_idle() {
    let pool = Pool::anonymous(&options()).unwrap();
    let idles = Cache::builder().time_to_idle(Duration::from_secs(2)).build(&pool).unwrap();
    idles.set(b"asked", b"v").unwrap();
    idles.set(b"not asked", b"v").unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2500) {
        assert!(idles.get(b"asked").unwrap().is_some());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(idles.get(b"not asked").unwrap(), None);
    // Forty-odd lookups, and a write for each eighth of the time.
    assert!(idles.statistics().pool.puts < 30, "{:?}", idles.statistics().pool.puts);
}

#[test]
fn all_keys_come() {
    let cache = cache();
    for key in 0..5000u32 {
        cache.set(&key.to_le_bytes(), b"v").unwrap();
    }
    let mut keys: Vec<Vec<u8>> = cache.keys().collect::<Result<_, _>>().unwrap();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5000);
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct User {
    name: String,
    age: u32,
}

#[test]
fn types_come_back_and_what_is_none_is_an_error() {
    let bytes = cache();
    let users = bytes.typed::<(u32, String), User, _>(Serde);
    let (key, user) = ((7, "berlin".to_owned()), User { name: "alice".to_owned(), age: 30 });
    users.set(&key, &user).unwrap();
    assert_eq!(users.get(&key).unwrap().unwrap(), user);
    assert_eq!(users.keys().map(Result::unwrap).collect::<Vec<_>>(), [(7, "berlin".to_owned())]);
    assert_eq!(users.get_with(&(8, String::new()), || User { name: "bob".to_owned(), age: 1 }).unwrap().age, 1);
    // Any bytes are a value, or an error that leaves them alone.
    let raw_key = bytes.keys().next().unwrap().unwrap();
    for length in 0..40 {
        for seed in 0..20u8 {
            let raw: Vec<u8> = (0..length).map(|index: u8| index.wrapping_mul(31).wrapping_add(seed * 13)).collect();
            bytes.set(&raw_key, &raw).unwrap();
            let key = if raw_key.first() == Some(&8) { (8, String::new()) } else { (7, "berlin".to_owned()) };
            match users.get(&key) {
                Ok(found) => assert!(found.is_some()),
                Err(TypedError::Decode(_)) => assert_eq!(bytes.get(&raw_key).unwrap().unwrap(), raw),
                Err(error) => panic!("{error}"),
            }
        }
    }
    let texts = bytes.typed::<String, String, _>(Plain);
    bytes.set(b"text", b"\xff").unwrap();
    assert!(matches!(texts.get(&"text".to_owned()), Err(TypedError::Decode(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn futures_load_once_and_one_that_is_dropped_passes_its_turn() {
    let cache = cache().into_future().unwrap();
    let loads = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (cache, loads) = (cache.clone(), loads.clone());
            tokio::spawn(async move {
                for user in 0..10u32 {
                    let load = async {
                        loads.fetch_add(1, SeqCst);
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        user.to_string().into_bytes()
                    };
                    assert_eq!(cache.get_with(&user.to_le_bytes(), load).await.unwrap(), user.to_string().as_bytes());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(loads.load(SeqCst), 10);
    let hangs = {
        let cache = cache.clone();
        tokio::spawn(async move { cache.get_with(b"k", std::future::pending()).await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    let waits = {
        let cache = cache.clone();
        tokio::spawn(async move { cache.get_with(b"k", async { b"v".to_vec() }).await.unwrap() })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    hangs.abort();
    assert_eq!(waits.await.unwrap(), b"v");
}

/// Every operation as a future does what the blocking one does, near and where the fabric waits.
async fn check_futures<F: PoolFabric>(pool: &Pool<F>) {
    let cache = Cache::builder().clients(2).build(pool).unwrap().into_future().unwrap();
    cache.set(b"k", b"v").await.unwrap();
    assert_eq!(cache.replace(b"k", b"hello").await.unwrap().unwrap(), b"v");
    assert_eq!(cache.replace(b"new", b"w").await.unwrap(), None);
    assert_eq!(cache.append(b"k", b" world").await.unwrap(), 11);
    assert_eq!(cache.prepend(b"k", b"so: ").await.unwrap(), 15);
    assert_eq!(cache.get_range(b"k", -5, -1).await.unwrap(), b"world");
    assert_eq!(cache.set_range(b"k", 4, b"H").await.unwrap(), 15);
    let mut value = Value::new();
    assert!(cache.get_into(b"k", &mut value).await.unwrap());
    assert_eq!(value.bytes(), b"so: Hello world");
    assert_eq!(cache.peek(b"k").await.unwrap().unwrap().value_bytes, 15);
    assert_eq!(cache.increment(b"n", 2).await.unwrap(), 2);
    assert_eq!(cache.increment_float(b"n", 0.5).await.unwrap(), 2.5);
    assert!(matches!(cache.increment_float(b"k", 0.5).await, Err(Error::NotANumber)));
    assert!(!cache.set_if_absent(b"k", b"x").await.unwrap());
    assert!(cache.set_with(b"k", b"x", &SetOptions::default()).await.unwrap().stored);
    cache.set_for(b"short", b"v", Duration::from_secs(60)).await.unwrap();
    assert!(cache.expire(b"k", Duration::from_secs(60)).await.unwrap());
    assert!(cache.persist(b"k").await.unwrap());
    let found = cache.get_many(&[b"k", b"absent"]).await.unwrap();
    assert_eq!(found, [Some(b"x".to_vec()), None]);
    assert!(cache.contains(b"short").await.unwrap() && cache.delete(b"short").await.unwrap());
    assert_eq!(cache.take(b"k").await.unwrap().unwrap(), b"x");
    assert_eq!(cache.objects().await.unwrap(), 2);
    let load = async { Ok::<_, Infallible>(b"loaded".to_vec()) };
    assert_eq!(cache.try_get_with_lease(b"l", Duration::from_secs(9), load).await.unwrap(), b"loaded");
    assert_eq!(cache.flush().await.unwrap(), 3);
}

#[tokio::test]
async fn futures_do_what_blocking_operations_do() {
    check_futures(&Pool::anonymous(&options()).unwrap()).await;
    check_futures(&Pool::create_on(&Late(ShmFabric::anonymous()), &options()).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_all_processes_one_task_loads() {
    let pool = Pool::anonymous(&options()).unwrap();
    let loads = Arc::new(AtomicU32::new(0));
    // Each as another process has it.
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (cache, loads) = (Cache::builder().clients(1).build(&pool).unwrap(), loads.clone());
            let cache = cache.into_future().unwrap();
            tokio::spawn(async move {
                let load = async {
                    loads.fetch_add(1, SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok::<_, Infallible>(b"v".to_vec())
                };
                cache.try_get_with_lease(b"k", Duration::from_secs(20), load).await.unwrap()
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), b"v");
    }
    assert_eq!(loads.load(SeqCst), 1);
    assert_eq!(pool.client().unwrap().objects().unwrap(), 1, "the lease was given back");
}

#[test]
fn futures_that_are_dropped_where_the_fabric_waits_leave_nothing_half_done() {
    for engine in [EngineOptions::default(), EngineOptions::ditto("lru+lfu".parse().unwrap())] {
        let options = options().capacity_bytes(4 << 20).clients_max(3).engine(engine);
        let pool = Pool::create_on(&Late(ShmFabric::anonymous()), &options).unwrap();
        for round in 0..3u32 {
            let cache = Cache::builder().clients(3).build(&pool).unwrap().into_future().unwrap();
            for key in 0..5000u32 {
                let (key, value) = ((round * 2500 + key).to_le_bytes(), vec![7; 100 + key as usize % 900]);
                let mut dropped = Box::pin(cache.set(&key, &value));
                let _ = poll_once(dropped.as_mut());
            }
            // The last clone ends all of them, and its clients leave.
            drop(cache);
            let begun = Instant::now();
            let clients = || pool.info().unwrap().clients;
            while !clients().is_empty() {
                // A client that others keep from putting everything back leaves that to a repair.
                if clients().iter().all(|client| client.state == ClientState::Dead) {
                    pool.repair().unwrap();
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "clients have not left: {:?}", clients());
                std::thread::sleep(Duration::from_millis(5));
            }
            let audit = pool.verify().unwrap();
            assert!(audit.faults.is_empty(), "{:?}", audit.faults);
            assert!(audit.objects > 1000, "{audit:?}");
        }
    }
}

#[tokio::test]
async fn futures_end_where_the_fabric_waits() {
    let pool = Pool::create_on(&Late(ShmFabric::anonymous()), &options()).unwrap();
    let blocking = Cache::builder().clients(2).build(&pool).unwrap();
    let cache = blocking.clone().into_future().unwrap();
    cache.set(b"k", b"v").await.unwrap();
    assert_eq!(cache.get(b"k").await.unwrap().unwrap(), b"v");
    assert_eq!(cache.increment(b"n", 2).await.unwrap(), 2);
    assert_eq!(cache.get_with(b"l", async { b"w".to_vec() }).await.unwrap(), b"w");
    // One that is dropped runs to its end.
    let mut dropped = Box::pin(cache.set(b"dropped", b"v"));
    let _ = poll_once(dropped.as_mut());
    drop(dropped);
    let begun = Instant::now();
    while cache.get(b"dropped").await.unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(blocking.get(b"l").unwrap().unwrap(), b"w");
}

fn poll_once<T: Future>(future: std::pin::Pin<&mut T>) -> std::task::Poll<T::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn a_lease_is_held_by_one_caller_until_it_is_released() {
    let cache = cache();
    let time = Duration::from_secs(60);
    let Lease::Held { token } = cache.lease(b"k", time).unwrap() else { panic!("none holds it") };
    assert_eq!(cache.lease(b"k", time).unwrap(), Lease::Another);
    cache.release_lease(b"k", token + 1);
    assert_eq!(cache.lease(b"k", time).unwrap(), Lease::Another);
    cache.release_lease(b"k", token);
    assert!(matches!(cache.lease(b"k", time).unwrap(), Lease::Held { .. }));
    cache.set(b"k", b"v").unwrap();
    assert_eq!(cache.lease(b"k", time).unwrap(), Lease::Value(b"v".to_vec()));
}

#[test]
fn a_fork_sees_that_its_cache_is_inherited_and_its_parent_does_not() {
    let name = format!("shm:/atoll-inherited-{}", std::process::id());
    let pool = Pool::create(&name, &options()).unwrap();
    let cache = Cache::builder().build(&pool).unwrap();
    cache.set(b"k", b"v").unwrap();
    let status = fork::in_fork(|| {
        let inherited = cache.is_inherited();
        let own = Cache::builder().tend(false).build(&Pool::open(&name).unwrap()).unwrap();
        let found = own.get(b"k").unwrap().as_deref() == Some(b"v") && !own.is_inherited();
        let deeper = fork::in_fork(|| u8::from(own.is_inherited() && cache.is_inherited())).unwrap();
        u8::from(inherited) + u8::from(found) + deeper
    });
    assert_eq!((status.unwrap(), cache.is_inherited()), (3, false));
    cache.increment(b"n", 1).unwrap();
    drop((cache, pool));
    Pool::remove(&name).unwrap();
}
