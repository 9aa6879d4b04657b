//! Records in the places of dead ones: each guard of `vacancies`, taken away, is seen.
//!
//! | hole ([`Hole`]) | closed by | test |
//! |---|---|---|
//! | `HastyVacancy` | the protection that a client keeps | `no_record_is_written_over_another_group` |
//! | `SameEdition` | editions | `a_lookup_never_gives_a_record_in_the_place_of_another_that_is_not_published`, a script in `orders` |
//! | `UncheckedVacancy` | a READ of the descriptor behind the swap | `a_record_that_was_published_in_a_group_with_an_owner_is_moved_at_once`, a script in `orders` |
//! | `ForgottenOrphans` | another READ of the map before the chunk is reused | `no_slot_points_to_what_a_dead_client_published_in_a_group_with_an_owner`, `an_owner_takes_no_object_for_known_whose_slot_it_has_not_read`, scripts in `orders` |
//! | `OverwrittenEntry` | READs of the protections and the map before a new map is written | `a_repairer_writes_over_no_entry_of_a_map`, `an_evictor_writes_over_no_entry_of_a_map`, scripts in `orders` |

use atoll_cache::forge::Hole;
use atoll_cases::holes::show_case;
use atoll_cases::{Case, FaultyCase, ForgeSubject, Load};
use atoll_sim::history::Evictions;
use atoll_sim::{for_each_seed, replay_command};

/// Clients overwrite a few values of one length. There is so little room that groups leave their
/// queues all the time.
fn overwriting(seed: u64) -> Case {
    let load = Load { mixed: false, ..Load::new(6 + seed % 12, 80, 16, 30) };
    Case {
        clients: 3 + (seed % 2) as u32,
        chunk_bytes: 256,
        chunks: 16 + seed % 6,
        group_objects_max: 2 + (seed % 3) as u32,
        lanes: 1 + seed % 3,
        evictions: Evictions::Anytime,
        load,
        ..Case::default()
    }
}

/// The same, and one client takes long to publish its records.
fn overwriting_slowly(seed: u64) -> Case {
    Case { publish_delay_ns_max: 50_000, ..overwriting(seed) }
}

#[test]
fn no_record_is_written_over_another_group() {
    show_case::<ForgeSubject>(Hole::HastyVacancy, 150, overwriting_slowly);
}

/// Clients die and stand still meanwhile.
#[test]
fn promise_4_holds_while_clients_use_places_anew() {
    for_each_seed(200, |seed| {
        let mut faulty = FaultyCase::<ForgeSubject>::drawn(seed);
        (faulty.faults.kills_max, faulty.faults.steps_between, faulty.successors) = (8, 100, 8);
        faulty.case = overwriting_slowly(seed);
        if let Err(error) = faulty.run(seed) {
            panic!("seed {seed}: {error}\nreplay: {}", replay_command(seed));
        }
    });
}
