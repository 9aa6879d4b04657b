//! `atoll doctor`.

use crate::binary::{Space, in_space, printed};

#[test]
fn a_host_that_runs_these_tests_has_what_is_needed() {
    let shown = printed(&["doctor"]);
    assert!(shown.lines().any(|line| line.starts_with("ok") && line.contains("a pool")), "{shown}");
    let shown: serde_json::Value = serde_json::from_str(&printed(&["doctor", "--json"])).unwrap();
    let checks = shown.as_array().unwrap();
    assert!(checks.len() >= 6 && checks.iter().all(|check| check["verdict"] != "bad"), "{shown}");
}

#[test]
fn a_container_with_little_shared_memory_is_told_so() {
    let space = Space::SmallShm;
    if !space.is_permitted() {
        eprintln!("SKIPPED: `unshare` is not permitted here: run as root, or allow user namespaces");
        return;
    }
    let output = in_space(&space, &["doctor"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success(), "{shown}");
    let line = shown.lines().find(|line| line.contains("shared memory")).unwrap();
    assert!(line.starts_with("bad") && line.contains("remount"), "{line}");
}
