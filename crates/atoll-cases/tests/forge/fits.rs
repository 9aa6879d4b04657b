//! What fits stays: while live objects take no more than four fifths of a `forge` pool, none is
//! evicted, whatever is overwritten, deleted or expires. On shared memory, with real sizes.

use atoll_cache::forge::ForgeOptions;
use atoll_cache::{Cache, Engine, Expiry, SetOptions, Value};
use atoll_cases::compiled::shm;
use atoll_cases::shared_memory::SharedPool;
use atoll_fabric::run_ready;

const MIB: u64 = 1 << 20;
/// Bytes of a record besides key and value, and of its entry of the map.
const OBJECT_OVERHEAD: u64 = 32 + 8;

/// A pool, and its bytes.
struct Host {
    shared: SharedPool<shm::Forge>,
    capacity: u64,
}

type Client = Cache<shm::Forge>;

impl Host {
    fn new(capacity: u64) -> Self {
        Self { shared: SharedPool::new(ForgeOptions::default().for_capacity(capacity)), capacity }
    }

    fn client(&self) -> Client {
        self.shared.client()
    }

    /// Runs a test with one client of a pool, then walks the pool.
    fn used(capacity: u64, test: impl FnOnce(&Self, &Client)) {
        let host = Self::new(capacity);
        let client = host.client();
        test(&host, &client);
        drop(client);
        host.verify();
    }

    /// Runs a test with one client of a pool in which objects of this many bytes take `percent` of
    /// the capacity, then walks the pool. The client has set the objects once.
    fn filled(capacity: u64, percent: u64, bytes: usize, test: impl FnOnce(&Client, u64)) {
        Self::used(capacity, |host, client| {
            let objects = host.objects(percent, 16 + bytes as u64);
            (0..objects).for_each(|number| set(client, number, bytes));
            test(client, objects);
        });
    }

    /// How many objects of so many bytes of key and value make a share of the capacity, in percent.
    fn objects(&self, percent: u64, body_bytes: u64) -> u64 {
        let metadata = self.capacity - self.shared.pool.pool().layout.heap_bytes();
        (self.capacity * percent / 100 - metadata) / (body_bytes.next_multiple_of(16) + OBJECT_OVERHEAD)
    }

    fn verify(&self) {
        self.shared.verify();
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

fn set(client: &Client, number: u64, bytes: usize) {
    run_ready(client.set(&key(number), &vec![number as u8; bytes], &SetOptions::default())).unwrap();
}

fn present(client: &Client, keys: impl Iterator<Item = u64>) -> u64 {
    let mut value = Value::new();
    keys.filter(|number| run_ready(client.get(&key(*number), &mut value)).unwrap()).count() as u64
}

/// Objects evicted, but for those that went because the bucket of a key was full.
fn evictions_for_memory(client: &Client) -> u64 {
    let stats = client.engine().stats();
    stats.evictions - stats.evictions_index
}

/// A random walk that repeats.
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

fn assert_nothing_went(client: &Client, keys: impl Iterator<Item = u64> + Clone) {
    let wanted = keys.clone().count() as u64;
    assert_eq!(present(client, keys), wanted, "evictions: {}", client.engine().stats().evictions);
}

#[test]
fn one_key_overwritten_again_and_again_evicts_no_other() {
    Host::used(8 * MIB, |_, client| {
        (0..2000).for_each(|number| set(client, number, 50));
        // Many times the rings: overwriting the pool leaves nodes of cleaned groups behind.
        for _ in 0..1_500_000 {
            set(client, 1_000_000, 50);
        }
        assert_eq!(client.engine().stats().evictions, 0);
        assert_nothing_went(client, 0..2000);
    });
}

#[test]
fn a_pool_four_fifths_full_that_is_overwritten_at_random_evicts_nothing() {
    Host::filled(32 * MIB, 80, 256, |client, objects| {
        let mut random = random();
        for _ in 0..6 * objects {
            set(client, random(objects), 256);
        }
        let stats = client.engine().stats();
        assert_eq!(evictions_for_memory(client), 0);
        assert!(present(client, 0..objects) >= objects - stats.evictions_index);
    });
}

#[test]
fn what_was_deleted_makes_room_wherever_it_lay() {
    // Every second object; the older half; the younger half.
    let deleted: [fn(u64, u64) -> bool; 3] =
        [|number, _| number % 2 == 0, |number, objects| number < objects / 2, |number, objects| number >= objects / 2];
    for is_deleted in deleted {
        let host = Host::new(16 * MIB);
        let client = host.client();
        let objects = host.objects(80, 16 + 400);
        // More than fits first, so that the pool has been evicting.
        (0..2 * objects).for_each(|number| set(&client, number, 400));
        let kept: Vec<_> = (0..2 * objects).filter(|number| present(&client, *number..number + 1) == 1).collect();
        let (gone, kept): (Vec<_>, Vec<_>) = kept
            .iter()
            .partition(|number| is_deleted(kept.partition_point(|kept| kept < *number) as u64, kept.len() as u64));
        for number in &gone {
            assert!(run_ready(client.delete(&key(*number))).unwrap());
        }
        let before = client.engine().stats();
        // The room of what was deleted, less a fifth of the pool.
        for number in 0..gone.len() as u64 / 2 {
            set(&client, 10_000_000 + number, 400);
        }
        let stats = client.engine().stats();
        // Of some hundred thousand keys one finds its bucket of the index full.
        let evictions_index = stats.evictions_index - before.evictions_index;
        assert_eq!(stats.evictions - before.evictions - evictions_index, 0);
        assert!(present(&client, kept.iter().copied()) >= kept.len() as u64 - evictions_index);
        drop(client);
        host.verify();
    }
}

#[test]
fn values_that_grow_and_shrink_evict_nothing() {
    Host::filled(16 * MIB, 80, 1000, |client, objects| {
        let mut random = random();
        for bytes in [10, 1000, 300, 1000, 0, 999] {
            for _ in 0..2 * objects {
                set(client, random(objects), bytes);
            }
        }
        assert_eq!(evictions_for_memory(client), 0);
    });
}

#[test]
fn clients_that_come_write_a_little_and_go_do_not_use_the_pool_up() {
    let host = Host::new(2 * MIB);
    // Of some ten thousand keys one finds its bucket of the index full.
    let mut evictions_index = 0;
    for number in 0..2000 {
        let client = host.client();
        set(&client, number, 50);
        assert_eq!(evictions_for_memory(&client), 0, "client {number}");
        evictions_index += client.engine().stats().evictions_index;
    }
    let client = host.client();
    assert_eq!(present(&client, 0..2000), 2000 - evictions_index);
    drop(client);
    host.verify();
}

#[test]
fn several_clients_that_overwrite_the_same_keys_evict_nothing() {
    let host = Host::new(32 * MIB);
    let objects = host.objects(80, 16 + 256);
    (0..objects).for_each({
        let client = host.client();
        move |number| set(&client, number, 256)
    });
    let evictions = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|part| {
                let client = host.client();
                scope.spawn(move || {
                    let mut random = random();
                    for _ in 0..2 * objects {
                        set(&client, (random(objects) + part) % objects, 256);
                    }
                    evictions_for_memory(&client)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum::<u64>()
    });
    assert_eq!(evictions, 0);
    host.verify();
}

#[test]
fn a_tenth_of_the_pool_that_expired_is_counted_out_without_any_request() {
    let host = Host::new(16 * MIB);
    let client = host.client();
    let objects = host.objects(70, 16 + 256);
    let now_ms = run_ready(client.now_ms()).unwrap();
    for number in 0..objects {
        let expiring = number % 10 == 0;
        let expiry = if expiring { Expiry::AtMs(now_ms + 1500) } else { Expiry::Never };
        let options = SetOptions { expiry, ..SetOptions::default() };
        run_ready(client.set(&key(number), &[7; 256], &options)).unwrap();
    }
    let kept = objects - objects.div_ceil(10);
    let begun = std::time::Instant::now();
    while run_ready(client.objects()).unwrap() > kept && begun.elapsed().as_secs() < 60 {
        run_ready(client.tend()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // An object may also have gone because the bucket of a key was full.
    let (left, gone) = (run_ready(client.objects()).unwrap(), client.engine().stats().evictions_index);
    assert!((kept - gone..=kept).contains(&left), "{left} of {kept} objects are left, {gone} had no slot");
    println!("counted out after {:?}", begun.elapsed());
    let evictions = evictions_for_memory(&client);
    for number in 0..objects / 10 {
        set(&client, 10_000_000 + number, 256);
    }
    assert_eq!(evictions_for_memory(&client) - evictions, 0);
    drop(client);
    host.verify();
}
