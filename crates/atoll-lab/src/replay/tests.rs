//! What a replay counts.

use super::*;
use atoll_deployment::reference::PolicyName;
use std::io::Write;

fn replay(trace: &str, engine: EngineName, cache_objects: u64, clients: u32) -> Result<(Tally, f64), LabError> {
    let command = ReplayCommand {
        trace: trace.to_owned(),
        bound: BoundOptions { cache_objects: Some(cache_objects), cache_bytes: None },
        engine,
        clients,
        processes: 1,
        evict_ahead: false,
        seed: 1,
        json: false,
    };
    let settings = command.settings();
    Replay { settings: &settings }.run()
}

/// Requests, hits, misses and deletes of a CSV trace on an LRU of `cache_objects`.
fn counts(lines: &str, cache_objects: u64) -> [u64; 4] {
    let mut file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    let (tally, _) =
        replay(file.path().to_str().unwrap(), EngineName::Reference(PolicyName::Lru), cache_objects, 1).unwrap();
    [tally.count(Count::Requests), tally.count(Count::Hits), tally.count(Count::Misses), tally.count(Count::Deletes)]
}

/// A trace in lines, and what it counts: requests, hits, misses, deletes.
type Counted = (&'static str, [u64; 4]);

#[test]
fn requests_count_as_their_effects_say_and_expire_in_the_time_of_the_trace() {
    let all: [(&str, Counted); 6] = [
        ("a GET that misses is followed by a SET", ("0,a,1,1,1,get,0\n0,a,1,1,1,gets,0\n", [2, 1, 1, 0])),
        (
            "a SET is a look-up that hits when its key is resident",
            ("0,a,1,1,1,set,0\n0,a,1,1,1,set,0\n0,a,1,1,1,get,0\n", [3, 2, 1, 0]),
        ),
        (
            "so are SETs with a condition and increments",
            ("0,a,1,1,1,add,0\n0,a,1,1,1,add,0\n0,b,1,1,1,incr,0\n", [3, 1, 2, 0]),
        ),
        (
            "a DELETE is neither hit nor miss, and its key is gone",
            ("0,a,1,1,1,set,0\n0,a,1,1,1,delete,0\n0,a,1,1,1,get,0\n0,z,1,1,1,delete,0\n", [4, 0, 2, 2]),
        ),
        (
            "objects expire in the time of the trace",
            ("100,a,1,1,1,get,10\n109,a,1,1,1,get,10\n110,a,1,1,1,get,10\n", [3, 1, 2, 0]),
        ),
        (
            "the time of the trace never goes back",
            ("100,a,1,1,1,get,10\n200,b,1,1,1,get,0\n50,a,1,1,1,get,0\n", [3, 0, 3, 0]),
        ),
    ];
    for (promise, (lines, expected)) in all {
        assert_eq!(counts(lines, 2), expected, "{promise}");
    }
}

#[test]
fn the_number_of_clients_does_not_change_what_a_shared_cache_hits() {
    let [one, four] = [1, 4]
        .map(|clients| replay("zipf:2000,0.9,50000", EngineName::Reference(PolicyName::Lru), 200, clients).unwrap().0);
    assert_eq!(
        (one.count(Count::Hits), one.count(Count::Misses), one.count(Count::Evictions)),
        (four.count(Count::Hits), four.count(Count::Misses), four.count(Count::Evictions))
    );
    assert_eq!((one.count(Count::Requests), one.objects_max), (50_000, 200));
    assert_eq!(one.count(Count::Misses) - one.count(Count::Evictions), 200);
    assert_eq!((one.get.count(), one.set.count()), (50_000, one.count(Count::Misses)));
}

#[test]
fn sets_and_gets_of_a_published_trace_miss_as_the_oracle_says() {
    let Some(folder) = crate::fixtures::traces() else { return };
    let trace = folder.join("msn_fs.csv.zst");
    for point in crate::hit_ratio::oracle::read(&folder).unwrap().iter().filter(|point| point.trace == "msn_fs") {
        for (engine, algorithm) in
            [(EngineName::Reference(PolicyName::Lru), "LRU"), (EngineName::Reference(PolicyName::Fifo), "FIFO")]
        {
            let (tally, _) = replay(trace.to_str().unwrap(), engine, point.cache_objects, 2).unwrap();
            let miss_ratio = tally.count(Count::Misses) as f64 / tally.count(Count::Requests) as f64;
            assert!((miss_ratio - point.miss_ratio(algorithm).unwrap()).abs() <= 5.1e-7, "{algorithm} {point:?}");
            assert!(tally.objects_max <= point.cache_objects);
        }
    }
}

#[test]
fn the_report_has_exactly_the_published_keys() {
    let (tally, ops_per_s) = replay("zipf:100,1,1000", EngineName::Reference(PolicyName::Fifo), 10, 1).unwrap();
    let json = serde_json::to_value(ReplayReport::new(&tally, ops_per_s)).unwrap();
    let mut keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    let expected =
        "evictions get_ns_p50 get_ns_p99 hits miss_ratio misses objects_max ops_per_s requests set_ns_p50 set_ns_p99";
    assert_eq!(keys.join(" "), expected);
}
