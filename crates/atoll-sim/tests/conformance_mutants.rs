//! The conformance suite is itself tested: fabrics that break one promise each fail the case that
//! names it.

use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::conformance::{self, Fixture, REGION_BYTES};
use atoll_fabric::pass_on;
use atoll_fabric::{
    Address, Batch, Endpoint, Identity, Kind, MAILBOX_MESSAGES_MAX, Mailbox, MessageError, Messenger, Sender, VerbError,
};
use atoll_sim::sim::region;
use atoll_sim::{Faults, Sim, SimEndpoint, SimOptions};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mutant {
    /// None.
    Sound,
    /// A post ends when it is sent.
    EarlyCompletion,
    /// The verbs of a batch are posted one by one, without waiting for the one before.
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
    /// No client is shut out, and every client is said to be.
    NobodyShutOut,
    /// A post of one atomic ends when it is sent, with the word that was to be expected.
    EarlyAtomics,
    /// An atomic is behind the READs that follow it in its batch.
    LateAtomics,
    /// A READ in front of a fenced verb takes effect behind it.
    LateReads,
    /// All memory nodes are the first one.
    OneNode,
    /// A post ends once the verbs to the home have taken effect.
    EarlyNodes,
    /// The verbs to one memory node go out in the other order if the batch has verbs to another
    /// one.
    MixedNodes,
    /// A batch is checked node by node, while those before have taken effect.
    PartialNodes,
    /// A post whose outcome is unknown is made again.
    Repeated,
    /// A post whose outcome is unknown is said to have taken effect.
    Claimed,
    /// Every client is said to be dead, those that live among them.
    EverybodyDead,
    /// A message loses its last byte.
    CutMessages,
    /// A message arrives as the first incarnation that its sender ever had.
    FirstIncarnation,
    /// A sender that has filled a mailbox reaches no receiver any more.
    ClosedWhenFull,
}

struct Broken {
    inner: SimEndpoint,
    mutant: Mutant,
    /// Messages sent so far.
    sent: Cell<usize>,
    is_signed: Cell<bool>,
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

    /// Posts the verbs that `first` picks, awaits them, then posts the others.
    async fn in_two(&self, batch: &mut Batch, first: impl Fn(&Verb) -> bool) -> Result<(), VerbError> {
        let mut outcome = Ok(());
        for picked in [true, false] {
            let mut part = Batch::new();
            let places: Vec<usize> = (0..batch.len()).filter(|place| first(&batch.verbs()[*place]) == picked).collect();
            for place in &places {
                let verb = &mut batch.verbs_mut()[*place];
                part.read_word(verb.at);
                std::mem::swap(part.verbs_mut().last_mut().expect("it was added"), verb);
            }
            outcome = outcome.and(self.inner.post(&mut part).await);
            for (place, verb) in places.into_iter().zip(part.verbs_mut()) {
                std::mem::swap(&mut batch.verbs_mut()[place], verb);
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
            Mutant::EarlyAtomics if batch.len() == 1 => {
                let mut sent = Batch::new();
                let verb = &mut batch.verbs_mut()[0];
                match &mut verb.operation {
                    Operation::CompareAndSwap { expected, desired, found } => {
                        sent.compare_and_swap(verb.at, *expected, *desired);
                        *found = *expected;
                    }
                    Operation::FetchAndAdd { addend, .. } => drop(sent.fetch_and_add(verb.at, *addend)),
                    _ => return self.inner.post(batch).await,
                }
                self.inner.post_unawaited(&mut sent);
                Ok(())
            }
            Mutant::LateAtomics => self.in_two(batch, |verb| is_read(&verb.operation)).await,
            Mutant::LateReads if batch.verbs().iter().any(|verb| verb.fenced) => {
                self.in_two(batch, |verb| verb.fenced).await
            }
            Mutant::OneNode => {
                let homes: Vec<Address> = batch.verbs().iter().map(|verb| verb.at).collect();
                for verb in batch.verbs_mut().iter_mut().filter(|verb| verb.at.node() < 3) {
                    verb.at = Address::new(0, verb.at.region(), verb.at.offset());
                }
                let outcome = self.inner.post(batch).await;
                batch.verbs_mut().iter_mut().zip(homes).for_each(|(verb, at)| verb.at = at);
                outcome
            }
            Mutant::EarlyNodes => {
                let mut sent = Batch::new();
                for verb in batch.verbs().iter().filter(|verb| verb.at.node() > 0) {
                    if let Operation::WriteWord { value } = verb.operation {
                        sent.write_word(verb.at, value);
                    }
                }
                if sent.is_empty() {
                    return self.inner.post(batch).await;
                }
                self.inner.post_unawaited(&mut sent);
                Ok(())
            }
            Mutant::MixedNodes if batch.verbs().iter().any(|verb| verb.at.node() > 0) => {
                self.in_two(batch, |verb| matches!(verb.operation, Operation::FetchAndAdd { .. })).await
            }
            Mutant::PartialNodes => self.in_two(batch, |verb| verb.at.node() == 0).await,
            Mutant::Repeated => match self.inner.post(batch).await {
                Err(VerbError::OutcomeUnknown) => self.inner.post(batch).await,
                outcome => outcome,
            },
            Mutant::Claimed => match self.inner.post(batch).await {
                Err(VerbError::OutcomeUnknown) => Ok(()),
                outcome => outcome,
            },
            Mutant::NoFence => {
                batch.verbs_mut().iter_mut().for_each(|verb| verb.fenced = false);
                self.inner.post(batch).await
            }
            _ => self.inner.post(batch).await,
        }
    }

    async fn flush(&self) -> Result<(), VerbError> {
        if self.mutant == Mutant::NoFlush { Ok(()) } else { self.inner.flush().await }
    }

    fn is_dead(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        let everybody = self.mutant == Mutant::EverybodyDead;
        async move { if everybody { Ok(true) } else { self.inner.is_dead(who).await } }
    }

    fn shut_out(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        let nobody = self.mutant == Mutant::NobodyShutOut;
        async move { if nobody { Ok(true) } else { self.inner.shut_out(who).await } }
    }

    fn fabric(&self) -> &'static str {
        "broken"
    }

    pass_on!(inner: post_unawaited pause now_ns unix_ms agent_ms random region_attributes);
    pass_on!(inner: wait boot limits is_near identity origin);
}

impl Messenger for Broken {
    fn sign(&self, sender: Sender) {
        if !self.is_signed.replace(true) || self.mutant != Mutant::FirstIncarnation {
            self.inner.sign(sender);
        }
    }

    fn send(&self, to: Mailbox, bytes: &[u8]) -> Result<(), MessageError> {
        self.sent.set(self.sent.get() + 1);
        match self.mutant {
            Mutant::CutMessages => self.inner.send(to, &bytes[..bytes.len() - 1]),
            Mutant::ClosedWhenFull if self.sent.get() > MAILBOX_MESSAGES_MAX => Ok(()),
            _ => self.inner.send(to, bytes),
        }
    }

    pass_on!(inner: mailbox receive receive_within);
}

fn is_read(operation: &Operation) -> bool {
    matches!(operation, Operation::Read { .. } | Operation::ReadWord { .. })
}

struct Simulated {
    seed: u64,
    mutant: Mutant,
    faults: Faults,
}

const UNKNOWN: &str = "a_verb_of_an_unknown_outcome_takes_effect_once_at_most_and_never_after_the_fence";
/// Posts whose outcome stays unknown.
const UNKNOWNS: Faults = Faults { unknowns_max: 12, steps_between: 8, ns_max: 3_000_000, ..Faults::none() };

impl Fixture for Simulated {
    type Endpoint = Broken;

    fn run(&self, case: &conformance::Case<Broken>) {
        let nodes = vec![vec![region(REGION_BYTES, Kind::Host)]; case.nodes.into()];
        let options = SimOptions::with_nodes(self.seed, nodes);
        let sim = Sim::new(SimOptions { steps_max: 200_000, faults: self.faults, ..options });
        let endpoint = |name: &str| Broken {
            inner: sim.endpoint(name),
            mutant: self.mutant,
            sent: Cell::new(0),
            is_signed: Cell::new(false),
        };
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
    let faults = if case.contains("unknown_outcome") { UNKNOWNS } else { Faults::none() };
    let case = conformance::case::<Broken>(case).or_else(|| conformance::message_case(case));
    let case = case.expect("the suite has it");
    (0..60).any(|seed| catch_unwind(AssertUnwindSafe(|| Simulated { seed, mutant, faults }.run(&case))).is_err())
}

#[test]
fn a_fabric_that_breaks_nothing_passes() {
    let mutant = Mutant::Sound;
    (0..5).for_each(|seed| conformance::run(&Simulated { seed, mutant, faults: Faults::none() }));
    (0..60).for_each(|seed| conformance::run_unknown(&Simulated { seed, mutant, faults: UNKNOWNS }));
    (0..5).for_each(|seed| conformance::run_messages(&Simulated { seed, mutant, faults: Faults::none() }));
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
        (Mutant::EarlyAtomics, "a_completed_swap_is_seen_by_whatever_is_posted_later"),
        (Mutant::EarlyAtomics, "a_completed_addition_is_seen_by_whatever_is_posted_later"),
        (Mutant::LateAtomics, "a_read_behind_a_swap_of_its_batch_is_behind_it_for_all"),
        (Mutant::LateAtomics, "a_read_behind_an_addition_of_its_batch_is_behind_it_for_all"),
        (Mutant::NoOrder, "a_read_behind_a_write_of_its_batch_is_behind_it_for_all"),
        (Mutant::NoOrder, "a_failing_swap_behind_a_write_of_its_batch_is_behind_it_for_all"),
        (Mutant::NoFence, "a_fenced_swap_behind_a_swap_of_its_batch_is_behind_it_for_all"),
        (Mutant::NoFence, "a_fenced_read_is_behind_the_read_before_it"),
        (Mutant::NoFence, "a_fenced_atomic_is_behind_the_read_before_it"),
        (Mutant::NoFence, "a_fenced_write_is_behind_the_atomic_before_it"),
        (Mutant::NoFence, "a_fenced_atomic_is_behind_the_atomic_before_it"),
        (Mutant::NoFence, "a_fenced_write_is_behind_the_read_before_it"),
        (Mutant::NoFence, "a_fenced_swap_is_behind_the_read_before_it"),
        (Mutant::LateReads, "a_fenced_read_is_behind_the_read_before_it"),
        (Mutant::LateReads, "a_fenced_write_is_behind_the_read_before_it"),
        (Mutant::LateReads, "a_fenced_swap_is_behind_the_read_before_it"),
        (Mutant::OneNode, "every_node_has_words_of_its_own"),
        (Mutant::OneNode, "a_batch_to_several_nodes_takes_effect_on_each"),
        (Mutant::EarlyNodes, "what_completed_on_one_node_is_seen_by_whatever_is_posted_later_to_another"),
        (Mutant::MixedNodes, "verbs_to_one_node_are_in_order_whatever_is_between_them"),
        (Mutant::PartialNodes, "a_batch_with_a_node_that_is_not_there_changes_nothing"),
        (Mutant::Repeated, UNKNOWN),
        (Mutant::Claimed, UNKNOWN),
        (Mutant::NobodyShutOut, UNKNOWN),
        (Mutant::CutMessages, "a_message_arrives_whole_or_not_at_all"),
        (Mutant::EarlyCompletion, "what_completed_before_a_message_was_sent_is_visible_to_its_receiver"),
        (Mutant::ClosedWhenFull, "a_mailbox_that_ran_full_loses_messages_and_takes_later_ones"),
        (Mutant::FirstIncarnation, "a_message_names_the_incarnation_that_its_sender_had_when_it_sent"),
        (Mutant::EverybodyDead, "a_client_that_lives_is_not_dead_and_asking_does_no_harm"),
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
    assert_eq!(outcome, Ok(Err(VerbError::unreachable(format_args!("3:2+0x40"), 8))));
}
