//! `atoll pool`, `atoll replay` and the example, as a user types them.

use crate::binary::{PoolName, Serving, printed, printed_while, refused};

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

/// Each place of the pool continues the counts of its last client.
#[test]
fn a_pool_knows_the_hit_ratio_of_all_its_clients() {
    let name = PoolName::new("ratio");
    printed(&["pool", "create", &name.0, "--capacity", "4MiB"]);
    assert!(printed(&["pool", "info", &name.0]).contains("no lookup yet"));
    let pool = atoll::Pool::open(&name.0).unwrap();
    for _ in 0..2 {
        let mut clients = [pool.client().unwrap(), pool.client().unwrap()];
        for client in &mut clients {
            client.set(b"key", b"value").unwrap();
            (0..300).for_each(|_| assert!(client.get(b"key").unwrap().is_some()));
            (0..100).for_each(|_| assert!(client.get(b"none").unwrap().is_none()));
        }
    }
    drop(pool);
    let info: serde_json::Value = serde_json::from_str(&printed(&["pool", "info", &name.0, "--json"])).unwrap();
    assert_eq!((&info["hits"], &info["misses"], &info["hit_ratio"]), (&1200.into(), &400.into(), &0.75.into()));
    assert!(printed(&["pool", "info", &name.0]).contains("hit ratio 75.0 % of 1600 lookups"));
    assert!(printed(&["top", &name.0, "--once"]).contains("75.0 %"));
    printed(&["pool", "remove", &name.0]);
}

#[test]
fn a_pool_knows_what_its_clients_model_of_other_capacities() {
    let name = PoolName::new("curve");
    printed(&["pool", "create", &name.0, "--capacity", "2MiB"]);
    assert!(!printed(&["pool", "info", &name.0]).contains("by capacity"));
    let pool = atoll::Pool::open(&name.0).unwrap();
    let mut clients = [pool.client().unwrap(), pool.client().unwrap()];
    let mut state = 1_u64;
    for turn in 0..200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The lower a key, the more often it is read.
        let unit = (state >> 40) as f64 / f64::from(1 << 24);
        let key = ((unit * unit * 40_000.0) as u32).to_le_bytes();
        let client = &mut clients[turn % 2];
        if client.get(&key).unwrap().is_none() {
            client.set(&key, &[7; 100]).unwrap();
        }
    }
    drop((clients, pool));
    let info: serde_json::Value = serde_json::from_str(&printed(&["pool", "info", &name.0, "--json"])).unwrap();
    let curve = info["hit_ratio_by_capacity"].as_array().unwrap();
    let point = |name: &str| curve.iter().map(|point| point[name].as_f64().unwrap()).collect::<Vec<f64>>();
    assert_eq!(point("capacity"), [0.25, 0.5, 1.0, 2.0, 4.0]);
    let ratios = point("hit_ratio");
    assert!(ratios.is_sorted() && ratios[0] < ratios[4], "{ratios:?}");
    let ratio = info["hit_ratio"].as_f64().unwrap();
    assert!((ratios[2] - ratio).abs() < 1e-9, "{ratio} where {ratios:?} was modelled");
    assert!(printed(&["pool", "info", &name.0]).contains("by capacity, in multiples of this one"));
    printed(&["pool", "remove", &name.0]);
}

#[test]
fn chunks_of_a_grown_index_are_not_called_retired() {
    let name = PoolName::new("grown");
    printed(&["pool", "create", &name.0, "--capacity", "1MiB"]);
    let mut cache = atoll::Pool::open(&name.0).unwrap().client().unwrap();
    (0..3000_u32).for_each(|key| cache.set(&key.to_le_bytes(), b"small").unwrap());
    drop(cache);
    let verified = printed(&["pool", "verify", &name.0]);
    assert!(verified.contains(" 0 retired") && !verified.contains(" 0 index"), "{verified}");
    printed(&["pool", "remove", &name.0]);
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
    let output = crate::binary::atoll(&["pool", "verify", name, "--json"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("no record of its own"));
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(refused(&["pool", "verify", name]).contains("damaged"));
    std::fs::write(&path, [0; 8192]).unwrap();
    assert!(refused(&["pool", "info", name]).contains("holds no pool"));
    assert!(refused(&["pool", "remove", name]).contains("--force"));
    printed(&["pool", "remove", name, "--force"]);
}

#[test]
fn remove_takes_nothing_but_a_pool() {
    let path = std::env::temp_dir().join(format!("atoll-notes-{}.txt", std::process::id()));
    let name = path.to_str().unwrap();
    std::fs::write(&path, "milk, bread, and a lot of other things\n".repeat(1000)).unwrap();
    for args in [&["pool", "remove", name][..], &["pool", "remove", "--force", name]] {
        assert!(refused(args).contains("holds no pool"));
    }
    std::fs::write(&path, "milk").unwrap();
    assert!(refused(&["pool", "remove", "--force", name]).contains("holds no pool"));
    assert_eq!(std::fs::read(&path).unwrap(), b"milk");
    std::fs::remove_file(&path).unwrap();
    assert!(refused(&["pool", "remove", name]).contains("does not exist"));
    std::fs::create_dir(&path).unwrap();
    assert!(!refused(&["pool", "remove", "--force", name]).is_empty());
    std::fs::remove_dir(&path).unwrap();
}

#[test]
fn a_pool_in_use_is_removed_by_force_alone_and_verify_says_that_it_is_in_use() {
    let name = PoolName::new("in-use");
    printed(&["pool", "create", &name.0, "--capacity", "4MiB", "--nodes", "2"]);
    let server = Serving::start(&["--pool", &name.0]);
    let users = format!("in use by process {}", server.pid());
    assert!(refused(&["pool", "remove", &name.0]).contains(&users));
    let region = name.0.replace("shm:/", "/dev/shm/atoll.");
    assert!(std::path::Path::new(&region).exists() && std::path::Path::new(&format!("{region}+1")).exists());
    let verified = crate::binary::atoll(&["pool", "verify", &name.0, "--json"]);
    assert!(String::from_utf8_lossy(&verified.stderr).contains(&users), "{verified:?}");
    assert!(String::from_utf8_lossy(&verified.stdout).contains(&server.pid().to_string()), "{verified:?}");
    let removed = printed(&["pool", "remove", "--force", &name.0]);
    assert!(removed.contains(&format!("process {} keeps the memory", server.pid())), "{removed}");
    assert!(removed.contains("+1 with "), "{removed}");
    let () = redis::Commands::set(&mut server.connect(), "key", "value").unwrap();
    assert!(refused(&["pool", "remove", &name.0]).contains("does not exist"));
    drop(server);
    let other = PoolName::new("not-in-use");
    printed(&["pool", "create", &other.0, "--capacity", "4MiB"]);
    let removed = printed(&["pool", "remove", "--json", &other.0]);
    assert!(removed.contains(&other.0) && removed.contains("\"in_use\": false"), "{removed}");
}

#[test]
fn capacities_at_the_edges_work_or_say_what_is_needed() {
    for (capacity, works) in [("10", false), ("20KiB", false), ("64KiB", true), ("1MB", true), ("100TiB", false)] {
        let name = PoolName::new(&format!("edge-{capacity}"));
        let output = crate::binary::atoll(&["pool", "create", &name.0, "--capacity", capacity]);
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

#[test]
fn a_replay_repeats_to_the_miss_with_any_number_of_clients() {
    let replay = |clients: &str| {
        let shown =
            printed(&["replay", "zipf:5000,0.9,60000", "--cache-objects", "500", "--clients", clients, "--json"]);
        let counted = shown.split(',').filter(|part| part.contains("misses") || part.contains("evictions"));
        counted.collect::<Vec<_>>().join(",")
    };
    for clients in ["1", "4"] {
        assert_eq!(replay(clients), replay(clients));
    }
}

#[test]
fn a_full_pool_spends_at_most_a_quarter_beside_keys_and_values() {
    let pool = atoll::Pool::anonymous(&atoll::PoolOptions::default().capacity_bytes(128 << 20)).unwrap();
    let mut cache = pool.client().unwrap();
    for key in 0..1_200_000u128 {
        cache.set(&key.to_le_bytes(), &[7; 256]).unwrap();
    }
    let stats = cache.stats();
    drop(cache);
    let report = pool.verify().unwrap();
    assert_eq!(report.faults, Vec::<String>::new());
    assert!(stats.evictions > 500_000, "the pool is not full: {stats:?}");
    let overhead = pool.capacity_bytes() as f64 / report.body_bytes as f64;
    println!("capacity / (resident objects x (key + value)) = {overhead:.4}");
    assert!(overhead <= 1.25, "{overhead}");
}

/// Objects in the pool, by the clients' own way of looking.
fn hits(cache: &mut atoll::Client, keys: std::ops::Range<u32>) -> usize {
    keys.filter(|key| cache.get(&key.to_le_bytes()).unwrap().is_some()).count()
}

fn fill(cache: &mut atoll::Client, keys: std::ops::Range<u32>) {
    keys.for_each(|key| cache.set(&key.to_le_bytes(), &[7; 500]).unwrap());
}

#[test]
fn who_takes_no_more_of_what_is_printed_ends_the_program_quietly() {
    let name = PoolName::new("unread");
    printed(&["pool", "create", &name.0, "--capacity", "4MiB"]);
    let info = |to: &str| {
        let line = format!("'{}' pool info {} {to}", env!("CARGO_BIN_EXE_atoll"), name.0);
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(info("| true"), "");
    assert!(info("> /dev/full").starts_with("error: what was found cannot be printed"));
}

#[test]
fn a_pool_on_two_nodes_is_filled_grows_while_it_is_used_and_is_removed_whole() {
    let name = PoolName::new("grown-two-nodes");
    let options = ["--capacity", "4MiB", "--nodes", "2", "--capacity-max", "12MiB", "--json"];
    printed(&[&["pool", "create", &name.0], &options[..6]].concat());
    let pool = atoll::Pool::open(&name.0).unwrap();
    let mut cache = pool.client().unwrap();
    fill(&mut cache, 0..20_000);
    let before = hits(&mut cache, 0..20_000);
    let info = pool.info().unwrap();
    assert_eq!(info.nodes.len(), 2);
    assert!(info.nodes.iter().all(|node| node.chunks_free < node.chunks / 4), "both are filled: {:?}", info.nodes);
    let used: u64 = info.chunks_by_use.iter().map(|(_, chunks)| chunks).sum();
    assert_eq!(used + info.chunks_free, info.chunks, "{:?}", info.chunks_by_use);

    let grown = printed(&["pool", "grow", &name.0, "--by", "6MiB", "--json"]);
    assert!(grown.contains("\"number\": 2"), "{grown}");
    assert!(refused(&["pool", "grow", &name.0, "--by", "3MiB"]).contains("--capacity-max"));
    // The client that was there all the time finds the node as it looks for room.
    fill(&mut cache, 20_000..60_000);
    let after = hits(&mut cache, 0..60_000);
    assert!(after > 2 * before, "{before} objects, then {after}");
    let info = pool.info().unwrap();
    assert!(info.nodes.len() == 3 && info.nodes[2].chunks_free < info.nodes[2].chunks / 4, "{:?}", info.nodes);
    assert!((9 << 20..=10 << 20).contains(&pool.capacity_bytes()), "{}", pool.capacity_bytes());
    drop((cache, pool));

    let shown = printed(&["pool", "info", &name.0]);
    for node in 0..3 {
        assert!(shown.contains(&format!("node {node} {}", name.0)), "{shown}");
    }
    assert!(printed(&["pool", "verify", &name.0]).contains("sound"));
    assert!(refused(&["pool", "info", &format!("{}+1", name.0)]).contains("memory node 1 of a pool"));
    printed(&["pool", "remove", &name.0]);
    let region = name.0.replace("shm:/", "/dev/shm/atoll.");
    for file in [region.clone(), format!("{region}+1"), format!("{region}+2")] {
        assert!(!std::path::Path::new(&file).exists(), "{file}");
    }
}

#[test]
fn a_pool_becomes_smaller_and_larger_again_while_it_is_used() {
    for engine in ["forge", "ditto"] {
        let name = PoolName::new(&format!("resized-{engine}"));
        printed(&["pool", "create", &name.0, "--capacity", "64MiB", "--engine", engine]);
        let pool = atoll::Pool::open(&name.0).unwrap();
        let mut cache = pool.client().unwrap();
        fill(&mut cache, 0..160_000);
        let before = hits(&mut cache, 0..160_000);
        let host_kib = || {
            use std::os::unix::fs::MetadataExt;
            std::fs::metadata(name.0.replace("shm:/", "/dev/shm/atoll.")).unwrap().blocks() / 2
        };
        let whole_kib = host_kib();

        let shrunk = printed_while(&["pool", "shrink", &name.0, "--by", "32MiB", "--json"], || cache.tend().unwrap());
        assert!(shrunk.contains("\"bytes\": 33554432") && shrunk.contains("\"held_bytes\": 0"), "{shrunk}");
        assert!(host_kib() + (24 << 10) < whole_kib, "{} of {whole_kib} KiB", host_kib());
        let info = pool.info().unwrap();
        assert!(shrunk.contains(&format!("\"chunks\": {}", info.chunks_retired)), "{shrunk}");
        assert_eq!(info.retired_bytes, 32 << 20);
        assert!(info.used_bytes <= info.capacity_bytes - info.retired_bytes, "{info:?}");
        let shown = printed(&["pool", "info", &name.0]);
        assert!(shown.lines().nth(1).is_some_and(|line| line.contains(" of 32.0 MiB in use")), "{shown}");
        // The client that was there all the time has the rest.
        let during = hits(&mut cache, 0..160_000);
        assert!(during > before / 4 && during < before * 3 / 4, "{engine}: {before} objects, then {during}");
        fill(&mut cache, 160_000..320_000);
        assert!(hits(&mut cache, 0..320_000) < before * 3 / 4);
        assert!(refused(&["pool", "shrink", &name.0, "--by", "32MiB"]).contains("it keeps 16"));

        let grown = printed(&["pool", "grow", &name.0, "--by", "64MiB", "--json"]);
        assert!(grown.contains("\"restored_bytes\": 33554432"), "{grown}");
        assert!(refused(&["pool", "grow", &name.0, "--by", "1MiB"]).contains("--capacity-max"));
        fill(&mut cache, 320_000..640_000);
        assert!(hits(&mut cache, 0..640_000) > before * 9 / 10);
        assert_eq!(pool.info().unwrap().chunks_retired, 0);
        drop((cache, pool));
        assert!(printed(&["pool", "verify", &name.0]).contains("sound"));
    }
}

#[test]
fn a_region_that_is_not_the_pools_is_told_from_its_own() {
    let name = PoolName::new("members");
    let other = PoolName::new("members-other");
    for name in [&name.0, &other.0] {
        printed(&["pool", "create", name, "--capacity", "1MiB", "--nodes", "3"]);
    }
    let file = |name: &PoolName, node| format!("{}+{node}", name.0.replace("shm:/", "/dev/shm/atoll."));
    let (first, second) = (std::fs::read(file(&name, 1)).unwrap(), std::fs::read(file(&name, 2)).unwrap());
    let said = |bytes: Option<&[u8]>, what: &str| {
        match bytes {
            Some(bytes) => std::fs::write(file(&name, 2), bytes).unwrap(),
            None => std::fs::remove_file(file(&name, 2)).unwrap(),
        }
        let said = refused(&["pool", "info", &name.0]);
        assert!(said.contains("memory node 2") && said.contains(what), "{what}: {said}");
    };
    said(Some(&first), "is memory node 1 of this pool");
    said(Some(&std::fs::read(file(&other, 2)).unwrap()), "belongs to another pool");
    said(Some(&vec![0; second.len()]), "holds nothing");
    said(Some(&second[..second.len() / 2]), "is too small");
    let mut damaged = second.clone();
    damaged[24] ^= 1;
    said(Some(&damaged), "is damaged");
    said(None, "does not exist");
    std::fs::write(file(&name, 2), &second).unwrap();
    printed(&["pool", "verify", &name.0]);
}

#[test]
fn what_a_grower_left_that_died_is_gone_with_the_next_growth_or_the_pool() {
    let name = PoolName::new("half-grown");
    printed(&["pool", "create", &name.0, "--capacity", "1MiB", "--capacity-max", "4MiB"]);
    let file = format!("{}+1", name.0.replace("shm:/", "/dev/shm/atoll."));
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    assert!(printed(&["pool", "info", &name.0]).contains("node 0"));
    printed(&["pool", "grow", &name.0, "--by", "2MiB"]);
    assert!(std::fs::metadata(&file).unwrap().len() > 1 << 20);
    let left = file.replace("+1", "+2");
    std::fs::write(&left, [0; 0]).unwrap();
    printed(&["pool", "remove", &name.0]);
    assert!(!std::path::Path::new(&file).exists() && !std::path::Path::new(&left).exists());
}
