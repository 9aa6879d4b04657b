//! What could be wrong with CliqueMap, one case each: it passes under every seed while the hole is
//! closed, and some seed shows the damage once it is opened.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `Validation` | checksum and version in every record | `a_lookup_never_gives_torn_or_foreign_bytes` |
//! | `Repeats` | numbers that the server remembers | `a_change_that_comes_twice_is_done_once` |
//! | `LostUpdate` | the version that a change names | `no_update_is_lost_to_another` |
//! | `UntakenExpiry` | removing an expired object before telling of it | `what_has_expired_for_one_never_comes_back_for_another` |
//!
//! `cargo test -p atoll-cases --test cliquemap holes:: -- --nocapture` prints how many seeds show
//! each.

use atoll_baselines::cliquemap::Hole;
use atoll_cases::{Case, Cliqued, Load};
use atoll_sim::for_each_seed;

/// Seeds of a case of which one must show its hole, at most. All cases are made so that one in
/// twenty does: another schedule is no false alarm.
const SEEDS_TO_SHOW: usize = 50;

/// Runs a case under `seeds` seeds with the hole closed, which must always pass, and open, which
/// must not.
fn show(hole: Hole, seeds: u64, case: impl Fn(u64, Option<Hole>) -> Case<Cliqued>) {
    for_each_seed(seeds, |seed| {
        if let Err(error) = case(seed, None).run(seed) {
            panic!(
                "{hole:?}, seed {seed}, no hole open: {error}\n\
                 replay: ATOLL_SIM_SEED={seed} cargo test -p atoll-cases --test cliquemap holes::"
            );
        }
    });
    let error = |seed| Some((seed, case(seed, Some(hole)).run(seed).err()?));
    let shown: Vec<(u64, String)> = (0..seeds).filter_map(error).collect();
    println!("{hole:?}: shown by {} of {seeds} seeds", shown.len());
    let harmed: Vec<_> = shown.iter().filter(|(_, error)| hole.is_shown_by(error)).collect();
    let few = || {
        format!("{hole:?} is open, and {} of {seeds} seeds show its harm, {:?}: {shown:#?}", harmed.len(), hole.harms())
    };
    assert!(harmed.len() * SEEDS_TO_SHOW >= seeds as usize, "{}", few());
    let (seed, error) = harmed[0];
    println!("  seed {seed}: {}", error.lines().next().unwrap_or_default());
}

/// A case in which clients meet at few keys.
fn crowded(seed: u64, lookups: u64, expiring: bool) -> Case<Cliqued> {
    let load = Load { keys: 2, operations: 60, value_bytes_max: 600, lookups, mixed: true, expiring, dropped: 0 };
    Case { load, chunk_bytes: 512, ..Case::drawn(seed) }
}

#[test]
fn a_lookup_never_gives_torn_or_foreign_bytes() {
    show(Hole::Validation, 300, |seed, hole| Case { hole, ..crowded(seed, 60, false) });
}

#[test]
fn a_change_that_comes_twice_is_done_once() {
    show(Hole::Repeats, 100, |seed, server_hole| {
        let case = crowded(seed, 30, false);
        Case { subject: Cliqued { server_hole, ..case.subject }, ..case }
    });
}

#[test]
fn no_update_is_lost_to_another() {
    show(Hole::LostUpdate, 100, |seed, server_hole| {
        let case = crowded(seed, 20, false);
        Case { subject: Cliqued { server_hole, ..case.subject }, ..case }
    });
}

#[test]
fn what_has_expired_for_one_never_comes_back_for_another() {
    show(Hole::UntakenExpiry, 100, |seed, hole| {
        let case = crowded(seed, 50, true);
        Case { hole, clients: 4, load: Load { keys: 1, operations: 150, ..case.load.clone() }, ..case }
    });
}
