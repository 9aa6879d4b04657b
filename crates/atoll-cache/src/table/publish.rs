//! What a client publishes of objects beside their slots and records, without waiting for it.

use super::Core;
use super::change::New;
use super::slot::Slot;
use crate::index::Index;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Intent};

impl<E: Endpoint> Core<E> {
    /// Prefetches the words beside a slot that an access to its object adds to and WRITEs.
    #[inline]
    pub(super) fn expect_access(&self, slot: u64) {
        self.client.endpoint.expect(self.shared.layout.access(slot), 16, Intent::Write);
    }

    /// Publishes that an object was just inserted, without waiting.
    pub fn tell_insertion(&self, slot: u64, words: [u64; 4]) {
        let mut buffer = Buffer::new();
        buffer.resize(32);
        buffer.words_mut().copy_from_slice(&words);
        let mut batch = Batch::new();
        batch.write(self.shared.layout.last_access(slot), buffer);
        self.client.endpoint.post_unawaited(&mut batch);
    }

    /// Where a slot's block is, if the word is not damaged.
    pub(crate) fn block_at(&self, word: Slot) -> Option<Address> {
        self.record_span(word).map(|(at, ..)| at)
    }

    /// WRITEs the words beside an object, without waiting.
    pub(crate) fn tell_extension(&self, word: Slot, words: &[u64]) {
        let Some(at) = self.block_at(word) else { return };
        let mut buffer = Buffer::new();
        buffer.resize(8 * words.len());
        buffer.words_mut().copy_from_slice(words);
        let mut batch = Batch::new();
        batch.write(at, buffer);
        self.client.endpoint.post_unawaited(&mut batch);
    }

    /// Publishes an object's new expiry.
    pub(super) fn publish_expiry(&self, slot: u64, new: &New<'_>, before: Option<u64>) {
        if new.header.expiry_ms != before {
            let mut batch = Batch::new();
            let word = super::access::expiry_word(new.header.expiry_ms, new.hash.mark);
            batch.write_word(self.shared.layout.expiry(slot), word);
            self.client.endpoint.post_unawaited(&mut batch);
        }
    }
}
