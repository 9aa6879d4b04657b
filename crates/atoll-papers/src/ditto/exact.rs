//! Hit ratios of the exact LRU and LFU on a sequence of keys, as the paper's section 3.2 simulates
//! them on one machine.

use crate::bench::Options;
use crate::bench::measured::run_all;
use atoll_deployment::reference::PolicyName;
use atoll_lab::LabError;
use atoll_lab::hit_ratio::oracle;
use atoll_lab::load::{Load, LoadOptions};
use rapidhash::RapidHashSet;

/// The policies that are compared.
pub(super) const POLICIES: [PolicyName; 2] = [PolicyName::Lru, PolicyName::Lfu];

/// A trace: its name, the keys of its requests, and how many different ones there are.
pub(super) struct Keys {
    pub(super) name: String,
    pub(super) keys: Vec<u64>,
    pub(super) objects: usize,
}

impl Keys {
    /// The keys of all requests of a load.
    pub(super) fn of(name: &str, load: &dyn Load) -> Self {
        let keys: Vec<u64> = load.stream(0, 1).map(|request| request.key).collect();
        let objects = keys.iter().collect::<RapidHashSet<_>>().len();
        Self { name: name.to_owned(), keys, objects }
    }

    /// Objects of a cache of so many percent.
    pub(super) fn percent(&self, percent: usize) -> usize {
        (self.objects * percent / 100).max(1)
    }
}

/// All real traces, of at most so many requests.
pub(super) fn real_traces(requests_max: u64, options: &Options) -> Result<Vec<Keys>, LabError> {
    let mut names: Vec<String> =
        oracle::read(&options.traces)?.into_iter().filter(|point| point.real).map(|point| point.trace).collect();
    names.dedup();
    names.truncate(options.scaled(names.len(), 3));
    let open = |name: &String| -> Result<Keys, LabError> {
        let traces = Some(options.traces.clone());
        let load = LoadOptions { traces, requests: Some(requests_max), ..LoadOptions::named(name) }.open()?;
        Ok(Keys::of(name, &*load))
    };
    names.iter().map(open).collect()
}

/// Percent of the requests that hit in a cache of so many objects.
pub(super) fn hit_percent(policy: PolicyName, objects_max: usize, keys: impl Iterator<Item = u64>) -> f64 {
    let mut cache = policy.make::<u64>(objects_max.max(1));
    let (mut hits, mut requests) = (0_u64, 0_u64);
    for key in keys {
        requests += 1;
        if cache.contains(&key) {
            hits += 1;
            cache.touch(&key);
        } else {
            cache.insert(key, 1);
        }
    }
    hits as f64 * 100.0 / requests.max(1) as f64
}

/// The requests as so many clients make them at a time. Each makes a part of the trace of its own,
/// and all make one request after the other in turn.
pub(super) fn concurrent(keys: &[u64], clients: usize) -> impl Iterator<Item = u64> + '_ {
    let share = keys.len().div_ceil(clients).max(1);
    (0..share).flat_map(move |step| {
        (0..clients).filter_map(move |client| {
            let at = client * share + step;
            (at < keys.len().min((client + 1) * share)).then(|| keys[at])
        })
    })
}

/// The hit ratios of both policies on each trace, for each of these values.
pub(super) fn by<V: Copy + Sync>(
    traces: &[Keys],
    values: &[V],
    options: &Options,
    hits: impl Fn(&Keys, V, PolicyName) -> f64 + Sync,
) -> Result<Vec<Vec<[f64; 2]>>, LabError> {
    let (all, _) = run_all(
        traces,
        options.workers,
        |trace| trace.keys.len() as u64,
        |trace| Ok(values.iter().map(|value| POLICIES.map(|policy| hits(trace, *value, policy))).collect()),
    )?;
    Ok(all)
}

/// Percent of the traces on which the better policy is not the same for all values.
pub(super) fn changing_percent(of_traces: &[Vec<[f64; 2]>]) -> f64 {
    let changes = |values: &&Vec<[f64; 2]>| {
        let better = |wanted: std::cmp::Ordering| values.iter().any(|[lru, lfu]| lru.total_cmp(lfu) == wanted);
        better(std::cmp::Ordering::Less) && better(std::cmp::Ordering::Greater)
    };
    of_traces.iter().filter(changes).count() as f64 * 100.0 / of_traces.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_make_every_request_once_in_turn_from_parts_of_their_own() {
        let keys: Vec<u64> = (0..10).collect();
        assert_eq!(concurrent(&keys, 1).collect::<Vec<_>>(), keys);
        assert_eq!(concurrent(&keys, 3).collect::<Vec<_>>(), [0, 4, 8, 1, 5, 9, 2, 6, 3, 7]);
        assert_eq!(concurrent(&keys, 20).collect::<Vec<_>>(), keys);
    }

    #[test]
    fn lru_keeps_the_newest_and_lfu_what_was_asked_for_most() {
        // Key 1 is popular; the others come once.
        let keys = [1, 1, 1, 2, 3, 4, 1].into_iter();
        assert!(hit_percent(PolicyName::Lru, 2, keys.clone()) < hit_percent(PolicyName::Lfu, 2, keys));
        assert_eq!(changing_percent(&[vec![[1.0, 2.0], [2.0, 1.0]], vec![[1.0, 2.0], [1.0, 1.0]]]), 50.0);
    }
}
