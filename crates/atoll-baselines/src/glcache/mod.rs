//! GLCache-DM: FORGE's groups, of which trees choose the victims.
//!
//! After Yang et al., "GL-Cache: Group-level learning for efficient and high-performance caching"
//! (FAST'23). Section 6.1 of FORGE's paper brings it to a pool of memory as a baseline. An evictor
//! samples groups. Gradient-boosted trees predict the utility of each from seven features. The
//! evictor merges the eight of least utility into one. Index, rings, regrouping and repair are
//! those of [`forge`](atoll_cache::forge).
//!
//! | module | concept |
//! |---|---|
//! | `kind` | the descriptor, and the choices of a new pool |
//! | `technique` | the steps in which a client differs from the shipped FORGE |
//! | `area` | what a pool has besides: settings, records of groups, samples |
//! | `evict` | the verbs of an eviction |
//! | `learn` | the verbs of learning |
//! | `features` | a group's record in the pool, and its seven features |
//! | `watch` | the utility of a group: the process watches its objects for a while |
//! | `sample` | features and utility together, kept in the pool to learn from |
//! | `trees` | the gradient boosting |
//! | `learner` | all of that in one process: rates, watch, the trees in use |
//! | `merge` | which objects of merged groups stay |
//!
//! | where we add to the papers, or differ | here |
//! |---|---|
//! | **Training** is asynchronous, on memory nodes; ours have no processor. | Samples of all processes are in the pool. The client that adds enough new ones READs them all and trains its process's trees. The trees come into use when the time of training has passed. On a real fabric that client stands still meanwhile; on the simulated one it does not, as if its machine had a spare core. Each process has its own trees, of the same samples. |
//! | **Inference** takes hundreds of microseconds of the client's processor (FORGE 6.2). | All groups of one eviction are one inference, charged as `INFERENCE_NS`, the least that "hundreds" can mean. |
//! | **Utility** is the sum over the objects of 1 / (size x time to the next request). | Time is counted in lookups of the process that watches. It ends after half as many as the cache holds objects. The trees learn the logarithm: only the order counts. |
//! | **Rates** are those of the process that wrote the group. | The paper does not say whose. |
//! | **Age** is counted in groups written since. | It is the same everywhere, and needs no clock. |
//! | **Sample of an eviction**: the paper names no size. | Sixty-four groups, in runs of eight neighbours. |
//! | **Hotness** is flushed at intervals, which the paper does not name. | Once in as many lookups of a process as an eighth of what the cache holds. A client does its part in every round. |
//! | **Score** of an object in a merge: GL-Cache ranks by size and age; the paper's baseline regroups as FORGE does, by frequency. | Frequency / (size x age of the group). An object without an access is evicted. |
//! | **Before there are trees** the oldest of the sampled groups are evicted. | |
//!
//! All these words in the pool are hints, and are checked. A field that is not a number counts as
//! zero, and an impossible sample is left out.

mod area;
mod evict;
mod features;
mod kind;
mod learn;
mod learner;
mod merge;
mod sample;
mod technique;
mod trees;
mod watch;

pub use area::{Area, ENGINE_GLCACHE};
pub use features::{FEATURES, Features, Written};
pub use kind::{GlCacheKind, GlCacheOptions};
pub use learner::Learner;
pub use sample::Sample;
pub use technique::{GlCache, GlCacheDm, GlCachePool, Learning};
pub use trees::Trees;
pub use watch::Watch;

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP_OBJECTS: u64 = 16;
    /// Lookups for which a group is watched.
    const WATCHED: u64 = 4_000;

    /// A group of a load of three kinds. Objects of a scan are never requested again. Objects of a
    /// crowd are requested for a while. The third kind is always requested.
    struct Group {
        chunk: u32,
        features: Features,
        /// How often it is requested, which gives its utility.
        weight: u64,
    }

    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    fn group(chunk: u32, chance: &mut Chance) -> Group {
        let (kind, age) = (chance.below(3), 1 + chance.below(50));
        let weight = [0, if age < 10 { 8 } else { 0 }, 4][kind as usize];
        // Scans write much and miss much. A crowd has requested its objects before. All features
        // have noise.
        let written = Written {
            generation: 1,
            groups_before: 1_000 - age as u32,
            lookup_rate: 900.0 + chance.below(200) as f32,
            write_rate: if kind == 0 { 700.0 } else { 300.0 } + chance.below(300) as f32,
            miss_ratio: if kind == 0 { 0.6 } else { 0.3 } + chance.below(30) as f32 / 100.0,
            object_bytes: 200.0 + chance.below(100) as f32,
        };
        let counters: Vec<u16> =
            (0..GROUP_OBJECTS).map(|_| chance.below(1 + weight + [0, 3, 0][kind as usize]) as u16).collect();
        Group { chunk, features: Features::of(&written, 1_000, &counters), weight }
    }

    /// Watches groups while they are requested, each as often as its weight says, and returns the
    /// samples.
    fn watched(groups: &[Group], chance: &mut Chance) -> Vec<Sample> {
        let watch = Watch::new(GROUP_OBJECTS as u32);
        let object = |group: &Group, nth: u64| u64::from(group.chunk) * GROUP_OBJECTS + nth;
        for group in groups {
            let objects = (0..GROUP_OBJECTS).map(|nth| (object(group, nth), 16));
            watch.begin((group.chunk, 1), group.features, objects);
        }
        for _ in 0..WATCHED {
            let group = &groups[chance.below(groups.len() as u64) as usize];
            let object = object(group, chance.below(GROUP_OBJECTS));
            // For a group of less weight, the lookup is of a key that is not watched.
            watch.observe(if chance.below(8) < group.weight { object } else { u64::MAX });
        }
        watch.finish(WATCHED)
    }

    /// The loss is the mean utility of the eight evicted groups of sixty-four.
    #[test]
    fn the_groups_that_trees_let_go_are_worth_less_than_those_of_chance_or_age() {
        let mut chance = Chance(1);
        let mut samples = Vec::new();
        for round in 0..4 {
            let groups: Vec<Group> = (0..100).map(|nth| group(100 * round + nth, &mut chance)).collect();
            samples.extend(watched(&groups, &mut chance));
        }
        let trees = Trees::train(&samples).unwrap();
        let (mut by_trees, mut by_age, mut by_chance) = (0, 0, 0);
        for _ in 0..50 {
            let sampled: Vec<Group> = (0..64).map(|nth| group(nth, &mut chance)).collect();
            let features: Vec<Features> = sampled.iter().map(|group| group.features).collect();
            let lost = |worth: Vec<f32>| -> u64 {
                let mut places: Vec<usize> = (0..sampled.len()).collect();
                places.sort_by(|a, b| worth[*a].total_cmp(&worth[*b]));
                places[..8].iter().map(|place| sampled[*place].weight).sum()
            };
            by_trees += lost(trees.predict(&features).unwrap());
            by_age += lost(features.iter().map(|features| -features.age()).collect());
            by_chance += lost((0..64).map(|_| chance.below(1 << 20) as f32).collect());
        }
        assert!(by_trees * 4 < by_chance && by_trees * 4 < by_age, "{by_trees} {by_age} {by_chance}");
    }
}
