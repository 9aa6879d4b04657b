//! Lookups of many keys at once, so that the waits for memory overlap.
//!
//! | memory | module |
//! |---|---|
//! | near | [`near`]: the client prefetches what all keys of a round need |
//! | far | [`far`]: the client READs it in one batch or two |
//!
//! Before other operations on many keys, an engine is told the keys: [`expect`]. It prefetches the
//! same where memory is near. Where memory is far it finds out where the keys' objects are.
//!
//! An engine's own steps are its [`Lookups`]. A key that its first candidate does not decide is
//! looked up alone.
//!
//! Of some keys the caller wants to keep [`Copies`]. Where memory is far, the client
//! swaps their slots in the batch that READs their records.

mod far;
mod near;

use crate::index::copies;
use crate::index::{BUCKET_SLOTS, Index, SlotWord, Unlink, first_slot};
use crate::near::Copies;
use crate::operation::Operation;
use crate::{CacheError, Lookup, Value};
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::ChunkId;
use std::cell::RefCell;

/// The slot word of an engine's index.
type WordOf<L> = <<L as Unlink>::Index as Index>::Word;
/// An operation on an engine's index.
type On<L> = Operation<WordOf<L>, <<L as Unlink>::Index as Index>::Notes>;

/// A key's first candidate: the first slot of its bucket that may have its object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<W> {
    pub(crate) slot: u64,
    pub(crate) word: W,
    /// How the client knew the word.
    pub(crate) by: By,
}

/// How a client knew a slot's word before it READ the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// It READ the bucket.
    Bucket,
    /// It remembered the word. Whether the slot, READ with the record, still had it.
    Memory { is_same: bool },
}

/// An engine that looks up many keys at once: its own steps of a lookup.
#[allow(async_fn_in_trait)]
pub(crate) trait Lookups: Unlink {
    /// The parts of a key's hash.
    type Hash: Copy;

    /// Memory that is kept from one lookup to the next.
    fn at_once(&self) -> &AtOnce;

    /// The parts of a key's hash.
    fn hash(&self, key: &[u8]) -> Self::Hash;

    /// The bucket of a key with this hash.
    fn bucket(&self, hash: Self::Hash) -> u32;

    /// Whether the words of a bucket that was READ show that it is the key's, and is not being
    /// split.
    fn is_bucket_of(&self, hash: Self::Hash, bucket: u32, words: &[u64; BUCKET_SLOTS]) -> bool {
        let _ = (hash, bucket, words);
        true
    }

    /// Whether a lookup of a key with this hash must look at the record of a slot with this word.
    fn may_be(hash: Self::Hash, word: WordOf<Self>) -> bool;

    /// Prefetches what a hit of the object in this slot and chunk touches besides its record.
    fn expect_hit(&self, slot: u64, chunk: ChunkId);

    /// The slot and word where the client last saw the key's object, if it remembers them.
    fn recall(&self, hash: Self::Hash, key: &[u8]) -> Option<(u64, WordOf<Self>)> {
        let _ = (hash, key);
        None
    }

    /// Whether a client that learns where this key's object is could use that.
    fn is_worth_learning(&self, hash: Self::Hash, key: &[u8]) -> bool {
        let _ = (hash, key);
        false
    }

    /// Remembers where the key's object is, if the record in `value` is its. Counts nothing. The
    /// READs began at `begun_ns`.
    fn learn_seen(&self, key: &[u8], seen: Seen<WordOf<Self>>, value: &Value, begun_ns: u64) {
        let _ = (key, seen, value, begun_ns);
    }

    /// Prepares for lookups of so many keys. Nothing makes a round between their READs.
    async fn begin_many(&self, keys: usize) -> Result<(), CacheError>;

    /// Judges the record in `value`, and counts a hit. `None` if the key must be looked up alone.
    /// The READs began at `begun_ns`.
    async fn judge_seen(
        &self,
        op: &mut On<Self>,
        key: (Self::Hash, &[u8]),
        seen: Seen<WordOf<Self>>,
        value: &mut Value,
        begun_ns: u64,
    ) -> Result<Option<Lookup>, CacheError>;

    /// Whether the words of a key's bucket show that its object was evicted.
    fn was_evicted(hash: Self::Hash, words: &[u64; BUCKET_SLOTS]) -> bool;

    /// Counts a lookup whose key was in no slot of its bucket.
    fn count_absent(&self, hash: Self::Hash, was_evicted: bool);

    /// Looks one key up.
    async fn look_up(&self, op: &mut On<Self>, key: &[u8], value: &mut Value) -> Result<Lookup, CacheError>;

    /// Whether a slot still has the same word only if it has been the same record's since READs
    /// that began at `begun_ns`.
    fn is_timely(&self, begun_ns: u64) -> bool {
        let _ = begun_ns;
        true
    }
}

/// Memory that a client keeps from one lookup of many keys to the next.
#[derive(Debug, Default)]
pub(crate) struct AtOnce {
    buckets: RefCell<Vec<Buffer>>,
    values: RefCell<Vec<Value>>,
}

impl AtOnce {
    fn take_values(&self, count: usize) -> Vec<Value> {
        let mut values = self.values.take();
        if values.len() < count {
            values.resize_with(count, Value::new);
        }
        values
    }

    /// Keeps the values of a lookup that has ended. It releases the memory of large values.
    fn keep_values(&self, mut values: Vec<Value>) {
        for value in &mut values {
            value.shrink_beyond(1 << 16);
        }
        self.values.replace(values);
    }
}

/// Prepares for operations on these keys. It changes nothing. The operations meet and report every
/// error themselves.
pub(crate) async fn expect<L: Lookups>(engine: &L, op: &mut On<L>, keys: &[&[u8]]) {
    if engine.index().member().endpoint.is_near() {
        return near::expect(engine, op, keys).await;
    }
    Box::pin(far::expect(engine, keys)).await;
}

/// Whether [`expect`] would do anything for these keys.
pub(crate) fn is_worth_expecting<L: Lookups>(engine: &L, keys: &[&[u8]]) -> bool {
    engine.index().member().endpoint.is_near() || far::is_worth_expecting(engine, keys)
}

/// Looks many keys up: see [`Copied::get_many_permitting`](crate::Copied::get_many_permitting).
pub(crate) async fn look_up_many<L: Lookups, F>(
    engine: &L,
    op: &mut On<L>,
    keys: &[&[u8]],
    bytes_max: usize,
    copies: Copies<'_>,
    found: F,
) -> Result<(), CacheError>
where
    F: FnMut(usize, Lookup, &mut Value, bool),
{
    if engine.index().member().endpoint.is_near() {
        return near::look_up_many(engine, op, keys, bytes_max, copies, found).await;
    }
    Box::pin(far::look_up_many(engine, op, keys, bytes_max, copies, found)).await
}

/// Looks one key up alone; also whether its slot permits copies of what was found, which the caller
/// wants if the value has at most `copied_max` bytes.
async fn look_up_alone<L: Lookups>(
    engine: &L,
    op: &mut On<L>,
    key: &[u8],
    value: &mut Value,
    copied_max: Option<usize>,
) -> Result<(Lookup, bool), CacheError> {
    let begun_ns = engine.index().member().endpoint.now_ns();
    let lookup = engine.look_up(op, key, value).await?;
    match (copied_max, op.found.take()) {
        (Some(copied_max), Some(found)) if lookup == Lookup::Hit => {
            Ok((lookup, permit(engine, found, value, copied_max, begun_ns).await?))
        }
        _ => Ok((lookup, false)),
    }
}

/// Whether the slot of the object that a lookup has found permits copies of it from now on, which
/// are wanted if the value has at most `copied_max` bytes. The lookup began at `begun_ns`.
pub(crate) async fn permit<L: Lookups>(
    engine: &L,
    (slot, word): (u64, WordOf<L>),
    value: &Value,
    copied_max: usize,
    begun_ns: u64,
) -> Result<bool, CacheError> {
    let may_be = value.has_at_most(copied_max) && engine.is_timely(begun_ns);
    Ok(may_be && copies::permit(engine.index(), slot, word).await? && engine.is_timely(begun_ns))
}

/// What a bucket says about a key.
#[derive(Clone, Copy, Debug)]
enum Candidate<W> {
    /// No slot may have its object.
    Absent {
        was_evicted: bool,
    },
    /// The first candidate's record is not where this client knows memory, or the bucket is being
    /// split.
    Unreachable,
    Seen(Seen<W>),
}

/// Finds a key's first candidate among the words of its bucket, which has this number.
#[inline]
fn first_candidate<L: Lookups>(engine: &L, (hash, bucket): (L::Hash, u32), words: &[u64]) -> Candidate<WordOf<L>> {
    let words: &[u64; BUCKET_SLOTS] = words.first_chunk().expect("a bucket is READ whole");
    // All words are compared before the first branch: a processor cannot predict which of sixteen
    // words it is.
    let bits =
        |bits, (place, word): (usize, &u64)| bits | u32::from(L::may_be(hash, SlotWord::from_bits(*word))) << place;
    let places: u32 = words.iter().enumerate().fold(0, bits);
    if places == 0 {
        return match engine.is_bucket_of(hash, bucket, words) {
            true => Candidate::Absent { was_evicted: L::was_evicted(hash, words) },
            false => Candidate::Unreachable,
        };
    }
    let place = places.trailing_zeros() as usize;
    let word: WordOf<L> = SlotWord::from_bits(words[place]);
    match engine.index().record_span(word) {
        Some(_) => Candidate::Seen(Seen { slot: first_slot(bucket) + place as u64, word, by: By::Bucket }),
        None => Candidate::Unreachable,
    }
}
