//! A pool that any of several processes creates.

#![forbid(unsafe_code)]

use atoll::{OpenError, Pool, PoolError, PoolOptions};
use atoll_fabric::shm::{ShmFabric, ShmRegion};
use atoll_fabric::{Fabric, FabricError};
use std::sync::Barrier;
use std::time::Duration;

fn name(of: &str) -> String {
    format!("shm:/atoll-joint-{of}-{}", std::process::id())
}

fn options() -> PoolOptions {
    PoolOptions::default().capacity_bytes(4 << 20)
}

#[test]
fn of_many_that_open_or_create_one_creates_and_all_see_one_pool() {
    for round in 0..20 {
        let (name, barrier) = (name(&format!("many{round}")), Barrier::new(8));
        let opened = std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                let pool = Pool::open_or_create(&name, &options()).unwrap();
                (pool.client().unwrap().increment(b"n", 1).unwrap(), pool)
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let again = Pool::open_or_create(&name, &options().capacity_bytes(64 << 20)).unwrap();
        assert_eq!(again.client().unwrap().get(b"n").unwrap(), Some(&b"8"[..]));
        assert_eq!(again.capacity_bytes(), 4 << 20, "an existing pool keeps its settings");
        drop((opened, again));
        Pool::remove(&name).unwrap();
    }
}

#[test]
fn a_region_whose_creator_has_died_is_made_anew_with_all_its_nodes() {
    let name = name("abandoned");
    let fabric = ShmFabric::named(&name).unwrap();
    drop(fabric.create(0, 4 << 20, 0).unwrap());
    drop(ShmRegion::create(&format!("{name}+1"), 2 << 20).unwrap());
    let pool = Pool::open_or_create(&name, &options().nodes(2)).unwrap();
    pool.client().unwrap().set(b"key", b"value").unwrap();
    drop(pool);
    Pool::remove(&name).unwrap();
}

#[test]
fn a_region_that_is_being_formatted_is_waited_for() {
    let name = name("slow");
    let fabric = ShmFabric::named(&name).unwrap();
    let creating = fabric.create(0, 4 << 20, 0).unwrap();
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| Pool::open_or_create(&name, &options()).map(drop));
        std::thread::sleep(Duration::from_millis(900));
        assert!(!opening.is_finished(), "the creator lives");
        drop(creating);
        opening.join().unwrap().unwrap();
    });
    Pool::remove(&name).unwrap();
}

#[test]
fn bytes_of_another_program_are_an_error_and_stay() {
    let path = std::env::temp_dir().join(format!("atoll-joint-{}", std::process::id()));
    std::fs::write(&path, [7; 8192]).unwrap();
    let refused = Pool::open_or_create(path.to_str().unwrap(), &options()).err().unwrap();
    assert!(matches!(refused, OpenError::Pool(PoolError::NotAPool)), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), [7; 8192]);
    std::fs::remove_file(&path).unwrap();
    let refused = Pool::open_or_create("tcp:127.0.0.1:1", &options()).err().unwrap();
    assert!(matches!(refused, OpenError::Region(FabricError::NoFabric { .. })), "{refused}");
}
