//! Walks over all buckets: scan, random key, flush, count.
//!
//! A key stays in its slot while it is present, unless its bucket is split. A split moves it to a
//! bucket that a walk in the order of buckets comes to later. So a walk shows every key that is
//! present throughout, and few of them twice. Cursors are bucket numbers.

use super::{ATTEMPTS_MAX, Index, Look, SlotWord, Unlink, first_slot};
use crate::operation::Operation;
use crate::record::{Header, LargeBody};
use crate::{CacheError, Cause, Flushed, Meta, Value};
use atoll_fabric::{Batch, Buffer, Endpoint};

/// Buckets READ at once by a walk that looks at their objects. Behind buckets without an object it
/// READs four times as many, up to the most. So a nearly empty index takes few round trips.
const BUCKETS_AT_ONCE: std::ops::RangeInclusive<u32> = 16..=512;
/// Records READ at once where each READ costs a round trip.
const RECORDS_AT_ONCE: usize = 16;
/// Keys that a step of a flush removes: in a quarter of a millisecond where memory is near.
const REMOVED_AT_ONCE: usize = 256;
/// How many slots [`some_key`] draws.
const DRAWS: usize = 16;
/// Buckets READ at once by a walk that looks at slot words alone.
const WORDS_BUCKETS_AT_ONCE: u32 = 1024;

/// A walk over the slot words of all buckets.
pub(crate) struct SlotWalk<'i, I: Index> {
    index: &'i I,
    /// The next one.
    bucket: u32,
    /// Where it ends, if the index does not end before.
    end: u64,
    /// How many buckets it READs next for their objects.
    at_once: u32,
}

impl<'i, I: Index> SlotWalk<'i, I> {
    /// Begins at the first bucket.
    pub(crate) fn new(index: &'i I) -> Self {
        Self { index, bucket: 0, end: u64::MAX, at_once: *BUCKETS_AT_ONCE.start() }
    }

    /// A step of a walk for `count` keys from bucket `cursor` on. A step over an empty index would
    /// be long, so the buckets of a step are bounded, too.
    fn from(index: &'i I, cursor: u64, count: usize) -> Self {
        let end = cursor.saturating_add((count as u64).saturating_mul(4).max(1024));
        Self { bucket: u32::try_from(cursor).unwrap_or(u32::MAX), end, ..Self::new(index) }
    }

    /// Where the next step begins; 0 at the end of the index.
    async fn cursor(&self) -> Result<u64, CacheError> {
        if self.bucket >= self.index.buckets() {
            self.index.learn_buckets().await?;
        }
        Ok(if self.bucket >= self.index.buckets() { 0 } else { self.bucket.into() })
    }

    /// The next slots, each with its number; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<impl Iterator<Item = (u64, I::Word)> + use<I>>, CacheError> {
        self.next_of(WORDS_BUCKETS_AT_ONCE).await
    }

    /// The next slots with objects, of few buckets, or of many behind buckets without an object.
    async fn next_live(&mut self) -> Result<Option<Vec<(u64, I::Word)>>, CacheError> {
        let Some(slots) = self.next_of(self.at_once).await? else { return Ok(None) };
        let live: Vec<_> = slots.filter(|(_, word)| word.is_live()).collect();
        self.at_once = if live.is_empty() { after_empty(self.at_once) } else { *BUCKETS_AT_ONCE.start() };
        Ok(Some(live))
    }

    async fn next_of(
        &mut self,
        most: u32,
    ) -> Result<Option<impl Iterator<Item = (u64, I::Word)> + use<I>>, CacheError> {
        if u64::from(self.bucket) >= self.end {
            return Ok(None);
        }
        if self.bucket >= self.index.buckets() {
            self.index.learn_buckets().await?;
            if self.bucket >= self.index.buckets() {
                return Ok(None);
            }
        }
        let first = first_slot(self.bucket);
        let words = self.index.read_slots(self.bucket, most).await?;
        self.bucket += (words.len() / super::BUCKET_SLOTS) as u32;
        Ok(Some((first..).zip(words.into_iter().map(I::Word::from_bits))))
    }
}

/// How many buckets a walk READs at once behind so many without an object.
fn after_empty(at_once: u32) -> u32 {
    (4 * at_once).min(*BUCKETS_AT_ONCE.end())
}

/// Live slots of an index.
pub(crate) async fn count_live(index: &impl Index) -> Result<u64, CacheError> {
    let (mut walk, mut live) = (SlotWalk::new(index), 0);
    while let Some(slots) = walk.next().await? {
        live += slots.filter(|(_, word)| word.is_live()).count() as u64;
    }
    Ok(live)
}

/// Shows at least `count` keys from bucket `cursor` on; returns the cursor to continue from, 0 at
/// the end.
pub(crate) async fn keys<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
    cursor: u64,
    count: usize,
    mut each: impl FnMut(&[u8]),
) -> Result<u64, CacheError> {
    let mut walk = SlotWalk::from(index, cursor, count);
    let (mut shown, mut value) = (0, Value::new());
    while shown < count
        && let Some(live) = walk.next_live().await?
    {
        for some in live.chunks(RECORDS_AT_ONCE) {
            let left = match index.member().endpoint.is_near() {
                true => some.to_vec(),
                false => {
                    show_together(index, some, |key| {
                        each(key);
                        shown += 1;
                    })
                    .await?
                }
            };
            for (slot, word) in left {
                if key_of(index, op, slot, word, &mut value).await? {
                    each(value.bytes());
                    shown += 1;
                }
            }
        }
    }
    walk.cursor().await
}

/// Shows the keys of slots with two round trips for all of them. Gives those back that need a
/// closer look: of large objects, and of objects that are changing or damaged.
///
/// Nothing protects the records. A sound record whose slot has its word still after the READ was
/// the slot's object.
async fn show_together<I: Index>(
    index: &I,
    slots: &[(u64, I::Word)],
    mut each: impl FnMut(&[u8]),
) -> Result<Vec<(u64, I::Word)>, CacheError> {
    let client = index.member();
    let (mut left, mut batch, mut reads) = (Vec::new(), Batch::new(), Vec::with_capacity(slots.len()));
    for (slot, word) in slots {
        match index.record_span(*word).filter(|_| !word.is_large()) {
            Some((at, bytes, _)) => reads.push((*slot, *word, batch.read(at, Buffer::sized(bytes)))),
            None => left.push((*slot, *word)),
        }
    }
    if reads.is_empty() {
        return Ok(left);
    }
    client.endpoint.post(&mut batch).await?;
    let mut again = Batch::new();
    let words: Vec<_> = reads.iter().map(|(slot, ..)| again.read_word(index.slot_at(*slot))).collect();
    client.endpoint.post(&mut again).await?;
    for ((slot, word, read), now) in reads.into_iter().zip(words) {
        let mut buffer = batch.take(read);
        let record = index.judged(word, &mut buffer).map(|record| record.header);
        let Some(header) = record.filter(|_| again.word(now) == word.bits()) else {
            left.push((slot, word));
            continue;
        };
        if header.expiry_ms.is_none() || !header.is_expired(client.pool_ms(client.endpoint.now_ns()).await?) {
            each(&buffer.bytes()[header.key_at()..header.value_at()]);
        }
    }
    Ok(left)
}

/// Some key. Every key is as likely as every other, unless nearly all slots are free: slots are
/// drawn until one has a key. After [`DRAWS`] in vain it is the first key from a random slot on.
pub(crate) async fn some_key<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
) -> Result<Option<Vec<u8>>, CacheError> {
    let (endpoint, buckets) = (&index.member().endpoint, index.buckets());
    let mut bucket = (endpoint.random() % u64::from(buckets)) as u32;
    let (mut looked, mut value) = (0, Value::new());
    let mut at_once = *BUCKETS_AT_ONCE.start();
    while looked < buckets {
        let words = index.read_slots(bucket, at_once).await?;
        at_once = after_empty(at_once);
        let first = endpoint.random() as usize % words.len();
        let drawn = (0..DRAWS).map(|_| endpoint.random() as usize % words.len());
        for place in drawn.chain(first..words.len()).chain(0..first) {
            let (slot, word) = (first_slot(bucket) + place as u64, I::Word::from_bits(words[place]));
            if word.is_live() && key_of(index, op, slot, word, &mut value).await? {
                return Ok(Some(value.bytes().to_vec()));
            }
        }
        let passed = (words.len() / super::BUCKET_SLOTS) as u32;
        (bucket, looked) = ((bucket + passed) % buckets, looked + passed);
    }
    Ok(None)
}

/// Removes the keys of some buckets from bucket `cursor` on, about [`REMOVED_AT_ONCE`].
pub(crate) async fn remove_some<S: Unlink>(
    cache: &S,
    op: &mut Operation<<S::Index as Index>::Word, <S::Index as Index>::Notes>,
    cursor: u64,
) -> Result<Flushed, CacheError> {
    let (mut walk, mut removed) = (SlotWalk::from(cache.index(), cursor, REMOVED_AT_ONCE), 0);
    while removed < REMOVED_AT_ONCE
        && let Some(live) = walk.next_live().await?
    {
        for (slot, word) in live {
            removed += usize::from(remove_slot(cache, op, slot, word).await?);
        }
    }
    Ok(Flushed { removed: removed as u64, next: walk.cursor().await? })
}

/// Removes the object of a slot, even if the slot has changed to another object; returns whether
/// there was one.
async fn remove_slot<S: Unlink>(
    cache: &S,
    op: &mut Operation<<S::Index as Index>::Word, <S::Index as Index>::Notes>,
    slot: u64,
    mut word: <S::Index as Index>::Word,
) -> Result<bool, CacheError> {
    for _ in 0..ATTEMPTS_MAX {
        if !word.is_live() {
            return Ok(false);
        }
        let removed = cache.unlink(op, slot, word, Some(Cause::Removed)).await?;
        cache.index().end_look(op);
        if removed {
            return Ok(true);
        }
        word = cache.index().slot_word(slot).await?;
    }
    Err(CacheError::Damaged { what: "an object that stays unsound" })
}

/// Puts the key of a live slot into `value`; returns whether the slot has a sound object that has
/// not expired. Drops a damaged object.
async fn key_of<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
    slot: u64,
    mut word: I::Word,
    value: &mut Value,
) -> Result<bool, CacheError> {
    for _ in 0..ATTEMPTS_MAX {
        if !word.is_live() {
            return Ok(false);
        }
        let shown = match index.look(op, slot, word).await? {
            // The object was moved or replaced: the slot says where it is now.
            Look::Changed => None,
            Look::Damaged => {
                index.drop_damaged(slot, word).await?;
                None
            }
            Look::Sound(header, large) => {
                key_of_record(index, op, (slot, word), &header, large.map(|body| *body), value).await?
            }
        };
        index.end_look(op);
        if let Some(shown) = shown {
            return Ok(shown);
        }
        word = index.slot_word(slot).await?;
    }
    Err(CacheError::Damaged { what: "an object that stays unsound" })
}

/// Puts the key of the inspected record into `value`; `false` if the object has expired, `None` if
/// the slot must be looked at again.
async fn key_of_record<I: Index>(
    index: &I,
    op: &mut Operation<I::Word, I::Notes>,
    (slot, word): (u64, I::Word),
    header: &Header,
    large: Option<LargeBody>,
    value: &mut Value,
) -> Result<Option<bool>, CacheError> {
    let client = index.member();
    if header.expiry_ms.is_some() && header.is_expired(client.pool_ms(client.endpoint.now_ns()).await?) {
        return Ok(Some(false));
    }
    let Some(body) = large else {
        value.assign(&op.record.bytes()[header.key_at()..header.value_at()], Meta::default());
        return Ok(Some(true));
    };
    let extents = index.extent_io().extents(header, &body).await?;
    if let Some(extents) = &extents {
        let buffer = std::mem::take(&mut value.buffer);
        value.buffer = index.extent_io().read_extents(extents, header.key_bytes, buffer).await?;
        (value.start, value.meta.value_bytes) = (0, header.key_bytes);
    }
    // A look does not keep extents from being reused. While the slot is unchanged, the extents are
    // its object's.
    if index.slot_word(slot).await? != word {
        return Ok(None);
    }
    if extents.is_none() {
        index.drop_damaged(slot, word).await?;
    }
    Ok(extents.map(|_| true))
}
