//! Every engine over shared memory: promises 1, 5 and 6, by one thread and by several.

use atoll_baselines::kvs;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Engine, Expiry, KEY_BYTES_MAX, Number, Pooled, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::{SharedPool, value_of};
use atoll_fabric::run_ready;
use atoll_fabric::shm::ShmEndpoint;
use atoll_pool::PoolSettings;
use atoll_sim::Random;
use std::collections::HashMap;

pub(crate) type Shm = ShmEndpoint;

fn values_of_every_size<G: Pooled<Shm>>(settings: PoolSettings) {
    const SIZES: [usize; 20] = [
        0, 1, 7, 8, 9, 24, 25, 100, 1000, 4000, 16_000, 16_300, 16_384, 20_000, 32_700, 32_768, 65_536, 100_000,
        700_000, 5_000_000,
    ];
    let pool = SharedPool::<G>::new(settings);
    let (cache, mut value) = (pool.client(), Value::new());
    run_ready(async {
        for bytes in SIZES {
            let (key, bytes) = (format!("key of {bytes}").into_bytes(), value_of(1, 2, bytes));
            cache.set(&key, &bytes, &SetOptions::default()).await.unwrap();
            assert!(cache.get(&key, &mut value).await.unwrap(), "{}", bytes.len());
            assert_eq!(value.bytes(), bytes);
            // At the start of memory that is longer, and not where it is too short.
            let mut own = vec![9; bytes.len() + 3];
            let found = cache.get_to_slice(&key, &mut own).await.unwrap();
            assert_eq!(found.map(|meta| meta.value_bytes), Some(bytes.len()));
            assert!(own[..bytes.len()] == bytes && own[bytes.len()..] == [9; 3], "{}", bytes.len());
            if !bytes.is_empty() {
                let mut short = vec![9; bytes.len() - 1];
                let found = cache.get_to_slice(&key, &mut short).await.unwrap();
                assert_eq!(found.map(|meta| meta.value_bytes), Some(bytes.len()));
                assert!(short.iter().all(|byte| *byte == 9), "{}", bytes.len());
            }
            assert_eq!(cache.peek(&key).await.unwrap().unwrap().value_bytes, bytes.len());
        }
        let key = vec![7; KEY_BYTES_MAX];
        cache.set(&key, b"x", &SetOptions::default()).await.unwrap();
        assert!(cache.get(&key, &mut value).await.unwrap());
        // Keys of every alignment, also such that fill chunks by themselves, before a large value.
        for key_bytes in (1..18).chain([4095, 16_384, 20_000, KEY_BYTES_MAX]) {
            let (key, bytes) = (vec![6; key_bytes], value_of(3, 4, 100_000 + key_bytes));
            cache.set(&key, &bytes, &SetOptions::default()).await.unwrap();
            let mut own = vec![0; bytes.len()];
            assert!(cache.get_to_slice(&key, &mut own).await.unwrap().is_some());
            assert!(own == bytes, "a key of {key_bytes} bytes");
            assert!(cache.get(&key, &mut value).await.unwrap() && value.bytes() == bytes);
            assert_eq!(cache.append(&key, b"x").await.unwrap(), bytes.len() + 1);
            assert!(cache.delete(&key).await.unwrap());
            assert_eq!(cache.get_to_slice(&key, &mut own).await.unwrap(), None);
        }
        assert!(cache.set(&[0; KEY_BYTES_MAX + 1], b"x", &SetOptions::default()).await.is_err());
        assert_eq!(cache.append(&key, &[1; 100_000]).await.unwrap(), 100_001);
        assert!(cache.delete(&key).await.unwrap());
        assert!(!cache.get(&key, &mut value).await.unwrap());
        assert_eq!(cache.objects().await.unwrap(), SIZES.len() as u64);
        assert_eq!(cache.flush().await.unwrap(), SIZES.len() as u64);
    });
    drop(cache);
    pool.verify();
}

#[test]
fn what_was_set_is_found_in_every_size() {
    let bytes = 64 << 20;
    values_of_every_size::<shm::Forge>(ForgeOptions::default().for_capacity(bytes));
    values_of_every_size::<shm::Ditto>(DittoOptions::default().for_capacity(bytes));
    values_of_every_size::<shm::Kvs>(kvs::options().for_growth(bytes, 0));
    for policy in QueuePolicy::ALL {
        values_of_every_size::<shm::Queued>(QueueOptions::new(policy).for_capacity(bytes));
    }
}

/// The sizes shift from small to large and back.
fn shifting_sizes<G: Pooled<Shm>>(settings: PoolSettings) {
    let pool = SharedPool::<G>::new(settings);
    let cache = pool.client();
    let mut versions: HashMap<u64, (u64, usize)> = HashMap::new();
    let (mut value, mut random, mut hits) = (Value::new(), Random::new(3), 0);
    for step in 0..60_000u64 {
        let key = random.below(5000);
        let octave = random.below(if step / 20_000 == 1 { 20 } else { 10 }) + 1;
        let bytes = random.below(1 << octave) as usize;
        run_ready(async {
            match random.below(10) {
                0..=4 => {
                    let new = value_of(key, step, bytes);
                    cache.set(&key.to_le_bytes(), &new, &SetOptions::default()).await.unwrap();
                    versions.insert(key, (step, bytes));
                }
                5 => {
                    cache.delete(&key.to_le_bytes()).await.unwrap();
                    versions.remove(&key);
                }
                _ => {
                    if cache.get(&key.to_le_bytes(), &mut value).await.unwrap() {
                        let (version, bytes) = versions[&key];
                        assert_eq!(value.bytes(), value_of(key, version, bytes));
                        hits += 1;
                    }
                }
            }
        });
    }
    assert!(hits > 1000, "{hits}");
    drop(cache);
    pool.verify();
}

#[test]
fn a_full_pool_keeps_taking_sets_of_skewed_and_shifting_sizes_and_never_serves_a_wrong_value() {
    shifting_sizes::<shm::Forge>(ForgeOptions::default().for_capacity(16 << 20));
    shifting_sizes::<shm::Forge>(ForgeOptions::paper().for_capacity(16 << 20));
    shifting_sizes::<shm::Ditto>(DittoOptions::default().for_capacity(16 << 20));
}

/// Four clients set keys in turn.
fn limited<G: Pooled<Shm>>(settings: PoolSettings, sets: u64) {
    let objects_max = settings.objects_max;
    let pool = SharedPool::<G>::new(settings);
    let clients: Vec<_> = (0..4).map(|_| pool.client()).collect();
    for step in 0..sets {
        let client = &clients[step as usize % 4];
        run_ready(async {
            let key = (step * step) % (3 * objects_max);
            client.set(&key.to_le_bytes(), b"v", &SetOptions::default()).await.unwrap();
            assert!(client.objects().await.unwrap() <= objects_max);
        });
    }
    drop(clients);
    pool.verify();
}

#[test]
fn a_pool_limited_in_objects_never_holds_more() {
    for objects_max in [1, 2, 5, 12, 100, 1000] {
        limited::<shm::Forge>(ForgeOptions::default().for_objects(objects_max, 4, 64), 5000);
        limited::<shm::Ditto>(DittoOptions::default().objects().for_objects(objects_max, 4, 64), 5000);
    }
    for (policy, objects_max) in QueuePolicy::ALL.into_iter().flat_map(|policy| [1, 5, 100].map(|max| (policy, max))) {
        limited::<shm::Queued>(QueueOptions::new(policy).objects().for_objects(objects_max, 4, 64), 3000);
    }
}

/// Three threads increment one key, and set so many keys of their own in turn. Gives the client
/// that reads the sum.
fn increments<G: Pooled<Shm> + Send>(settings: PoolSettings, steps: u64, keys: u64) -> u64
where
    G::Shared: Sync + Send,
{
    let pool = SharedPool::<G>::new(settings);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let cache = pool.client();
            scope.spawn(move || {
                for step in 0..steps {
                    run_ready(async {
                        cache.increment(b"shared", 1).await.unwrap();
                        let key = (thread << 32 | (step % keys)).to_le_bytes();
                        cache.set(&key, &[1; 300], &SetOptions::default()).await.unwrap();
                    });
                }
            });
        }
    });
    let cache = pool.client();
    assert_eq!(run_ready(cache.increment(b"shared", 0)).unwrap(), Number::Value(3 * steps as i64));
    let puts = cache.engine().stats().puts;
    drop(cache);
    pool.verify();
    puts
}

#[test]
fn increments_of_threads_add_up_and_nothing_is_lost_while_objects_are_moved() {
    assert!(increments::<shm::Forge>(ForgeOptions::default().for_capacity(4 << 20), 30_000, 30_000) > 0);
    // Room for everything, since an eviction would begin the count again.
    increments::<shm::Ditto>(DittoOptions::default().for_capacity(16 << 20), 20_000, 1000);
}

/// Sizes of all classes, large values among them, in a pool of few chunks.
fn set_sizes<G: Engine>(cache: &Cache<G>, thread: u64, steps: u64) {
    let mut random = Random::stream(7, thread);
    let (mut value, mut hits) = (Value::new(), 0);
    for step in 0..steps {
        let key = random.below(300);
        let octaves = if step / (steps / 3) == 1 { 9 } else { 19 };
        let octave = random.below(octaves);
        let bytes = (2 + random.below(1 << octave) as usize).min(cache.value_bytes_max());
        run_ready(async {
            match random.below(8) {
                0..4 => {
                    let mut new = vec![(key as u8).wrapping_mul(31).wrapping_add(bytes as u8); bytes];
                    (new[0], new[1]) = (key as u8, thread as u8);
                    let expiry = if random.below(8) == 0 { Expiry::InMs(1) } else { Expiry::Never };
                    let options = SetOptions { expiry, ..SetOptions::default() };
                    cache.set(&key.to_le_bytes(), &new, &options).await.unwrap();
                }
                4 => drop(cache.delete(&key.to_le_bytes()).await.unwrap()),
                _ => {
                    if cache.get(&key.to_le_bytes(), &mut value).await.unwrap() {
                        let found = value.bytes();
                        let fill = (key as u8).wrapping_mul(31).wrapping_add(found.len() as u8);
                        let is_whole = found[0] == key as u8 && found[2..].iter().all(|byte| *byte == fill);
                        assert!(is_whole, "a value of {} bytes is torn, or another's", found.len());
                        hits += 1;
                    }
                }
            }
        });
    }
    assert!(hits > 100, "{hits} hits show little");
}

fn threads_set_many_sizes<G: Pooled<Shm> + Send>(settings: PoolSettings, steps: u64) {
    let pool = SharedPool::<G>::new(settings);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let cache = pool.client();
            scope.spawn(move || set_sizes(&cache, thread, steps));
        }
    });
    pool.verify();
}

#[test]
fn promise_5_threads_set_many_sizes_in_a_small_pool_and_no_set_fails() {
    let bytes = 8 << 20;
    threads_set_many_sizes::<shm::Forge>(ForgeOptions::default().for_capacity(bytes), 4000);
    threads_set_many_sizes::<shm::Ditto>(DittoOptions::default().for_capacity(bytes), 4000);
    threads_set_many_sizes::<shm::Kvs>(kvs::options().for_growth(bytes, 0), 4000);
    for policy in QueuePolicy::ALL {
        threads_set_many_sizes::<shm::Queued>(QueueOptions::new(policy).for_capacity(bytes), 2000);
    }
}

/// The idle client is cutting many chunks, which no other client can allocate. After a while the
/// objects in them are at the end of every list.
fn beside_an_idle_client<G: Pooled<Shm>>(settings: PoolSettings) {
    let pool = SharedPool::<G>::new(PoolSettings { clients_max: 2, ..settings });
    let [idle, busy] = [(); 2].map(|()| pool.client());
    let set = |cache: &Cache<G>, number: u64, bytes| {
        run_ready(cache.set(&number.to_le_bytes(), &vec![1; bytes], &SetOptions::default())).unwrap();
    };
    for (number, bytes) in (0..).zip([100, 200, 400, 800].repeat(200)) {
        set(&idle, number, bytes);
    }
    (1000..3000).for_each(|number| set(&busy, number, 100_000));
    drop((idle, busy));
    pool.verify();
}

#[test]
fn promise_5_a_client_that_does_nothing_delays_no_other() {
    let bytes = 4 << 20;
    beside_an_idle_client::<shm::Forge>(ForgeOptions::default().for_capacity(bytes));
    beside_an_idle_client::<shm::Kvs>(kvs::options().for_growth(bytes, 0));
    beside_an_idle_client::<shm::Ditto>(DittoOptions::default().for_capacity(bytes));
    for policy in QueuePolicy::ALL {
        beside_an_idle_client::<shm::Queued>(QueueOptions::new(policy).for_capacity(bytes));
    }
}
