//! Every interleaving of small cases on the table of objects: see `atoll sim explore`, which has larger ones, too.

use atoll_lab::simulated::explored::SmallCase;
use atoll_lab::simulated::{Dittoed, Stored, Subject};

fn explore<S: Subject>(engine: &str, names: &[&str], preemptions_max: Option<u32>) {
    for name in names {
        let explored = SmallCase::named(name).expect("the list has it").explore::<S>(100_000, preemptions_max);
        println!("{engine}, {name}: {explored}");
        assert!(explored.exhausted && explored.failure.is_none(), "{engine}, {name}: {explored}");
    }
}

#[test]
fn promise_1_holds_in_every_interleaving_of_small_cases_of_kvs() {
    explore::<Stored>("kvs", &["replace-look", "delete-look", "insert-look", "replace-delete"], None);
}

#[test]
fn promise_1_holds_in_every_interleaving_of_small_cases_of_ditto() {
    explore::<Dittoed>("ditto", &["replace-look", "delete-look", "insert-look", "replace-delete"], None);
}

#[test]
fn promise_4_holds_in_every_interleaving_of_small_cases_of_kvs() {
    explore::<Stored>("kvs", &["replace-look-kill", "insert-look-kill", "delete-look-kill"], None);
}

#[test]
fn promise_4_holds_in_every_interleaving_of_small_cases_of_ditto() {
    explore::<Dittoed>("ditto", &["replace-look-kill", "insert-look-kill", "delete-look-kill"], None);
}

/// All of them are more than a test can run: those with two switches from a client that could go on.
#[test]
fn promise_1_holds_in_every_interleaving_of_two_insertions_with_few_preemptions() {
    explore::<Stored>("kvs", &["insert-insert"], Some(2));
    explore::<Dittoed>("ditto", &["insert-insert"], Some(2));
}
