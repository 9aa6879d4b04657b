//! `atoll top`, over a server and over a pool.

use crate::binary::{PoolName, Serving, printed, refused};
use redis::Commands;
use std::process::Command;

#[test]
fn a_look_at_a_server_has_its_rates_and_its_slowest_commands() {
    let server = Serving::start(&["--capacity", "16MiB"]);
    let mut redis = server.connect();
    let () = redis.set("k", "v").unwrap();
    let target = format!("127.0.0.1:{}", server.port);
    let look = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        command.args(["top", &target, "--once", "--interval", "2.5"]).args(more);
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let (text, json) = (look(&[]), look(&["--json"]));
    // Counters are published once a second.
    for _ in 0..80 {
        for _ in 0..50 {
            assert_eq!(redis.get::<_, String>("k").unwrap(), "v");
        }
        assert_eq!(redis.get::<_, Option<String>>("absent").unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(40));
    }
    let text = String::from_utf8(text.wait_with_output().unwrap().stdout).unwrap();
    for part in ["engine forge", "lookups a second", "of 16.0 MiB in use", "1 objects", "get  ", "0 absent"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains('\x1b'), "no terminal reads it");
    let json = String::from_utf8(json.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(json.lines().count(), 1);
    let look: serde_json::Value = serde_json::from_str(&json).unwrap();
    let number = |name: &str| look[name].as_f64().unwrap_or_else(|| panic!("{name} in {look}"));
    assert!(number("commands_per_s") > 10.0 && number("lookups_per_s") > 10.0, "{look}");
    assert!((90.0..100.0).contains(&number("hit_percent")), "{look}");
    assert!(number("used_bytes") > 0.0 && number("clients") >= 1.0, "{look}");
    assert!(look["commands"].as_array().unwrap().iter().any(|command| command["name"] == "get"), "{look}");
}

#[test]
fn a_look_at_a_pool_has_its_memory_and_its_clients() {
    let name = PoolName::new("top");
    printed(&["pool", "create", &name.0, "--capacity", "16MiB"]);
    let _server = Serving::start(&["--pool", &name.0]);
    let text = printed(&["top", &name.0, "--once"]);
    assert!(text.contains("of 16.0 MiB in use") && text.contains("clients     1: 1 running"), "{text}");
    let look: serde_json::Value = serde_json::from_str(&printed(&["top", &name.0, "--once", "--json"])).unwrap();
    assert_eq!((&look["clients"], &look["nodes"][0]["absent"]), (&1.into(), &false.into()), "{look}");
}

#[test]
fn what_is_no_server_or_asks_for_a_password_says_so() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(refused(&["top", &format!("127.0.0.1:{port}"), "--once"]).contains("is a server there?"));
    assert!(refused(&["top", "somewhere", "--once"]).contains("neither HOST:PORT"));
    assert!(refused(&["top", "shm:/atoll-top-none", "--once"]).contains("atoll-top-none"));
    let server = Serving::start(&["--capacity", "16MiB", "--user", "ana on >right ~* +@all", "--user", "default off"]);
    let target = format!("127.0.0.1:{}", server.port);
    assert!(refused(&["top", &target, "--once"]).contains("--password-file"));
    let file = std::env::temp_dir().join(format!("atoll-top-{}", std::process::id()));
    std::fs::write(&file, "right\n").unwrap();
    let with =
        ["top", &target, "--once", "--interval", "0.1", "--user", "ana", "--password-file", file.to_str().unwrap()];
    assert!(printed(&with).contains("hit ratio   no lookup"));
    std::fs::remove_file(&file).unwrap();
}
