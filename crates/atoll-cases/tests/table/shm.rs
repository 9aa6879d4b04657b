//! The table of objects over shared memory: promises 2, 4, 5 and 6, where they are its own.

use atoll_baselines::queues::{QueueOptions, QueuePolicy};
use atoll_cache::ditto::DittoOptions;
use atoll_cache::{Cache, CacheError, Expiry, Pooled, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::{SharedPool, value_of};
use atoll_fabric::shm::ShmEndpoint;
use atoll_fabric::{Batch, Endpoint, run_ready};
use atoll_pool::PoolSettings;

fn ditto(capacity_bytes: u64) -> SharedPool<shm::Ditto> {
    SharedPool::new(DittoOptions::default().for_capacity(capacity_bytes))
}

fn queues(policy: QueuePolicy, capacity_bytes: u64) -> SharedPool<shm::Queued> {
    SharedPool::new(QueueOptions::new(policy).for_capacity(capacity_bytes))
}

/// Values of the greatest length take a quarter of the heap; what is longer is refused and changes
/// nothing.
#[test]
fn promise_6_values_at_the_limit_are_taken_and_longer_ones_refused() {
    let host = ditto(16 << 20);
    let cache = host.client();
    let (mut value, most) = (Value::new(), cache.value_bytes_max());
    run_ready(async {
        for step in 0..12u64 {
            let key = [step as u8 % 3];
            let bytes = most - (step as usize % 2);
            cache.set(&key, &value_of(step, 0, bytes), &SetOptions::default()).await.unwrap();
            assert!(cache.get(&key, &mut value).await.unwrap());
            assert_eq!(value.bytes(), value_of(step, 0, bytes));
            let refused = cache.set(&key, &vec![0; most + 1], &SetOptions::default()).await;
            assert!(refused.is_err(), "{most} bytes and one more");
            assert!(cache.get(&key, &mut value).await.unwrap(), "what was refused changed something");
            for small in 0..200u64 {
                cache.set(&small.to_le_bytes(), &value_of(small, step, 100), &SetOptions::default()).await.unwrap();
            }
        }
    });
    drop(cache);
    host.verify();
}

/// The index is made for objects of 320 bytes; these have a fifth of that, so that buckets fill
/// long before the heap does.
#[test]
fn promise_5_objects_much_smaller_than_expected_fill_the_index_and_no_set_fails() {
    let host = ditto(4 << 20);
    let cache = host.client();
    let (mut value, mut hits) = (Value::new(), 0);
    run_ready(async {
        for step in 0..200_000u64 {
            cache.set(&step.to_le_bytes(), &value_of(step, 0, 8), &SetOptions::default()).await.unwrap();
            let before = step.saturating_sub(1000);
            if cache.get(&before.to_le_bytes(), &mut value).await.unwrap() {
                assert_eq!(value.bytes(), value_of(before, 0, 8));
                hits += 1;
            }
        }
        let (objects, expected) = (cache.objects().await.unwrap(), host.pool.objects_expected());
        println!("{objects} objects in an index for {expected}, {hits} hits");
        assert!(objects > expected, "{objects} objects fill nothing of an index for {expected}");
    });
    drop(cache);
    host.verify();
}

/// Objects live for a few milliseconds only: what has expired is a miss, and its bytes come back
/// without a hit. More candidates than a batch has verbs, of each of which the words beside the
/// object are READ.
#[test]
fn samples_of_full_buckets_are_judged_by_experts_with_words_beside_objects() {
    let options = DittoOptions { object_bytes_mean: 2048, ..DittoOptions::adaptive("lru-k+lru".parse().unwrap()) };
    let settings = options.for_capacity(8 << 20);
    let expected = settings.capacity_bytes / 2048;
    let host = SharedPool::<shm::Ditto>::new(PoolSettings { objects_max: 15 * expected / 8, ..settings });
    let cache = host.client();
    for key in 0..10 * expected {
        run_ready(cache.set(&key.to_le_bytes(), b"small", &SetOptions::default())).unwrap();
    }
    host.verify();
}

#[test]
fn promise_2_what_has_expired_is_a_miss_and_leaves_room() {
    let host = ditto(4 << 20);
    let cache = host.client();
    let mut value = Value::new();
    run_ready(async {
        for round in 0..30u64 {
            let until = SetOptions { expiry: Expiry::InMs(20), ..SetOptions::default() };
            for key in 0..3000u64 {
                cache.set(&(round << 32 | key).to_le_bytes(), &value_of(key, round, 200), &until).await.unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(40));
            for key in (0..3000u64).step_by(100) {
                let found = cache.get(&(round << 32 | key).to_le_bytes(), &mut value).await.unwrap();
                assert!(!found, "an object was found after its end");
            }
        }
        let stats = cache.stats();
        println!("{} expirations, {} evictions", stats.expirations, stats.evictions);
        assert!(stats.expirations > 0);
    });
    drop(cache);
    host.verify();
}

/// With words beside objects no chunk can be emptied while a client is in the middle of an
/// operation. A client that wants chunks then gets an error, and no object is evicted for it.
#[test]
fn promise_4_a_client_that_stops_in_an_operation_does_not_cost_what_is_cached() {
    let options = DittoOptions { experts: "lru-k".parse().unwrap(), ..DittoOptions::default() };
    let host = SharedPool::<shm::Ditto>::new(PoolSettings { clients_max: 2, ..options.for_capacity(4 << 20) });
    let [mut stopped, mut busy] = [(); 2].map(|()| host.client());
    let set = |cache: &mut Cache<_>, number: u64, bytes| {
        run_ready(cache.set(&number.to_le_bytes(), &vec![1; bytes], &SetOptions::default()))
    };
    (0..20_000).for_each(|number| assert!(set(&mut busy, number, 300).is_ok()));
    set(&mut stopped, 0, 300).unwrap();
    let before = run_ready(busy.objects()).unwrap();
    let mut refused = 0;
    run_ready(stopped.get_many(&[&0u64.to_le_bytes()], |_, _| {
        let outcome = set(&mut busy, 1, 100_000);
        assert!(matches!(outcome, Err(CacheError::OutOfMemory)), "{outcome:?}");
        refused += 1;
    }))
    .unwrap();
    let after = run_ready(busy.objects()).unwrap();
    assert!(refused == 1 && after * 10 > before * 9, "{before} objects, then {after}");
    set(&mut busy, 1, 100_000).unwrap();
    drop((stopped, busy));
    host.verify();
}

/// The index of a pool with queues fills long before its heap does; then its buckets say what goes,
/// and the queues hear of it.
#[test]
fn promise_5_queues_of_objects_much_smaller_than_expected_take_every_set_and_stay_sound() {
    for policy in QueuePolicy::ALL {
        let host = queues(policy, 1 << 20);
        let cache = host.client();
        run_ready(async {
            for step in 0..20_000u64 {
                cache.set(&step.to_le_bytes(), &value_of(step, 0, 8), &SetOptions::default()).await.unwrap();
                if step % 7 == 0 {
                    cache.delete(&step.saturating_sub(50).to_le_bytes()).await.unwrap();
                }
            }
        });
        drop(cache);
        host.verify();
    }
}

#[test]
fn promise_4_a_lock_whose_holder_is_gone_is_taken_over_and_nobody_waits_for_ever_for_one_that_is_kept() {
    const LIST_BYTES: u64 = 64;
    for policy in [QueuePolicy::ShardLru, QueuePolicy::Lru, QueuePolicy::Sieve] {
        let host = queues(policy, 1 << 20);
        let (mut cache, idle) = (host.client(), host.client());
        let mut value = Value::new();
        let mut use_it = |cache: &mut Cache<shm::Queued>, keys: u64| {
            for key in 0..keys {
                run_ready(cache.set(&key.to_le_bytes(), &[1; 200], &SetOptions::default())).unwrap();
                run_ready(cache.get(&(key / 2).to_le_bytes(), &mut value)).unwrap();
            }
        };
        use_it(&mut cache, 5_000);
        let (me, lists) = (idle.engine().client().me(), u64::from(QueueOptions::new(policy).lists));
        let (gone, kept) = (9_999 << 32 | 1, u64::from(me.slot + 1) << 32 | u64::from(me.epoch));
        let endpoint = ShmEndpoint::new(host.region.clone());
        let at = |list: u64| host.pool.layout().replacement().add(LIST_BYTES * list);
        run_ready(cache.engine().tend()).unwrap();
        for list in 0..lists {
            let mut batch = Batch::new();
            batch.compare_and_swap(at(list), 0, if list % 2 == 0 { gone } else { kept });
            run_ready(endpoint.post(&mut batch)).unwrap();
        }
        use_it(&mut cache, 20_000);
        drop(cache);
        for list in 0..lists {
            let found = run_ready(atoll_pool::read_word(&endpoint, at(list))).unwrap();
            assert_eq!(found, if list % 2 == 0 { 0 } else { kept }, "{}, list {list}", policy.name());
        }
        host.verify();
        drop(idle);
    }
}
