//! Verbs that an agent executes for clients on other hosts: on the same words, with the same
//! instructions and barriers as those of this host.

use super::endpoint::ShmEndpoint;
use super::order::{Access, Order};
use super::words::Words;
use crate::batch::{Operation, Verb};
use crate::shm::ShmRegion;
use crate::tcp::agent::watch::Gate;
use crate::tcp::wire::{Action, WireVerb};
use crate::{Identity, Region, VerbError};
use std::sync::Arc;

impl ShmEndpoint {
    /// Executes the verbs of a batch in order and appends what they found to `found`. All effects
    /// are visible to every verb that is posted later. The batch has completed once all `gates` are
    /// open that are appended.
    ///
    /// # Errors
    /// [`VerbError::Unreachable`] or [`VerbError::NoMemory`], or [`VerbError::PeerDead`] if the
    /// process of an exported region does not follow it any more; the batch took no effect. The
    /// same of an exported region that has ended: what the batch has changed there is unseen.
    pub(crate) fn execute_wire(
        &self,
        verbs: &[WireVerb<'_>],
        found: &mut Vec<u64>,
        gates: &mut Vec<Gate>,
    ) -> Result<(), VerbError> {
        for verb in verbs {
            let bytes = 8 * verb.action.words() as u64;
            if self.words(verb.at, bytes).is_none() {
                return Err(self.refusal(verb.at, bytes));
            }
            if self.exported_region(verb.at).is_some_and(|region| region.is_given_up()) {
                return Err(VerbError::PeerDead);
            }
        }
        let mut order = Order::default();
        for verb in verbs {
            let words =
                self.words(verb.at, 8 * verb.action.words() as u64).expect("verbs are checked before any executes");
            let Some(region) = self.exported_region(verb.at) else {
                Self::execute_action(verb, words, &mut order, found);
                continue;
            };
            let watched = region.watched();
            let has_changed = Self::execute_action(verb, words, &mut order, found);
            if let Some(watch) = &*watched {
                let count = if has_changed { verb.action.words() } else { 0 };
                let load = |start: usize, into: &mut [u64]| words.part(start as u64, into.len()).load_into(into);
                Gate::note(gates, watch, watch.record((verb.at.offset() / 8) as usize, count, load));
            }
        }
        order.at_end(true).stand();
        verbs.iter().try_for_each(|verb| self.check_end(verb.at))
    }

    /// Executes a verb and appends what it found; whether it has changed words.
    #[inline(always)]
    fn execute_action(
        verb: &WireVerb<'_>,
        words: Words,
        order: &mut Order<{ super::order::LOCKED_ATOMICS }>,
        found: &mut Vec<u64>,
    ) -> bool {
        let operation = match verb.action {
            Action::Read(count) => {
                order.before(Access::Read, verb.fenced).stand();
                let start = found.len();
                found.resize(start + count, 0);
                words.load_into(&mut found[start..]);
                return false;
            }
            Action::Write(data) => {
                order.before(Access::Write, verb.fenced).stand();
                words.store_from(data);
                return !data.is_empty();
            }
            Action::ReadWord => Operation::ReadWord { value: 0 },
            Action::WriteWord(value) => Operation::WriteWord { value },
            Action::Swap(expected, desired) => Operation::CompareAndSwap { expected, desired, found: 0 },
            Action::Add(addend) => Operation::FetchAndAdd { addend, found: 0 },
        };
        let mut verb = Verb { at: verb.at, fenced: verb.fenced, operation };
        Self::execute(&mut verb, words, order);
        match verb.operation {
            Operation::ReadWord { value } => {
                found.push(value);
                false
            }
            Operation::CompareAndSwap { expected, found: word, .. } => {
                found.push(word);
                word == expected
            }
            Operation::FetchAndAdd { found: word, .. } => {
                found.push(word);
                true
            }
            _ => true,
        }
    }

    /// The region that it was made over.
    pub(crate) fn home_region(&self) -> Arc<ShmRegion> {
        self.regions[0].clone()
    }

    /// Whether the region of an address is reached.
    pub(crate) fn is_reached(&self, at: crate::Address) -> bool {
        self.region_at(at).is_some_and(|region| at.offset() < region.attributes().bytes)
    }
}

impl ShmRegion {
    /// Whether no endpoint of the region has this identity any more.
    pub(crate) fn is_endpoint_dead(&self, who: Identity) -> bool {
        self.presence.is_dead(who)
    }
}
