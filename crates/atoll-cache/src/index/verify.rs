//! The invariants of every slot in a quiet pool, for every engine: see [`crate::audit`].
//!
//! - No slot is pending.
//! - Every live slot points to a whole record of its own. Its key hashes to the slot's bucket and
//!   fingerprint.
//! - No key is live twice.
//!
//! The engine's visitor adds its own invariants of a slot.

use super::walk::SlotWalk;
use super::{Index, SlotWord, bucket_of_slot, fingerprint_of};
use crate::CacheError;
use crate::audit::Walk;
use crate::operation::Operation;
use crate::record::Header;
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::ChunkId;

/// A slot that names a place in the heap, and is not pending.
pub(crate) struct Visited<'v, W> {
    pub(crate) slot: u64,
    pub(crate) word: W,
    pub(crate) chunk: ChunkId,
    /// The record's bytes.
    pub(crate) record: &'v mut Buffer,
    /// The record's header, if the record is sound and belongs to the word.
    pub(crate) header: Option<Header>,
}

/// Visits every slot of the index. `visit` reports the engine's own faults, and returns whether the
/// slot has an object.
pub(crate) async fn index<I: Index>(
    index: &I,
    walk: &mut Walk,
    mut visit: impl FnMut(&mut Walk, Visited<'_, I::Word>) -> bool,
) -> Result<(), CacheError> {
    let op = &mut *index.idle().take(index.member());
    let mut slots = SlotWalk::new(index);
    while let Some(some) = slots.next().await? {
        for (slot, word) in some.filter(|(_, word)| !word.is_free()) {
            verify_slot(index, op, walk, (slot, word), &mut visit).await?;
        }
    }
    Ok(())
}

async fn verify_slot<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
    walk: &mut Walk,
    (slot, word): (u64, I::Word),
    visit: &mut impl FnMut(&mut Walk, Visited<'_, I::Word>) -> bool,
) -> Result<(), CacheError> {
    if word.is_pending() {
        walk.audit.fault(|| format!("slot {slot} is pending"));
        return Ok(());
    }
    let Some((at, bytes, chunk)) = index.find_record(word).await? else {
        walk.audit.fault(|| format!("slot {slot} points outside the heap"));
        return Ok(());
    };
    let mut record = std::mem::take(&mut op.record);
    record.resize(bytes);
    let mut record = index.member().endpoint.read(at, record).await?;
    let judged = index.judged(word, &mut record).map(|found| (found.header, found.large(), found.key.to_vec()));
    let header = judged.as_ref().map(|(header, ..)| *header);
    let is_object = visit(walk, Visited { slot, word, chunk, record: &mut record, header });
    op.record = record;
    if !is_object {
        return Ok(());
    }
    let Some((header, large, mut key)) = judged else {
        walk.audit.fault(|| format!("slot {slot} points to no record of its own"));
        return Ok(());
    };
    if let Some(body) = large {
        let Some(found) = walk.visit_large(index.extent_io(), slot, &header, &body).await? else { return Ok(()) };
        key = found;
    }
    let hash = index.hasher().hash(&key);
    if index.bucket_of_hash(hash) != bucket_of_slot(slot) || fingerprint_of(hash) != word.fingerprint() {
        walk.audit.fault(|| format!("slot {slot} holds a key that does not belong there"));
    }
    walk.visit_object(slot, key, header.body_bytes());
    Ok(())
}
