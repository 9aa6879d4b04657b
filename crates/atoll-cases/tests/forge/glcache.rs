//! The learned rule on the simulated fabric: promise 1 and the pool's invariants hold when trees
//! say what is evicted. The program `engines` has the suites of every engine.

use atoll_baselines::glcache::{FEATURES, Features, GlCachePool, Sample};
use atoll_cases::{Case, GlCacheSubject, load};
use atoll_sim::for_each_seed;
use std::cell::Cell;
use std::rc::Rc;

fn replay(seed: u64) -> String {
    format!("replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test forge glcache::")
}

fn has_trees(pool: &GlCachePool) -> bool {
    pool.annex().learner.trees(u64::MAX).is_some()
}

/// Samples that no group ever gave.
fn nonsense() -> Vec<Sample> {
    let sample = |nth: u8| Sample { features: Features([f32::from(nth); FEATURES]), utility_log: f32::from(nth % 7) };
    (1..40).map(sample).collect()
}

/// Longer runs over more keys, so that trees are learned and say what goes; in every other run of
/// nonsense to begin with.
#[test]
fn promise_1_holds_when_trees_say_what_goes() {
    let with_trees = Rc::new(Cell::new(0));
    for_each_seed(60, |seed| {
        let group_objects_max = 2 + seed as u32 % 3;
        let case =
            Case::<GlCacheSubject> { chunks: 40, group_objects_max, chunk_bytes: 256, slots: 256, ..Case::default() };
        let checked = case.run_part(seed, |client| {
            let with_trees = with_trees.clone();
            async move {
                let mut random = client.random();
                let pool = client.cache.engine().pool().clone();
                let learner = &pool.annex().learner;
                if seed.is_multiple_of(2) {
                    learner.train(&nonsense(), 0);
                }
                for step in 0..250 {
                    // More than fits: trees are asked only where something must go.
                    let key = random.below(250).to_le_bytes();
                    if random.below(2) == 0 {
                        let bytes = 10 + random.below(40);
                        client.set(&key, load::unique_value(client.number, step, bytes)).await?;
                    } else {
                        client.get(&key).await?;
                    }
                }
                with_trees.set(with_trees.get() + u32::from(!seed.is_multiple_of(2) && has_trees(&pool)));
                Ok(client)
            }
        });
        checked.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", replay(seed)));
    });
    assert!(with_trees.get() > 0, "nobody learned anything of his own");
}
