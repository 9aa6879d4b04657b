//! One operation of a client of FORGE.

use super::layout::{BUCKET_SLOTS, Queue};
use super::slot::{KeyHash, Slot};
use super::vacancies::Orphan;
use crate::extent::OpenChunk;
use crate::index::first_slot;
use crate::operation;
use atoll_fabric::Endpoint;
use atoll_pool::Client;
use atoll_pool::registry::Protection;

/// FORGE's own part of an operation.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(super) protection: Protection,
    /// The number of the bucket that was READ.
    pub(super) bucket: u32,
    /// Chunks that the operation has drawn from the stock.
    pub(super) chunks: Vec<OpenChunk>,
    /// The queue in whose open group a record of so many bytes had no room, if the operation needs
    /// a chunk for nothing else.
    pub(super) short_of: Option<(Queue, u64)>,
    /// The slot and word where a blind swap of the last attempt may have found the key's object.
    pub(super) moved: Option<(u64, Slot)>,
    /// The record that the operation has published in a group that had an owner meanwhile.
    pub(super) orphan: Option<Box<Orphan>>,
}

impl operation::Notes for Notes {
    #[inline(always)]
    fn end<E: Endpoint>(&mut self, client: &Client<E>) {
        // Its chunk stays protected, until the client leaves as if it had died.
        self.orphan = None;
        // What a panicking thread has in the pool is a repairer's.
        if self.protection.is_ready() && !std::thread::panicking() {
            client.member().unprotect(&client.endpoint, &mut self.protection);
        }
    }
}

/// An operation.
pub(crate) type Operation = operation::Operation<Slot, Notes>;

impl Operation {
    /// The word of a place of the bucket that was READ, and the number of its slot.
    #[inline]
    pub(super) fn seen(&self, place: usize) -> (Slot, u64) {
        (Slot(self.bucket.words()[place]), first_slot(self.notes.bucket) + place as u64)
    }

    /// The words of the bucket that was READ.
    #[inline]
    pub(super) fn seen_words(&self) -> &[u64; BUCKET_SLOTS] {
        self.bucket.words().first_chunk().expect("a bucket is READ whole")
    }

    /// The places of the bucket that was READ whose words have this hash's fingerprint, in order. A
    /// word may be an object's or a ghost's. All words are compared before the first place is
    /// returned. A processor cannot predict which of sixteen words has the fingerprint, so a branch
    /// for each word would cost more.
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
