//! Every interleaving of small cases on the table of objects: see `atoll sim explore`, which has
//! larger ones, too.

use atoll_cases::explored::{Bounds, SmallCase};
use atoll_cases::{Dittoed, Queueing, Stored, Subject};

fn explore<S: Subject>(engine: &str, names: &[&str]) {
    for name in names {
        let explored = SmallCase::named(name).expect("the list has it").explore::<S>(&Bounds::runs(100_000));
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
    for explored in [case.explore::<Stored>(&Bounds::runs(20_000)), case.explore::<Dittoed>(&Bounds::runs(20_000))] {
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
        let explored = SmallCase::named(name).expect("the list has it").explore::<Queueing>(&Bounds::runs(100));
        println!("queues, {name}: {explored}");
        assert!(explored.failure.is_none(), "queues, {name}: {explored}");
    }
}
