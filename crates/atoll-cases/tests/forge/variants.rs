//! `forge` without one or the other of its techniques, on the simulated fabric: what it promises
//! does not depend on them.

use atoll_baselines::forge_ablations::Variant;
use atoll_cache::forge::ForgeOptions;
use atoll_cases::{Ablated, Case, Forged};
use atoll_sim::for_each_seed;
use std::cell::Cell;

const NONE: Variant = Variant {
    locked_index: false,
    locked_queues: false,
    whole_groups: false,
    plain_queue: false,
    eager_hotness: false,
};

/// Runs drawn cases of a variant: histories are linearizable, the pool is sound, every client comes
/// to its end.
fn promises_hold(variant: Variant) {
    let hits = Cell::new(0);
    for_each_seed(300, |seed| {
        let drawn = Case::<Ablated>::drawn(seed);
        let options = match variant.plain_queue {
            true => ForgeOptions { ghosts: false, ..drawn.subject.forge.options.clone() },
            false => drawn.subject.forge.options.clone(),
        };
        let case =
            Case { subject: Ablated { forge: Forged { options, ..drawn.subject.forge.clone() }, variant }, ..drawn };
        match case.run(seed) {
            Ok(checked) => hits.set(hits.get() + checked.hits),
            Err(error) => panic!(
                "seed {seed}: {error}\n{case:?}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test forge variants::"
            ),
        }
    });
    assert!(hits.get() > 0, "a load that never hits shows nothing");
}

#[test]
fn promises_hold_with_a_locked_index() {
    promises_hold(Variant { locked_index: true, ..NONE });
}

#[test]
fn promises_hold_with_locked_queues() {
    promises_hold(Variant { locked_queues: true, ..NONE });
}

#[test]
fn promises_hold_with_groups_that_are_read_whole() {
    promises_hold(Variant { whole_groups: true, ..NONE });
}

#[test]
fn promises_hold_with_one_plain_queue() {
    promises_hold(Variant { plain_queue: true, ..NONE });
}

#[test]
fn promises_hold_with_eager_hotness() {
    promises_hold(Variant { eager_hotness: true, ..NONE });
}

#[test]
fn promises_hold_without_any_technique() {
    assert_eq!(NONE, Variant::default());
    promises_hold(Variant::BASELINE);
}
