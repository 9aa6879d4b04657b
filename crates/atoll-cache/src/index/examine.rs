//! Damaged objects, and the extents that the objects of a bucket have.

use super::{BUCKET_SLOTS, Index, Look, SlotWord, first_slot};
use crate::CacheError;
use crate::extent::Extent;
use crate::operation::Operation;
use std::collections::HashSet;

/// Looks at a bucket whose objects change under the look.
const LOOKS_MAX: u32 = 1_000;

/// Looks at the object of a live slot, and drops it if it is damaged.
pub(crate) async fn drop_if_damaged<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
    slot: u64,
    word: I::Word,
) -> Result<(), CacheError> {
    let is_damaged = match index.look(op, slot, word).await? {
        Look::Changed | Look::Sound(_, None) => false,
        Look::Damaged => true,
        // Extents say nothing if the slot has changed meanwhile.
        Look::Sound(header, Some(body)) => {
            index.extent_io().extents(&header, &body).await?.is_none() && index.slot_word(slot).await? == word
        }
    };
    if is_damaged {
        index.drop_damaged(slot, word).await?;
    }
    index.end_look(op);
    Ok(())
}

/// Looks at every object of a bucket, and drops those that are damaged.
pub(crate) async fn drop_damaged_of<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
    bucket: u32,
) -> Result<(), CacheError> {
    for (slot, word) in slots_of(index, bucket).await? {
        if word.is_live() {
            drop_if_damaged(index, op, slot, word).await?;
        }
    }
    Ok(())
}

/// The extents that objects of a bucket have at one moment; `None` if the bucket does not stand
/// still for that. Damaged objects are dropped.
pub(crate) async fn extents_of_bucket<I: Index>(index: &I, bucket: u32) -> Result<Option<HashSet<Extent>>, CacheError> {
    let op = &mut *index.idle().take(index.member());
    for _ in 0..LOOKS_MAX {
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
        if large_slots_of(index, bucket).await? != slots {
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

async fn slots_of<I: Index>(index: &I, bucket: u32) -> Result<Vec<(u64, I::Word)>, CacheError> {
    let words = index.read_slots(bucket, 1).await?;
    assert_eq!(words.len(), BUCKET_SLOTS, "a bucket is READ whole");
    Ok((first_slot(bucket)..).zip(words.into_iter().map(I::Word::from_bits)).collect())
}

async fn large_slots_of<I: Index>(index: &I, bucket: u32) -> Result<Vec<(u64, I::Word)>, CacheError> {
    let mut slots = slots_of(index, bucket).await?;
    slots.retain(|(_, word)| word.is_live() && word.is_large());
    Ok(slots)
}
