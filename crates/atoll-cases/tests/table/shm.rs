//! The table of objects over shared memory: promises 1, 2, 5 and 6, by one thread and by several.

use atoll_baselines::kvs::{self, AtRandom, Kvs};
use atoll_baselines::queues::{Queue, QueueOptions, QueuePolicy, Queued};
use atoll_cache::EnginePool;
use atoll_cache::Pooled;
use atoll_cache::ditto::{Adaptive, Ditto, DittoOptions};
use atoll_cache::table::{Replacement, TablePool};
use atoll_cache::{Cache, CacheError, Engine, Expiry, KEY_BYTES_MAX, Number, SetOptions, Value};
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Batch, Endpoint, run_ready};
use atoll_pool::PoolSettings;
use atoll_sim::Random;
use std::collections::HashMap;
use std::sync::Arc;

struct Host {
    region: Arc<ShmRegion>,
    pool: Arc<TablePool>,
}

impl Host {
    fn new(settings: PoolSettings) -> Self {
        let region = Arc::new(ShmRegion::anonymous(settings.home_bytes()).unwrap());
        let pool = run_ready(TablePool::format(&ShmEndpoint::new(region.clone()), settings)).unwrap();
        Self { region, pool }
    }

    fn ditto(capacity_bytes: u64) -> Self {
        Self::new(DittoOptions::default().for_capacity(capacity_bytes))
    }

    fn kvs(capacity_bytes: u64) -> Self {
        Self::new(kvs::options().for_growth(capacity_bytes, 0))
    }

    fn engine<R: Replacement<ShmEndpoint>>(&self) -> atoll_cache::table::Objects<ShmEndpoint, R> {
        let endpoint = ShmEndpoint::new(self.region.clone());
        run_ready(atoll_cache::table::Objects::join(&self.pool, endpoint)).unwrap()
    }

    fn ditto_client(&self) -> Cache<Ditto<ShmEndpoint>> {
        Cache::new(self.engine())
    }

    fn queues(policy: QueuePolicy, capacity_bytes: u64) -> Self {
        Self::new(QueueOptions::new(policy).for_capacity(capacity_bytes))
    }

    fn queues_client(&self) -> Cache<Queued<ShmEndpoint>> {
        Cache::new(self.engine())
    }

    fn verify_queues(&self) {
        let report = run_ready(self.queues_client().engine().verify()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
    }

    fn kvs_client(&self) -> Cache<Kvs<ShmEndpoint>> {
        Cache::new(self.engine())
    }

    fn verify_ditto(&self) {
        let report = run_ready(self.ditto_client().engine().verify()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
    }

    fn verify_kvs(&self) {
        let report = run_ready(self.kvs_client().engine().verify()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
    }
}

/// Bytes that tell key and version, so that a torn or foreign value is noticed.
fn value_of(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (key.wrapping_mul(31) + version.wrapping_mul(7) + index as u64) as u8).collect()
}

async fn set_every_size<G: Engine>(cache: &mut Cache<G>) {
    let mut value = Value::new();
    let sizes = [0, 1, 7, 8, 9, 24, 25, 100, 1000, 4000, 16_000, 16_384, 20_000, 32_700, 32_768, 100_000, 5_000_000];
    for bytes in sizes {
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
    assert_eq!(cache.objects().await.unwrap(), sizes.len() as u64);
    assert_eq!(cache.flush().await.unwrap(), sizes.len() as u64);
}

#[test]
fn what_was_set_is_found_in_every_size() {
    let host = Host::ditto(64 << 20);
    run_ready(set_every_size(&mut host.ditto_client()));
    host.verify_ditto();
    let host = Host::kvs(64 << 20);
    run_ready(set_every_size(&mut host.kvs_client()));
    host.verify_kvs();
    for policy in QueuePolicy::ALL {
        let host = Host::queues(policy, 64 << 20);
        run_ready(set_every_size(&mut host.queues_client()));
        host.verify_queues();
    }
}

/// Values of the greatest length take a quarter of the heap; what is longer is refused and changes
/// nothing.
#[test]
fn promise_6_values_at_the_limit_are_taken_and_longer_ones_refused() {
    let host = Host::ditto(16 << 20);
    let cache = host.ditto_client();
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
    host.verify_ditto();
}

#[test]
fn a_full_pool_keeps_taking_sets_of_skewed_and_shifting_sizes_and_never_serves_a_wrong_value() {
    let host = Host::ditto(16 << 20);
    let cache = host.ditto_client();
    let mut versions: HashMap<u64, (u64, usize)> = HashMap::new();
    let (mut value, mut random, mut hits) = (Value::new(), Random::new(3), 0);
    for step in 0..40_000u64 {
        let key = random.below(5000);
        // The sizes shift from small to large and back.
        let octaves = if step / 13_000 == 1 { 20 } else { 10 };
        let octave = random.below(octaves) + 1;
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
    host.verify_ditto();
}

#[test]
fn a_pool_limited_in_objects_never_holds_more() {
    for objects_max in [1, 2, 5, 12, 100, 1000] {
        let host = Host::new(DittoOptions::default().objects().for_objects(objects_max, 4, 64));
        let mut clients: Vec<_> = (0..4).map(|_| host.ditto_client()).collect();
        for step in 0..5000u64 {
            let client = &mut clients[step as usize % 4];
            run_ready(async {
                let key = (step * step) % (3 * objects_max);
                client.set(&key.to_le_bytes(), b"v", &SetOptions::default()).await.unwrap();
                assert!(client.objects().await.unwrap() <= objects_max);
            });
        }
        drop(clients);
        host.verify_ditto();
    }
}

/// The index is made for objects of 320 bytes; these have a fifth of that, so that buckets fill
/// long before the heap does.
#[test]
fn promise_5_objects_much_smaller_than_expected_fill_the_index_and_no_set_fails() {
    let host = Host::ditto(4 << 20);
    let cache = host.ditto_client();
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
    host.verify_ditto();
}

/// Objects live for a few milliseconds only: what has expired is a miss, and its bytes come back
/// without a hit. More candidates than a batch has verbs, of each of which the words beside the
/// object are READ.
#[test]
fn samples_of_full_buckets_are_judged_by_experts_with_words_beside_objects() {
    let options = DittoOptions { object_bytes_mean: 2048, ..DittoOptions::adaptive("lru-k+lru".parse().unwrap()) };
    let settings = options.for_capacity(8 << 20);
    let expected = settings.capacity_bytes / 2048;
    let host = Host::new(PoolSettings { objects_max: 15 * expected / 8, ..settings });
    let cache = host.ditto_client();
    for key in 0..10 * expected {
        run_ready(cache.set(&key.to_le_bytes(), b"small", &SetOptions::default())).unwrap();
    }
    host.verify_ditto();
}

#[test]
fn promise_2_what_has_expired_is_a_miss_and_leaves_room() {
    let host = Host::ditto(4 << 20);
    let cache = host.ditto_client();
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
    host.verify_ditto();
}

/// Sizes of all classes, large values among them, in a pool of few chunks.
fn set_sizes<G: Engine>(cache: &mut Cache<G>, thread: u64, steps: u64) {
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

#[test]
fn promise_5_threads_set_many_sizes_in_a_small_pool_and_no_set_fails() {
    let (ditto, kvs) = (Host::ditto(8 << 20), Host::kvs(8 << 20));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (mut first, mut second) = (ditto.ditto_client(), kvs.kvs_client());
            scope.spawn(move || {
                set_sizes(&mut first, thread, 4000);
                set_sizes(&mut second, thread, 4000);
            });
        }
    });
    ditto.verify_ditto();
    kvs.verify_kvs();
}

#[test]
fn promise_5_threads_set_many_sizes_in_a_small_pool_with_queues_and_no_set_fails() {
    for policy in QueuePolicy::ALL {
        let host = Host::queues(policy, 8 << 20);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let mut cache = host.queues_client();
                scope.spawn(move || set_sizes(&mut cache, thread, 2000));
            }
        });
        host.verify_queues();
    }
}

/// Its chunks, of which it has many in the cutting, are not to be had, and after a while what is in
/// them is at the end of every list.
fn an_idle_client_is_in_nobodys_way<R: Replacement<ShmEndpoint>>(settings: PoolSettings) -> Host {
    let host = Host::new(PoolSettings { clients_max: 2, ..settings });
    let [mut idle, mut busy] = [(); 2].map(|()| Cache::new(host.engine::<R>()));
    let set = |cache: &mut Cache<_>, number: u64, bytes| {
        run_ready(cache.set(&number.to_le_bytes(), &vec![1; bytes], &SetOptions::default())).unwrap();
    };
    for (number, bytes) in (0..).zip([100, 200, 400, 800].repeat(200)) {
        set(&mut idle, number, bytes);
    }
    (1000..3000).for_each(|number| set(&mut busy, number, 100_000));
    drop((idle, busy));
    host
}

#[test]
fn promise_5_a_client_that_does_nothing_is_in_nobodys_way() {
    let bytes = 4 << 20;
    an_idle_client_is_in_nobodys_way::<AtRandom>(kvs::options().for_growth(bytes, 0)).verify_kvs();
    an_idle_client_is_in_nobodys_way::<Adaptive>(DittoOptions::default().for_capacity(bytes)).verify_ditto();
    for policy in QueuePolicy::ALL {
        an_idle_client_is_in_nobodys_way::<Queue>(QueueOptions::new(policy).for_capacity(bytes)).verify_queues();
    }
}

/// With words beside objects no chunk can be emptied while somebody is in the middle of an
/// operation. Who wants chunks then is told so, and the cache is not emptied for it.
#[test]
fn promise_4_a_client_that_stops_in_an_operation_does_not_cost_what_is_cached() {
    let options = DittoOptions { experts: "lru-k".parse().unwrap(), ..DittoOptions::default() };
    let host = Host::new(PoolSettings { clients_max: 2, ..options.for_capacity(4 << 20) });
    let [mut stopped, mut busy] = [(); 2].map(|()| host.ditto_client());
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
    host.verify_ditto();
}

/// The index of a pool with queues fills long before its heap does; then its buckets say what goes,
/// and the queues hear of it.
#[test]
fn promise_5_queues_of_objects_much_smaller_than_expected_take_every_set_and_stay_sound() {
    for policy in QueuePolicy::ALL {
        let host = Host::queues(policy, 1 << 20);
        let cache = host.queues_client();
        run_ready(async {
            for step in 0..20_000u64 {
                cache.set(&step.to_le_bytes(), &value_of(step, 0, 8), &SetOptions::default()).await.unwrap();
                if step % 7 == 0 {
                    cache.delete(&step.saturating_sub(50).to_le_bytes()).await.unwrap();
                }
            }
        });
        drop(cache);
        host.verify_queues();
    }
}

#[test]
fn a_pool_with_queues_limited_in_objects_never_holds_more() {
    for (policy, objects_max) in QueuePolicy::ALL.into_iter().flat_map(|policy| [1, 5, 100].map(|max| (policy, max))) {
        let host = Host::new(QueueOptions::new(policy).objects().for_objects(objects_max, 4, 64));
        let mut clients: Vec<_> = (0..4).map(|_| host.queues_client()).collect();
        for step in 0..3000u64 {
            let client = &mut clients[step as usize % 4];
            run_ready(async {
                let key = (step * step) % (3 * objects_max);
                client.set(&key.to_le_bytes(), b"v", &SetOptions::default()).await.unwrap();
                assert!(client.objects().await.unwrap() <= objects_max);
            });
        }
        drop(clients);
        host.verify_queues();
    }
}

#[test]
fn promise_4_a_lock_whose_holder_is_gone_is_taken_over_and_nobody_waits_for_ever_for_one_that_is_kept() {
    const LIST_BYTES: u64 = 64;
    for policy in [QueuePolicy::ShardLru, QueuePolicy::Lru, QueuePolicy::Sieve] {
        let host = Host::queues(policy, 1 << 20);
        let (mut cache, idle) = (host.queues_client(), host.queues_client());
        let mut value = Value::new();
        let mut use_it = |cache: &mut Cache<Queued<ShmEndpoint>>, keys: u64| {
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
        host.verify_queues();
        drop(idle);
    }
}

#[test]
fn increments_of_threads_add_up_while_blocks_change_hands() {
    // Room for everything, since an eviction would begin the count anew.
    let host = Host::ditto(16 << 20);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let cache = host.ditto_client();
            scope.spawn(move || {
                for step in 0..20_000u64 {
                    run_ready(async {
                        cache.increment(b"shared", 1).await.unwrap();
                        let key = (thread << 32 | (step % 1000)).to_le_bytes();
                        cache.set(&key, &[1; 300], &SetOptions::default()).await.unwrap();
                    });
                }
            });
        }
    });
    let cache = host.ditto_client();
    assert_eq!(run_ready(cache.increment(b"shared", 0)).unwrap(), Number::Value(60_000));
    drop(cache);
    host.verify_ditto();
}
