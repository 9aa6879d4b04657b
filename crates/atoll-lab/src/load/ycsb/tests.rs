//! Mixes of operations, and keys that follow the exact distributions.

use super::*;
use std::collections::{BTreeMap, HashMap, HashSet};

fn load(name: &str, keys: u64, theta: f64, requests: u64) -> Box<dyn Load> {
    LoadOptions { keys, theta, requests: Some(requests), ..LoadOptions::named(name) }.open().unwrap()
}

/// Whether `seen` of `of` draws with chance `chance` lie within five standard deviations: a wrong
/// alarm in two million.
fn plausible(seen: u64, of: u64, chance: f64) -> bool {
    let mean = of as f64 * chance;
    (seen as f64 - mean).abs() <= 5.0 * (mean * (1.0 - chance)).sqrt() + 1.0
}

#[test]
fn operations_come_in_the_shares_of_the_papers() {
    const REQUESTS: u64 = 200_000;
    let shares: [(&str, &[(&str, f64)]); 6] = [
        ("ycsb-a", &[("get", 0.5), ("set", 0.5)]),
        ("ycsb-b", &[("get", 0.95), ("set", 0.05)]),
        ("ycsb-c", &[("get", 1.0)]),
        ("ycsb-d", &[("get", 0.95), ("insert", 0.05)]),
        ("ycsb-e", &[("scan", 0.95), ("insert", 0.05)]),
        ("ycsb-f", &[("get", 0.5), ("read-modify-write", 0.5)]),
    ];
    for (name, expected) in shares {
        let load = load(name, 10_000, 0.99, REQUESTS);
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        for client in 0..4 {
            load.stream(client, 4).for_each(|request| *seen.entry(request.kind.name()).or_default() += 1);
        }
        assert_eq!(seen.len(), expected.len(), "{name}: {seen:?}");
        for (kind, share) in expected {
            assert!(plausible(seen[kind], REQUESTS, *share), "{name}: {seen:?}");
        }
    }
}

/// The sum of r^-theta for ranks `from` to `to`, by the Euler-Maclaurin formula where ranks are
/// many.
fn weight(from: u64, to: u64, theta: f64) -> f64 {
    if to - from < 10_000 {
        return (from..=to).map(|rank| (rank as f64).powf(-theta)).sum();
    }
    if from < 1000 {
        return weight(from, 999, theta) + weight(1000, to, theta);
    }
    let (a, b) = (from as f64, to as f64);
    let primitive = |x: f64| if theta == 1.0 { x.ln() } else { x.powf(1.0 - theta) / (1.0 - theta) };
    let (at_a, at_b) = (a.powf(-theta), b.powf(-theta));
    primitive(b) - primitive(a) + (at_a + at_b) / 2.0 + theta / 12.0 * (at_a / a - at_b / b)
}

/// Ranks 1 to 16 alone, then parts that grow by a quarter.
fn parts(ranks: u64) -> Vec<(u64, u64)> {
    let (mut parts, mut from) = (Vec::new(), 1);
    while from <= ranks {
        let to = if from <= 16 { from } else { from + from / 4 }.min(ranks);
        parts.push((from, to));
        from = to + 1;
    }
    parts
}

#[test]
fn ranks_are_exact_at_the_key_counts_of_the_papers() {
    const DRAWS: u64 = 1_000_000;
    for keys in [1_000_000, KEYS, 24_000_000, 2_000_000_000] {
        for theta in [0.5, 0.99, 1.0, 1.2] {
            let ranks = ZipfRanks::new(keys, theta);
            let mut random = Random::new(keys ^ 5);
            let parts = parts(keys);
            let mut seen = vec![0_u64; parts.len()];
            for _ in 0..DRAWS {
                let rank = ranks.sample(&mut random);
                seen[parts.partition_point(|(_, to)| *to < rank)] += 1;
            }
            let total = weight(1, keys, theta);
            let (mut statistic, mut cells, mut expected, mut count) = (0.0, 0.0, 0.0, 0);
            for ((from, to), seen) in parts.iter().zip(&seen) {
                expected += DRAWS as f64 * weight(*from, *to, theta) / total;
                count += seen;
                if expected >= 20.0 {
                    let distance = count as f64 - expected;
                    statistic += distance * distance / expected;
                    (cells, expected, count) = (cells + 1.0, 0.0, 0);
                }
            }
            // Four standard deviations of the chi-square distribution above its mean.
            let freedom: f64 = cells - 1.0;
            let most = freedom + 4.0 * (2.0 * freedom).sqrt() + 4.0;
            assert!(statistic <= most, "{keys} keys, theta {theta}: {statistic} of {freedom}");
        }
    }
}

#[test]
fn keys_of_a_stream_follow_the_exact_probabilities_of_their_ranks() {
    const REQUESTS: u64 = 400_000;
    let load = load("ycsb-c", KEYS, THETA, REQUESTS);
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for client in 0..8 {
        load.stream(client, 8).for_each(|request| *counts.entry(request.key).or_default() += 1);
    }
    let scramble = Permutation::new(KEYS, 1);
    let total = weight(1, KEYS, THETA);
    for rank in 1..=200 {
        let seen = counts.get(&scramble.apply(rank - 1)).copied().unwrap_or(0);
        assert!(plausible(seen, REQUESTS, (rank as f64).powf(-THETA) / total), "rank {rank}: {seen}");
    }
    assert!(counts.keys().all(|key| *key < KEYS));
}

#[test]
fn the_latest_keys_are_the_hottest_and_the_window_moves_with_the_inserts() {
    const REQUESTS: u64 = 200_000;
    let load = load("ycsb-d", 1000, THETA, REQUESTS);
    let (mut newest, mut gets, mut hottest, mut chance) = (999, 0, 0, 0.0);
    let mut total = weight(1, 1000, THETA);
    for request in load.stream(0, 1) {
        match request.kind {
            Kind::Insert => {
                assert_eq!(request.key, newest + 1);
                newest = request.key;
                total += ((newest + 1) as f64).powf(-THETA);
            }
            _ => {
                assert!(request.key <= newest);
                gets += 1;
                hottest += u64::from(request.key == newest);
                chance += 1.0 / total;
            }
        }
    }
    assert!(newest > 10_000);
    assert!(plausible(hottest, gets, chance / gets as f64), "{hottest} of {gets}, expected {chance}");
}

#[test]
fn inserted_keys_of_all_clients_are_new_and_without_gaps_but_at_the_end() {
    for name in ["ycsb-d", "ycsb-e"] {
        let load = load(name, 500, THETA, 40_000);
        let mut inserted = HashSet::new();
        for client in 0..3 {
            let (mut own, mut number) = (500, client);
            for request in load.stream(client, 3) {
                if request.kind == Kind::Insert {
                    assert_eq!(request.key, 500 + number);
                    assert!(inserted.insert(request.key));
                    (number, own) = (number + 3, own + 3);
                } else {
                    assert!(request.key + u64::from(request.keys) <= own, "{name}: a key that nobody has inserted");
                }
            }
        }
        assert!(inserted.len() > 1500);
    }
}

#[test]
fn scans_are_of_one_to_a_hundred_keys_and_end_with_the_last_key() {
    let load = load("ycsb-e", 100_000, THETA, 100_000);
    let mut lengths = [0_u64; 101];
    load.stream(0, 1).filter(|request| request.kind == Kind::Scan).for_each(|scan| lengths[scan.keys as usize] += 1);
    let scans: u64 = lengths.iter().sum();
    assert_eq!(lengths[0], 0);
    assert!((1..=100).all(|length| plausible(lengths[length], scans, 0.01) || length < 3), "{lengths:?}");
}

#[test]
fn a_seed_gives_the_same_digits_on_every_machine() {
    // Drawn once on x86-64 Linux. On a machine with another number, results are not repeatable.
    let digest = |name: &str, theta| {
        let load = load(name, KEYS, theta, 20_000);
        load.stream(1, 2).fold(0, |sum, request| mix(sum ^ request.key ^ u64::from(request.keys) << 48))
    };
    assert_eq!(
        [digest("ycsb-c", 0.99), digest("ycsb-d", 1.3), digest("ycsb-e", 0.99)],
        [14_645_975_310_643_212_055, 13_512_567_058_663_881_342, 6_785_182_582_530_794_312]
    );
}
