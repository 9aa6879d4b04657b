//! What an index loses with the region of a memory node: see [`atoll_pool::loss`].
//!
//! | a slot | then |
//! |---|---|
//! | on the node | it is gone; a client without the node sees an empty one |
//! | that points into the node | it becomes empty |
//! | of a large object with an extent on the node | the object is dropped as damaged |
//!
//! Extents of objects that are gone are freed afterwards.

use super::walk::SlotWalk;
use super::{Index, SlotWord, extents};
use crate::CacheError;
use crate::operation::Operation;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Endpoint};
use atoll_pool::{Chunk, ChunkId, ChunkState};

/// Makes every slot empty whose object lies on an absent node, or in part, and frees the extents
/// that no object has any more. Only clients that join run meanwhile.
pub(crate) async fn forget<I: Index>(index: &I) -> Result<(), CacheError> {
    let op = &mut *index.idle().take(index.member());
    let mut walk = SlotWalk::new(index);
    let mut lost = Vec::new();
    while let Some(slots) = walk.next().await? {
        for (slot, word) in slots.filter(|(_, word)| !word.is_free()) {
            let Some((_, _, chunk)) = index.find_record(word).await? else { continue };
            if index.member().is_chunk_absent(chunk) {
                lost.push((slot, word));
            } else if word.is_live() && word.is_large() && has_absent_extent(index, op, word).await? {
                index.drop_damaged(slot, word).await?;
            }
        }
        for some in lost.chunks(BATCH_VERBS_MAX) {
            empty(index, some).await?;
        }
        lost.clear();
    }
    let bound = |(number, chunk): (u32, Option<Chunk>)| {
        chunk.filter(|chunk| chunk.state == ChunkState::Bound).map(|chunk| (ChunkId(number), chunk))
    };
    let descriptors = index.member().all_descriptors().await?;
    let bound = (0..).zip(descriptors.iter().map(|each| each.chunk)).filter_map(bound).collect();
    extents::sweep(index, bound).await.map(drop)
}

/// Makes these slots empty, each if it still has this word: as many as a batch has verbs, at most.
async fn empty<I: Index>(index: &I, slots: &[(u64, I::Word)]) -> Result<(), CacheError> {
    let mut batch = Batch::new();
    let swap = |(slot, word): &(u64, I::Word)| {
        batch.compare_and_swap(index.slot_at(*slot), word.bits(), word.emptied().bits())
    };
    let swaps: Vec<_> = slots.iter().map(swap).collect();
    index.member().endpoint.post(&mut batch).await?;
    let was_removed = |((_, word), swap): (&(u64, I::Word), _)| word.is_live() && batch.swapped(swap);
    let removed = slots.iter().zip(swaps).filter(|(slot, swap)| was_removed((*slot, *swap))).count();
    if removed > 0 {
        index.count_removed(removed as u64).await?;
    }
    Ok(())
}

/// Whether an extent of a large object is on an absent node.
async fn has_absent_extent<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
    word: I::Word,
) -> Result<bool, CacheError> {
    let Some((header, Some(body))) = index.read_record(op, word).await? else { return Ok(false) };
    let Some(extents) = index.extent_io().extents(&header, &body).await? else { return Ok(true) };
    // A list on an absent node names chunk 0 again and again.
    Ok(extents.all().any(|extent| index.member().is_chunk_absent(extent.chunk)))
}
