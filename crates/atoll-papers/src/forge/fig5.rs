//! FORGE, Fig. 5: how similar the objects of a group are, by how they were grouped.
//!
//! A cache of groups on one machine, without a network: it shows what the grouping alone does.
//!
//! | grouping | a group |
//! |---|---|
//! | random | any objects of the trace |
//! | by write | objects that were inserted one after the other |
//! | regrouped | the hottest objects of eight groups that were evicted together |
//!
//! An object's reuse time is the mean time between its requests, counted in requests, once it is in
//! its group. Objects that are asked for once have none and do not count.

use crate::bench::measured::run_all;
use crate::bench::{Findings, Options};
use atoll_deployment::random::Random;
use atoll_lab::LabError;
use atoll_lab::load::LoadOptions;
use atoll_lab::report::places::Places;
use rapidhash::RapidHashMap;
use std::collections::VecDeque;

/// Objects of a group, as the paper's figure has them.
const GROUP_OBJECTS: usize = 256;
/// Groups that are evicted together.
const MERGED: usize = 8;
const CACHE_PERCENT: usize = 20;
/// Groups of each kind that count at most.
const GROUPS_MAX: usize = 10_000;
const TRACES: [&str; 4] = ["cloudphysics_io", "msn_fs", "arc_p3", "scarab_recs"];
const REQUESTS_MAX: u64 = 3_000_000;

/// The kinds of groups.
const KINDS: [&str; 3] = ["random", "by write", "regrouped"];

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let traces = &TRACES[..options.scaled(TRACES.len(), 2)];
    let requests = options.scaled(REQUESTS_MAX, 100_000);
    let of_trace = |name: &&str| -> Result<[f64; KINDS.len()], LabError> {
        let load =
            LoadOptions { traces: Some(options.traces.clone()), requests: Some(requests), ..LoadOptions::named(name) };
        let keys: Vec<u64> = load.open()?.stream(0, 1).map(|request| request.key).collect();
        Ok(similarity(&keys, options.seed))
    };
    let (found, _) = run_all(traces, options.workers, |_| requests, of_trace)?;
    let places = Places::named("trace", traces.iter().copied());
    let lines = KINDS.iter().enumerate().map(|(kind, name)| places.line(*name, found.iter().map(|of| of[kind])));
    let over =
        |name: &str, less: usize, more: usize| places.line(name, found.iter().map(|of| of[less] / of[more].max(1e-9)));
    Ok(Findings {
        what: format!(
            "Groups of {GROUP_OBJECTS} objects in a cache of {CACHE_PERCENT} % of each trace's objects, at most {REQUESTS_MAX} requests of each; {MERGED} groups are evicted together, and the hottest of their \
             objects become a group. The coefficient of variation is the standard deviation of the reuse times in a group over their mean, and the figure has its mean over all groups. The paper's text prints no number of it: only that grouping by \
             write is better than random and regrouping better than that.",
        ),
        figures: vec![
            places.figure("Coefficient of variation of reuse times in a group", ("coefficient", ""), lines),
            places.factors(
                "How much more similar",
                "times",
                [over("by write over random", 0, 1), over("regrouped over by write", 1, 2)],
            ),
        ],
    })
}

/// What is known of an object.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// When it was asked for last, in requests.
    last: u64,
    /// The sum of the times between its requests, and how many there were.
    between: (u64, u64),
    /// Requests since it is in its group.
    hits: u32,
    is_resident: bool,
}

/// The groups of one kind.
#[derive(Default)]
struct Groups {
    variations: f64,
    count: usize,
}

impl Groups {
    /// Counts a group, of whose objects these are the reuse times.
    fn count(&mut self, times: &[f64]) {
        if times.len() < 2 || self.count >= GROUPS_MAX {
            return;
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
        self.variations += variance.sqrt() / mean.max(1e-9);
        self.count += 1;
    }

    fn mean(&self) -> f64 {
        self.variations / self.count.max(1) as f64
    }
}

/// The mean coefficient of variation of groups of each of [`KINDS`].
fn similarity(keys: &[u64], seed: u64) -> [f64; KINDS.len()] {
    let objects = keys.iter().collect::<rapidhash::RapidHashSet<_>>().len();
    let groups_max = (objects * CACHE_PERCENT / 100 / GROUP_OBJECTS).max(2 * MERGED);
    let mut seen: RapidHashMap<u64, Seen> = RapidHashMap::default();
    let (mut open, mut queue) = (Vec::new(), VecDeque::new());
    let (mut by_write, mut regrouped, mut random) = (Groups::default(), Groups::default(), Groups::default());
    for (now, key) in keys.iter().enumerate() {
        let one = seen.entry(*key).or_default();
        if one.is_resident {
            one.between.0 += now as u64 - one.last;
            one.between.1 += 1;
            one.hits += 1;
            one.last = now as u64;
            continue;
        }
        *one = Seen { last: now as u64, is_resident: true, between: one.between, hits: 0 };
        open.push(*key);
        if open.len() < GROUP_OBJECTS {
            continue;
        }
        queue.push_back((std::mem::take(&mut open), false));
        if queue.len() < groups_max {
            continue;
        }
        let mut all: Vec<u64> = Vec::new();
        for (group, is_regrouped) in queue.drain(..MERGED) {
            let kind = if is_regrouped { &mut regrouped } else { &mut by_write };
            kind.count(&reuse_times(&group, &seen));
            all.extend(group);
        }
        all.sort_by_key(|key| std::cmp::Reverse(seen[key].hits));
        for key in all.split_off(GROUP_OBJECTS.min(all.len())) {
            seen.entry(key).and_modify(|one| one.is_resident = false);
        }
        all.iter().for_each(|key| {
            seen.entry(*key).and_modify(|one| one.hits = 0);
        });
        queue.push_back((all, true));
    }
    // Random groups of the objects that were asked for again.
    let mut again: Vec<u64> = seen.iter().filter(|(_, one)| one.between.1 > 0).map(|(key, _)| *key).collect();
    again.sort_unstable();
    let mut drawn = Random::new(seed);
    for place in (1..again.len()).rev() {
        again.swap(place, drawn.below(place as u64 + 1) as usize);
    }
    again.chunks(GROUP_OBJECTS).for_each(|group| random.count(&reuse_times(group, &seen)));
    [random.mean(), by_write.mean(), regrouped.mean()]
}

/// The reuse times of a group's objects that have one.
fn reuse_times(group: &[u64], seen: &RapidHashMap<u64, Seen>) -> Vec<f64> {
    let of = |key: &u64| seen.get(key).filter(|one| one.between.1 > 0);
    group.iter().filter_map(of).map(|one| one.between.0 as f64 / one.between.1 as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_are_written_together_and_reused_together_are_more_similar_than_random_ones() {
        // Batches of keys that come back after a time of their batch.
        let mut keys = Vec::new();
        for batch in 0..200_u64 {
            let of_batch = batch * 256..(batch + 1) * 256;
            for _ in 0..1 + batch % 7 {
                keys.extend(of_batch.clone());
                keys.extend((0..batch % 11 * 300).map(|once| (batch << 32) + (once << 20) + (1 << 60)));
            }
        }
        let [random, by_write, _] = similarity(&keys, 1);
        assert!(by_write < 0.8 * random, "{by_write} {random}");
    }
}
