//! The index of `forge` grows while clients use it: promises 1 and 4 hold during every split,
//! nothing is evicted for it, and no user has to say how large objects are.

use atoll_cache::forge::{ForgeOptions, Hole};
use atoll_cache::{Cache, Engine, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::holes::show_case;
use atoll_cases::promises::{faults_do_no_harm, histories_are_linearizable, under_seeds};
use atoll_cases::shared_memory::SharedPool;
use atoll_cases::{Case, FaultyCase, ForgeSubject, Load};
use atoll_fabric::run_ready;
use atoll_sim::history::Evictions;

const MIB: u64 = 1 << 20;

/// A case whose index is split at every insertion, from two buckets on.
fn growing(seed: u64) -> Case {
    let drawn = Case::<ForgeSubject>::drawn(seed);
    let subject = ForgeSubject { growing: true, ..drawn.subject.clone() };
    let lanes = [1, 1, 2, 4][seed as usize / 9 % 4];
    let load = Load { keys: 2 * lanes + 2 + seed % 9, lookups: 20, ..drawn.load.clone() };
    Case { subject, load, lanes, nodes: 1, objects_max: 0, chunks: drawn.chunks + 32, ..drawn }
}

/// As [`growing`], with room for everything.
fn roomy(seed: u64) -> Case {
    Case { chunks: 400, slots: 128, evictions: Evictions::Never, ..growing(seed) }
}

#[test]
fn promise_1_histories_are_linearizable_while_buckets_are_split() {
    histories_are_linearizable(100, growing);
}

#[test]
fn a_split_evicts_nothing() {
    histories_are_linearizable(100, roomy);
}

#[test]
fn promise_4_clients_die_and_stand_still_amid_splits() {
    faults_do_no_harm(150, |seed| {
        let mut faulty = FaultyCase::<ForgeSubject>::drawn(seed);
        let growing = if seed % 2 == 0 { growing(seed) } else { roomy(seed) };
        faulty.case = Case { strategy: faulty.case.strategy, steps_max: faulty.case.steps_max, ..growing };
        (faulty.faults.kills_max, faulty.faults.steps_between, faulty.absences) = (4, 200, 0);
        (faulty.resized_chunks, faulty.sparse) = (0, false);
        faulty
    });
}

#[test]
fn operations_whose_futures_are_dropped_leave_no_bucket_half_split() {
    under_seeds::<ForgeSubject, _, _>(60, growing, |case, seed| {
        Case { load: Load { dropped: 40, ..case.load.clone() }, ..case.clone() }.run(seed)
    });
}

#[test]
fn a_bucket_is_not_thawed_before_its_split_counts() {
    show_case::<ForgeSubject>(Hole::EarlyThaw, 200, roomy);
}

type Client = Cache<shm::Forge>;

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

fn set(client: &Client, number: u64, bytes: usize) {
    run_ready(client.set(&key(number), &vec![number as u8; bytes], &SetOptions::default())).unwrap();
}

fn present(client: &Client, keys: std::ops::Range<u64>) -> u64 {
    let mut value = Value::new();
    keys.filter(|number| run_ready(client.get(&key(*number), &mut value)).unwrap()).count() as u64
}

/// 16 bytes of key, 16 of value: twenty times as many objects as the new index has slots.
#[test]
fn small_objects_that_fit_stay_although_the_new_index_has_no_room_for_them() {
    let shared = SharedPool::<shm::Forge>::new(ForgeOptions::default().for_capacity(16 * MIB));
    let (first, objects) = (u64::from(shared.pool.settings().buckets) * 16, 160_000);
    assert!(objects > 6 * first, "{first} slots");
    let client = shared.client();
    (0..objects).for_each(|number| set(&client, number, 16));
    let stats = client.engine().stats();
    assert_eq!(stats.evictions, stats.evictions_index, "the pool is not full");
    // A bucket may be full before its turn to be split.
    assert!(stats.evictions <= objects / 1000, "{} of {objects} objects had no slot", stats.evictions);
    assert_eq!(present(&client, 0..objects), objects - stats.evictions);
    let other = shared.client();
    assert_eq!(present(&other, 0..objects), objects - stats.evictions, "a client that has just joined");
    let mut scanned = std::collections::HashSet::new();
    let mut cursor = 0;
    loop {
        cursor = run_ready(other.scan(cursor, 1000, |key| _ = scanned.insert(key.to_vec()))).unwrap();
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned.len() as u64, objects - stats.evictions);
    drop((client, other));
    shared.verify();
}

#[test]
fn threads_that_fill_a_pool_let_its_index_grow_together() {
    let shared = SharedPool::<shm::Forge>::new(ForgeOptions::default().for_capacity(16 * MIB));
    let each = 30_000;
    let evictions = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|part| {
                let client = shared.client();
                scope.spawn(move || {
                    let keys = part * each..(part + 1) * each;
                    let mut lost = 0;
                    let mut value = Value::new();
                    for number in keys.clone() {
                        set(&client, number, 16);
                        // What has just been set is there, whatever is split.
                        lost += u64::from(!run_ready(client.get(&key(number), &mut value)).unwrap());
                    }
                    let stats = client.engine().stats();
                    assert_eq!(stats.evictions, stats.evictions_index, "the pool is not full");
                    (stats.evictions, lost)
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .fold((0, 0), |sum, some| (sum.0 + some.0, sum.1 + some.1))
    });
    assert!(evictions.0 <= 4 * each / 500 && evictions.1 <= evictions.0, "{evictions:?}");
    let client = shared.client();
    assert_eq!(present(&client, 0..4 * each), 4 * each - evictions.0);
    drop(client);
    shared.verify();
}
