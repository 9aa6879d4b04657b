//! A memory node other than the home ends, at any moment and more than once, and comes back empty.
//! Nothing old is served, what is on other nodes stays, and afterwards the pool is whole.

use atoll_cases::promises::faults_do_no_harm;
use atoll_cases::{DittoSubject, FaultyCase, ForgeSubject, KvsSubject, Subject};
use atoll_sim::{Faults, Random};

/// Nodes end, and nothing else goes wrong.
fn ending<S: Subject>(seed: u64) -> FaultyCase<S> {
    let mut faulty = FaultyCase::<S>::drawn(seed);
    faulty.faults = Faults::none();
    faulty.with_absences(1 + Random::stream(seed, 60).below(3) as u32)
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
