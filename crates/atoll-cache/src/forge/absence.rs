//! The bucket that the last lookup READ, if it missed. A cache is filled on demand, so an insertion
//! of the same key most often follows a miss.
//!
//! An inserter needs the bucket twice. The first READ shows that its key is absent and which slot
//! is free. The second READ, after its slot has become pending, shows whether another inserter of
//! the key was faster (see `insert`). The first bucket may be old: the compare-and-swap expects the
//! word that was seen, and the second bucket shows what changed meanwhile. So on fabrics where a
//! round trip is expensive, a lookup that misses keeps its bucket. An insertion soon afterwards
//! saves the READ.
//!
//! Only an insertion may use the kept bucket. A client READs the bucket afresh before it reports a
//! key absent, or reports its object.

use super::Forge;
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS};
use super::operation::Operation;
use super::slot::KeyHash;
use super::technique::Technique;
use atoll_fabric::{Buffer, Endpoint};
use std::cell::{Cell, RefCell};

/// The age limit of a bucket that an insertion uses: some round trips. An older bucket has more
/// likely changed, and a changed bucket costs a failed attempt.
const AGE_NS_MAX: u64 = 50_000;

/// A bucket in which a lookup did not find its key.
#[derive(Debug)]
struct Absence {
    hash: KeyHash,
    /// No later than when the bucket was READ.
    begun_ns: u64,
    bucket: u32,
    words: [u64; BUCKET_SLOTS],
}

/// The bucket that a client keeps of its last miss.
#[derive(Debug)]
pub(super) struct Absences {
    is_on: Cell<bool>,
    /// The bucket that the last lookup READ, if it missed.
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
    /// Sets whether a lookup that misses keeps its bucket. By default it does on fabrics that are
    /// not [near](atoll_fabric::Endpoint::is_near).
    pub fn set_absence_memory(&self, is_on: bool) {
        self.absences.is_on.set(is_on);
        self.absences.last.take();
    }

    /// Keeps the bucket that a lookup has just READ without finding its key. The lookup began at
    /// `begun_ns`.
    #[cold]
    pub(super) fn remember_absence(&self, op: &mut Operation, hash: KeyHash, begun_ns: u64) {
        self.absences.last.replace(Some(Absence { hash, begun_ns, bucket: op.notes.bucket, words: *op.seen_words() }));
    }

    /// Restores the kept bucket into the operation, if it is of this key and recent. Returns when
    /// its lookup began. A kept bucket serves once.
    pub(super) fn recall_absence(&self, op: &mut Operation, hash: KeyHash) -> Option<u64> {
        let absence = self.absences.last.take().filter(|absence| absence.hash == hash)?;
        if self.client.endpoint.now_ns().wrapping_sub(absence.begun_ns) > AGE_NS_MAX || !self.technique.recalls_misses()
        {
            return None;
        }
        let mut bucket: Buffer = std::mem::take(&mut op.bucket);
        bucket.resize(BUCKET_BYTES as usize);
        bucket.words_mut().copy_from_slice(&absence.words);
        (op.bucket, op.notes.bucket) = (bucket, absence.bucket);
        Some(absence.begun_ns)
    }
}
