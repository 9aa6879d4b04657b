//! The policies against the published oracle.

use super::PolicyName;
use crate::fixtures;
use crate::hit_ratio::{decode, oracle};
use std::collections::HashMap;

/// Traces that a test can afford, real and synthetic.
const TRACES: [&str; 10] = [
    "lirs_cpp",
    "lirs_loop",
    "lirs_multi3",
    "lirs_sprite",
    "cache2k_web12",
    "cloudphysics_io",
    "corda_vault",
    "cpu_gcc",
    "lmcache_agents",
    "semicomplete_web",
];

fn misses(policy: PolicyName, objects_max: u64, keys: &[u64]) -> u64 {
    let mut policy = policy.make(objects_max as usize);
    let mut misses = 0;
    for key in keys {
        if policy.contains(key) {
            policy.touch(key);
        } else {
            misses += 1;
            policy.insert(*key, 1);
            assert!(policy.resident() as u64 <= objects_max);
        }
    }
    misses
}

/// Calls `check(miss ratio of ours, miss ratio of the oracle, place)` for every point.
fn against_oracle(policy: PolicyName, algorithm: &str, objects_min: u64, check: impl Fn(f64, f64, &str)) {
    let Some(folder) = fixtures::traces() else { return };
    let mut traces = HashMap::new();
    for point in oracle::read(&folder).unwrap() {
        if !TRACES.contains(&&*point.trace) || point.cache_objects < objects_min {
            continue;
        }
        let path = folder.join(format!("{}.oracleGeneral.zst", point.trace));
        let keys = traces.entry(point.trace.clone()).or_insert_with(|| decode(&path).unwrap());
        let ours = misses(policy, point.cache_objects, keys) as f64 / keys.len() as f64;
        let place = format!("{algorithm} on {} at {} %", point.trace, point.size_pct);
        check(ours, point.miss_ratio(algorithm).unwrap(), &place);
    }
}

#[test]
fn fifo_and_lru_agree_with_the_oracle_to_the_last_miss() {
    // The oracle gives six digits, and no trace here has a million requests: less than half a miss is lost.
    let exact =
        |ours: f64, oracle: f64, place: &str| assert!((ours - oracle).abs() <= 5.1e-7, "{place}: {ours}, {oracle}");
    against_oracle(PolicyName::Fifo, "FIFO", 1, exact);
    against_oracle(PolicyName::Lru, "LRU", 1, exact);
}

#[test]
fn s3_fifo_agrees_with_the_oracle_but_for_details() {
    let close =
        |ours: f64, oracle: f64, place: &str| assert!((ours - oracle).abs() <= 0.0005, "{place}: {ours}, {oracle}");
    against_oracle(PolicyName::S3Fifo, "S3-FIFO", 20, close);
}

#[test]
fn a_removed_key_makes_room_and_comes_back_as_new() {
    for name in [PolicyName::Fifo, PolicyName::Lru, PolicyName::S3Fifo] {
        let mut policy = name.make(10);
        (0..10).for_each(|key| assert_eq!(policy.insert(key, 1), None));
        policy.remove(&3);
        policy.remove(&99);
        assert!(!policy.contains(&3) && policy.resident() == 9, "{name:?}");
        assert_eq!(policy.insert(3, 1), None);
        assert!(policy.insert(11, 1).is_some() && policy.resident() == 10, "{name:?}");
    }
}
