//! Loads like those of Twitter's cache clusters, generated from the table of their statistics
//! ([`table`]).
//!
//! | statistic | how it comes about |
//! |---|---|
//! | mean frequency, one-hit wonders | exactly, by construction ([`population`]); of one that contradicts the other by rounding, the mean frequency wins |
//! | Zipf's exponent | a law of the excess over the two above is solved for, whose fit has the exponent; where none has (clusters 17, 54), they win |
//! | operations | drawn anew for each request, in the table's shares |
//! | times to live | one for each object, in the table's shares of the objects |
//! | key size | the mean, for every key |
//! | value size | one for each object; the hottest objects have the mean, the others follow the geometric distribution with that mean, which of all laws of lengths assumes least |
//! | rate | requests come at equal distances |
//!
//! The statistics hold for the whole load, however many requests it has: a shorter one has fewer
//! objects, not less frequent ones.
//!
//! The table has no correlations, and neither has the load. The order of requests is random, while
//! real objects have their requests within a short time. An object's operations do not depend on
//! each other, while a real transient object is set, then read. Sizes, times to live and
//! frequencies are independent.
//!
//! An exponent of 0 in the table (clusters 10, 31, 32, 35, 38, 39) is taken literally: the requests
//! of repeated objects above two are spread evenly. In all of these but 10 the one-hit wonders
//! alone give the fitted line a slope, and the row contradicts itself. A missing exponent (43, 46)
//! is taken as Zipf's own, 1.

pub mod population;
pub mod table;

use super::permutation::Permutation;
use super::{Kind, Load, LoadOptions, REQUESTS, Request, Stream, share};
use crate::LabError;
use atoll_deployment::random::{Random, mix};
use population::{Population, Wanted};
use std::path::Path;
use std::sync::Arc;
use table::Row;

/// The hottest objects, whose values have the mean length: the length of one of them would else
/// decide the mean over requests.
const HOTTEST: u64 = 64;
/// Numbers multiplied by these, the golden ratio's and the square root of 2's fractions of 2^64,
/// fill the words evenly: any run of objects has the shares that all have.
const EVEN: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x6a09_e667_f3bc_c909];

/// The clusters' names, with what they are.
pub(super) fn names(folder: &Path) -> Result<Vec<(String, String)>, LabError> {
    if !folder.join(table::FILE).exists() {
        return Ok(Vec::new());
    }
    let name = |row: Row| {
        let what = format!("like Twitter's cluster {}, {}", row.cluster, row.category);
        (format!("twitter-{}", row.cluster), what)
    };
    Ok(table::read(folder)?.into_iter().map(name).collect())
}

/// A load like a cluster's.
#[derive(Clone, Debug)]
pub struct Twitter {
    row: Arc<Row>,
    population: Population,
    order: Permutation,
    seed: u64,
}

impl Twitter {
    /// The load of the cluster of that number.
    pub(super) fn of(cluster: &str, options: &LoadOptions) -> Result<Self, LabError> {
        let folder = options.traces.as_deref().ok_or_else(|| {
            LabError::Options(format!("twitter-{cluster} needs --traces with a folder that has {}", table::FILE))
        })?;
        let rows = table::read(folder)?;
        let row = rows.into_iter().find(|row| Ok(row.cluster) == cluster.parse()).ok_or_else(|| {
            LabError::Options(format!("the table has no statistics of cluster {cluster}: there are 1 to 54 without 5"))
        })?;
        Ok(Self::like(row, options.requests.unwrap_or(REQUESTS), options.seed))
    }

    /// A load of this many requests with the statistics of `row`.
    pub fn like(row: Row, requests: u64, seed: u64) -> Self {
        let wanted = Wanted {
            requests,
            frequency_mean: row.frequency_mean,
            one_hit_wonders: row.one_hit_wonders,
            alpha: row.alpha,
        };
        let population = Population::new(&wanted, seed);
        let order = Permutation::new(population.requests(), seed);
        Self { row: Arc::new(row), population, order, seed }
    }

    /// The objects.
    pub fn population(&self) -> &Population {
        &self.population
    }

    fn request(&self, number: u64) -> Request {
        let object = self.population.object(self.order.apply(number));
        let operation = pick(&self.row.operations, Random::new(mix(!self.seed ^ number)).unit());
        Request {
            key: object,
            time_ns: (number as f64 / self.row.requests_per_s * 1e9) as u64,
            key_bytes: self.row.key_bytes.round() as u32,
            value_bytes: value_bytes(self.row.value_bytes, object),
            ttl_s: pick(&self.row.ttls_s, even(object, 0)),
            keys: 1,
            kind: Kind::Plain(operation),
        }
    }
}

/// A number in [0, 1) that objects have evenly.
fn even(object: u64, which: usize) -> f64 {
    ((object + 1).wrapping_mul(EVEN[which]) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The value at `unit` of the shares laid side by side.
fn pick<T: Copy>(shares: &[(T, f64)], unit: f64) -> T {
    let mut upto = 0.0;
    let found = shares.iter().find(|(_, share)| {
        upto += share;
        unit < upto
    });
    found.or(shares.last()).expect("a row has shares").0
}

fn value_bytes(mean: f64, object: u64) -> u32 {
    if object < HOTTEST {
        return mean.round() as u32;
    }
    if mean <= 1.0 {
        return 1;
    }
    // The geometric distribution from 1 on, by inversion.
    let chance_none = libm::log1p(-1.0 / mean);
    let longer = libm::log(1.0 - even(object, 1)) / chance_none;
    1 + longer as u32
}

impl Load for Twitter {
    fn what(&self) -> String {
        let Row { cluster, category, .. } = &*self.row;
        format!("like Twitter's cluster {cluster} ({category}), {} objects", self.population.objects())
    }

    fn requests(&self) -> u64 {
        self.population.requests()
    }

    fn preload(&self, client: u64, clients: u64) -> Stream {
        assert!(client < clients);
        Box::new(std::iter::empty())
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        let load = self.clone();
        let steps = share(self.requests(), client, clients);
        Box::new((0..steps).map(move |step| load.request(client + step * clients)))
    }
}

#[cfg(test)]
mod tests;
