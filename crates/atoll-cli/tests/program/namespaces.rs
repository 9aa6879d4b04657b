//! Processes of other pid and mount namespaces on one pool, as containers that share it: death is
//! proven, never guessed.
//!
//! Every test runs `unshare`. Where that is not permitted, it says so and ends: the simulator plays
//! the same cases.

use crate::binary::{PoolName, Serving, Space, atoll, in_space, printed};
use redis::Commands;
use std::time::{Duration, Instant};

/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn pool(test: &str) -> PoolName {
    let name = PoolName::new(test);
    printed(&["pool", "create", &name.0, "--capacity", "16MiB"]);
    name
}

/// Whether this machine permits these tests.
fn permitted() -> bool {
    let is_permitted = Space::all().iter().all(Space::is_permitted);
    if !is_permitted {
        eprintln!("SKIPPED: `unshare` is not permitted here: run as root, or allow user namespaces");
    }
    is_permitted
}

/// A server in each namespace with a repair in each. A server starts as its turn comes.
fn servers_and_repairs(test: &str, options: &[&str]) -> impl Iterator<Item = (PoolName, Serving, Space)> {
    let pairs = Space::all().into_iter().flat_map(|server| Space::all().map(|repair| (server, repair)));
    pairs.map(move |(of_server, of_repair)| {
        println!("the server in {of_server:?}, the repair in {of_repair:?}:");
        let name = pool(test);
        let server = Serving::start_in(&of_server, &[&["--pool", &name.0], options].concat());
        (name, server, of_repair)
    })
}

fn repaired_clients(shown: &str) -> u64 {
    let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
    shown["clients"].as_u64().unwrap()
}

#[test]
fn a_living_server_is_not_shut_out_by_a_repair_of_another_namespace() {
    if !permitted() {
        return;
    }
    for (name, server, of_repair) in servers_and_repairs("namespace-living", &[]) {
        let mut redis = server.connect();
        let () = redis.set("key", "value").unwrap();
        let repaired = in_space(&of_repair, &["pool", "repair", &name.0, "--json"]);
        assert!(repaired.status.success(), "{repaired:?}");
        assert_eq!(repaired_clients(&String::from_utf8_lossy(&repaired.stdout)), 0);
        let () = redis.set("other", "value").unwrap();
        assert_eq!(redis.get::<_, String>("key").unwrap(), "value");
    }
}

/// The server and the repair share a pid namespace, and see the `/proc` of another one, where their
/// pids are those of other processes.
#[test]
fn a_living_server_is_not_shut_out_where_proc_shows_another_namespace() {
    if !permitted() {
        return;
    }
    let name = pool("namespace-proc");
    let program = env!("CARGO_BIN_EXE_atoll");
    let script = format!(
        "'{program}' serve --port 0 --pool {name} > '{said}' & server=$!; \
         while kill -0 $server && ! [ -s '{said}' ]; do sleep 0.05; done; cat '{said}' >&2; \
         '{program}' pool repair {name} --json; kill -9 $server; rm '{said}'",
        name = name.0,
        said = std::env::temp_dir().join(format!("atoll-said-{}", std::process::id())).display()
    );
    let ran = Space::Pids.command("sh", &["-c", &script]).output().unwrap();
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(String::from_utf8_lossy(&ran.stderr).contains(" serves "), "{ran:?}");
    assert_eq!(repaired_clients(&shown), 0, "{ran:?}");
}

#[test]
fn what_a_crashed_server_of_another_namespace_held_comes_back() {
    if !permitted() {
        return;
    }
    for (name, server, of_repair) in servers_and_repairs("namespace-dead", &["--threads", "2"]) {
        let mut redis = server.connect();
        for key in 0..500u32 {
            let () = redis.set(key, vec![7; 500]).unwrap();
        }
        drop(server);
        let since = Instant::now();
        let mut clients = 0;
        while clients < 2 {
            assert!(since.elapsed() < PATIENCE, "the dead server keeps its places");
            let repaired = in_space(&of_repair, &["pool", "repair", &name.0, "--json"]);
            assert!(repaired.status.success(), "{repaired:?}");
            clients += repaired_clients(&String::from_utf8_lossy(&repaired.stdout));
        }
        let shown = printed(&["pool", "info", &name.0, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&shown["clients"], &shown["quarantined_bytes"]), (&serde_json::json!([]), &0.into()));
        assert!(printed(&["pool", "verify", &name.0]).contains("sound"));
    }
}

/// As in a container whose `/proc/sys/kernel/random/boot_id` is another file, or cannot be read.
#[test]
fn another_boot_id_wipes_no_pool_that_is_in_use() {
    if !permitted() {
        return;
    }
    let disk = format!("{}/namespace-boot-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    for name in [PoolName::new("namespace-boot"), PoolName(disk)] {
        printed(&["pool", "create", &name.0, "--capacity", "16MiB"]);
        let server = Serving::start(&["--pool", &name.0]);
        let mut redis = server.connect();
        for key in 0..200u32 {
            let () = redis.set(key, key).unwrap();
        }
        let other = in_space(&Space::OtherBoot, &["pool", "info", &name.0]);
        let said = String::from_utf8_lossy(&other.stderr);
        assert!(!other.status.success() && said.contains("boot id"), "{other:?}");
        // What cannot be read says nothing; the pool goes on.
        let unknown = in_space(&Space::UnknownBoot, &["pool", "info", &name.0]);
        assert!(unknown.status.success(), "{unknown:?}");
        for key in 0..200u32 {
            assert_eq!(redis.get::<_, u32>(key).unwrap(), key);
        }
        let () = redis.set("more", 1).unwrap();
        drop(server);
        printed(&["pool", "repair", &name.0]);
        assert!(printed(&["pool", "verify", &name.0]).contains("sound"));
        assert!(printed(&["pool", "info", &name.0]).contains("objects            201"));
    }
}

/// Nothing but a restart of the host empties a tmpfs, so that another boot id there is no restart,
/// whether the pool is in use or not.
#[test]
fn another_boot_id_wipes_no_pool_of_shared_memory() {
    if !permitted() {
        return;
    }
    let name = pool("namespace-idle");
    let server = Serving::start(&["--pool", &name.0]);
    let () = server.connect().set("key", "value").unwrap();
    drop(server);
    let other = in_space(&Space::OtherBoot, &["pool", "info", &name.0]);
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && said.contains("boot id") && said.contains("tmpfs"), "{other:?}");
    assert!(in_space(&Space::UnknownBoot, &["pool", "repair", &name.0]).status.success());
    let shown = atoll(&["pool", "info", &name.0]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("objects            1"), "{shown:?}");
}
