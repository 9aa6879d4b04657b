//! What the last lookup saw when it missed, for the change of the same key that most often follows:
//! a cache is filled on demand.
//!
//! A change that inserts needs the bucket twice. First it sees that its key is absent and which
//! slot is free. After its slot has become pending, it sees whether another insertion of the key
//! was faster (see `insert`). The first look may be an old one: the compare-and-swap expects the
//! word that was seen, and the second look finds what came meanwhile. So where a round trip costs,
//! a miss keeps its bucket, and an insertion soon afterwards saves the READ.
//!
//! Only an insertion may use it. Whether a key is absent, or what its object is, is told from a
//! fresh look.

use super::Forge;
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS};
use super::operation::Operation;
use super::slot::KeyHash;
use super::technique::Technique;
use atoll_fabric::{Buffer, Endpoint};
use std::cell::{Cell, RefCell};

/// How old a bucket may be that an insertion uses: some round trips. A bucket that has changed costs
/// a failed attempt, which an older one makes more likely.
const AGE_NS_MAX: u64 = 50_000;

/// A bucket without a key, seen by a lookup.
#[derive(Debug)]
struct Absence {
    hash: KeyHash,
    /// No later than when the bucket was READ.
    begun_ns: u64,
    words: [u64; BUCKET_SLOTS],
}

/// What a client keeps of misses.
#[derive(Debug)]
pub(super) struct Absences {
    is_on: Cell<bool>,
    /// What the last lookup saw, if it missed.
    last: RefCell<Option<Absence>>,
}

impl Absences {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on: Cell::new(is_on), last: RefCell::default() }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on.get()
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Sets whether a miss keeps its bucket. By default it does where a round trip costs something.
    pub fn set_absence_memory(&self, is_on: bool) {
        self.absences.is_on.set(is_on);
        self.absences.last.take();
    }

    /// Remembers the bucket that a lookup, which began at `begun_ns`, has just READ and in which
    /// its key is not.
    #[cold]
    pub(super) fn remember_absence(&self, op: &mut Operation, hash: KeyHash, begun_ns: u64) {
        self.absences.last.replace(Some(Absence { hash, begun_ns, words: *op.seen_words() }));
    }

    /// Makes what the last lookup saw the bucket that was READ, if it was of this key and not long
    /// ago: when it began. Serves once.
    pub(super) fn recall_absence(&self, op: &mut Operation, hash: KeyHash) -> Option<u64> {
        let absence = self.absences.last.take().filter(|absence| absence.hash == hash)?;
        if self.client.endpoint.now_ns().wrapping_sub(absence.begun_ns) > AGE_NS_MAX || !self.technique.recalls_misses()
        {
            return None;
        }
        let mut bucket: Buffer = std::mem::take(&mut op.bucket);
        bucket.resize(BUCKET_BYTES as usize);
        bucket.words_mut().copy_from_slice(&absence.words);
        op.bucket = bucket;
        Some(absence.begun_ns)
    }
}
