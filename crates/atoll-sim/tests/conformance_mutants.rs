//! The conformance suite is itself tested: fabrics that break one promise each fail the case that names it.

use atoll_fabric::batch::Operation;
use atoll_fabric::conformance::{self, Fixture, REGION_BYTES};
use atoll_fabric::{Address, Batch, Endpoint, Identity, Limits, VerbError};
use atoll_sim::{Sim, SimEndpoint, SimOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mutant {
    /// None.
    Sound,
    /// A post ends when it is sent.
    EarlyCompletion,
    /// The verbs of a batch go out one by one, and nobody waits for one before the next.
    NoOrder,
    /// A compare-and-swap is a READ and a WRITE.
    SplitAtomics,
    /// Words are written in two halves.
    TornWords,
    /// What stands behind a failed compare-and-swap is left out.
    StopAtFailure,
    /// A batch with one bad verb does its good ones.
    PartialErrors,
    /// A flush ends at once.
    NoFlush,
    /// Fences between verbs are ignored.
    NoFence,
    /// Nobody is shut out, and everybody is said to be.
    NobodyShutOut,
}

struct Broken {
    inner: SimEndpoint,
    mutant: Mutant,
}

impl Broken {
    async fn one_by_one(&self, batch: &mut Batch, stop: impl Fn(&Batch) -> bool) -> Result<(), VerbError> {
        let mut outcome = Ok(());
        for verb in batch.verbs_mut() {
            let mut single = Batch::new();
            single.read_word(verb.at);
            std::mem::swap(&mut single.verbs_mut()[0], verb);
            let posted = self.inner.post(&mut single).await;
            std::mem::swap(&mut single.verbs_mut()[0], verb);
            outcome = outcome.and(posted);
            let mut look = Batch::new();
            if let Operation::CompareAndSwap { expected, desired, found } = verb.operation {
                look.compare_and_swap(verb.at, expected, desired);
                look.verbs_mut()[0].operation = Operation::CompareAndSwap { expected, desired, found };
                if stop(&look) {
                    break;
                }
            }
        }
        outcome
    }

    async fn split_atomics(&self, batch: &mut Batch) -> Result<(), VerbError> {
        self.inner.post(batch).await?;
        for index in 0..batch.len() {
            let at = batch.verbs()[index].at;
            let Operation::FetchAndAdd { addend, ref mut found } = batch.verbs_mut()[index].operation else { continue };
            // Undone, and done again badly.
            let mut steps = Batch::new();
            steps.fetch_and_add(at, addend.wrapping_neg());
            let old = steps.read_word(at);
            self.inner.post(&mut steps).await?;
            *found = steps.word(old);
            let mut steps = Batch::new();
            steps.write_word(at, found.wrapping_add(addend));
            self.inner.post(&mut steps).await?;
        }
        Ok(())
    }

    async fn torn_words(&self, batch: &mut Batch) -> Result<(), VerbError> {
        let mut halves = Batch::new();
        for verb in batch.verbs() {
            let is_inside = verb.at.offset().is_multiple_of(8) && verb.at.offset() + verb.len() < REGION_BYTES;
            if let Operation::Write { from } = &verb.operation
                && is_inside
                && !verb.is_empty()
            {
                halves.write_word(verb.at, from.words()[0] & 0xffff_ffff);
            }
        }
        self.inner.post(&mut halves).await?;
        self.inner.post(batch).await
    }
}

impl Endpoint for Broken {
    async fn post(&self, batch: &mut Batch) -> Result<(), VerbError> {
        match self.mutant {
            Mutant::EarlyCompletion if batch.verbs().iter().all(|verb| matches!(verb.operation, Operation::WriteWord { .. })) => {
                let mut sent = Batch::new();
                for verb in batch.verbs() {
                    if let Operation::WriteWord { value } = verb.operation {
                        sent.write_word(verb.at, value);
                    }
                }
                self.inner.post_unawaited(&mut sent);
                Ok(())
            }
            Mutant::NoOrder => {
                // The first verb goes last.
                let mut rest = Batch::new();
                std::mem::swap(&mut rest, batch);
                rest.verbs_mut().reverse();
                let outcome = self.inner.post(&mut rest).await;
                rest.verbs_mut().reverse();
                std::mem::swap(&mut rest, batch);
                outcome
            }
            Mutant::StopAtFailure => {
                self.one_by_one(batch, |look| !matches!(look.verbs()[0].operation, Operation::CompareAndSwap { expected, found, .. } if expected == found)).await
            }
            Mutant::PartialErrors => self.one_by_one(batch, |_| false).await,
            Mutant::SplitAtomics => self.split_atomics(batch).await,
            Mutant::TornWords => self.torn_words(batch).await,
            Mutant::NoFence => {
                batch.verbs_mut().iter_mut().for_each(|verb| verb.fenced = false);
                self.inner.post(batch).await
            }
            _ => self.inner.post(batch).await,
        }
    }

    fn post_unawaited(&self, batch: &mut Batch) {
        self.inner.post_unawaited(batch);
    }

    async fn flush(&self) -> Result<(), VerbError> {
        if self.mutant == Mutant::NoFlush { Ok(()) } else { self.inner.flush().await }
    }

    async fn pause(&self, ns: u64) {
        self.inner.pause(ns).await;
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn unix_ms(&self) -> u64 {
        self.inner.unix_ms()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn fence(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        let nobody = self.mutant == Mutant::NobodyShutOut;
        async move { if nobody { Ok(true) } else { self.inner.fence(who).await } }
    }

    fn fabric(&self) -> &'static str {
        "broken"
    }
}

struct Simulated {
    seed: u64,
    mutant: Mutant,
}

impl Fixture for Simulated {
    type Endpoint = Broken;

    fn run(&self, case: &conformance::Case<Broken>) {
        let sim = Sim::new(SimOptions { steps_max: 200_000, ..SimOptions::new(self.seed, REGION_BYTES) });
        let endpoint = |name: &str| Broken { inner: sim.endpoint(name), mutant: self.mutant };
        for client in 0..case.clients {
            let name = format!("client {client}");
            sim.spawn(&name, (case.play)(endpoint(&name), client, 8));
        }
        sim.run().unwrap();
        sim.block_on((case.verify)(endpoint("verify"), 8)).unwrap();
    }
}

/// Whether some seed fails the case.
fn is_caught(case: &str, mutant: Mutant) -> bool {
    let case = conformance::case::<Broken>(case).expect("the suite has it");
    (0..60).any(|seed| catch_unwind(AssertUnwindSafe(|| Simulated { seed, mutant }.run(&case))).is_err())
}

#[test]
fn a_fabric_that_breaks_nothing_passes() {
    (0..5).for_each(|seed| conformance::run(&Simulated { seed, mutant: Mutant::Sound }));
}

#[test]
fn a_fabric_that_breaks_a_promise_fails_the_case_that_names_it() {
    // What the mutants say while they fail is expected.
    std::panic::set_hook(Box::new(|_| {}));
    let caught = [
        (Mutant::EarlyCompletion, "a_completed_write_is_seen_by_whatever_is_posted_later"),
        (Mutant::NoOrder, "a_write_is_before_a_write_behind_it"),
        (Mutant::NoOrder, "a_write_is_before_a_swap_behind_it"),
        (Mutant::NoOrder, "a_read_is_behind_the_swap_before_it"),
        (Mutant::NoOrder, "a_write_is_seen_by_what_follows_it_in_its_batch"),
        (Mutant::SplitAtomics, "atomics_exclude_each_other"),
        (Mutant::TornWords, "words_never_tear"),
        (Mutant::StopAtFailure, "a_failed_swap_stops_nothing_behind_it"),
        (Mutant::PartialErrors, "an_unreachable_verb_is_an_error_and_its_batch_changes_nothing"),
        (Mutant::NoFlush, "what_was_posted_unawaited_takes_effect_before_a_flush_ends"),
        (Mutant::NoFlush, "what_was_flushed_is_seen_by_whatever_is_posted_later"),
        (Mutant::NoFlush, "an_error_of_an_unawaited_post_surfaces_at_the_next_flush"),
        (Mutant::NoFence, "a_fenced_verb_waits_for_all_before_it"),
        (Mutant::NobodyShutOut, "a_client_that_is_shut_out_changes_nothing"),
    ];
    let missed: Vec<_> = caught.iter().filter(|(mutant, case)| !is_caught(case, *mutant)).collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn the_address_of_a_verb_says_where_it_went_wrong() {
    let sim = Sim::new(SimOptions::new(1, 64));
    let endpoint = sim.endpoint("client");
    let outcome = sim.block_on(async move {
        let mut batch = Batch::new();
        batch.read_word(Address::new(3, 2, 0x40));
        endpoint.post(&mut batch).await
    });
    assert_eq!(outcome, Ok(Err(VerbError::Unreachable { at: "3:2+0x40".to_owned(), bytes: 8 })));
}
