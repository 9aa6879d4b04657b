//! A lookup that finds nothing is counted by the reason.

use crate::shared_memory::Shm;
use atoll_cache::ditto::DittoOptions;
use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Expiry, Pooled, SetOptions, Stats, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::SharedPool;
use atoll_fabric::run_ready;
use atoll_pool::PoolSettings;
use std::time::Duration;

const SET: u32 = 40_000;

/// Looks keys up, one by one or many at once. Returns what that counted.
fn counted<G: Pooled<Shm>>(cache: &Cache<G>, keys: impl Iterator<Item = u32>, at_once: bool) -> Stats {
    let before = cache.stats();
    let keys: Vec<[u8; 4]> = keys.map(u32::to_le_bytes).collect();
    run_ready(async {
        if at_once {
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
            cache.get_many(&keys, |_, _| ()).await.unwrap();
            return;
        }
        let mut value = Value::new();
        for key in keys {
            cache.get(&key, &mut value).await.unwrap();
        }
    });
    let after = cache.stats();
    Stats {
        hits: after.hits - before.hits,
        misses_absent: after.misses_absent - before.misses_absent,
        misses_evicted: after.misses_evicted - before.misses_evicted,
        misses_expired: after.misses_expired - before.misses_expired,
        ..Stats::default()
    }
}

fn are_counted_by_reason<G: Pooled<Shm>>(settings: PoolSettings) {
    let pool = SharedPool::<G>::new(settings);
    let cache = pool.client();
    run_ready(async {
        for key in 0..SET {
            cache.set(&key.to_le_bytes(), &[7; 300], &SetOptions::default()).await.unwrap();
        }
    });
    assert!(cache.stats().evictions > 0);
    for at_once in [false, true] {
        let none = counted(&cache, SET..SET + 1000, at_once);
        // Records of evicted objects do not have the whole key.
        assert!(none.misses_absent >= 990 && none.misses() == 1000, "{none:?}");
        // These were evicted last, by both engines.
        let late = counted(&cache, SET / 4..SET / 2, at_once);
        assert!(late.misses_evicted > late.misses_absent, "{late:?}");
        assert_eq!(late.hits + late.misses(), u64::from(SET / 4), "{late:?}");
    }
    // Only now, so that no round removes it before it is looked up.
    let expiring = SetOptions { expiry: Expiry::InMs(1), ..SetOptions::default() };
    run_ready(cache.set(&u32::MAX.to_le_bytes(), b"expired", &expiring)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let expired = counted(&cache, std::iter::once(u32::MAX), false);
    assert_eq!((expired.misses_expired, expired.misses()), (1, 1), "{expired:?}");
}

#[test]
fn of_forge_are_counted_by_reason() {
    are_counted_by_reason::<shm::Forge>(ForgeOptions::default().for_capacity(8 << 20));
}

#[test]
fn of_ditto_are_counted_by_reason() {
    are_counted_by_reason::<shm::Ditto>(DittoOptions::default().for_capacity(8 << 20));
}
