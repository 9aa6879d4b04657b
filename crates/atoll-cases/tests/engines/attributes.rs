//! What was said of a value stays with it, wherever its record goes.

use crate::shared_memory::Shm;
use atoll_baselines::kvs;
use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Attributes, Cache, CacheError, EnginePool, Expiry, KEY_BYTES_MAX, Pooled, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::{SharedPool, value_of};
use atoll_fabric::run_ready;
use atoll_pool::PoolSettings;

const SAID: [Attributes; 5] = [
    Attributes { kind: 0, flags: 0 },
    Attributes { kind: 0, flags: 1 },
    Attributes { kind: 255, flags: u32::MAX },
    Attributes { kind: 1, flags: 1 << 31 },
    // Marks alone.
    Attributes { kind: !Attributes::KIND_BITS, flags: 0 },
];

fn said(attributes: Attributes) -> SetOptions {
    SetOptions { attributes, ..SetOptions::default() }
}

/// Looks a key up in every way.
fn attributes<G: Pooled<Shm>>(cache: &Cache<G>, key: &[u8]) -> Attributes {
    let mut value = Value::new();
    run_ready(async {
        assert!(cache.get(key, &mut value).await.unwrap());
        let seen = value.meta().attributes;
        assert_eq!(cache.peek(key).await.unwrap().unwrap().attributes, seen);
        let mut among_many = Vec::new();
        cache
            .get_many(&[b"nothing", key], |_, value| among_many.extend(value.map(|it| it.meta().attributes)))
            .await
            .unwrap();
        assert_eq!(among_many, [seen]);
        seen
    })
}

fn attributes_are_kept<G: Pooled<Shm>>(settings: PoolSettings) {
    let pool = SharedPool::<G>::new(settings);
    let (cache, other) = (pool.client(), pool.client());
    let half = chunk_bytes(&pool) / 2;
    let sizes =
        [0, 5, 200, half - 64, half - 40, half - 33, half - 32, half - 24, half - 17, half - 16, half, 3 * half];
    for key in [b"key".to_vec(), vec![7; 255], vec![7; 256], vec![8; KEY_BYTES_MAX]] {
        for bytes in sizes {
            let value = value_of(1, 2, bytes);
            for about in SAID {
                let mut there = Value::new();
                run_ready(async {
                    cache.set(&key, &value, &said(about)).await.unwrap();
                    assert_eq!(attributes(&other, &key), about, "{} {bytes}", key.len());
                    assert!(other.get(&key, &mut there).await.unwrap() && there.bytes() == value);
                    let later = other.expire(&key, Expiry::InMs(1 << 30), Default::default()).await.unwrap();
                    assert_eq!((attributes(&cache, &key), later), (about, atoll_cache::ExpireOutcome::Set));
                    // What appends is for strings.
                    let appended = match about.kind_of_bytes() {
                        0 => Ok(bytes + 1),
                        kind => Err(CacheError::AnotherKind { kind }),
                    };
                    assert_eq!(other.append(&key, b"7").await, appended);
                    assert_eq!(attributes(&cache, &key), about);
                    assert!(cache.get(&key, &mut there).await.unwrap());
                    assert_eq!((&there.bytes()[..bytes], there.meta().expiry_ms.is_some()), (&value[..], true));
                });
            }
        }
    }
    run_ready(async {
        cache.set(b"number", b"41", &said(SAID[1])).await.unwrap();
        other.increment(b"number", 1).await.unwrap();
        assert_eq!(attributes(&cache, b"number"), SAID[1]);
        let before = cache.set(b"number", b"other", &SetOptions::default()).await.unwrap().old;
        assert_eq!((before.unwrap().attributes, attributes(&other, b"number")), (SAID[1], SAID[0]));
    });
    drop((cache, other));
    pool.verify();
}

fn chunk_bytes<G: Pooled<Shm>>(pool: &SharedPool<G>) -> usize {
    pool.pool.pool().layout.chunk_bytes as usize
}

#[test]
fn they_are_kept_with_values_of_all_sizes_and_by_changes_that_keep_the_value() {
    let bytes = 32 << 20;
    attributes_are_kept::<shm::Forge>(ForgeOptions::default().for_capacity(bytes));
    attributes_are_kept::<shm::Ditto>(DittoOptions::default().for_capacity(bytes));
    attributes_are_kept::<shm::Kvs>(kvs::options().for_growth(bytes, 0));
    for policy in QueuePolicy::ALL {
        attributes_are_kept::<shm::Queued>(QueueOptions::new(policy).for_capacity(bytes));
    }
}

/// Objects move while others are evicted.
fn attributes_move<G: Pooled<Shm>>(settings: PoolSettings) {
    const KEYS: u32 = 60_000;
    let pool = SharedPool::<G>::new(settings);
    let (cache, mut value) = (pool.client(), Value::new());
    let about = |key: u32| Attributes { kind: (key % 3) as u8, flags: if key.is_multiple_of(2) { 0 } else { key } };
    run_ready(async {
        for key in 0..KEYS {
            // Some are hot, so that they stay and are moved.
            let hot = (key / 50) % 100;
            let bytes = value_of(1, key.into(), 20 + (key as usize * 7) % 400);
            cache.set(&key.to_le_bytes(), &bytes, &said(about(key))).await.unwrap();
            cache.get(&hot.to_le_bytes(), &mut value).await.unwrap();
        }
        let mut there = 0;
        for key in 0..KEYS {
            if cache.get(&key.to_le_bytes(), &mut value).await.unwrap() {
                assert_eq!(value.meta().attributes, about(key));
                there += 1;
            }
        }
        assert!(cache.stats().evictions > 0 && there > 1000, "{there}");
    });
    drop(cache);
    pool.verify();
}

#[test]
fn they_go_where_their_record_is_moved() {
    attributes_move::<shm::Forge>(ForgeOptions::default().for_capacity(8 << 20));
    attributes_move::<shm::Ditto>(DittoOptions::default().for_capacity(8 << 20));
}
