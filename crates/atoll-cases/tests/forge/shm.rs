//! `forge` over shared memory: promises 1, 5 and 6, by one thread.

use atoll_cache::EnginePool;
use atoll_cache::Pooled;
use atoll_cache::forge::{Forge, ForgeOptions, ForgePool};
use atoll_cache::{Cache, Engine, KEY_BYTES_MAX, Number, SetOptions, Value};
use atoll_fabric::run_ready;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use std::collections::HashMap;
use std::sync::Arc;

struct Host {
    region: Arc<ShmRegion>,
    pool: Arc<ForgePool>,
}

impl Host {
    fn new(options: &ForgeOptions, capacity_bytes: u64) -> Self {
        let region = Arc::new(ShmRegion::anonymous(capacity_bytes).unwrap());
        let endpoint = ShmEndpoint::new(region.clone());
        let pool = run_ready(ForgePool::format(&endpoint, options.for_capacity(capacity_bytes))).unwrap();
        Self { region, pool }
    }

    fn client(&self) -> Cache<Forge<ShmEndpoint>> {
        let endpoint = ShmEndpoint::new(self.region.clone());
        Cache::new(run_ready(Forge::join(&self.pool, endpoint)).unwrap())
    }

    fn verify(&self) {
        let client = self.client();
        let report = run_ready(client.engine().verify()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
    }
}

fn value_of(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (key.wrapping_mul(31) + version.wrapping_mul(7) + index as u64) as u8).collect()
}

#[test]
fn what_was_set_is_found_in_every_size() {
    let host = Host::new(&ForgeOptions::default(), 64 << 20);
    let cache = host.client();
    let mut value = Value::new();
    run_ready(async {
        for bytes in
            [0, 1, 7, 8, 9, 100, 1000, 4000, 16_000, 16_300, 16_384, 20_000, 32_768, 100_000, 700_000, 5_000_000]
        {
            let (key, bytes) = (format!("key of {bytes}").into_bytes(), value_of(1, 2, bytes));
            cache.set(&key, &bytes, &SetOptions::default()).await.unwrap();
            assert!(cache.get(&key, &mut value).await.unwrap(), "{}", bytes.len());
            assert_eq!(value.bytes(), bytes);
            assert_eq!(cache.peek(&key).await.unwrap().unwrap().value_bytes, bytes.len());
        }
        let key = vec![7; KEY_BYTES_MAX];
        cache.set(&key, b"x", &SetOptions::default()).await.unwrap();
        assert!(cache.get(&key, &mut value).await.unwrap());
        assert!(cache.set(&[0; KEY_BYTES_MAX + 1], b"x", &SetOptions::default()).await.is_err());
        assert_eq!(cache.append(&key, &[1; 100_000]).await.unwrap(), 100_001);
        assert!(cache.delete(&key).await.unwrap());
        assert!(!cache.get(&key, &mut value).await.unwrap());
        assert_eq!(cache.objects().await.unwrap(), 16);
        assert_eq!(cache.flush().await.unwrap(), 16);
    });
    drop(cache);
    host.verify();
}

#[test]
fn a_full_pool_keeps_taking_sets_of_skewed_and_shifting_sizes_and_never_serves_a_wrong_value() {
    for options in [ForgeOptions::default(), ForgeOptions::paper()] {
        let host = Host::new(&options, 16 << 20);
        let cache = host.client();
        let mut versions: HashMap<u64, (u64, usize)> = HashMap::new();
        let (mut value, mut random, mut hits) = (Value::new(), 88_172_645_463_325_252u64, 0);
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for step in 0..60_000u64 {
            let key = next() % 5000;
            // The sizes shift from small to large and back.
            let octaves = if step / 20_000 == 1 { 20 } else { 10 };
            let bytes = (next() % (1 << (next() % octaves + 1))) as usize;
            run_ready(async {
                match next() % 10 {
                    0..=4 => {
                        cache
                            .set(&key.to_le_bytes(), &value_of(key, step, bytes), &SetOptions::default())
                            .await
                            .unwrap();
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
        host.verify();
    }
}

#[test]
fn a_pool_limited_in_objects_never_holds_more() {
    for objects_max in [1, 2, 5, 12, 100, 1000] {
        let settings = ForgeOptions::default().for_objects(objects_max, 4, 64);
        let region = Arc::new(ShmRegion::anonymous(settings.capacity_bytes).unwrap());
        let pool = run_ready(ForgePool::format(&ShmEndpoint::new(region.clone()), settings)).unwrap();
        let host = Host { region, pool };
        let mut clients: Vec<_> = (0..4).map(|_| host.client()).collect();
        for step in 0..5000u64 {
            let client = &mut clients[step as usize % 4];
            run_ready(async {
                let key = (step * step) % (3 * objects_max);
                client.set(&key.to_le_bytes(), b"v", &SetOptions::default()).await.unwrap();
                assert!(client.objects().await.unwrap() <= objects_max);
            });
        }
        drop(clients);
        host.verify();
    }
}

#[test]
fn increments_of_threads_add_up_and_nothing_is_lost_to_regrouping() {
    let host = Host::new(&ForgeOptions::default(), 4 << 20);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let cache = host.client();
            scope.spawn(move || {
                for step in 0..30_000u64 {
                    run_ready(async {
                        cache.increment(b"shared", 1).await.unwrap();
                        let key = (thread << 32 | step).to_le_bytes();
                        cache.set(&key, &[1; 300], &SetOptions::default()).await.unwrap();
                    });
                }
            });
        }
    });
    let cache = host.client();
    let total = run_ready(cache.increment(b"shared", 0)).unwrap();
    assert_eq!(total, Number::Value(90_000));
    assert!(cache.engine().stats().puts > 0);
    drop(cache);
    host.verify();
}
