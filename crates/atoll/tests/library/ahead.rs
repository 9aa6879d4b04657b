//! The thread that evicts ahead of need: when it begins, what it leaves to others, and its end.

use atoll::{Cache, Client, EngineOptions, Pool, PoolOptions};
use atoll_fabric::shm::fork;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(120);
const VALUE: [u8; 256] = [7; 256];
/// Objects that fill the pool more than once.
const FILLING: u64 = 80_000;

fn options() -> PoolOptions {
    PoolOptions::default().capacity_bytes(16 << 20)
}

fn clients(pool: &Pool) -> usize {
    pool.info().unwrap().clients.len()
}

/// Sets objects until the pool is full, and then until this holds, for some time at most. Returns
/// whether it held.
fn fill_until(client: &mut Client, time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    for number in 0u64.. {
        client.set(&number.to_le_bytes(), &VALUE).unwrap();
        let is_full = number > FILLING && number.is_multiple_of(256);
        if is_full && is_so() {
            return true;
        }
        if is_full && begun.elapsed() > time {
            return false;
        }
    }
    unreachable!("a set of more objects than there are numbers")
}

/// A pool whose evictor has joined it, and the writer that was short of chunks.
fn with_evictor(options: &PoolOptions) -> (Pool, Client) {
    let pool = Pool::anonymous(options).unwrap();
    pool.evict_ahead(true);
    let mut writer = pool.client().unwrap();
    assert!(fill_until(&mut writer, SOON, || clients(&pool) == 2), "no evictor has joined");
    (pool, writer)
}

#[test]
fn an_evictor_joins_a_full_pool_and_leaves_with_its_process() {
    let name = format!("shm:/atoll-ahead-{}", std::process::id());
    let pool = Pool::create(&name, &options()).unwrap();
    pool.evict_ahead(true);
    let mut writer = pool.client().unwrap();
    (0u64..1000).for_each(|number| writer.set(&number.to_le_bytes(), &VALUE).unwrap());
    assert_eq!(clients(&pool), 1, "nothing was short yet");
    assert!(fill_until(&mut writer, SOON, || clients(&pool) == 2), "no evictor has joined");
    drop((writer, pool));
    let pool = Pool::open(&name).unwrap();
    assert_eq!((clients(&pool), pool.verify().unwrap().faults), (0, Vec::<String>::new()));
    drop(pool);
    Pool::remove(&name).unwrap();
}

#[test]
fn an_evictor_makes_place_for_every_client() {
    const PLACES: u32 = 8;
    let (pool, writer) = with_evictor(&options().clients_max(PLACES));
    // At once, as the threads of a program that begins.
    let joined = Mutex::new(vec![writer]);
    std::thread::scope(|scope| {
        for _ in 1..PLACES {
            scope.spawn(|| joined.lock().unwrap().push(pool.client().unwrap()));
        }
    });
    assert_eq!((joined.lock().unwrap().len(), clients(&pool)), (PLACES as usize, PLACES as usize));
    assert!(pool.client().is_err());
}

#[test]
fn an_evictor_that_has_nothing_to_do_leaves() {
    let (pool, mut writer) = with_evictor(&options());
    let begun = Instant::now();
    while clients(&pool) == 2 {
        assert!(begun.elapsed() < SOON, "the evictor stays");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(fill_until(&mut writer, SOON, || clients(&pool) == 2), "it does not come back");
}

#[test]
fn no_evictor_joins_where_none_is_wanted() {
    let joins =
        |pool: &Pool, writer: &mut Client| fill_until(writer, Duration::from_millis(500), || clients(pool) != 1);
    let pool = Pool::anonymous(&options()).unwrap();
    assert!(!joins(&pool, &mut pool.client().unwrap()), "it is not asked for");
    pool.evict_ahead(true);
    pool.evict_ahead(false);
    assert!(!joins(&pool, &mut pool.client().unwrap()));
    for options in [options().clients_max(7), options().engine(EngineOptions::named("ditto").unwrap().unwrap())] {
        let pool = Pool::anonymous(&options).unwrap();
        pool.evict_ahead(true);
        assert!(!joins(&pool, &mut pool.client().unwrap()));
    }
    // The program asks for what is evicted, and an evictor would not tell.
    let pool = Pool::anonymous(&options()).unwrap();
    pool.evict_ahead(true);
    let mut writer = pool.client().unwrap();
    writer.note_removals();
    assert!(!fill_until(&mut writer, Duration::from_millis(500), || clients(&pool) != 1));
    assert!(!writer.take_removals().is_empty());
}

/// With more writers than cores, so that an evictor is mostly in the middle of a step when it ends.
#[test]
fn what_an_evictor_evicts_is_in_the_caches_statistics_whenever_it_ends() {
    let cores = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        for _ in 0..2 * cores.min(8) {
            scope.spawn(count_what_evictors_evict);
        }
    });
}

fn count_what_evictors_evict() {
    let pool = Pool::anonymous(&options()).unwrap();
    let cache = Cache::builder().clients(1).build(&pool).unwrap();
    let mut numbers = 0u64..;
    let mut fill = |objects| {
        numbers.by_ref().take(objects).for_each(|number| cache.set(&number.to_le_bytes(), &VALUE).unwrap());
    };
    fill(FILLING as usize);
    for _ in 0..25 {
        pool.evict_ahead(true);
        let begun = Instant::now();
        while clients(&pool) == 1 {
            assert!(begun.elapsed() < SOON, "no evictor has joined");
            fill(512);
        }
        pool.evict_ahead(false);
        let counted = cache.statistics().pool;
        assert_eq!(counted.puts - counted.evictions, cache.objects().unwrap());
    }
}

/// A fork has no thread of its parent. It forgets what it inherited, and works with a pool of its
/// own.
#[test]
fn a_fork_of_a_process_with_an_evictor_has_evictors_of_its_own() {
    let (pool, mut writer) = with_evictor(&options());
    let status = fork::in_fork(|| {
        let refused = writer.set(b"k", &VALUE).is_err();
        drop(pool.clone());
        let (own, _own_writer) = with_evictor(&options());
        u8::from(refused && clients(&own) == 2)
    });
    assert_eq!(status.unwrap(), 1);
    writer.set(b"k", &VALUE).unwrap();
}

#[test]
fn an_evictor_leaves_once_the_program_asks_for_removals() {
    let (pool, mut writer) = with_evictor(&options());
    writer.note_removals();
    assert!(fill_until(&mut writer, SOON, || clients(&pool) == 1), "the evictor stays");
    writer.take_removals();
    assert!(!fill_until(&mut writer, Duration::from_millis(300), || clients(&pool) != 1));
    assert!(!writer.take_removals().is_empty());
}

#[test]
fn a_pool_is_verified_while_its_evictor_is_awake() {
    for _ in 0..5 {
        let (pool, mut writer) = with_evictor(&options());
        fill_until(&mut writer, Duration::ZERO, || true);
        drop(writer);
        assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
    }
}
