//! Limits of every engine at their edges: of objects, of slots in a bucket, of growth. And the
//! rounds that a client makes however busy it is.

use atoll_baselines::kvs;
use atoll_cache::EnginePool;
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, CacheError, Pooled, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::SharedPool;
use atoll_fabric::shm::ShmEndpoint;
use atoll_fabric::{Address, Batch, Endpoint, run_ready};
use atoll_pool::{PoolSettings, read_word};
use std::sync::mpsc;
use std::time::Duration;

type Client<G> = Cache<G>;

fn write<G: Pooled<ShmEndpoint>>(pool: &SharedPool<G>, at: Address, word: u64) {
    let mut batch = Batch::new();
    batch.write_word(at, word);
    run_ready(pool.endpoint().post(&mut batch)).unwrap();
}

/// Makes the count of resident objects a wrong one.
fn miscount<G: Pooled<ShmEndpoint>>(pool: &SharedPool<G>, resident: u64) {
    write(pool, pool.pool.pool().layout.resident_objects(), resident);
}

fn word<G: Pooled<ShmEndpoint>>(pool: &SharedPool<G>, at: Address) -> u64 {
    run_ready(read_word(&pool.endpoint(), at)).unwrap()
}

fn set<G: Pooled<ShmEndpoint>>(client: &mut Client<G>, key: u32, bytes: usize) -> Result<(), CacheError> {
    run_ready(client.set(&key.to_le_bytes(), &vec![7; bytes], &SetOptions::default())).map(drop)
}

fn found<G: Pooled<ShmEndpoint>>(client: &mut Client<G>, keys: u32) -> u32 {
    let mut value = Value::new();
    let is_there = |key: &u32| run_ready(client.get(&key.to_le_bytes(), &mut value)).unwrap();
    (0..keys).filter(is_there).count() as u32
}

/// A client that died had taken six objects from the count that are there.
fn a_limit_is_kept_after_a_death<G: Pooled<ShmEndpoint>>(settings: PoolSettings) {
    let host = SharedPool::<G>::new(settings);
    let mut client = host.client();
    (0..10).for_each(|key| set(&mut client, key, 30).unwrap());
    miscount(&host, 4);
    (10..16).for_each(|key| set(&mut client, key, 30).unwrap());
    assert_eq!(found(&mut client, 16), 16);
    write(&host, host.pool.pool().layout.deaths(), 1);
    assert!(run_ready(client.engine().repair()).unwrap().recounted);
    run_ready(client.tend()).unwrap();
    assert_eq!((run_ready(client.objects()).unwrap(), found(&mut client, 16)), (10, 10));
}

#[test]
fn a_limit_of_objects_that_a_death_let_pass_is_kept_again() {
    a_limit_is_kept_after_a_death::<shm::Forge>(ForgeOptions::default().for_objects(10, 4, 64));
    a_limit_is_kept_after_a_death::<shm::Ditto>(DittoOptions::default().objects().for_objects(10, 4, 64));
    a_limit_is_kept_after_a_death::<shm::Kvs>(kvs::options().for_objects(10, 4, 64));
}

/// The count says that the limit is reached, and nothing is there that could go.
fn nothing_can_go<G: Pooled<ShmEndpoint>>(settings: PoolSettings) {
    let host = SharedPool::<G>::new(settings);
    let mut client = host.client();
    miscount(&host, 10);
    assert!(matches!(set(&mut client, 1, 30), Err(CacheError::OutOfMemory)));
    miscount(&host, 9);
    set(&mut client, 1, 30).unwrap();
}

#[test]
fn a_set_for_which_nothing_can_go_says_so_and_does_not_wait_for_ever() {
    ends(|| nothing_can_go::<shm::Forge>(ForgeOptions::default().for_objects(10, 4, 64)));
    ends(|| nothing_can_go::<shm::Ditto>(DittoOptions::default().objects().for_objects(10, 4, 64)));
    ends(|| nothing_can_go::<shm::Kvs>(kvs::options().for_objects(10, 4, 64)));
}

/// Runs what takes milliseconds, and fails where it has not ended after a minute.
fn ends(body: fn()) {
    let (tell, told) = mpsc::channel();
    let run = std::thread::spawn(move || {
        body();
        // No thread listens after the minute.
        let _ = tell.send(());
    });
    match told.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end after a minute"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => run.join().unwrap(),
    }
}

/// The client makes no round by `tend`.
fn a_busy_client_moves_its_lease<G: Pooled<ShmEndpoint>>(settings: PoolSettings) {
    let host = SharedPool::<G>::new(settings);
    let mut client = host.client();
    set(&mut client, 1, 30).unwrap();
    let lease = host.pool.pool().layout.lease(client.engine().client().me().slot);
    let before = word(&host, lease);
    (0..2_000).for_each(|_| assert_eq!(found(&mut client, 2), 1));
    assert_ne!(word(&host, lease), before);
}

#[test]
fn a_client_that_only_looks_up_tells_that_it_is_alive() {
    a_busy_client_moves_its_lease::<shm::Forge>(ForgeOptions::default().for_capacity(4 << 20));
    a_busy_client_moves_its_lease::<shm::Ditto>(DittoOptions::default().for_capacity(4 << 20));
    a_busy_client_moves_its_lease::<shm::Kvs>(kvs::options().for_growth(4 << 20, 0));
}

/// There are far more objects than slots, and each has chunks of its own.
fn full_buckets<G: Pooled<ShmEndpoint>>(settings: PoolSettings) {
    let host = SharedPool::<G>::new(settings);
    let mut client = host.client();
    for key in 0..400 {
        set(&mut client, key, 3_000).unwrap();
        assert!(found(&mut client, key + 1) > 0);
    }
    assert!(run_ready(client.objects()).unwrap() <= 32);
}

#[test]
fn a_bucket_full_of_large_objects_takes_another_one() {
    let base = PoolSettings { chunk_bytes: 1024, ..PoolSettings::for_capacity(2 << 20) };
    full_buckets::<shm::Forge>(ForgeOptions::default().settings(base.clone(), 32));
    full_buckets::<shm::Kvs>(kvs::options().settings(base, 32));
}

#[test]
fn growth_by_less_than_a_chunk_is_refused_with_the_least_that_would_do() {
    let host = SharedPool::<shm::Forge>::new(ForgeOptions::default().for_growth(4 << 20, 4 << 20));
    let client = host.client();
    let refused = run_ready(client.engine().grow(1)).unwrap_err().to_string();
    assert!(refused.contains("choose at least"), "{refused}");
    let refused = run_ready(client.engine().grow(1 << 40)).unwrap_err().to_string();
    assert!(refused.contains("at most"), "{refused}");
}
