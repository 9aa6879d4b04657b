//! A memory node other than the home ends, at any moment and more than once, and comes back empty,
//! or it does not answer for a time. Nothing old is served, what is on other nodes stays, and
//! afterwards the pool is whole.

use atoll_cases::promises::faults_do_no_harm;
use atoll_cases::{DittoSubject, FaultyCase, ForgeSubject, KvsSubject, Subject};
use atoll_pool::loss::Hole;
use atoll_sim::{Faults, Random};

/// Runs in which an open hole is looked for.
const SEEDS: u64 = 100;

/// Nodes end, and nothing else goes wrong.
fn ending<S: Subject>(seed: u64) -> FaultyCase<S> {
    let mut faulty = FaultyCase::<S>::drawn(seed);
    faulty.faults = Faults::none();
    // The operations of clients that lose a node have no outcome. With more of them on one key the
    // checker gives up.
    faulty.case.load.operations = faulty.case.load.operations.min(40);
    faulty.with_absences(1 + Random::stream(seed, 60).below(3) as u32)
}

/// Nodes are silent, and nothing else goes wrong.
fn being_silent<S: Subject>(seed: u64) -> FaultyCase<S> {
    let faulty = ending::<S>(seed);
    let silences = faulty.absences;
    faulty.with_silences(silences)
}

/// Nodes are silent while clients die, stand still and are cut off. Operations of lost clients have
/// unknown outcomes, which the checker must all try.
fn being_silent_among_faults<S: Subject>(seed: u64) -> FaultyCase<S> {
    let mut faulty = FaultyCase::<S>::drawn(seed).with_silences(1 + Random::stream(seed, 60).below(3) as u32);
    faulty.case.load.operations = faulty.case.load.operations.min(20);
    faulty
}

/// Nodes end while clients die, stand still and are cut off.
fn ending_among_faults<S: Subject>(seed: u64) -> FaultyCase<S> {
    FaultyCase::<S>::drawn(seed).with_absences(1 + Random::stream(seed, 60).below(3) as u32)
}

#[test]
fn promise_1_a_node_that_ends_and_comes_back_empty_serves_nothing_old() {
    faults_do_no_harm(300, ending::<ForgeSubject>);
    faults_do_no_harm(150, ending::<DittoSubject>);
    faults_do_no_harm(100, ending::<KvsSubject>);
}

#[test]
fn promise_4_nodes_end_while_clients_die_and_nothing_is_lost() {
    faults_do_no_harm(300, ending_among_faults::<ForgeSubject>);
    faults_do_no_harm(150, ending_among_faults::<DittoSubject>);
    faults_do_no_harm(100, ending_among_faults::<KvsSubject>);
}

/// A node that is silent keeps its bytes; clients that stood still meanwhile find it as it was.
#[test]
fn promise_1_a_node_that_is_silent_for_a_time_serves_nothing_old() {
    faults_do_no_harm(300, being_silent::<ForgeSubject>);
    faults_do_no_harm(150, being_silent::<DittoSubject>);
    faults_do_no_harm(100, being_silent::<KvsSubject>);
    faults_do_no_harm(300, being_silent_among_faults::<ForgeSubject>);
    faults_do_no_harm(150, being_silent_among_faults::<DittoSubject>);
}

/// Whether a run in which a hole of the pool is open fails, and one in which it is closed does not.
fn is_seen(hole: Hole, seeds: u64, change: impl Fn(&mut FaultyCase<ForgeSubject>)) {
    let run = |seed| {
        let mut faulty = ending::<ForgeSubject>(seed);
        change(&mut faulty);
        let closed = faulty.run_traced(seed, 0).0;
        assert!(closed.is_ok(), "seed {seed}, no hole open: {closed:?}");
        faulty.loss_hole = Some(hole);
        // A history that the checker gives up shows no harm.
        faulty.run_traced(seed, 0).0.err().filter(|harm| !harm.contains("no answer after"))
    };
    let shown: Vec<_> = (0..seeds).filter_map(run).collect();
    println!("{hole:?}: shown by {} of {seeds} seeds, {:?}", shown.len(), shown.first());
    assert!(!shown.is_empty(), "{hole:?} is open and not seen");
}

#[test]
fn slots_that_still_point_into_a_node_that_is_gone_are_seen() {
    is_seen(Hole::KeptSlots, SEEDS, |_| ());
}

/// Clients that look at the table of nodes seldom use the pool without the node for long.
#[test]
fn a_node_that_is_ready_before_all_clients_use_it_is_seen() {
    is_seen(Hole::HastyReturn, SEEDS, |faulty| {
        faulty.times.look_ns = 40 * faulty.times.suspect_ns;
        faulty.case.load.operations = 200;
    });
}
