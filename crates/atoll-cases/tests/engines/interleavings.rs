//! Promises 1 and 4 in every interleaving of small cases: see `atoll sim explore`, which has larger
//! ones, too.

use atoll_cases::small_case::{Bounds, SmallCase};
use atoll_cases::{DittoSubject, ForgeSubject, KvsSubject, QueuesSubject, Subject};
use atoll_sim::Distance;

/// Cases in which no client dies.
const LOOKS: [&str; 4] = ["replace-look", "delete-look", "insert-look", "replace-delete"];
/// Cases in which one client dies.
const KILLS: [&str; 3] = ["replace-look-kill", "insert-look-kill", "delete-look-kill"];
/// Runs of which every case here is exhausted.
const ALL: Bounds = Bounds::runs(100_000);

/// Explores cases within bounds, and gives how many of them were exhausted.
fn explore<S: Subject>(names: &[&str], bounds: &Bounds) -> usize {
    let explored = names.iter().map(|name| {
        let explored = SmallCase::named(name).expect("the list has it").explore::<S>(bounds);
        println!("{}, {name}: {explored}", S::NAME);
        assert!(explored.failure.is_none(), "{}, {name}: {explored}", S::NAME);
        usize::from(explored.exhausted)
    });
    explored.sum()
}

/// Explores every interleaving of cases.
fn exhaust<S: Subject>(names: &[&str], bounds: &Bounds) {
    assert_eq!(explore::<S>(names, bounds), names.len(), "cases of {} were exhausted", S::NAME);
}

#[test]
fn promise_1_holds_in_every_interleaving_of_small_cases() {
    exhaust::<ForgeSubject>(&LOOKS, &ALL);
    exhaust::<KvsSubject>(&LOOKS, &ALL);
    exhaust::<DittoSubject>(&LOOKS, &ALL);
    exhaust::<QueuesSubject>(&LOOKS, &ALL);
}

#[test]
fn promise_4_holds_in_every_interleaving_of_small_cases() {
    exhaust::<ForgeSubject>(&["insert-look-kill", "delete-look-kill"], &ALL);
    exhaust::<KvsSubject>(&KILLS, &ALL);
    exhaust::<DittoSubject>(&KILLS, &ALL);
    // A lock of a dead client is waited for, which makes runs long: the first so many.
    explore::<QueuesSubject>(&KILLS, &Bounds::runs(100));
}

/// All interleavings are more than a test can run: the first so many.
#[test]
fn promise_1_holds_in_many_interleavings_of_two_insertions() {
    explore::<KvsSubject>(&["insert-insert"], &Bounds::runs(20_000));
    explore::<DittoSubject>(&["insert-insert"], &Bounds::runs(20_000));
}

/// Verbs of a batch take effect in every permitted order, and READs and WRITEs are torn.
#[test]
fn promise_4_holds_in_small_cases_whose_verbs_are_torn_and_reordered() {
    exhaust::<ForgeSubject>(&LOOKS, &Bounds { reorder: true, tear: true, ..ALL });
    // More than can be exhausted: the first of them, with memory that is far.
    let far = Bounds { reorder: true, tear: true, distance: Distance::Far, ..Bounds::runs(500) };
    explore::<ForgeSubject>(&["large-look", "insert-insert", "insert-look-kill", "evict-look-kill"], &far);
}
