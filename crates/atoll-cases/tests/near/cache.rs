//! A cache under the near caches of its clients' processes: reads are as linearizable as without,
//! whatever goes wrong.

use atoll_cache::{CacheError, Engine};
use atoll_cases::promises::{faults_do_no_harm, histories_are_linearizable, under_seeds};
use atoll_cases::subjects::CopiedSubject;
use atoll_cases::{
    Case, Client, DittoSubject, FaultyCase, ForgeSubject, Load, MarkedSubject, NearSubject, Subject, load,
};
use atoll_pool::sharers;
use atoll_sim::{Faults, Random};
use std::cell::Cell;
use std::rc::Rc;

type Forge = NearSubject<ForgeSubject>;
type Ditto = NearSubject<DittoSubject>;
type MarkedForge = MarkedSubject<ForgeSubject>;
type MarkedDitto = MarkedSubject<DittoSubject>;

#[test]
fn promise_1_histories_are_linearizable_and_the_pool_is_sound_with_near_caches() {
    histories_are_linearizable::<Forge>(1000, Case::drawn);
    histories_are_linearizable::<Ditto>(500, Case::drawn);
}

#[test]
fn promise_4_whatever_goes_wrong_near_caches_serve_nothing_old() {
    faults_do_no_harm(400, FaultyCase::<Forge>::drawn);
    faults_do_no_harm(200, FaultyCase::<Ditto>::drawn);
}

#[test]
fn promise_4_many_operations_at_once_and_dropped_ones_do_no_harm_to_near_caches() {
    faults_do_no_harm(200, FaultyCase::<Forge>::crowded);
    faults_do_no_harm(100, FaultyCase::<Ditto>::crowded);
}

#[test]
fn promise_1_what_a_client_keeps_by_a_mark_is_as_the_pool_has_it() {
    histories_are_linearizable::<MarkedForge>(400, Case::drawn);
    histories_are_linearizable::<MarkedDitto>(200, Case::drawn);
}

#[test]
fn promise_4_whatever_goes_wrong_a_mark_vouches_for_nothing_old() {
    faults_do_no_harm(200, FaultyCase::<MarkedForge>::drawn);
    faults_do_no_harm(100, FaultyCase::<MarkedDitto>::drawn);
    faults_do_no_harm(100, FaultyCase::<MarkedForge>::crowded);
    faults_do_no_harm(100, ending::<MarkedForge>);
}

/// Nodes end, and nothing else goes wrong.
fn ending<S: Subject>(seed: u64) -> FaultyCase<S> {
    let mut faulty = FaultyCase::<S>::drawn(seed);
    faulty.faults = Faults::none();
    ended(faulty, seed)
}

/// Some nodes end; at so many keys that the checker can put in order what may have happened at any
/// time.
fn ended<S: Subject>(mut faulty: FaultyCase<S>, seed: u64) -> FaultyCase<S> {
    faulty.case.load.keys = faulty.case.load.keys.max(6);
    faulty.with_absences(1 + Random::stream(seed, 60).below(3) as u32)
}

#[test]
fn promise_1_of_a_memory_node_that_ends_no_copy_is_served() {
    faults_do_no_harm(300, ending::<Forge>);
    faults_do_no_harm(150, ending::<Ditto>);
    faults_do_no_harm(150, |seed| ended(FaultyCase::<Forge>::drawn(seed), seed));
}

/// A node does not answer for a time, and nothing else goes wrong.
fn silent<S: Subject>(seed: u64) -> FaultyCase<S> {
    let mut faulty = FaultyCase::<S>::drawn(seed);
    faulty.faults = Faults::none();
    silenced(faulty, seed)
}

/// The same, among other faults. Operations of lost clients have unknown outcomes, which the
/// checker must all try.
fn silenced<S: Subject>(mut faulty: FaultyCase<S>, seed: u64) -> FaultyCase<S> {
    faulty.case.load.keys = faulty.case.load.keys.max(6);
    faulty.case.load.operations = faulty.case.load.operations.min(20);
    faulty.with_silences(1 + Random::stream(seed, 60).below(3) as u32)
}

/// Clients go on without it, and its keys are set anew where others are.
#[test]
fn promise_1_of_a_memory_node_that_does_not_answer_no_copy_is_served_once_it_is_given_up() {
    faults_do_no_harm(200, silent::<Forge>);
    faults_do_no_harm(100, silent::<Ditto>);
    faults_do_no_harm(100, silent::<MarkedForge>);
    faults_do_no_harm(150, |seed| silenced(FaultyCase::<Forge>::drawn(seed), seed));
}

/// The clients of a process end at different times, the one that exported its words among them.
#[test]
fn promise_1_of_a_memory_node_that_ends_no_process_of_several_clients_serves_a_copy() {
    let several = |mut faulty: FaultyCase<Forge>, seed: u64| {
        faulty.case.subject.process_clients = 2 + (seed % 2) as usize;
        faulty
    };
    faults_do_no_harm(200, |seed| several(ending(seed), seed));
    faults_do_no_harm(100, |seed| several(silent(seed), seed));
}

/// Many lookups of few keys, so that most of them find copies.
fn reading<S: Subject>(_seed: u64) -> Case<S> {
    let load = Load { mixed: true, lookups: 80, ..Load::new(4, 120, 40, 80) };
    Case { load, clients: 4, chunk_bytes: 1024, ..Case::default() }
}

/// Plays a case; how many hits near caches answered.
fn near_hits<S: Subject>(case: &Case<S>, seed: u64) -> Result<u64, String> {
    let hits = Rc::new(Cell::new(0));
    let (load, total) = (case.load.clone(), hits.clone());
    case.run_part(seed, move |client: Client<S>| {
        let (load, total) = (load.clone(), total.clone());
        async move {
            load::run(&client.cache, client.number, client.seed, &load, 1, &client.history).await?;
            total.set(total.get() + client.cache.engine().stats().near_hits);
            Ok::<_, CacheError>(client)
        }
    })?;
    Ok(hits.get())
}

#[test]
fn near_caches_answer_a_good_part_of_what_is_read_often() {
    fn check<S: Subject>() {
        let hits: u64 = under_seeds::<S, _, _>(20, reading::<S>, near_hits).iter().sum();
        // 20 runs of 4 clients that look up about a hundred times.
        println!("{}: {hits} near hits", S::NAME);
        assert!(hits > 500, "{hits}");
    }
    check::<Forge>();
    check::<Ditto>();
    check::<MarkedForge>();
}

/// An open hole is seen by some of the seeds, and no seed fails while it is closed.
fn is_seen<S: CopiedSubject>(hole: sharers::Hole, seeds: u64) {
    let opened = |is_open: bool| {
        let mut subject = NearSubject::<S>::default();
        subject.hole = is_open.then_some(hole);
        subject
    };
    subject_is_seen(&format!("{hole:?}"), seeds, opened);
}

/// The same of a subject, in which the hole is open or not.
fn subject_is_seen<S: Subject>(hole: &str, seeds: u64, subject: impl Fn(bool) -> S) {
    let run = |seed, is_open| Case { subject: subject(is_open), ..reading::<S>(seed) }.run(seed);
    let shown: Vec<_> = (0..seeds)
        .filter_map(|seed| {
            let closed = run(seed, false);
            assert!(closed.is_ok(), "seed {seed}, no hole open: {closed:?}");
            // A history that the checker gives up shows no harm.
            run(seed, true).err().filter(|harm| !harm.contains("no answer after"))
        })
        .collect();
    println!("{}, {hole}: shown by {} of {seeds} seeds, {:?}", S::NAME, shown.len(), shown.first());
    assert!(!shown.is_empty(), "{hole} is open and not seen");
}

#[test]
fn an_object_that_changes_before_its_copies_end_is_seen() {
    is_seen::<ForgeSubject>(sharers::Hole::ToldBeforeChange, 20);
    is_seen::<DittoSubject>(sharers::Hole::ToldBeforeChange, 20);
}

#[test]
fn a_copy_that_is_made_while_copies_end_is_seen() {
    is_seen::<ForgeSubject>(sharers::Hole::NoneOfClosed, 200);
}

#[test]
fn a_copy_whose_words_are_sampled_too_late_is_seen() {
    is_seen::<ForgeSubject>(sharers::Hole::SampleFirst, 200);
}

#[test]
fn a_sharer_that_came_after_the_table_was_read_is_seen() {
    is_seen::<ForgeSubject>(sharers::Hole::Newcomers, 100);
}

#[test]
fn a_mark_that_is_taken_after_the_lookup_is_seen() {
    let opened = |takes_marks_late| MarkedForge { takes_marks_late, ..MarkedSubject::default() };
    subject_is_seen("marks are taken late", 200, opened);
}
