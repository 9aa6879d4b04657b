//! Hints to the fabric before a batch of operations. The fabric prefetches the memory of all
//! operations while the first one runs, so that the waits for memory overlap.
//!
//! | what is expected | once it is known |
//! |---|---|
//! | the bucket of every key | the key |
//! | the record of its first candidate, and the counters of that record's chunk | the bucket, READ for this |
//!
//! A hint may be wrong when its operation begins: each operation READs its bucket again.

use super::Forge;
use super::layout::{BUCKET_BYTES, BUCKET_SLOTS};
use super::operation::Operation;
use super::technique::Technique;
use arrayvec::ArrayVec;
use atoll_fabric::{Endpoint, Intent};

/// Keys whose buckets are prefetched at a time. The buckets and their records fit into a
/// first-level cache.
const KEYS_AT_ONCE: usize = 16;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Hints to the fabric which memory operations on these keys will touch.
    pub(super) async fn expect_keys(&self, op: &mut Operation, keys: &[&[u8]]) {
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let mut hashes = ArrayVec::<_, KEYS_AT_ONCE>::new();
            for key in keys {
                let hash = self.key_hash(key);
                if !self.client.endpoint.expect(self.shared.layout.bucket(hash.bucket), BUCKET_BYTES, Intent::Read) {
                    return;
                }
                hashes.push(hash);
            }
            for hash in hashes {
                // The operation on the key meets the same error again and reports it.
                if self.read_bucket(op, hash).await.is_err() {
                    return;
                }
                let mut slots = (0..BUCKET_SLOTS).map(|index| op.seen(hash, index).0);
                let Some(slot) = slots.find(|slot| slot.may_be(hash.fingerprint)) else { continue };
                if let Some((at, bytes, chunk)) = self.record_span(slot) {
                    self.client.endpoint.expect(at, bytes as u64, Intent::Read);
                    self.shared.hotness.expect(chunk);
                }
            }
        }
    }
}
