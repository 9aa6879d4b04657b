//! Generated loads have the statistics of the table.

use super::*;
use crate::fixtures;
use crate::load::Statistics;

/// Rows whose exponent the generator does not reach together with their mean and one-hit wonders,
/// as it turned out. 31, 32, 35, 38 and 39 contradict themselves: an exponent of 0 is level, and
/// their many one-hit wonders alone make a slope. For 17 and 54 no law of this family was found
/// that is steep enough: they come to 1.92 of 2.11 and to 1.32 of 1.61.
const UNREACHED: [u32; 7] = [17, 31, 32, 35, 38, 39, 54];
/// An exponent of 0 (cluster 10) is met but for the few one-hit wonders.
const ZERO_OFF: f64 = 0.005;
const REQUESTS_TRIED: u64 = 400_000;

#[test]
fn generated_loads_have_the_statistics_of_the_table() {
    let Some(folder) = fixtures::traces() else { return };
    let rows = table::read(&folder).unwrap();
    assert_eq!(rows.len(), 53);
    for row in rows {
        let load = Twitter::like(row.clone(), REQUESTS_TRIED, 1);
        let statistics = Statistics::of(&load, |_| ());
        assert_like(&row, &load, &statistics);
    }
}

/// Whether `seen` is within `off` of `wanted`.
fn near(what: &str, cluster: u32, seen: f64, wanted: f64, off: f64) {
    assert!((seen - wanted).abs() <= off, "cluster {cluster}, {what}: {seen}, the table has {wanted}");
}

fn assert_like(row: &Row, load: &Twitter, statistics: &Statistics) {
    let (cluster, objects) = (row.cluster, statistics.objects as f64);
    // Exact by construction, but for the rounding to whole objects and what the table itself rounds
    // away.
    near("mean frequency", cluster, statistics.frequency_mean / row.frequency_mean, 1.0, 1.0 / objects);
    near("one-hit wonders", cluster, statistics.one_hit_wonders, row.one_hit_wonders, 0.001 + 1.0 / objects);
    // Five standard deviations of the draws, one for each request.
    for (operation, wanted) in &row.operations {
        let seen = statistics.operations.get(operation.name()).copied().unwrap_or(0.0);
        let deviation = (wanted * (1.0 - wanted) / REQUESTS_TRIED as f64).sqrt();
        near(operation.name(), cluster, seen, *wanted, 5.0 * deviation + 1e-9);
    }
    assert_eq!(statistics.operations.len(), row.operations.len());
    // Evenly spread over the objects: off by a few objects at most.
    for (ttl_s, seen) in &statistics.ttl_s {
        let wanted: f64 = row.ttls_s.iter().filter(|(listed, _)| listed == ttl_s).map(|(_, share)| share).sum();
        near("time to live", cluster, *seen, wanted, 5.0 / objects);
    }
    near("key bytes", cluster, statistics.key_bytes.of_requests, row.key_bytes, 1e-9);
    near("key bytes", cluster, statistics.key_bytes.of_objects, row.key_bytes, 1e-9);
    // Lengths of a few hundred objects are few draws from a wide law, though even ones.
    let off = row.value_bytes * (0.01 + 5.0 / objects);
    near("value bytes of requests", cluster, statistics.value_bytes.of_requests, row.value_bytes, off);
    near("value bytes of objects", cluster, statistics.value_bytes.of_objects, row.value_bytes, off);
    // What is foreseen leaves out the chance in the hottest objects' frequencies, which counts most
    // where objects are few.
    near("foreseen exponent", cluster, statistics.zipf.unwrap().alpha, load.population.alpha().unwrap(), 0.02);
    assert_skew(row, load);
}

/// The table's exponent is met to four digits, but for rows where it cannot be reached.
fn assert_skew(row: &Row, load: &Twitter) {
    match row.alpha {
        Some(alpha) if !UNREACHED.contains(&row.cluster) => {
            near(
                "exponent",
                row.cluster,
                load.population.alpha().unwrap(),
                alpha,
                1e-4 + ZERO_OFF * f64::from(alpha == 0.0),
            );
        }
        _ => {}
    }
}

#[test]
fn the_skew_does_not_depend_on_the_length_of_the_load() {
    let Some(folder) = fixtures::traces() else { return };
    for row in table::read(&folder).unwrap() {
        for requests in [1_000_000, 100_000_000] {
            assert_skew(&row, &Twitter::like(row.clone(), requests, 1));
        }
    }
}

#[test]
fn the_two_forms_of_the_mean_frequency_in_the_table_agree() {
    let Some(folder) = fixtures::traces() else { return };
    let mut reader = csv::Reader::from_path(folder.join(table::FILE)).unwrap();
    for record in reader.records() {
        let record = record.unwrap();
        let (Ok(mean), Ok(inverse_pct)) = (record[6].parse::<f64>(), record[8].parse::<f64>()) else { continue };
        let row = table::read(&folder).unwrap().into_iter().find(|row| row.cluster.to_string() == record[0]).unwrap();
        // Both are rounded, and the row has one of them.
        let inverse_off = 0.0051 + 100.0 * 0.05 / (mean * mean);
        let mean_off = 0.051 + 100.0 * 0.005 / (inverse_pct * inverse_pct);
        assert!((row.frequency_mean - mean).abs() <= mean_off, "{row:?}");
        assert!((100.0 / row.frequency_mean - inverse_pct).abs() <= inverse_off, "{row:?}");
    }
}

#[test]
fn a_cluster_without_statistics_is_refused() {
    let Some(folder) = fixtures::traces() else { return };
    for name in ["twitter-5", "twitter-55", "twitter-x"] {
        let error = LoadOptions { traces: Some(folder.clone()), ..LoadOptions::named(name) }.open().err().unwrap();
        assert!(error.to_string().contains("1 to 54 without 5"), "{error}");
    }
}
