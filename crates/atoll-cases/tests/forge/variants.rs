//! `forge` without some of its techniques, on the simulated fabric: its promises do not depend on
//! them.

use atoll_baselines::forge_ablations::Variant;
use atoll_cache::forge::ForgeOptions;
use atoll_cases::promises::histories_are_linearizable;
use atoll_cases::{AblatedSubject, Case, ForgeSubject};

const NONE: Variant = Variant {
    locked_index: false,
    locked_queues: false,
    whole_groups: false,
    plain_queue: false,
    eager_hotness: false,
};

/// Drawn cases of a variant.
fn drawn(seed: u64, variant: Variant) -> Case<AblatedSubject> {
    let drawn = Case::<AblatedSubject>::drawn(seed);
    let forge = drawn.subject.forge.clone();
    let options = match variant.plain_queue {
        true => ForgeOptions { ghosts: false, ..forge.options.clone() },
        false => forge.options.clone(),
    };
    Case { subject: AblatedSubject { forge: ForgeSubject { options, ..forge }, variant }, ..drawn }
}

#[test]
fn promises_hold_without_one_technique_and_without_all() {
    assert_eq!(NONE, Variant::default());
    let variants = [
        Variant { locked_index: true, ..NONE },
        Variant { locked_queues: true, ..NONE },
        Variant { whole_groups: true, ..NONE },
        Variant { plain_queue: true, ..NONE },
        Variant { eager_hotness: true, ..NONE },
        Variant::BASELINE,
    ];
    for variant in variants {
        histories_are_linearizable(300, |seed| drawn(seed, variant));
    }
}
