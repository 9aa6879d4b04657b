//! Copies of objects that processes keep in their own memory: how a slot permits them, and how they
//! end before the object changes. Who is told is in [`sharers`](atoll_pool::sharers).
//!
//! | the slot's word says | copies | a client that wants to keep one | a client that changes or removes the object |
//! |---|---|---|---|
//! | none | there are none | CAS none -> copied, then it may | changes it |
//! | copied | there may be some | may | CAS copied -> closed; ends them at all sharers; changes it |
//! | closed | there may be some | must not | ends them at all sharers; changes it |
//!
//! So no copy is left when the change takes effect, and none is made until then: reads of copies
//! are as linearizable as reads of the pool. The word of the changed object says none again.
//!
//! A client that keeps a copy samples its sharer's words before it READs the slot. The copy is
//! valid as long as they are the same. If the slot said copied when it was READ, or the swap to
//! copied succeeded, then a client that changes the object later ends copies after the sample.
//!
//! | a client dies | then |
//! |---|---|
//! | after the swap to copied | a later change tells the sharers in vain |
//! | after the swap to closed | the object has its old value, and no new copies, until its next change |
//!
//! An object that moves keeps its state, since its copies stay right. A bucket that is split keeps
//! the states of its slots. An object that was displaced from a lost memory node needs no closing:
//! see [`loss`](atoll_pool::loss).

use super::{Index, SlotWord};
use crate::CacheError;
use atoll_pool::sharers::Hole;

/// Whether processes may have copies of a slot's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// There are none.
    None,
    /// There may be some.
    Copied,
    /// There may be some, and no new ones are made.
    Closed,
}

/// What chooses a sharer's word for the object of a slot. Every key of one slot has the same, and
/// splits do not change it.
#[inline]
fn stripe_of<I: Index>(index: &I, slot: u64, word: I::Word) -> u64 {
    stripe(super::bucket_of_slot(slot) % index.first_buckets(), word.fingerprint())
}

/// The same of a key with this hash.
#[inline]
pub(crate) fn stripe_of_hash<I: Index>(index: &I, hash: u64) -> u64 {
    stripe(super::bucket_of(hash, index.first_buckets()), super::fingerprint_of(hash))
}

fn stripe(first_bucket: u32, fingerprint: u8) -> u64 {
    rapidhash::v3::rapidhash_v3(&(u64::from(first_bucket) << 8 | u64::from(fingerprint)).to_le_bytes())
}

/// Ends all copies of a live slot's object, which the caller is about to change or remove. Returns
/// the word that the slot has then; `None` if the slot has changed.
#[inline]
pub(crate) async fn closed<I: Index>(index: &I, slot: u64, word: I::Word) -> Result<Option<I::Word>, CacheError> {
    match word.sharing() {
        Sharing::None => Ok(Some(word)),
        // Boxed, as every rare step: its state would enlarge every change.
        sharing => Box::pin(close(index, slot, word, sharing)).await,
    }
}

async fn close<I: Index>(index: &I, slot: u64, word: I::Word, sharing: Sharing) -> Result<Option<I::Word>, CacheError> {
    let mut closed = word;
    // A damaged state counts as closed, and stays as it is.
    if sharing == Sharing::Copied {
        closed = word.shared_as(Sharing::Closed);
        if !index.swap_slot(slot, word, closed).await? {
            return Ok(None);
        }
    }
    index.counters().copies_ended.add(1);
    index.member().end_copies(stripe_of(index, slot, word)).await?;
    Ok(Some(closed))
}

/// Ends the copies of a damaged object whose slot permits no new ones: no client finds it any more.
pub(crate) async fn end_of_damaged<I: Index>(index: &I, slot: u64, word: I::Word) -> Result<(), CacheError> {
    if word.sharing() != Sharing::None {
        index.member().end_copies(stripe_of(index, slot, word)).await?;
    }
    Ok(())
}

/// Removes the object of a slot, whatever copies were permitted since `word` was there; whether
/// this client did it. The caller knows that no other object has got the same word.
pub(crate) async fn take_out<I: Index>(index: &I, slot: u64, word: I::Word) -> Result<bool, CacheError> {
    let mut found = word;
    loop {
        if let Some(closed) = closed(index, slot, found).await?
            && index.swap_slot(slot, closed, closed.emptied()).await?
        {
            return Ok(true);
        }
        found = index.slot_word(slot).await?;
        if found.shared_as(Sharing::None) != word.shared_as(Sharing::None) {
            return Ok(false);
        }
    }
}

/// Permits copies of a live slot's object. `false` if the slot has changed, or copies are being
/// ended.
pub(crate) async fn permit<I: Index>(index: &I, slot: u64, word: I::Word) -> Result<bool, CacheError> {
    match permission(index, word) {
        Permission::Is(is_permitted) => Ok(is_permitted),
        Permission::By(copied) => index.swap_slot(slot, word, copied).await,
    }
}

/// Whether a live slot permits copies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Permission<W> {
    /// It does, or it does not.
    Is(bool),
    /// It does once it is swapped to this word.
    By(W),
}

/// Whether a live slot with this word permits copies.
pub(crate) fn permission<I: Index>(index: &I, word: I::Word) -> Permission<I::Word> {
    match word.sharing() {
        Sharing::Copied => Permission::Is(true),
        Sharing::Closed => Permission::Is(index.member().pool.layout.lacks(Hole::NoneOfClosed)),
        Sharing::None => Permission::By(word.shared_as(Sharing::Copied)),
    }
}
