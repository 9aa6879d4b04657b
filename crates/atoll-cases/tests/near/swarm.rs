//! What reads promise, over many seeds.

use crate::case::NearCase;
use atoll_near::{Counts, Promise, Protocol};
use atoll_sim::{for_each_seed, replay_command};

fn must_hold(case: &NearCase) -> Counts {
    case.run().unwrap_or_else(|error| panic!("{case:?}: {error}\nreplay: {}", replay_command(case.seed)))
}

#[test]
fn reads_keep_their_promise_while_nodes_write_and_switch() {
    let (mut hits, mut invalidating, mut on, mut evicted) = (0, 0, 0, 0);
    for_each_seed(600, |seed| {
        let counts = must_hold(&NearCase::drawn(seed));
        hits += counts.hits;
        invalidating += counts.writes_invalidating;
        on += counts.switches_on;
        evicted += counts.segments_evicted;
    });
    println!("{hits} hits, {invalidating} invalidating writes, {on} switches on, {evicted} segments evicted");
    assert!(hits > 600 && invalidating > 600 && on > 600, "everything happens");
}

#[test]
fn reads_keep_their_promise_while_nodes_die_stop_and_join() {
    let (mut burials, mut hits) = (0, 0);
    for_each_seed(600, |seed| {
        let counts = must_hold(&NearCase::faulty(seed));
        burials += counts.burials;
        hits += counts.hits;
    });
    println!("{burials} burials, {hits} hits");
    assert!(burials > 100 && hits > 600, "everything happens");
}

#[test]
fn reads_keep_their_promise_while_processes_that_share_a_near_region_die_alone() {
    let (mut orphans, mut reclaimed, mut burials, mut hits) = (0, 0, 0, 0);
    for_each_seed(600, |seed| {
        let counts = must_hold(&NearCase::of_processes(seed));
        orphans += counts.orphans;
        reclaimed += counts.reclaimed;
        burials += counts.burials;
        hits += counts.hits;
    });
    println!("{orphans} orphans, {reclaimed} reclaimed clients, {burials} burials, {hits} hits");
    assert!(orphans > 50 && reclaimed > 50 && burials > 100 && hits > 600, "everything happens");
}

#[test]
fn reads_keep_their_promise_while_a_memory_node_ends_and_comes_back() {
    let (mut hits, mut invalidating, mut on) = (0, 0, 0);
    for_each_seed(600, |seed| {
        let counts = must_hold(&NearCase::absent(seed));
        hits += counts.hits;
        invalidating += counts.writes_invalidating;
        on += counts.switches_on;
    });
    println!("{hits} hits, {invalidating} invalidating writes, {on} switches on");
    assert!(hits > 600 && invalidating > 600 && on > 600, "everything happens");
}

#[test]
fn reads_keep_their_promise_over_a_network_that_loses_and_delays() {
    let (mut hits, mut burials) = (0, 0);
    for_each_seed(600, |seed| {
        let counts = must_hold(&NearCase::remote(seed));
        hits += counts.hits;
        burials += counts.burials;
    });
    println!("{burials} burials, {hits} hits");
    assert!(burials > 100 && hits > 600, "everything happens");
}

#[test]
fn peers_keep_the_regular_promise_where_they_have_one() {
    for_each_seed(200, |seed| {
        for protocol in [Protocol::DifacheNoAc, Protocol::None] {
            must_hold(&NearCase { protocol, promise: Promise::Regular, ..NearCase::faulty(seed) });
        }
    });
}

#[test]
fn a_central_manager_keeps_reads_linearizable_while_nodes_die_stop_and_join() {
    let (mut hits, mut invalidations, mut burials) = (0, 0, 0);
    for_each_seed(400, |seed| {
        let case = NearCase { protocol: Protocol::CmCache, promise: Promise::Linearizable, ..NearCase::faulty(seed) };
        // An atomic changes one word of an object.
        let atomics = seed.is_multiple_of(3) && case.words == 1;
        let counts = must_hold(&NearCase { atomics, ..case });
        hits += counts.hits;
        invalidations += counts.invalidations_sent;
        burials += counts.burials;
    });
    println!("{hits} hits, {invalidations} invalidations, {burials} burials");
    assert!(hits > 400 && invalidations > 400 && burials > 10, "everything happens");
}

#[test]
fn caches_without_coherence_serve_old_values() {
    let case = |seed| NearCase { protocol: Protocol::NoCc, promise: Promise::Regular, ..NearCase::drawn(seed) };
    let old = (0..50).filter(|seed| case(*seed).run().is_err()).count();
    assert!(old > 10, "{old} of 50 seeds show it");
}
