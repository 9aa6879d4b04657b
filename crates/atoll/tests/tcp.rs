//! The library over memory nodes on other hosts: here agents of this process.

use atoll::fabric::TcpFabric;
use atoll::{Cache, Pool, PoolOptions};
use atoll_fabric::tcp::{Agent, AgentOptions, RunningAgent};
use std::time::{Duration, Instant};

const CAPACITY: u64 = 32 << 20;

fn agent(listen: &str) -> RunningAgent {
    let options = AgentOptions { capacity_bytes: CAPACITY, ..AgentOptions::default() };
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        // The port of an agent that has ended may be in use for a moment.
        match Agent::bind(listen, options.clone()) {
            Ok(agent) => return agent.start().unwrap(),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn cache(pool: &Pool<TcpFabric>) -> Cache<TcpFabric> {
    Cache::builder().clients(2).build(pool).unwrap()
}

#[test]
fn caches_of_several_processes_share_a_pool_over_tcp() {
    let agents = [agent("127.0.0.1:0"), agent("127.0.0.1:0")];
    let address = format!("tcp:{},{}", agents[0].address(), agents[1].address());
    let options = PoolOptions::default().capacity_bytes(2 * CAPACITY).nodes(2);
    let made = Pool::create_remote(&address, &options).unwrap();
    let opened = Pool::connect(&address).unwrap();
    assert_eq!((made.fabric(), opened.name(), opened.is_near()), ("tcp", Some(address.as_str()), false));
    let (one, other) = (cache(&made), cache(&opened));
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let cache = if thread % 2 == 0 { &one } else { &other };
            scope.spawn(move || {
                for key in (0..400_u32).filter(|key| key % 4 == thread) {
                    cache.set(&key.to_le_bytes(), &[key as u8; 300]).unwrap();
                    cache.increment(b"count", 1).unwrap();
                }
            });
        }
    });
    assert_eq!(one.increment(b"count", 0).unwrap(), 400);
    for key in 0..400_u32 {
        assert_eq!(other.get(&key.to_le_bytes()).unwrap(), Some(vec![key as u8; 300]), "key {key}");
    }
    let large = vec![7; 3 << 20];
    one.set(b"large", &large).unwrap();
    assert_eq!(other.get(b"large").unwrap(), Some(large));
    drop((one, other, made));
    let audit = opened.verify().unwrap();
    assert!(audit.faults.is_empty(), "{:?}", audit.faults);
    assert_eq!(opened.info().unwrap().clients, [], "all have left");
}

#[test]
fn a_home_that_comes_back_empty_is_made_anew_by_one_client_and_serves_nothing_old() {
    let first = agent("127.0.0.1:0");
    let listen = first.address().to_string();
    let options = PoolOptions::default().capacity_bytes(CAPACITY);
    let made = Pool::create_remote(&format!("tcp:{listen}"), &options).unwrap();
    let opened = Pool::connect(&format!("tcp:{listen}")).unwrap();
    let caches = [cache(&made), cache(&opened)];
    for key in 0..100_u32 {
        caches[0].set(&key.to_le_bytes(), b"old").unwrap();
        assert_eq!(caches[1].get(&key.to_le_bytes()).unwrap().as_deref(), Some(&b"old"[..]));
    }
    drop(first);
    for cache in &caches {
        // The first error may be that of a verb in flight; later ones name the memory node.
        let mut text = String::new();
        for _ in 0..4 {
            text = cache.get(b"anything").unwrap_err().to_string();
        }
        assert!(text.contains(&listen) && text.contains("cannot reach the memory node"), "{text}");
    }
    let _second = agent(&listen);
    let end = Instant::now() + Duration::from_secs(20);
    for cache in &caches {
        while let Err(error) = cache.get(b"anything") {
            assert!(Instant::now() < end, "{error}");
        }
    }
    for key in 0..100_u32 {
        caches.iter().for_each(|cache| assert_eq!(cache.get(&key.to_le_bytes()).unwrap(), None));
    }
    caches[0].set(b"new", b"value").unwrap();
    assert_eq!(caches[1].get(b"new").unwrap().as_deref(), Some(&b"value"[..]));
    drop(caches);
    let audit = Pool::connect(&format!("tcp:{listen}")).unwrap().verify().unwrap();
    assert!(audit.faults.is_empty(), "{:?}", audit.faults);
}
