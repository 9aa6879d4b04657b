//! Expired objects on the table of objects are removed without a request, and no other object is.

use atoll_baselines::kvs;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::{Expiry, Pooled, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::SharedPool;
use atoll_fabric::run_ready;
use atoll_fabric::shm::ShmEndpoint;
use atoll_pool::PoolSettings;
use std::time::{Duration, Instant};

const CAPACITY_BYTES: u64 = 16 << 20;
/// README and `--help` promise this.
const GONE_WITHIN: Duration = Duration::from_secs(5);

fn expiring(ms: u64) -> SetOptions {
    SetOptions { expiry: Expiry::InMs(ms), ..SetOptions::default() }
}

/// A tenth of the pool expires at once, and clients that have no request tend as a server makes
/// them.
fn goes_by_itself<G: Pooled<ShmEndpoint>>(settings: PoolSettings) {
    let host = SharedPool::<G>::new(settings);
    let mut clients: Vec<_> = (0..2).map(|_| host.client()).collect();
    let (stay, go) = (20_000u64, 6_000u64);
    for number in 0..stay + go {
        // A few of those that go are in chunks of their own.
        let bytes = if number >= stay && number % 600 == 0 { 40_000 } else { 200 };
        let options = if number < stay { expiring(3_600_000) } else { expiring(300) };
        run_ready(clients[0].set(&number.to_le_bytes(), &vec![1; bytes], &options)).unwrap();
    }
    // On a slow machine some have expired, and were seen, before the last one is in, or meanwhile.
    let seen = clients[0].stats().expirations;
    let objects = run_ready(clients[0].objects()).unwrap();
    let stats = clients[0].stats();
    // One pool in some hundred draws a seed by which a bucket of its index is too small.
    assert!(stats.evictions == stats.evictions_index && stats.evictions <= 2, "{stats:?}");
    let present = stay + go - stats.evictions;
    assert!((objects + seen..=objects + stats.expirations).contains(&present), "{objects} {stats:?}");
    std::thread::sleep(Duration::from_millis(300));
    let expired_at = Instant::now();
    while run_ready(clients[0].objects()).unwrap() > stay {
        let (objects, passed) = (run_ready(clients[0].objects()).unwrap(), expired_at.elapsed());
        assert!(passed < GONE_WITHIN, "{} objects that expired {passed:?} ago are counted", objects - stay);
        std::thread::sleep(Duration::from_millis(20));
        clients.iter_mut().for_each(|client| run_ready(client.tend()).unwrap());
    }
    println!("gone after {:?}", expired_at.elapsed());
    let expirations: u64 = clients.iter().map(|client| client.stats().expirations).sum();
    assert!((go - stats.evictions..=go).contains(&expirations), "{expirations}");
    drop(clients);
    host.verify();
}

#[test]
fn promise_2_what_has_expired_is_counted_out_and_reusable_within_five_seconds_without_a_request() {
    goes_by_itself::<shm::Ditto>(DittoOptions::default().for_capacity(CAPACITY_BYTES));
    goes_by_itself::<shm::Kvs>(kvs::options().for_growth(CAPACITY_BYTES, 0));
    for policy in [QueuePolicy::ShardLru, QueuePolicy::S3Fifo] {
        goes_by_itself::<shm::Queued>(QueueOptions::new(policy).for_capacity(CAPACITY_BYTES));
    }
}

/// An engine that tracks nothing leaves the expiry of a slot's last object beside it.
#[test]
fn promise_1_an_object_does_not_expire_because_the_last_one_of_its_slot_did() {
    let host = SharedPool::<shm::Kvs>::new(kvs::options().for_growth(4 << 20, 0));
    let cache = host.client();
    let mut value = Value::new();
    let first = 5_000u64;
    run_ready(async {
        for number in 0..first {
            cache.set(&number.to_le_bytes(), &[1; 100], &expiring(1)).await.unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
        for number in 0..first {
            assert!(!cache.get(&number.to_le_bytes(), &mut value).await.unwrap());
        }
        assert_eq!(cache.stats().expirations, first);
        let mut expected = 0;
        for number in first..10 * first {
            cache.set(&number.to_le_bytes(), &[1; 100], &SetOptions::default()).await.unwrap();
            expected += 1;
            let gone = cache.stats().evictions;
            assert_eq!(cache.objects().await.unwrap(), expected - gone, "after {number}");
        }
        assert_eq!(cache.stats().expirations, first, "objects without expiry have expired");
        assert!(cache.stats().evictions > 0, "the pool was never full");
    });
    drop(cache);
    host.verify();
}

/// What is looked at without a request stays if it has not expired.
#[test]
fn promise_1_what_has_not_expired_is_there_after_clients_have_looked_for_what_has() {
    let host = SharedPool::<shm::Ditto>::new(DittoOptions::default().for_capacity(4 << 20));
    let cache = host.client();
    let mut value = Value::new();
    for number in 0..5_000u64 {
        let options = if number % 2 == 0 { expiring(1_000_000) } else { SetOptions::default() };
        run_ready(cache.set(&number.to_le_bytes(), &number.to_le_bytes(), &options)).unwrap();
    }
    // Expiries that are put off, set, and taken off.
    for number in 0..5_000u64 {
        let expiry = if number % 3 == 0 { Expiry::Never } else { Expiry::InMs(2_000_000) };
        let options = SetOptions { expiry, ..SetOptions::default() };
        run_ready(cache.set(&number.to_le_bytes(), &number.to_le_bytes(), &options)).unwrap();
    }
    let begun = Instant::now();
    while begun.elapsed() < GONE_WITHIN {
        run_ready(cache.tend()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    for number in 0..5_000u64 {
        assert!(run_ready(cache.get(&number.to_le_bytes(), &mut value)).unwrap(), "{number}");
    }
    drop(cache);
    host.verify();
}

/// A client that has requests tends by itself.
#[test]
fn clients_of_every_engine_look_for_what_has_expired_while_they_have_requests() {
    let host = SharedPool::<shm::Queued>::new(QueueOptions::new(QueuePolicy::Sieve).for_capacity(4 << 20));
    let cache = host.client();
    for number in 0..3_000u64 {
        run_ready(cache.set(&number.to_le_bytes(), &[1; 100], &expiring(50))).unwrap();
    }
    let (begun, mut value) = (Instant::now(), Value::new());
    while run_ready(cache.objects()).unwrap() > 0 {
        assert!(begun.elapsed() < GONE_WITHIN + Duration::from_millis(50));
        run_ready(cache.get(b"absent", &mut value)).unwrap();
    }
    drop(cache);
    host.verify();
}
