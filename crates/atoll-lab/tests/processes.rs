//! Experiments of several processes, with a binary that they start again.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The example `lab`, which is built with the tests.
fn lab(arguments: &[&str]) -> Output {
    let test = std::env::current_exe().unwrap();
    let target: PathBuf = test.parent().and_then(|deps| deps.parent()).unwrap().into();
    Command::new(target.join("examples").join("lab")).args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = lab(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn processes_share_the_requests_and_the_cache_and_keep_its_bound() {
    let load = ["replay", "zipf:5000,0.9,60000", "--cache-objects", "500", "--json"];
    let one = json(&load);
    let many = json(&[&load[..], &["--processes", "3", "--clients", "2"]].concat());
    for report in [&one, &many] {
        assert_eq!(report["requests"], 60_000);
        assert_eq!(report["hits"].as_u64().unwrap() + report["misses"].as_u64().unwrap(), 60_000);
        assert!(report["objects_max"].as_u64().unwrap() <= 500, "{report}");
    }
    // Processes that did not share would each miss every key that they ask for.
    let [one, many] = [&one, &many].map(|report| report["miss_ratio"].as_f64().unwrap());
    assert!((one - many).abs() < 0.1, "{one} {many}");
}

#[test]
fn a_cache_bounded_in_bytes_takes_the_sizes_of_the_trace() {
    let report = json(&["replay", "zipf:100000,0.9,60000", "--cache-bytes", "4000000", "--json"]);
    let objects_max = report["objects_max"].as_u64().unwrap();
    assert!((1000..4_000_000 / 264).contains(&objects_max), "{report}");
    assert!(report["evictions"].as_u64().unwrap() > 0);
}

#[test]
fn the_failure_of_a_process_is_told() {
    let output = lab(&["replay", "zipf:100,1,100", "--cache-objects", "10", "--processes", "2", "--engine", "lru"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("references and sampled policies live in one process"));
    let output = lab(&["lab", "process", "nonsense"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("for the lab itself"));
}

#[test]
fn micro_measures_processes_that_did_not_make_the_cache() {
    let report = json(&["lab", "micro", "--objects", "2000", "--seconds", "0.02", "--rounds", "1", "--json"]);
    let forge = &report["rows"][0];
    assert_eq!(forge["name"], "forge");
    assert!(forge["hit_ratio"].as_f64().unwrap() > 0.99, "{forge}");
    for figure in
        ["get_zipf_ns_p50", "get_uniform_ns_p50", "set_new_ns_p50", "set_overwrite_ns_p50", "set_evicting_ns_p50"]
    {
        assert!(forge[figure].as_f64().unwrap() > 0.0, "{forge}");
    }
    assert!(report["two_over_one_relative"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_the_steps_of_a_protocol_cost_is_measured() {
    let costs = json(&["lab", "costs", "--rounds", "3", "--json"]);
    assert!(costs["hash_ps"].as_u64().unwrap() > 0, "{costs}");
}
