//! What a listener is told of the objects that its cache has removed.

use atoll::{Builder, Cache, Cause, EngineOptions, Meta, Pool, PoolOptions, WeakCache};
use atoll_fabric::conformance::late::Late;
use atoll_fabric::shm::ShmFabric;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

type Told = Arc<Mutex<Vec<(Vec<u8>, Meta, Cause)>>>;

fn engines() -> [EngineOptions; 2] {
    [EngineOptions::default(), EngineOptions::ditto("lru+lfu".parse().unwrap())]
}

fn options(engine: EngineOptions) -> PoolOptions {
    PoolOptions::default().capacity_bytes(4 << 20).engine(engine)
}

/// A builder whose listener keeps what it is told.
fn listening() -> (Builder, Told) {
    let told = Told::default();
    let listener = told.clone();
    let listen = move |key: &[u8], meta, cause| listener.lock().unwrap().push((key.to_vec(), meta, cause));
    (Cache::builder().eviction_listener(listen), told)
}

/// A cache in a pool of its own, and what its listener is told.
fn heard(engine: EngineOptions) -> (Pool, Cache, Told) {
    let pool = Pool::anonymous(&options(engine)).unwrap();
    let (builder, told) = listening();
    let cache = builder.build(&pool).unwrap();
    (pool, cache, told)
}

fn take(told: &Told) -> Vec<(Vec<u8>, usize, Cause)> {
    let told = std::mem::take(&mut *told.lock().unwrap());
    told.into_iter().map(|(key, meta, cause)| (key, meta.value_bytes, cause)).collect()
}

/// The value of a key: mostly small, some of a few chunks.
fn value(key: u32) -> Vec<u8> {
    vec![key as u8; if key % 50 == 7 { 100_000 } else { 300 + key as usize % 400 }]
}

/// Every key was set once, so that each is there or was told of, and not both.
fn check_all_told<F: atoll::fabric::PoolFabric>(cache: &Cache<F>, told: &Told, keys: u32) {
    let removed = take(told);
    let left: HashSet<Vec<u8>> = cache.keys().map(Result::unwrap).collect();
    let told_of: HashSet<Vec<u8>> = removed.iter().map(|(key, ..)| key.clone()).collect();
    assert_eq!(told_of.len(), removed.len(), "an object was told of twice");
    assert!(told_of.is_disjoint(&left), "an object that was told of is there");
    assert_eq!(told_of.len() + left.len(), keys as usize);
    for (key, bytes, cause) in removed {
        let number = u32::from_le_bytes(key.try_into().unwrap());
        assert_eq!((bytes, cause), (value(number).len(), Cause::Evicted));
    }
    let stats = cache.statistics().pool;
    assert_eq!((stats.evictions + stats.expirations, stats.damaged), (told_of.len() as u64, 0));
    assert!(stats.evictions > u64::from(keys) / 2, "{stats:?}");
}

#[test]
fn every_object_that_is_evicted_is_told_of_once_with_its_key() {
    for engine in engines() {
        let (pool, cache, told) = heard(engine);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    (0..20_000u32)
                        .filter(|key| key % 4 == thread)
                        .for_each(|key| cache.set(&key.to_le_bytes(), &value(key)).unwrap());
                });
            }
        });
        check_all_told(&cache, &told, 20_000);
        pool.verify().unwrap();
    }
}

#[test]
fn objects_whose_bucket_is_full_are_told_of() {
    for engine in engines() {
        // An index for few large objects. It may grow, but not enough for so many small ones.
        let pool = Pool::anonymous(&options(engine).object_bytes_mean(8000)).unwrap();
        let (builder, told) = listening();
        let cache = builder.build(&pool).unwrap();
        (0..60_000u32).for_each(|key| cache.set(&key.to_le_bytes(), &value(key)[..16]).unwrap());
        let removed = take(&told);
        let left = cache.keys().count();
        assert_eq!(removed.len() + left, 60_000);
        let stats = cache.statistics().pool;
        assert!(stats.evictions_index > 100, "{stats:?}");
        assert_eq!(stats.evictions, removed.len() as u64);
    }
}

#[test]
fn where_results_come_late_the_same_is_told() {
    for engine in engines() {
        let pool = Pool::create_on(&Late(ShmFabric::anonymous()), &options(engine)).unwrap();
        let (builder, told) = listening();
        let cache = builder.build(&pool).unwrap();
        (0..20_000u32).for_each(|key| cache.set(&key.to_le_bytes(), &value(key)).unwrap());
        check_all_told(&cache, &told, 20_000);
    }
}

#[test]
fn the_cause_says_what_a_call_did() {
    for engine in engines() {
        let pool = Pool::anonymous(&options(engine)).unwrap();
        let (builder, told) = listening();
        let cache = builder.tend(false).build(&pool).unwrap();
        let key = || b"key".to_vec();
        cache.set(b"key", b"1").unwrap();
        assert!(!cache.set_if_absent(b"key", b"other").unwrap());
        assert!(cache.expire(b"key", Duration::from_secs(60)).unwrap());
        assert!(matches!(cache.increment(b"absent", 1), Ok(1)));
        assert_eq!(cache.get_many(&[b"key", b"nothing"]).unwrap().len(), 2);
        assert_eq!(take(&told), [], "nothing was removed");
        cache.set(b"key", b"22").unwrap();
        cache.increment(b"key", 1).unwrap();
        cache.append(b"key", b"4").unwrap();
        let replaced = |bytes| (key(), bytes, Cause::Replaced);
        assert_eq!(take(&told), [replaced(1), replaced(2), replaced(2)]);
        assert!(cache.delete(b"key").unwrap());
        assert!(!cache.delete(b"key").unwrap());
        cache.set(b"key", b"12345").unwrap();
        assert!(cache.take(b"key").unwrap().is_some());
        cache.set(b"key", b"123456").unwrap();
        assert_eq!(cache.flush().unwrap(), 2);
        let mut removed = take(&told);
        removed.sort_by_key(|(_, bytes, _)| *bytes);
        let gone = |bytes| (key(), bytes, Cause::Removed);
        assert_eq!(removed, [(b"absent".to_vec(), 1, Cause::Removed), gone(3), gone(5), gone(6)]);
        cache.set_for(b"key", b"v", Duration::from_millis(1)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(cache.get(b"key").unwrap(), None);
        assert_eq!(take(&told), [(key(), 1, Cause::Expired)]);
    }
}

#[test]
fn what_expires_unasked_is_told_of_by_the_thread_that_tends() {
    for engine in engines() {
        let (pool, cache, told) = heard(engine);
        cache.set_for(b"key", b"v", Duration::from_millis(50)).unwrap();
        let begun = Instant::now();
        while told.lock().unwrap().is_empty() {
            let (stats, objects) = (cache.statistics().pool, cache.objects().unwrap());
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "nobody is told: {objects} objects, {stats:?}, {}",
                pool.engine()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(take(&told), [(b"key".to_vec(), 1, Cause::Expired)]);
    }
}

#[test]
fn a_listener_may_use_the_cache() {
    for engine in engines() {
        let pool = Pool::anonymous(&options(engine)).unwrap();
        let held = Arc::new(OnceLock::<WeakCache>::new());
        let (within, evicted) = (held.clone(), Arc::new(AtomicU32::new(0)));
        let (depth, count) = (AtomicU32::new(0), evicted.clone());
        let listen = move |key: &[u8], _: Meta, cause: Cause| {
            assert_eq!(depth.fetch_add(1, SeqCst), 0, "a listener is not called within itself");
            if cause == Cause::Evicted && key.starts_with(b"object") {
                let cache = within.get().and_then(WeakCache::upgrade).unwrap();
                cache.increment(b"evicted", 1).unwrap();
                cache.set(&[b"was ", key].concat(), &[7; 300]).unwrap();
                count.fetch_add(1, SeqCst);
            }
            depth.fetch_sub(1, SeqCst);
        };
        let cache = Cache::builder().clients(1).tend(false).eviction_listener(listen).build(&pool).unwrap();
        held.set(cache.downgrade()).ok().unwrap();
        for number in 0..10_000 {
            cache.set(format!("object {number}").as_bytes(), &[7; 600]).unwrap();
            // Hot, so that it stays.
            cache.get(b"evicted").unwrap();
        }
        let evicted = evicted.load(SeqCst);
        assert!(evicted > 1000, "{evicted}");
        drop(cache);
        assert!(held.get().unwrap().upgrade().is_none());
        assert!(pool.verify().unwrap().faults.is_empty());
    }
}

#[test]
fn a_listener_that_panics_harms_nothing_and_is_not_called_again() {
    for engine in engines() {
        let pool = Pool::anonymous(&options(engine)).unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let count = calls.clone();
        let listen = move |_: &[u8], _: Meta, _: Cause| {
            count.fetch_add(1, SeqCst);
            panic!("as a test wants it");
        };
        let cache = Cache::builder().eviction_listener(listen).build(&pool).unwrap();
        for key in 0..20_000u32 {
            cache.set(&key.to_le_bytes(), &value(key)).unwrap();
        }
        assert_eq!(calls.load(SeqCst), 1);
        assert_eq!(cache.get(&19_999u32.to_le_bytes()).unwrap().unwrap(), value(19_999));
        drop(cache);
        let audit = pool.verify().unwrap();
        assert!(audit.faults.is_empty(), "{:?}", audit.faults);
    }
}
