//! An evictor makes room ahead of need. It may die or stand still at any verb, and takes nothing
//! that fits.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `NeedlessEviction` | a READ of the count of free chunks before each step | `an_evictor_takes_nothing_while_enough_chunks_are_free` |
//! | `ProtectedRoom` | letting a protected chunk wait | `holes::an_evictor_frees_no_chunk_that_an_operation_protects` |

use atoll_cache::forge::{ForgeOptions, Hole};
use atoll_cache::{Ahead, Cache, Engine, EnginePool, Pooled, SetOptions, Stats, Value};
use atoll_cases::compiled::shm;
use atoll_cases::holes::{Shown, show_faulty_case};
use atoll_cases::promises::faults_do_no_harm;
use atoll_cases::shared_memory::SharedPool;
use atoll_cases::{Case, FaultyCase, ForgeSubject, Load};
use atoll_fabric::run_ready;
use atoll_pool::chunks;
use atoll_sim::history::Evictions;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;

const MIB: u64 = 1 << 20;

/// One or two evictors; of every second seed so little room that all clients evict all the time.
fn with_evictors(seed: u64) -> FaultyCase {
    let faulty = FaultyCase::crowded(seed).with_evictors(1 + seed as u32 / 2 % 2);
    if seed.is_multiple_of(2) {
        return faulty;
    }
    let load = Load { keys: faulty.case.load.keys.max(20), lookups: 5, ..faulty.case.load };
    let chunks = if faulty.case.evictions == Evictions::Never { faulty.case.chunks } else { 18 };
    FaultyCase { case: Case { load, chunks, ..faulty.case }, ..faulty }
}

#[test]
fn an_evictor_may_die_and_stand_still_anywhere() {
    faults_do_no_harm(200, with_evictors);
}

#[test]
fn an_evictor_may_be_lost_with_a_memory_node() {
    faults_do_no_harm(40, |seed| with_evictors(seed).with_absences(1));
}

#[test]
fn an_evictor_takes_nothing_while_enough_chunks_are_free() {
    show_faulty_case::<ForgeSubject>(Hole::NeedlessEviction, 60, Shown::ByOneIn50, |faulty| {
        let Case { chunks, slots, objects_max, evictions, .. } = &mut faulty.case;
        (*chunks, *slots, *objects_max, *evictions) = (400, 1024, 0, Evictions::Never);
        (faulty.evictors, faulty.resized_chunks, faulty.faults.node_losses_max) = (2, 0, 0);
    });
}

type Client = Cache<shm::Forge>;

/// A pool on shared memory, of which one process has writers and an evictor.
struct Host {
    shared: SharedPool<shm::Forge>,
    evictor: Client,
}

impl Host {
    fn new(capacity: u64) -> Self {
        let shared = SharedPool::<shm::Forge>::new(ForgeOptions::default().for_capacity(capacity));
        let evictor = shared.client();
        Self { shared, evictor }
    }

    fn step(&self) -> Ahead {
        run_ready(self.evictor.engine().evict_ahead()).unwrap()
    }

    fn free_chunks(&self) -> u64 {
        run_ready(chunks::free_chunks(&self.shared.endpoint(), &self.shared.pool.pool().layout)).unwrap()
    }

    /// Leaves the pool, and walks it.
    fn end(self) {
        drop(self.evictor);
        self.shared.verify();
    }
}

fn set(client: &Client, number: u64, bytes: usize) {
    let key = number.to_le_bytes();
    run_ready(client.set(&key, &vec![number as u8; bytes], &SetOptions::default())).unwrap();
}

#[test]
fn a_writer_evicts_nothing_while_an_evictor_is_ahead_and_as_before_without_it() {
    let host = Host::new(16 * MIB);
    let writer = host.shared.client();
    let evictions = || {
        let stats = writer.engine().stats();
        // Some bucket of the index is full now and then.
        stats.evictions - stats.evictions_index
    };
    let mut numbers = 0..;
    let mut set_some = |objects: usize| numbers.by_ref().take(objects).for_each(|number| set(&writer, number, 256));
    set_some(100_000);
    assert!(evictions() > 0, "the pool is full");
    let before = host.free_chunks();
    assert_eq!(host.step(), Ahead::Worked);
    while host.step() == Ahead::Worked {}
    assert_eq!(host.step(), Ahead::Enough);
    let free = host.free_chunks();
    assert!((before + 4..before + 20).contains(&free), "{free} chunks are free, {before} before");
    let inline = evictions();
    // The evictor keeps up: a chunk has some 25 objects.
    for _ in 0..2000 {
        set_some(20);
        while host.step() == Ahead::Worked {}
    }
    assert_eq!(evictions(), inline);
    assert!(host.evictor.engine().stats().evictions > 0);
    // It stands still from now on.
    set_some(10_000);
    assert!(evictions() > inline);
    drop(writer);
    host.end();
}

#[test]
fn an_evictor_at_work_evicts_nothing_that_fits() {
    let host = Host::new(16 * MIB);
    let writer = host.shared.client();
    let metadata = 16 * MIB - host.shared.pool.pool().layout.heap_bytes();
    let objects = (16 * MIB * 4 / 5 - metadata) / (16 + 256 + 40);
    let mut state = 88_172_645_463_325_252u64;
    for step in 0..6 * objects {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Of many lengths, so that few records get the place of one that has died.
        let value_bytes = 64 + (state >> 12) as usize % 384;
        set(&writer, if step < objects { step } else { (state >> 33) % objects }, value_bytes);
        if step % 8 == 0 {
            host.step();
        }
    }
    let mut counted = writer.engine().stats();
    counted.add(&host.evictor.engine().stats());
    assert!(counted.groups_cleaned > 0);
    assert_eq!(counted.evictions - counted.evictions_index, 0);
    drop(writer);
    host.end();
}

#[test]
fn writers_and_the_evictor_of_their_process_count_every_eviction_once() {
    const WRITERS: u64 = 2;
    const SETS: u64 = 60_000;
    let host = Host::new(8 * MIB);
    assert!(host.shared.pool.reserve().unwrap().attend(Waker::noop().clone()));
    let (is_over, steps) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut counted = Stats::default();
    let Host { shared, evictor } = host;
    std::thread::scope(|scope| {
        let (is_over, steps) = (&is_over, &steps);
        let evictor = scope.spawn(move || {
            while !is_over.load(Relaxed) {
                match run_ready(evictor.engine().evict_ahead()).unwrap() {
                    Ahead::Worked => drop(steps.fetch_add(1, Relaxed)),
                    Ahead::Enough | Ahead::Waits => std::thread::yield_now(),
                }
            }
            evictor
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let client = shared.client();
                scope.spawn(move || {
                    let mut value = Value::new();
                    for number in 0..SETS {
                        let number = number * WRITERS + writer;
                        set(&client, number, 100);
                        let hit = run_ready(client.get(&number.to_le_bytes(), &mut value)).unwrap();
                        assert!(!hit || value.bytes() == vec![number as u8; 100]);
                    }
                    client
                })
            })
            .collect();
        let writers: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        is_over.store(true, Relaxed);
        let evictor = evictor.join().unwrap();
        // The writers have taken over what the evictor counted for them.
        writers.iter().for_each(|client| counted.add(&client.engine().stats()));
        assert_eq!(evictor.engine().stats().evictions, 0);
    });
    assert!(steps.load(Relaxed) > 0);
    let left = run_ready(shared.client().objects()).unwrap();
    assert_eq!(counted.puts, WRITERS * SETS);
    assert_eq!(counted.puts - counted.evictions, left);
    shared.verify();
}
