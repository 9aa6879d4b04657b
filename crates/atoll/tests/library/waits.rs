//! The library on a fabric whose futures wait, and addresses of fabrics that are not there.

use atoll::{EngineOptions, Number, OpenError, Pool, PoolOptions, SetOptions};
use atoll_fabric::conformance::late::Late;
use atoll_fabric::shm::ShmFabric;
use atoll_fabric::{Fabric, FabricError};

fn options(engine: EngineOptions) -> PoolOptions {
    PoolOptions::default().capacity_bytes(4 << 20).capacity_bytes_max(8 << 20).engine(engine)
}

#[test]
fn every_operation_ends_where_results_come_late() {
    for engine in [EngineOptions::default(), EngineOptions::ditto("lru+lfu".parse().unwrap())] {
        let pool = Pool::create_on(&Late(ShmFabric::anonymous()), &options(engine)).unwrap();
        pool.provide(|_, _| ()).unwrap();
        let mut cache = pool.client().unwrap();
        for key in 0..20_000u32 {
            cache.set(&key.to_le_bytes(), &[7; 500]).unwrap();
        }
        assert!(cache.objects().unwrap() > 1000);
        cache.set(b"key", b"value").unwrap();
        assert_eq!(cache.get(b"key").unwrap(), Some(&b"value"[..]));
        assert_eq!(cache.append(b"key", b"s").unwrap(), 6);
        assert!(matches!(cache.increment(b"number", 3).unwrap(), Number::Value(3)));
        assert!(cache.replace(b"key", b"new", &SetOptions::default()).unwrap().1.is_some());
        let mut found = 0;
        cache.get_many(&[b"key", b"number", b"nothing"], |_, value| found += u32::from(value.is_some())).unwrap();
        assert_eq!(found, 2);
        let mut other = pool.client().unwrap();
        let thread = std::thread::spawn(move || other.delete(b"key").unwrap());
        assert!(thread.join().unwrap());
        let node = pool.grow(2 << 20).unwrap();
        assert_eq!((node.number, pool.info().unwrap().nodes.len()), (1, 2));
        assert!(pool.shrink(1 << 20, |_, _| ()).unwrap().chunks > 0);
        assert!(pool.restore(1 << 20).unwrap().chunks > 0);
        assert!(cache.flush().unwrap() > 0);
        drop(cache);
        pool.repair().unwrap();
        let audit = pool.verify().unwrap();
        assert!(audit.faults.is_empty(), "{:?}", audit.faults);
    }
}

#[test]
fn a_pool_with_a_name_is_opened_closed_and_removed_where_results_come_late() {
    let name = format!("shm:/atoll-waits-{}", std::process::id());
    let fabric = Late(ShmFabric::named(&name).unwrap());
    let pool = Pool::create_on(&fabric, &options(EngineOptions::default()).nodes(2)).unwrap();
    pool.client().unwrap().set(b"key", b"value").unwrap();
    drop(pool);
    let pool = Pool::open_on(&fabric).unwrap();
    assert_eq!(pool.client().unwrap().get(b"key").unwrap(), Some(&b"value"[..]));
    assert_eq!((pool.name(), pool.fabric()), (fabric.address(), "shm"));
    drop(pool);
    let removed = Pool::remove_on(&fabric, false).unwrap();
    assert_eq!(removed.regions, [name.clone(), format!("{name}+1")]);
    assert!(matches!(Pool::open_on(&fabric), Err(OpenError::Region(FabricError::Absent(_)))));
}

#[test]
fn a_fabric_that_was_asked_for_and_is_not_there_is_an_error() {
    for address in ["tcp:127.0.0.1:7000", "verbs:mlx5_0/1"] {
        let refused = Pool::open(address).err().unwrap();
        assert!(matches!(refused, OpenError::Region(FabricError::NoFabric { .. })), "{refused}");
        let refused = Pool::create(address, &PoolOptions::default()).err().unwrap();
        assert!(refused.to_string().starts_with(address), "{refused}");
    }
}
