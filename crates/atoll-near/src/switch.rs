//! Switching the mode of a stripe: when, and how. The states are in [`mode`](crate::mode).

use crate::directory::Stripe;
use crate::error::NearError;
use crate::hole::Hole;
use crate::mode::{Mode, ModeWord, Step};
use crate::near::{Near, Switch};
use crate::node::LINE_BYTES;
use crate::object::Object;
use crate::profit::{INTERVAL, INTERVAL_FIRST, THRESHOLD_DEFAULT, next_interval, pays};
use crate::protocol::Promise;
use crate::stripe::{self, Belief, GENERATION, StripeLine};
use crate::verbs::{read_word, swap};
use atoll_fabric::Endpoint;
use atoll_pool::fields::Fields;

/// `operations | reads | hits | invalid`. A read counts as a hit before it knows whether the copy
/// is valid, and then as invalid besides.
const COUNTS: Fields<4> = Fields::new([16, 16, 16, 16]);
pub(crate) const ONE_OPERATION: u64 = 1;
pub(crate) const ONE_READ: u64 = 1 << 16;
pub(crate) const ONE_HIT: u64 = 1 << 32;
pub(crate) const ONE_INVALID: u64 = 1 << 48;
/// `interval | threshold`.
const TUNING: Fields<2> = Fields::new([16, 16]);
/// How often a client looks whether bypasses have ended, before it gives a switch up.
const LOOKS_MAX: u32 = 8;
const LOOK_PAUSE_NS: u64 = 2000;
/// How long a transition stands until a client that finds it ends it: its client is dead or slow.
const TRANSITION_NS_MAX: u64 = 1_000_000;

impl<E: Endpoint> Near<E> {
    /// Switches caching of the object's stripe. Whether the stripe is in that mode then. It is not
    /// if it is off for good, or if another client switches it.
    ///
    /// # Errors
    /// A verb's error. The stripe may be in transition then, where nothing is cached; a later
    /// switch by any client ends that.
    pub async fn switch(&self, object: &Object, to: Switch) -> Result<bool, NearError> {
        self.or_ended(self.switch_object(object, to).await).await
    }

    async fn switch_object(&self, object: &Object, to: Switch) -> Result<bool, NearError> {
        match self.stripe_in_use(object).await? {
            Some((stripe, _)) if self.directory.options().protocol.is_adaptive() => {
                let wanted = if to == Switch::On { Mode::On } else { Mode::Off };
                Ok(self.switch_stripe(stripe, to).await?.mode() == wanted)
            }
            _ => Ok(false),
        }
    }

    /// Switches a stripe; its mode then.
    pub(crate) async fn switch_stripe(&self, stripe: Stripe, to: Switch) -> Result<ModeWord, NearError> {
        let mut word = self.directory.mode_of(read_word(&self.endpoint, stripe.mode_at).await?);
        loop {
            let was_left = to == Switch::On && self.is_left_in_transition(stripe, word);
            match Step::of(word.mode(), word.is_pinned(), to, was_left) {
                Step::Done | Step::Leave => return Ok(word),
                Step::Pin => match self.swap_mode(stripe, word, word.pinned()).await? {
                    Ok(done) => return Ok(done),
                    Err(found) => word = found,
                },
                Step::Begin => match self.swap_mode(stripe, word, word.with_mode(Mode::Transition)).await? {
                    Ok(transition) => match self.finish(stripe, transition, to).await? {
                        Ok(done) if to == Switch::Pin => word = done,
                        Ok(done) => return Ok(done),
                        Err(found) => word = found,
                    },
                    Err(found) => word = found,
                },
                Step::End if self.open.lacks(Hole::HelpedTransition) => return Ok(word),
                // The client that began the switch may be dead. If it is slow, its swap fails.
                Step::End => match self.finish(stripe, word, Switch::Off).await? {
                    Ok(done) | Err(done) => word = done,
                },
            }
        }
    }

    /// Ends a transition, after every node was told: the mode then, or what another client has made
    /// of it.
    async fn finish(
        &self,
        stripe: Stripe,
        transition: ModeWord,
        to: Switch,
    ) -> Result<Result<ModeWord, ModeWord>, NearError> {
        if !self.open.lacks(Hole::ToldInTransition) {
            self.invalidate(stripe, GENERATION).await?;
        }
        let is_on = to == Switch::On && self.bypasses_end(stripe).await?;
        let mode = if is_on { Mode::On } else { Mode::Off };
        let ended = self.swap_mode(stripe, transition, transition.with_mode(mode)).await?;
        if ended.is_ok() {
            self.counting.add(|counts| {
                let count = if is_on { &mut counts.switches_on } else { &mut counts.switches_off };
                *count += 1;
            });
        }
        Ok(ended)
    }

    /// Swaps the mode, whatever writers set and clear their bits meanwhile.
    async fn swap_mode(
        &self,
        stripe: Stripe,
        from: ModeWord,
        to: ModeWord,
    ) -> Result<Result<ModeWord, ModeWord>, NearError> {
        let mut found = from;
        loop {
            let wanted = ModeWord::from_bits(to.without_writers() | found.writers());
            let (expected, desired) = (self.directory.word_of(found), self.directory.word_of(wanted));
            match swap(&self.endpoint, stripe.mode_at, expected, desired).await? {
                Ok(()) => return Ok(Ok(wanted)),
                Err(word) => {
                    found = self.directory.mode_of(word);
                    if !found.is_same_transition(from) {
                        return Ok(Err(found));
                    }
                }
            }
        }
    }

    /// Whether no WRITE is under way that was posted before this node told the others.
    async fn bypasses_end(&self, stripe: Stripe) -> Result<bool, NearError> {
        if self.directory.options().promise == Promise::Regular || self.open.lacks(Hole::Bypasses) {
            return Ok(true);
        }
        for _ in 0..LOOKS_MAX {
            if !self.has_bypasses(stripe).await? {
                return Ok(true);
            }
            self.endpoint.pause(LOOK_PAUSE_NS).await;
        }
        Ok(false)
    }

    /// Whether this client has seen the same transition a while ago.
    fn is_left_in_transition(&self, stripe: Stripe, word: ModeWord) -> bool {
        if word.mode() != Mode::Transition {
            return false;
        }
        let now_ns = self.endpoint.now_ns();
        let (number, seen, first_ns) = self.transition.get();
        let stood_ns = now_ns.saturating_sub(first_ns);
        if (number, seen) == (stripe.number, word.without_writers()) {
            return stood_ns >= TRANSITION_NS_MAX;
        }
        // A client may meet two transitions by turns. So it replaces the one that it remembers
        // only after a while.
        if stood_ns >= 4 * TRANSITION_NS_MAX {
            self.transition.set((stripe.number, word.without_writers(), now_ns));
        }
        false
    }

    /// Whether the counts, as they are after an operation, call for a look at the mode.
    pub(crate) fn is_due(&self, counted: u64) -> bool {
        let [operations, ..] = COUNTS.unpack(counted);
        operations >= INTERVAL_FIRST && operations.is_multiple_of(INTERVAL_FIRST)
    }

    /// Looks whether the mode of a stripe pays, and switches it otherwise.
    pub(crate) async fn judge(&self, stripe: Stripe) -> Result<(), NearError> {
        let at = self.layout.stripe_at(stripe);
        let words = self.endpoint.read(at, self.spare(LINE_BYTES as usize)).await?;
        let (counted, tuned) = (words.words()[3], words.words()[4]);
        let first = self.directory.first_belief();
        let line = StripeLine::of(words.words(), first);
        let belief = line.belief;
        self.give_back(words);
        let [interval, threshold] = TUNING.unpack(tuned);
        let (interval, threshold) = match tuned {
            0 if belief == first || belief == Belief::Nothing => (INTERVAL_FIRST, THRESHOLD_DEFAULT),
            // Another node has switched it, and looks again itself.
            0 => (INTERVAL, THRESHOLD_DEFAULT),
            _ => (interval, threshold),
        };
        let [operations, reads, hits, invalid] = COUNTS.unpack(counted);
        // The counts may have been reset between the two.
        let hits = hits.saturating_sub(invalid);
        // One client of the node judges what was counted.
        if operations < interval || swap(&self.endpoint, at.add(stripe::COUNTS), counted, 0).await?.is_err() {
            return Ok(());
        }
        let threshold = if belief == Belief::On { self.latencies.threshold(reads, hits) } else { threshold };
        let to = match belief {
            Belief::On if !pays(true, reads, operations, threshold) => Some(Switch::Off),
            Belief::Off if pays(false, reads, operations, threshold) => Some(Switch::On),
            // The mode may be in a transition that no client ends.
            Belief::Nothing => {
                let word = self.directory.mode_of(read_word(&self.endpoint, stripe.mode_at).await?);
                self.is_left_in_transition(stripe, word).then_some(Switch::Off)
            }
            Belief::On | Belief::Off | Belief::Pinned => None,
        };
        // The end of another client's transition says nothing about this node's load.
        let mut did_decide = belief != Belief::Nothing;
        if let Some(to) = to {
            let mode = self.switch_stripe(stripe, to).await?;
            // It may be off for good.
            self.believe(stripe, &line, mode).await?;
            // Where another client still switches, this node looks again soon.
            did_decide &= mode.mode() != Mode::Transition;
        }
        let interval = if did_decide { next_interval(interval) } else { interval };
        let tuning = TUNING.pack_most([interval, threshold]);
        if tuning != tuned {
            let _ = swap(&self.endpoint, at.add(stripe::TUNING), tuned, tuning).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_fields_of_one_word() {
        let word = 9 * ONE_OPERATION + 7 * ONE_READ + 5 * ONE_HIT + ONE_INVALID;
        assert_eq!(COUNTS.unpack(word), [9, 7, 5, 1]);
    }
}
