//! The pool's clock on one host, between processes whose own clocks differ.

use crate::binary::{PoolName, printed};
use atoll::{Expiry, Pool, SetOptions};
use std::process::Command;

/// The number behind a name that `pool info` prints.
fn shown(info: &str, name: &str) -> i64 {
    let line = info.lines().find(|line| line.trim_start().starts_with(name)).expect("it prints the clock");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn pool_info_tells_the_pools_time_and_how_far_the_wall_clock_is_from_it() {
    let name = PoolName::new("clock");
    printed(&["pool", "create", &name.0, "--capacity", "4MiB"]);
    let before = shown(&printed(&["pool", "info", &name.0]), "clock_ms");
    let info = printed(&["pool", "info", &name.0]);
    assert!(shown(&info, "clock_ms") >= before, "{info}");
    assert!(shown(&info, "wall_ahead_ms").abs() < 1000 && !info.contains("refused"), "{info}");
}

#[test]
fn a_process_whose_kernel_clock_is_an_hour_ahead_expires_nothing() {
    let name = PoolName::new("namespaces");
    printed(&["pool", "create", &name.0, "--capacity", "4MiB"]);
    let mut cache = Pool::open(&name.0).unwrap().client().unwrap();
    let minute = SetOptions { expiry: Expiry::InMs(60_000), ..SetOptions::default() };
    cache.set_with(b"key", b"value", &minute).unwrap();
    let shifted = |args: &[&str]| {
        let unshare = ["--time", "--boottime", "3600", "--monotonic", "3600", "--fork"];
        Command::new("unshare").args(unshare).args(args).output().expect("unshare is installed")
    };
    if !shifted(&["true"]).status.success() {
        return eprintln!("SKIPPED: this user may not make time namespaces");
    }
    let output = shifted(&[env!("CARGO_BIN_EXE_atoll"), "pool", "info", &name.0]);
    let info = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown(&info, "wall_ahead_ms").abs() < 30_000, "{info}");
    assert!(cache.get(b"key").unwrap().is_some(), "it has a minute to live: {info}");
}
