//! How verbs are executed: the words that they touch, and the barriers between them.

use super::ShmRegion;
use super::endpoint::ShmEndpoint;
use super::order::{Access, LOCKED_ATOMICS, Order};
use super::words::Words;
use crate::batch::{Operation, Verb};
use crate::{Address, Batch, VerbError};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl ShmEndpoint {
    /// The start of the region of `at`, if the region reaches to `end` and the pages up to there
    /// can be provided. It serves all addresses but the known bytes of node 0's first region. It is
    /// not inlined, because that would slow their path down.
    #[cold]
    #[inline(never)]
    fn base_of(&self, at: Address, end: u64) -> Option<NonNull<u8>> {
        if let Some(base) = self.exports.latest(at, end) {
            return Some(base);
        }
        let export;
        let region = match at.compute_node() {
            // What this endpoint reaches stays mapped while a verb is executed: see `exports`.
            Some(node) => {
                export = self.exports.region(node, at.region())?;
                &export
            }
            None => self.memory_region(at)?,
        };
        if end > region.mapping.bytes() {
            return None;
        }
        let is_there = region.touch(at.offset(), end);
        if at.is_home() {
            self.there.set(region.pages.there());
        } else if at.compute_node().is_some() {
            self.exports.note(at, region);
        }
        is_there.then(|| region.mapping.base())
    }

    /// The region of an address.
    pub(super) fn region_at(&self, at: Address) -> Option<Arc<ShmRegion>> {
        match at.compute_node() {
            Some(node) => self.exports.region(node, at.region()),
            None => self.memory_region(at).cloned(),
        }
    }

    /// The region of an address on a memory node.
    fn memory_region(&self, at: Address) -> Option<&Arc<ShmRegion>> {
        match (at.node(), at.region()) {
            (0, region) => self.regions.get(region as usize),
            (node, 0) => self.nodes.as_ref()?.region(node),
            _ => None,
        }
    }

    /// The words at `at`, if they are words of a region.
    #[inline(always)]
    pub(super) fn words(&self, at: Address, bytes: u64) -> Option<Words> {
        let end = at.offset().checked_add(bytes.next_multiple_of(8))?;
        if !at.offset().is_multiple_of(8) {
            return None;
        }
        let base = if at.is_home() && end <= self.there.get() { self.base } else { self.base_of(at, end)? };
        // SAFETY: the span lies in the mapping, which lives as long as `self` (which holds the
        // region, or the nodes that hold it and never let go of one, or the exports that let go of
        // one between verbs alone); offsets and the base are
        // multiples of 8; every access to a mapping in this crate goes through `Words`.
        Some(unsafe { Words::new(base.add(at.offset() as usize), bytes.div_ceil(8) as usize) })
    }

    /// Whether a verb is for words of node 0's first region that are known to be there.
    #[inline(always)]
    fn is_there(&self, verb: &Verb) -> bool {
        // A verb's length is its buffer's, which is far from the last multiple of eight.
        let (offset, bytes) = (verb.at.offset(), verb.len().next_multiple_of(8));
        verb.at.is_home() && offset.is_multiple_of(8) && offset.saturating_add(bytes) <= self.there.get()
    }

    fn check(&self, verb: &Verb) -> Result<(), VerbError> {
        match self.words(verb.at, verb.len()) {
            Some(_) => Ok(()),
            None => Err(self.refusal(verb.at, verb.len())),
        }
    }

    /// Executes one verb on its words behind what `order` has seen of its batch.
    #[inline(always)]
    pub(super) fn execute(verb: &mut Verb, words: Words, order: &mut Order<LOCKED_ATOMICS>) {
        match &mut verb.operation {
            Operation::Read { into } => {
                order.before(Access::Read, verb.fenced).stand();
                words.load_into(into.words_mut());
            }
            Operation::ReadWord { value } => {
                order.before(Access::Read, verb.fenced).stand();
                *value = words.word().load(Ordering::Relaxed);
            }
            Operation::Write { from } => {
                order.before(Access::Write, verb.fenced).stand();
                words.store_from(from.words());
            }
            Operation::WriteWord { value } => {
                order.before(Access::Write, verb.fenced).stand();
                words.word().store(*value, Ordering::Relaxed);
            }
            Operation::CompareAndSwap { expected, desired, found } => {
                order.before(Access::Atomic, verb.fenced).stand();
                let outcome = words.word().compare_exchange(*expected, *desired, Ordering::SeqCst, Ordering::SeqCst);
                *found = outcome.unwrap_or_else(|other| other);
                Order::<LOCKED_ATOMICS>::behind_atomic().stand();
            }
            Operation::FetchAndAdd { addend, found } => {
                order.before(Access::Atomic, verb.fenced).stand();
                *found = words.word().fetch_add(*addend, Ordering::SeqCst);
                Order::<LOCKED_ATOMICS>::behind_atomic().stand();
            }
        }
    }

    /// Fails if `at` is in an exported region that has ended. It is called after the verbs: if the
    /// region had not ended by then, they touched the words that all endpoints reach.
    #[inline(always)]
    pub(super) fn check_end(&self, at: Address) -> Result<(), VerbError> {
        if at.is_home() || !self.exports.has_ended(at) { Ok(()) } else { Err(VerbError::PeerDead) }
    }

    /// The reason why a verb cannot be executed.
    #[cold]
    pub(super) fn refusal(&self, at: Address, bytes: u64) -> VerbError {
        let end = at.offset().checked_add(bytes.next_multiple_of(8)).filter(|_| at.offset().is_multiple_of(8));
        let is_inside = |end| self.region_at(at).is_some_and(|region| end <= region.mapping.bytes());
        match end.is_some_and(is_inside) {
            true => VerbError::no_memory(if at.compute_node().is_some() { 0 } else { at.node() }),
            false => VerbError::unreachable(at, bytes),
        }
    }

    /// Whether this process is a fork of the one that made the endpoint.
    #[inline(always)]
    pub(super) fn is_fork(&self) -> bool {
        self.guard.number() != self.process
    }

    /// Executes the batch; `settled` says whether its effects are to be seen by every verb that is
    /// posted later.
    #[inline]
    pub(super) fn execute_all(&self, batch: &mut Batch, settled: bool) -> Result<(), VerbError> {
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        if !batch.verbs().iter().all(|verb| self.is_there(verb)) {
            return self.execute_elsewhere(batch, settled);
        }
        // SAFETY: `is_there` holds for every verb of the batch, and executing a verb does not
        // change what is there. So the spans lie in the mapping of the first region, whose base
        // this is, and which lives as long as `self`.
        unsafe { Self::execute_at(self.base, batch, settled) };
        Ok(())
    }

    /// Executes the batch on the region that starts at `base`.
    ///
    /// # Safety
    /// The span of every verb lies in a mapping that starts at `base` and lives during the call. It
    /// starts at a word.
    #[inline(always)]
    unsafe fn execute_at(base: NonNull<u8>, batch: &mut Batch, settled: bool) {
        let mut order = Order::default();
        for verb in batch.verbs_mut() {
            // SAFETY: as the caller says; the span is made of whole words, since a mapping is;
            // every access to a mapping in this crate goes through `Words`.
            let words = unsafe { Words::new(base.add(verb.at.offset() as usize), verb.len().div_ceil(8) as usize) };
            Self::execute(verb, words, &mut order);
        }
        order.at_end(settled).stand();
    }

    /// The same for a batch with a verb elsewhere: on one exported region, as a client of a near
    /// cache posts most of its batches, or anywhere.
    #[inline(never)]
    fn execute_elsewhere(&self, batch: &mut Batch, settled: bool) -> Result<(), VerbError> {
        let Some(base) = self.exports.latest_of(batch) else { return self.execute_far(batch, settled) };
        // SAFETY: `latest_of` has found every verb in a region that is reached, which stays mapped
        // while verbs are executed.
        unsafe { Self::execute_at(base, batch, settled) };
        batch.verbs().first().map_or(Ok(()), |verb| self.check_end(verb.at))
    }

    /// A batch of one WRITE of these bytes.
    pub(super) fn store(&self, at: Address, from: &[u8]) -> Result<(), VerbError> {
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        let words = self.words(at, from.len() as u64).ok_or_else(|| self.refusal(at, from.len() as u64))?;
        let mut order = Order::<LOCKED_ATOMICS>::default();
        order.before(Access::Write, false).stand();
        words.store_bytes(from);
        order.at_end(true).stand();
        self.check_end(at)
    }

    /// The same for a batch with a verb for words that are not known to be there, or that are
    /// elsewhere. Out of the way of the others, which it would slow down if it were inlined.
    #[cold]
    #[inline(never)]
    fn execute_far(&self, batch: &mut Batch, settled: bool) -> Result<(), VerbError> {
        for verb in batch.verbs() {
            self.check(verb)?;
        }
        let mut order = Order::default();
        for verb in batch.verbs_mut() {
            let words = self.words(verb.at, verb.len()).expect("verbs are checked before any executes");
            Self::execute(verb, words, &mut order);
        }
        order.at_end(settled).stand();
        batch.verbs().iter().try_for_each(|verb| self.check_end(verb.at))
    }
}
