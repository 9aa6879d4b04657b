//! One operation of a client of FORGE.

use super::layout::BUCKET_SLOTS;
use super::slot::{KeyHash, Slot};
use crate::extent::OpenChunk;
use crate::operation;
use atoll_pool::registry::Protection;

/// What an operation notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(super) protection: Protection,
    /// Chunks that it has drawn from the stock.
    pub(super) chunks: Vec<OpenChunk>,
    /// Whether it has filled the stock, with a spare chunk or without.
    pub(super) is_restocked: bool,
}

/// An operation.
pub(crate) type Operation = operation::Operation<Slot, Notes>;

impl Operation {
    /// The word of a place of the bucket that was read, and the number of its slot.
    #[inline]
    pub(super) fn seen(&self, hash: KeyHash, place: usize) -> (Slot, u64) {
        (Slot(self.bucket.words()[place]), u64::from(hash.bucket) * BUCKET_SLOTS as u64 + place as u64)
    }

    /// The words of the bucket that was read.
    #[inline]
    pub(super) fn seen_words(&self) -> &[u64; BUCKET_SLOTS] {
        self.bucket.words().first_chunk().expect("a bucket is READ whole")
    }

    /// The places of the bucket that was read whose words have the fingerprint of this hash, be
    /// they of an object or a ghost, in order. All are compared before the first is gone through: a
    /// processor cannot foresee where among sixteen the fingerprint is, so that a comparison and a
    /// branch for each would cost it more.
    #[inline]
    pub(super) fn candidates(&self, hash: KeyHash) -> impl Iterator<Item = usize> + use<> {
        let bits = |bits, (place, word): (usize, &u64)| {
            bits | u32::from(Slot(*word).fingerprint() == hash.fingerprint) << place
        };
        let mut left = self.seen_words().iter().enumerate().fold(0, bits);
        std::iter::from_fn(move || {
            let place = (left != 0).then_some(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(place)
        })
    }
}
