//! Every interleaving of small cases on the table of objects: see `atoll sim explore`, which has larger ones, too.

use atoll_lab::simulated::explored::SmallCase;
use atoll_lab::simulated::{Dittoed, Queueing, Stored, Subject};

fn explore<S: Subject>(engine: &str, names: &[&str]) {
    for name in names {
        let explored = SmallCase::named(name).expect("the list has it").explore::<S>(100_000, None);
        println!("{engine}, {name}: {explored}");
        assert!(explored.exhausted && explored.failure.is_none(), "{engine}, {name}: {explored}");
    }
}

#[test]
fn promise_1_holds_in_every_interleaving_of_small_cases_of_kvs() {
    explore::<Stored>("kvs", &["replace-look", "delete-look", "insert-look", "replace-delete"]);
}

#[test]
fn promise_1_holds_in_every_interleaving_of_small_cases_of_ditto() {
    explore::<Dittoed>("ditto", &["replace-look", "delete-look", "insert-look", "replace-delete"]);
}

#[test]
fn promise_4_holds_in_every_interleaving_of_small_cases_of_kvs() {
    explore::<Stored>("kvs", &["replace-look-kill", "insert-look-kill", "delete-look-kill"]);
}

#[test]
fn promise_4_holds_in_every_interleaving_of_small_cases_of_ditto() {
    explore::<Dittoed>("ditto", &["replace-look-kill", "insert-look-kill", "delete-look-kill"]);
}

/// All of them are more than a test can run: the first so many.
#[test]
fn promise_1_holds_in_many_interleavings_of_two_insertions() {
    let case = SmallCase::named("insert-insert").expect("the list has it");
    for explored in [case.explore::<Stored>(20_000, None), case.explore::<Dittoed>(20_000, None)] {
        println!("{explored}");
        assert!(explored.failure.is_none(), "{explored}");
    }
}

#[test]
fn promise_1_holds_in_every_interleaving_of_small_cases_of_queues() {
    explore::<Queueing>("queues", &["replace-look", "delete-look", "insert-look", "replace-delete"]);
}

/// A lock of a dead client is waited for, which makes runs long: the first so many.
#[test]
fn promise_4_holds_in_many_interleavings_of_small_cases_of_queues() {
    for name in ["replace-look-kill", "insert-look-kill", "delete-look-kill"] {
        let explored = SmallCase::named(name).expect("the list has it").explore::<Queueing>(100, None);
        println!("queues, {name}: {explored}");
        assert!(explored.failure.is_none(), "queues, {name}: {explored}");
    }
}
