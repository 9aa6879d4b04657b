//! The holes that CliqueMap could have, one case each. It passes under every seed while the hole is
//! closed, and some seed shows the damage once the hole is open.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `Validation` | checksum and version in every record | `a_lookup_never_gives_torn_or_foreign_bytes` |
//! | `Repeats` | numbers that the server remembers | `a_change_that_comes_twice_is_done_once_and_no_update_is_lost_to_another` |
//! | `LostUpdate` | the version that a change names | the same |
//! | `UntakenExpiry` | removing an expired object before telling of it | `what_has_expired_for_one_never_comes_back_for_another` |
//!
//! `cargo test -p atoll-cases --test cliquemap holes:: -- --nocapture` prints how many seeds show
//! each.

use atoll_baselines::cliquemap::Hole;
use atoll_cases::holes::{Shown, show, show_case};
use atoll_cases::{Case, CliqueMapSubject, Load};

/// A case in which clients meet at few keys.
fn crowded(seed: u64, lookups: u64, expiring: bool) -> Case<CliqueMapSubject> {
    let load = Load { keys: 2, operations: 60, value_bytes_max: 600, lookups, mixed: true, expiring, dropped: 0 };
    Case { load, chunk_bytes: 512, ..Case::drawn(seed) }
}

/// The same with a hole that is open in the server.
fn with_server_hole(case: Case<CliqueMapSubject>, server_hole: Option<Hole>) -> Case<CliqueMapSubject> {
    Case { subject: CliqueMapSubject { server_hole, ..case.subject }, ..case }
}

#[test]
fn a_lookup_never_gives_torn_or_foreign_bytes() {
    show_case(Hole::Validation, 300, |seed| crowded(seed, 60, false));
}

#[test]
fn a_change_that_comes_twice_is_done_once_and_no_update_is_lost_to_another() {
    for (hole, lookups) in [(Hole::Repeats, 30), (Hole::LostUpdate, 20)] {
        show(hole, 100, Shown::ByOneIn50, |seed, hole| {
            with_server_hole(crowded(seed, lookups, false), hole).run(seed).map(drop)
        });
    }
}

#[test]
fn what_has_expired_for_one_never_comes_back_for_another() {
    show_case(Hole::UntakenExpiry, 100, |seed| {
        let case = crowded(seed, 50, true);
        Case { clients: 4, load: Load { keys: 1, operations: 150, ..case.load.clone() }, ..case }
    });
}
