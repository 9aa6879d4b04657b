//! Verbs that an agent executes for clients on other hosts: on the same words, with the same
//! instructions and barriers as those of this host.

use super::endpoint::ShmEndpoint;
use super::order::{Access, Order};
use super::words::Words;
use crate::batch::{Operation, Verb};
use crate::shm::ShmRegion;
use crate::tcp::wire::{Action, WireVerb};
use crate::{Identity, Region, VerbError};
use std::sync::Arc;

impl ShmEndpoint {
    /// Executes the verbs of a batch in order and appends what they found to `found`. All effects
    /// are visible to every verb that is posted later.
    ///
    /// # Errors
    /// [`VerbError::Unreachable`] or [`VerbError::NoMemory`]; the batch took no effect.
    pub(crate) fn execute_wire(&self, verbs: &[WireVerb<'_>], found: &mut Vec<u64>) -> Result<(), VerbError> {
        for verb in verbs {
            let bytes = 8 * verb.action.words() as u64;
            if self.words(verb.at, bytes).is_none() {
                return Err(self.refusal(verb.at, bytes));
            }
        }
        let mut order = Order::default();
        for verb in verbs {
            let words =
                self.words(verb.at, 8 * verb.action.words() as u64).expect("verbs are checked before any executes");
            let operation = match verb.action {
                Action::Read(count) => {
                    order.before(Access::Read, verb.fenced).stand();
                    let start = found.len();
                    found.resize(start + count, 0);
                    words.load_into(&mut found[start..]);
                    continue;
                }
                Action::Write(data) => {
                    order.before(Access::Write, verb.fenced).stand();
                    words.store_from(data);
                    continue;
                }
                Action::ReadWord => Operation::ReadWord { value: 0 },
                Action::WriteWord(value) => Operation::WriteWord { value },
                Action::Swap(expected, desired) => Operation::CompareAndSwap { expected, desired, found: 0 },
                Action::Add(addend) => Operation::FetchAndAdd { addend, found: 0 },
            };
            found.extend(Self::execute_word(Verb { at: verb.at, fenced: verb.fenced, operation }, words, &mut order));
        }
        order.at_end(true).stand();
        Ok(())
    }

    /// Executes a verb on one word; gives the word that it found, if it tells one.
    #[inline(always)]
    fn execute_word(mut verb: Verb, words: Words, order: &mut Order<{ super::order::LOCKED_ATOMICS }>) -> Option<u64> {
        Self::execute(&mut verb, words, order);
        match verb.operation {
            Operation::ReadWord { value } => Some(value),
            Operation::CompareAndSwap { found, .. } | Operation::FetchAndAdd { found, .. } => Some(found),
            _ => None,
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
