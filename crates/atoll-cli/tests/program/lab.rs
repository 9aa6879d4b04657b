//! The lab's commands that are of the simulated network, as a user types them.

use crate::binary::{printed, refused};
use crate::tcp::{Node, until};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

#[test]
fn the_simulated_networks_are_held_against_the_papers() {
    let report = json(&["lab", "validate", "--json"]);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() >= 25, "{report}");
    for row in rows {
        let (model, ratio) = (row["model"].as_f64().unwrap(), row["ratio"].as_f64().unwrap());
        let nearest = model.clamp(row["paper"].as_f64().unwrap(), row["paper_max"].as_f64().unwrap());
        assert!((model / nearest - ratio).abs() < 1e-9, "{row}");
    }
}

#[test]
fn experiments_are_listed_and_one_that_is_not_there_is_refused() {
    let listed = json(&["lab", "list", "--json"]);
    assert!(listed.as_array().unwrap().iter().any(|each| each["name"] == "forge-fig13"), "{listed}");
    assert!(refused(&["lab", "run", "forge-fig99"]).contains("atoll lab list"));
    // Before it runs: that may take long.
    let said = refused(&["lab", "run", "forge-fig13", "--out", "/dev/null"]);
    assert!(said.contains("choose another --out"), "{said}");
}

/// A pool that is there is never touched.
#[test]
fn a_memory_node_is_measured_and_the_written_profile_can_be_simulated() {
    let node = Node::start("127.0.0.1:0", &[]);
    let pool = node.pool();
    let path = std::env::temp_dir().join(format!("atoll-network-{}.toml", std::process::id()));
    let file = path.display().to_string();
    let few = ["--clients", "1,2", "--outstanding", "1,4", "--seconds", "0.3", "-o", &file, "--json"];
    let measure = [&["lab", "measure-network", &pool][..], &few].concat();
    let report = json(&measure);
    assert_eq!(report["base"], "tcp-25g");
    assert!(report["rates"].as_array().unwrap().iter().all(|rate| rate["mops"].as_f64().unwrap() > 0.0), "{report}");
    let sweep = ["--keys", "2000", "--requests", "4000", "--threads", "2", "--cache", "50", "--json"];
    let swept = json(&[&["lab", "sweep", "--profile", &file][..], &sweep].concat());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(swept["run"]["profiles"][0], "measured");
    printed(&["pool", "create", &pool]);
    assert!(refused(&measure).contains("has a region"));
}

/// Ctrl-c at a terminal reaches all processes of the group.
#[test]
fn a_micro_bench_that_is_interrupted_leaves_nothing() {
    let group = Command::new(env!("CARGO_BIN_EXE_atoll"))
        .args(["lab", "micro", "--objects", "10000", "--seconds", "60"])
        .process_group(0)
        .stderr(Stdio::piped())
        .spawn();
    let child = group.unwrap();
    let id = child.id();
    let region = format!("/dev/shm/atoll.atoll-micro-{id}-large");
    until("its cache is there", || std::fs::exists(&region).unwrap());
    // The process that measures begins a moment later.
    std::thread::sleep(Duration::from_secs(1));
    let group = rustix::process::Pid::from_raw(id as i32).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("interrupted"), "{said}");
    assert!(!std::fs::exists(&region).unwrap());
    let socket = std::env::temp_dir().join(format!("atoll-micro-{id}.sock"));
    assert!(!socket.exists(), "{socket:?}");
}
