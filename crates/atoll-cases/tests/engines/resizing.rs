//! A pool becomes smaller and larger again while clients die and stand still. No verb touches
//! memory that was given back to the host, or that is not provided yet in a pool that is already
//! used.
//!
//! The simulator fails a run with such a verb ([`SimError::Absent`](atoll_sim::SimError)). On one
//! host such a verb kills its process, once the host is full.

use atoll_cache::forge::Hole;
use atoll_cases::promises::faults_do_no_harm;
use atoll_cases::{Case, DittoSubject, FaultyCase, ForgeSubject, KvsSubject, Load, QueuesSubject, Subject};
use atoll_sim::history::Evictions;
use atoll_sim::{Distance, Random};

fn resizing<S: Subject>(seed: u64) -> FaultyCase<S> {
    let faulty = FaultyCase::<S>::drawn(seed);
    let resized_chunks = Random::stream(seed, 31).pick(&[1, 2, 4, faulty.case.chunks / 4]);
    let case = faulty.case;
    FaultyCase { resized_chunks, case: Case { subject: case.subject.without_address_cache(), ..case }, ..faulty }
}

fn sparse<S: Subject>(seed: u64) -> FaultyCase<S> {
    FaultyCase { sparse: true, ..FaultyCase::drawn(seed) }
}

#[test]
fn no_verb_touches_memory_that_was_given_back_or_is_not_provided_yet() {
    faults_do_no_harm(200, resizing::<ForgeSubject>);
    faults_do_no_harm(80, resizing::<DittoSubject>);
    faults_do_no_harm(80, resizing::<KvsSubject>);
    faults_do_no_harm(40, resizing::<QueuesSubject>);
    faults_do_no_harm(150, sparse::<ForgeSubject>);
    faults_do_no_harm(60, sparse::<DittoSubject>);
    faults_do_no_harm(60, sparse::<KvsSubject>);
    faults_do_no_harm(30, sparse::<QueuesSubject>);
}

/// A discarder that does not wait for the operations that were under way.
#[test]
fn memory_that_is_given_back_while_an_operation_is_under_way_is_touched() {
    const SEEDS: u64 = 200;
    let run = |seed| {
        let mut faulty = resizing::<ForgeSubject>(seed);
        faulty.case.hole = Some(Hole::HastyDiscard);
        // So little room that what is retired was just evicted.
        (faulty.case.chunks, faulty.case.evictions, faulty.resized_chunks) = (20, Evictions::Anytime, 10);
        faulty.case.load = Load { keys: 8, operations: 200, value_bytes_max: 900, lookups: 80, ..faulty.case.load };
        (faulty.case.clients, faulty.case.nodes, faulty.case.distance) = (6, 1, Distance::Near);
        // Clients that stand still show it, and none that is dead.
        (faulty.sparse, faulty.faults.kills_max) = (false, 0);
        (faulty.faults.pauses_max, faulty.faults.steps_between) = (40, 200);
        faulty.run(seed)
    };
    let shown: Vec<_> = (0..SEEDS).filter_map(|seed| run(seed).err()).collect();
    println!("shown by {} of {SEEDS} seeds", shown.len());
    assert!(shown.iter().all(|error| Hole::HastyDiscard.is_shown_by(error)), "{shown:?}");
    assert!(shown.len() >= 4, "{} of {SEEDS} seeds show it", shown.len());
}
