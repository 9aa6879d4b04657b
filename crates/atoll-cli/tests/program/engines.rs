//! Engines as a user chooses them: `--engine`, `--experts`, and pools that say what they were made
//! for.

use crate::binary::{PoolName, Serving, engines, printed, refused};
use atoll::{Client, EngineOptions, Expiry, Pool, PoolOptions, SetOptions};
use redis::Commands;

/// What a user types, and what he is shown of it.
const TYPED: [(&[&str], &str, Option<&str>); 5] = [
    (&["--engine", "forge"], "forge", None),
    (&["--engine", "forge-paper"], "forge", None),
    (&["--engine", "ditto"], "ditto", Some("quick-demotion+quick-demotion-strict+hyperbolic-idle+lfu")),
    (&["--engine", "ditto", "--experts", "lru+lfu"], "ditto", Some("lru+lfu")),
    (&["--engine", "ditto", "--experts", "lirs+gdsf+lru-k"], "ditto", Some("lirs+gdsf+lru-k")),
];

/// The line of a setting, as `pool info` prints it.
fn line(name: &str, value: &str) -> String {
    format!("  {name:<18} {value}\n")
}

/// Some of everything that a cache does.
fn use_it(cache: &mut Client) {
    for key in 0..20_000u32 {
        cache.set(&key.to_le_bytes(), &[key as u8; 500]).unwrap();
        if let Some(value) = cache.get(&(key / 2).to_le_bytes()).unwrap() {
            assert!(value.len() == 500 && value.iter().all(|byte| *byte == (key / 2) as u8));
        }
    }
    let large = vec![7; cache.value_bytes_max()];
    cache.set(b"large", &large).unwrap();
    assert!(cache.get(b"large").unwrap().is_some_and(|value| value == large));
    assert!(cache.set(b"larger", &vec![7; large.len() + 1]).is_err());
    // However slow the machine is, the object lives for as long as it is asked after.
    let later = SetOptions { expiry: Expiry::InMs(3_600_000), ..SetOptions::default() };
    cache.set_with(b"soon", b"gone", &later).unwrap();
    assert!(cache.exists(b"soon").unwrap());
    cache.set_with(b"soon", b"gone", &SetOptions { expiry: Expiry::InMs(10), ..SetOptions::default() }).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(cache.get(b"soon").unwrap(), None);
    // Any object may be evicted between any two operations, though hardly ever this one.
    let was_kept = (0..10).any(|_| {
        cache.take(b"n").unwrap();
        assert!(matches!(cache.increment(b"n", 5).unwrap(), atoll::Number::Value(5)));
        let bytes = cache.append(b"n", b"0").unwrap();
        assert!(bytes == 2 || bytes == 1, "{bytes}");
        cache.take(b"n").unwrap() == Some(&b"50"[..])
    });
    assert!(was_kept);
    assert!(cache.stats().evictions > 0);
}

#[test]
fn a_pool_is_opened_checked_repaired_grown_and_removed_without_saying_its_engine_again() {
    for (index, (typed, engine, experts)) in TYPED.into_iter().enumerate() {
        let name = PoolName::new(&format!("engine-{index}"));
        let create = ["pool", "create", &name.0, "--capacity", "8MiB", "--capacity-max", "12MiB"];
        let said = printed(&[&create, typed].concat());
        assert!(said.contains(&format!("engine {engine}")), "{said}");
        let pool = Pool::open(&name.0).unwrap();
        let mut cache = pool.client().unwrap();
        use_it(&mut cache);
        printed(&["pool", "grow", &name.0, "--by", "3MiB"]);
        use_it(&mut cache);
        let shown = printed(&["pool", "info", &name.0]);
        assert!(shown.contains(&line("engine", engine)), "{shown}");
        assert_eq!(shown.contains("experts"), experts.is_some(), "{shown}");
        assert!(experts.is_none_or(|experts| shown.contains(&line("experts", experts))), "{shown}");
        assert!(shown.contains("node 1"), "{shown}");
        // As if its process had died. It does nothing any more, not even `tend`.
        std::mem::forget(cache);
        let other = Pool::open(&name.0).unwrap();
        assert_eq!((other.engine().to_string(), other.settings()), (engine.to_owned(), pool.settings()));
        use_it(&mut other.client().unwrap());
        let shown = printed(&["pool", "repair", &name.0, "--json"]);
        assert!(shown.contains("\"clients\": 0"), "the client of this process lives: {shown}");
        assert!(refused(&["pool", "remove", &name.0]).contains("in use by process"));
        printed(&["pool", "remove", "--force", &name.0]);
        assert!(refused(&["pool", "info", &name.0]).contains("does not exist"));
    }
}

#[test]
fn pools_of_every_engine_are_sound_at_all_capacities_and_after_use() {
    for engine in engines() {
        for capacity_bytes in [256 << 10, 1 << 20, 1_000_003, 40 << 20] {
            let options = PoolOptions::default().capacity_bytes(capacity_bytes).engine(engine.clone());
            let pool = Pool::anonymous(&options).unwrap_or_else(|error| panic!("{engine} {capacity_bytes}: {error}"));
            let mut cache = pool.client().unwrap();
            for key in 0..20_000u32 {
                cache.set(&key.to_le_bytes(), &[1; 300]).unwrap();
                assert!(cache.get(&key.to_le_bytes()).unwrap().is_some(), "{engine} {capacity_bytes}");
            }
            let max = vec![1; cache.value_bytes_max()];
            cache.set(b"largest", &max).unwrap();
            assert!(cache.get(b"largest").unwrap().is_some_and(|value| value == max));
            drop(cache);
            let audit = pool.verify().unwrap();
            assert_eq!(audit.faults, Vec::<String>::new(), "{engine} {capacity_bytes}");
            assert!(audit.objects > 0 && audit.objects == pool.info().unwrap().objects);
        }
    }
}

#[test]
fn threads_of_one_process_share_a_pool_of_any_engine() {
    for engine in engines() {
        let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(8 << 20).engine(engine.clone())).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let mut cache = pool.client().unwrap();
                scope.spawn(move || {
                    for round in 0..20_000u32 {
                        let key = (round * 7 + thread) % 9_000;
                        cache.set(&key.to_le_bytes(), &key.to_le_bytes().repeat(100)).unwrap();
                        let other = key / 3;
                        if let Some(value) = cache.get(&other.to_le_bytes()).unwrap() {
                            assert!(value == other.to_le_bytes().repeat(100));
                        }
                    }
                });
            }
        });
        let (engine, audit) = (engine.to_string(), pool.verify().unwrap());
        assert_eq!((engine.as_str(), audit.faults), (engine.as_str(), Vec::new()));
    }
}

#[test]
fn a_server_has_the_engine_that_was_asked_for_or_that_of_its_pool() {
    for (typed, engine, experts) in TYPED {
        let name = PoolName::new(&format!("served-{engine}").replace(':', "-"));
        printed(&[&["pool", "create", &name.0, "--capacity", "16MiB"], typed].concat());
        for server in [
            Serving::start(&[&["--capacity", "16MiB"], typed].concat()),
            Serving::start(&["--pool", &name.0, "--threads", "2"]),
        ] {
            let mut redis = server.connect();
            for key in 0..5000u32 {
                let () = redis.set(key, vec![key as u8; 200]).unwrap();
            }
            assert_eq!(redis.get::<_, Vec<u8>>(4999).unwrap(), vec![4999u32 as u8; 200]);
            let () = redis.set_ex("t", vec![7u8; 100_000], 100).unwrap();
            assert_eq!(redis.get::<_, Vec<u8>>("t").unwrap(), vec![7; 100_000]);
            assert!((1..=100).contains(&redis.ttl::<_, i64>("t").unwrap()));
            assert_eq!(redis.incr::<_, _, i64>("n", 5).unwrap(), 5);
            assert_eq!(redis.del::<_, usize>(&["t", "absent"]).unwrap(), 1);
            let info: String = redis::cmd("INFO").query(&mut redis).unwrap();
            assert!(info.contains(&format!("engine:{engine}\r\n")), "{info}");
            assert_eq!(info.contains("experts:"), experts.is_some(), "{info}");
            assert!(experts.is_none_or(|experts| info.contains(&format!("experts:{experts}\r\n"))), "{info}");
        }
        printed(&["pool", "repair", &name.0]);
        printed(&["pool", "verify", &name.0]);
    }
}

#[test]
fn what_does_not_go_together_is_refused_with_what_to_do() {
    let name = PoolName::new("engine-refused");
    let said = |options: &[&str]| refused(&[&["pool", "create", &name.0], options].concat());
    for options in [&["--experts", "lru"][..], &["--engine", "forge-paper", "--experts", "lru"]] {
        assert!(said(options).contains("add --engine ditto"), "{options:?}");
    }
    assert!(said(&["--engine", "ditto", "--no-ghosts"]).contains("--no-ghosts is for forge"));
    assert!(said(&["--engine", "ditto", "--experts", "lru+nothing"]).contains("quick-demotion"));
    assert!(said(&["--engine", "ditto", "--experts", "lru+lru"]).contains("name it once"));
    for engine in ["redis", "kvs", "glcache-dm", "shard-lru"] {
        assert!(said(&["--engine", engine]).contains("forge-paper"), "{engine} is not served");
    }
    for capacity in [&["--capacity", "1TiB"][..], &["--capacity", "200GiB", "--capacity-max", "600GiB"]] {
        let said = said(&[&["--engine", "ditto"], capacity].concat());
        assert!(said.contains("at most 274877906944") && said.contains("engine forge"), "{said}");
    }
    assert!(refused(&["pool", "info", &name.0]).contains("does not exist"), "something was left of it");

    printed(&["pool", "create", &name.0, "--capacity", "1MiB", "--engine", "ditto"]);
    let said = refused(&["serve", "--pool", &name.0, "--engine", "ditto", "--port", "0"]);
    assert!(said.contains("--engine") && said.contains("leave it out"), "{said}");
    assert!(refused(&["serve", "--experts", "lru", "--port", "0"]).contains("add --engine ditto"));
    let config = printed(&["serve", "--config", "--engine", "ditto", "--experts", "lru+lfu"]);
    assert!(config.contains("engine = \"ditto\"") && config.contains("experts = \"lru+lfu\""), "{config}");
}

#[test]
fn an_engine_of_another_version_is_named_as_such() {
    let path = std::env::temp_dir().join(format!("atoll-engine-{}", std::process::id()));
    let name = path.to_str().unwrap();
    let options = PoolOptions::default().capacity_bytes(1 << 20).engine(EngineOptions::ditto("lru".parse().unwrap()));
    drop(Pool::create(name, &options).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    let mut words: Vec<u64> = bytes[..256].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    words[7] = 99;
    atoll_pool::header::seal(&mut words);
    bytes[..256].copy_from_slice(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    std::fs::write(&path, bytes).unwrap();
    let said = refused(&["pool", "info", name]);
    assert!(said.contains("engine 99") && said.contains("create it anew"), "{said}");
    std::fs::remove_file(&path).unwrap();
}
