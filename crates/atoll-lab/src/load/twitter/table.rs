//! The table of statistics of Twitter's 54 cache clusters (twitter/cache-trace, March 2020; Yang,
//! Yue and Rashmi, OSDI 2020).

use crate::LabError;
use crate::trace::{Operation, WHERE_TRACES_ARE};
use serde::Deserialize;
use std::path::Path;

/// The table's file in the folder of traces.
pub const FILE: &str = "twitter_2020Mar_stats.csv";

/// A row as it stands in the file; an empty field is one that the source does not have.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    cluster: u32,
    category: u32,
    key_size: Option<f64>,
    value_size: Option<f64>,
    rate_kqps: Option<f64>,
    mean_freq: Option<f64>,
    one_hit_wonder_pct: Option<f64>,
    compulsory_miss_pct: Option<f64>,
    ttl_mix_s: String,
    op_mix: String,
    zipf_alpha: Option<f64>,
}

/// What the table says of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its number.
    pub cluster: u32,
    /// `storage`, `computation` or `transient`.
    pub category: &'static str,
    /// Mean bytes of a key.
    pub key_bytes: f64,
    /// Mean bytes of a value, at least 1.
    pub value_bytes: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Requests per object.
    ///
    /// The table has it twice, as `mean_freq` with one digit after the point and as its inverse,
    /// `compulsory_miss_pct`, with two. Here it is from whichever is the more exact.
    pub frequency_mean: f64,
    /// The share of the objects that are asked for once.
    pub one_hit_wonders: f64,
    /// Zipf's exponent, fitted through all objects; `None` where the table has none.
    pub alpha: Option<f64>,
    /// Shares of the operations, summing to 1; what the table does not list is spread over what it
    /// lists.
    pub operations: Vec<(Operation, f64)>,
    /// Shares of the times to live in seconds, summing to 1; what the table does not list is spread
    /// over what it lists.
    pub ttls_s: Vec<(u32, f64)>,
}

/// Reads the table in `folder`. A cluster without statistics (5) has no row.
pub fn read(folder: &Path) -> Result<Vec<Row>, LabError> {
    let path = folder.join(FILE);
    let wrong = |what: String| LabError::Folder { path: path.clone(), what };
    let mut reader = csv::Reader::from_path(&path)
        .map_err(|error| wrong(format!("{error}; give --traces a folder that has this file: {WHERE_TRACES_ARE}")))?;
    let mut rows = Vec::new();
    for line in reader.deserialize() {
        let line: Line = line.map_err(|error| wrong(error.to_string()))?;
        let cluster = line.cluster;
        if line.key_size.is_some() {
            rows.push(row(line).ok_or_else(|| wrong(format!("the row of cluster {cluster} makes no sense")))?);
        }
    }
    Ok(rows)
}

fn row(line: Line) -> Option<Row> {
    let row = Row {
        cluster: line.cluster,
        category: ["storage", "computation", "transient"].get(line.category.checked_sub(1)? as usize)?,
        key_bytes: line.key_size?,
        value_bytes: line.value_size?,
        requests_per_s: line.rate_kqps? * 1000.0,
        frequency_mean: frequency(line.mean_freq?, line.compulsory_miss_pct?),
        one_hit_wonders: line.one_hit_wonder_pct? / 100.0,
        alpha: line.zipf_alpha,
        operations: shares(&line.op_mix, |name| Operation::named(name.as_bytes()))?,
        ttls_s: shares(&line.ttl_mix_s, |seconds| seconds.parse().ok())?,
    };
    let sound = row.key_bytes >= 1.0
        && (1.0..4e9).contains(&row.value_bytes)
        && row.requests_per_s > 0.0
        && row.frequency_mean >= 1.0
        && (0.0..=1.0).contains(&row.one_hit_wonders);
    sound.then_some(row)
}

/// The more exact of a mean frequency, known to 0.05, and its inverse in percent, known to 0.005.
fn frequency(mean: f64, inverse_pct: f64) -> f64 {
    if 0.005 / inverse_pct < 0.05 / mean { 100.0 / inverse_pct } else { mean }
}

/// The `value:share` items of `mix`, scaled to the sum 1.
fn shares<T>(mix: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<(T, f64)>> {
    let item = |item: &str| {
        let (value, share) = item.split_once(':')?;
        Some((parse(value)?, share.parse::<f64>().ok().filter(|share| *share >= 0.0)?))
    };
    let mut shares = mix.split_whitespace().map(item).collect::<Option<Vec<_>>>()?;
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    shares.iter_mut().for_each(|(_, share)| *share /= sum);
    (sum > 0.0).then_some(shares)
}
