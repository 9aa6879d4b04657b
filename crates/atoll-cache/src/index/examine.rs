//! Damaged objects: whether a slot has one, and how it is dropped.

use super::{BUCKET_SLOTS, Index, Look, SlotWord, first_slot};
use crate::CacheError;
use crate::operation::Operation;

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
        // Extents prove nothing if the slot has changed meanwhile.
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

/// Looks at every object of a bucket, and drops the damaged ones.
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

/// The slots of a bucket, each with its number.
pub(super) async fn slots_of<I: Index>(index: &I, bucket: u32) -> Result<Vec<(u64, I::Word)>, CacheError> {
    let words = index.read_slots(bucket, 1).await?;
    assert_eq!(words.len(), BUCKET_SLOTS, "a bucket is READ whole");
    Ok((first_slot(bucket)..).zip(words.into_iter().map(I::Word::from_bits)).collect())
}
