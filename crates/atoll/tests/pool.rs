//! `atoll pool`, `atoll replay` and the example, as a user types them.

mod binary;

use binary::{PoolName, printed, refused};

#[test]
fn a_pool_is_made_shown_checked_and_removed() {
    let name = PoolName::new("made");
    printed(&["pool", "create", &name.0, "--capacity", "4MiB"]);
    assert!(refused(&["pool", "create", &name.0]).contains("exists"));
    let mut cache = atoll::Pool::open(&name.0).unwrap().client().unwrap();
    for key in 0..20_000u32 {
        cache.set(&key.to_le_bytes(), &[7; 500]).unwrap();
    }
    drop(cache);
    let verified = printed(&["pool", "verify", &name.0, "--json"]);
    assert!(verified.contains("\"ok\": true") && verified.contains("\"faults\": []"), "{verified}");
    assert!(printed(&["pool", "info", &name.0, "--json"]).contains("\"objects\""));
    printed(&["pool", "remove", &name.0]);
    assert!(refused(&["pool", "info", &name.0]).contains("does not exist"));
}

#[test]
fn a_damaged_pool_is_refused_or_its_faults_are_named() {
    let path = std::env::temp_dir().join(format!("atoll-damaged-{}", std::process::id()));
    let name = path.to_str().unwrap();
    printed(&["pool", "create", name, "--capacity", "1MiB"]);
    let mut cache = atoll::Pool::open(name).unwrap().client().unwrap();
    cache.set(b"key", &[7; 100]).unwrap();
    drop(cache);
    let whole = std::fs::read(&path).unwrap();
    let place = whole.windows(103).position(|bytes| bytes.starts_with(b"key") && bytes[3..] == [7; 100]).unwrap();
    let mut bytes = whole.clone();
    bytes[place + 50] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let output = binary::atoll(&["pool", "verify", name, "--json"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("no record of its own"));
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(refused(&["pool", "verify", name]).contains("damaged"));
    std::fs::write(&path, [0; 8192]).unwrap();
    assert!(refused(&["pool", "info", name]).contains("holds no pool"));
    printed(&["pool", "remove", name]);
}

#[test]
fn capacities_at_the_edges_work_or_say_what_is_needed() {
    for (capacity, works) in [("10", false), ("20KiB", false), ("64KiB", true), ("1MB", true), ("100TiB", false)] {
        let name = PoolName::new(&format!("edge-{capacity}"));
        let output = binary::atoll(&["pool", "create", &name.0, "--capacity", capacity]);
        assert_eq!(output.status.success(), works, "{capacity}: {}", String::from_utf8_lossy(&output.stderr));
        if works {
            let pool = atoll::Pool::open(&name.0).unwrap();
            let mut cache = pool.client().unwrap();
            for key in 0..5000u32 {
                cache.set(&key.to_le_bytes(), &[1; 100]).unwrap();
                assert!(cache.get(&key.to_le_bytes()).unwrap().is_some());
            }
            let max = vec![1; cache.value_bytes_max()];
            cache.set(b"largest", &max).unwrap();
            assert!(cache.get(b"largest").unwrap().is_some_and(|value| value == max));
            assert!(cache.set(b"larger", &vec![1; max.len() + 1]).is_err());
            drop(cache);
            assert_eq!(pool.verify().unwrap().faults, Vec::<String>::new());
        }
    }
}

#[test]
fn a_generated_load_is_replayed_from_a_fresh_clone() {
    let shown = printed(&["replay", "zipf:1000,0.99,20000", "--cache-objects", "100", "--clients", "2", "--json"]);
    for key in ["requests", "hits", "misses", "miss_ratio", "evictions", "objects_max", "ops_per_s", "get_ns_p50"] {
        assert!(shown.contains(&format!("\"{key}\"")), "{key} in {shown}");
    }
}
