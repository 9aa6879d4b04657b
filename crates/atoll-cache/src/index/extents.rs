//! Which extents the objects of an index have. Extents that no object has are freed.
//!
//! | who looks | at which extents |
//! |---|---|
//! | a repairer | those in state Extent of dead owners, and those in state Bound |
//! | a client, after another client has died | those that it has bound since it last looked |
//!
//! A client leaves extents alone that a reader of its own process has pinned. If no object has
//! them, they are freed once the reader has ended.

use super::examine::{drop_if_damaged, slots_of};
use super::{Index, SlotWord};
use crate::CacheError;
use crate::extent::Extent;
use atoll_fabric::Endpoint;
use atoll_pool::repair::Seen;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};
use std::collections::HashSet;

/// Looks at a bucket whose objects change during a look.
const LOOKS_MAX: u32 = 1_000;

/// Extents that a repairer has to check: those in state Bound, and those in state Extent of dead
/// owners.
pub(crate) fn suspects(seen: &Seen) -> Vec<(ChunkId, Chunk)> {
    let is_suspect = |found: &Chunk| match found.state {
        ChunkState::Extent => !seen.roll.has(found.owner_slot, found.owner_epoch),
        state => state == ChunkState::Bound,
    };
    let found =
        seen.descriptors.iter().enumerate().filter_map(|(index, each)| Some((ChunkId(index as u32), each.chunk?)));
    found.filter(|(_, found)| is_suspect(found)).collect()
}

/// Frees the extents that this client has bound lately and that no object has; returns how many
/// chunks.
pub(crate) async fn recheck_bound(index: &impl Index) -> Result<u64, CacheError> {
    if index.lately_bound().borrow().is_empty() {
        return Ok(0);
    }
    let client = index.member();
    client.endpoint.flush().await?;
    let (deaths, _) = client.deaths().await?;
    let extents = index.lately_bound().borrow_mut().take(deaths);
    let bound = index.extent_io().still_bound(&extents).await?;
    sweep(index, bound).await
}

/// Frees those of these extents that no object has, and binds those of dead owners that an object
/// has. Returns how many were freed.
pub(crate) async fn sweep(index: &impl Index, suspects: Vec<(ChunkId, Chunk)>) -> Result<u64, CacheError> {
    let mut freed = 0;
    for (home, extents) in index.extent_io().by_home(suspects).await? {
        let had = extents_of_home(index, home).await?;
        let Some(had) = had else { continue };
        let (endpoint, layout) = (&index.member().endpoint, &index.member().pool.layout);
        for (extent, found) in extents {
            if !had.contains(&extent) {
                // A reader that pins them from now on finds that their object is not there.
                if index.pins().take_over_with(extent) {
                    continue;
                }
                freed += u64::from(chunks::free(endpoint, layout, extent.chunk, found).await?);
            } else if found.state == ChunkState::Extent {
                let bound = Chunk { state: ChunkState::Bound, ..found };
                chunks::transition(endpoint, layout, extent.chunk, found.word(), bound).await?;
            }
        }
    }
    Ok(freed)
}

/// The extents that objects of a bucket have at one moment, by its home number; `None` if the
/// bucket keeps changing. Damaged objects are dropped.
async fn extents_of_home<I: Index>(index: &I, home: u64) -> Result<Option<HashSet<Extent>>, CacheError> {
    let op = &mut *index.idle().take(index.member());
    for _ in 0..LOOKS_MAX {
        // A damaged word: no object is there.
        let Some(bucket) = index.bucket_of_home(home) else { return Ok(Some(HashSet::new())) };
        let slots = large_slots_of(index, bucket).await?;
        let (mut extents, mut damaged) = (HashSet::new(), Vec::new());
        for (slot, word) in &slots {
            let listed = match index.read_record(op, *word).await? {
                Some((header, Some(body))) => index.extent_io().extents(&header, &body).await?,
                _ => None,
            };
            match listed {
                Some(listed) => extents.extend(listed.all()),
                None => damaged.push((*slot, *word)),
            }
        }
        if large_slots_of(index, bucket).await? != slots || index.bucket_of_home(home) != Some(bucket) {
            continue;
        }
        if damaged.is_empty() {
            return Ok(Some(extents));
        }
        for (slot, word) in damaged {
            drop_if_damaged(index, op, slot, word).await?;
        }
    }
    Ok(None)
}

async fn large_slots_of<I: Index>(index: &I, bucket: u32) -> Result<Vec<(u64, I::Word)>, CacheError> {
    let mut slots = slots_of(index, bucket).await?;
    slots.retain(|(_, word)| word.is_live() && word.is_large());
    Ok(slots)
}
