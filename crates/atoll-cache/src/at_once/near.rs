//! Lookups of many keys where memory is near, and hints before other operations.
//!
//! | step | for all keys of a round |
//! |---|---|
//! | 1 | hash the key, prefetch its bucket |
//! | 2 | READ the bucket, prefetch the record of its first candidate and what a hit writes |
//! | 3 | READ the record and judge it |
//!
//! A hint before other operations is steps 1 and 2, with the heads of the records: most changes
//! look at no more. It may be wrong when its operation begins: each operation READs its bucket
//! again.

use super::{Candidate, Lookups, On, WordOf, first_candidate, look_up_alone, permit};
use crate::engine::Room;
use crate::index::{Index, SLOTS_BYTES, first_slot};
use crate::near::Copies;
use crate::record::Record;
use crate::{CacheError, Lookup, Meta, Value};
use arrayvec::ArrayVec;
use atoll_fabric::{Endpoint, Intent};

/// Keys of a round. Their buckets and records fit into a first-level cache.
const KEYS_MAX: usize = 16;

pub(super) async fn look_up_many<L: Lookups, F>(
    engine: &L,
    op: &mut On<L>,
    keys: &[&[u8]],
    bytes_max: usize,
    copies: Copies<'_>,
    mut found: F,
) -> Result<(), CacheError>
where
    F: FnMut(usize, Lookup, &mut Value, bool),
{
    let mut values = engine.at_once().take_values(1);
    let (value, mut room) = (&mut values[0], Room::new(bytes_max));
    'rounds: for (round, keys) in keys.chunks(KEYS_MAX).enumerate() {
        let copies = copies.from(round * KEYS_MAX);
        engine.begin_many(keys.len()).await?;
        let begun_ns = engine.index().member().endpoint.now_ns();
        let hashes = expect_buckets(engine, keys);
        let mut candidates = ArrayVec::<_, KEYS_MAX>::new();
        for hash in &hashes {
            candidates.push(expect_record(engine, op, *hash, usize::MAX).await?);
        }
        for (index, key) in keys.iter().enumerate() {
            // The callee may have taken the place that had this before.
            value.defers_from = bytes_max;
            let lookup = match candidates[index] {
                Candidate::Absent { was_evicted } => {
                    engine.count_absent(hashes[index], was_evicted);
                    Some(Lookup::Absent)
                }
                Candidate::Unreachable => None,
                Candidate::Seen(seen) => {
                    let span = engine.index().record_span(seen.word).expect("the span of a word does not change");
                    (value.start, value.meta) = (0, Meta::default());
                    let mut buffer = std::mem::take(&mut value.buffer);
                    buffer.resize(span.1);
                    value.buffer = engine.index().member().endpoint.read(span.0, buffer).await?;
                    engine.judge_seen(op, (hashes[index], key), seen, value, begun_ns).await?
                }
            };
            let (lookup, is_permitted) = match (lookup, candidates[index], copies.bytes_max(index)) {
                (Some(Lookup::Hit), Candidate::Seen(seen), Some(copied_max)) => {
                    let permitting = permit(engine, (seen.slot, seen.word), value, copied_max, begun_ns);
                    (Lookup::Hit, Box::pin(permitting).await?)
                }
                (Some(lookup), ..) => (lookup, false),
                (None, _, copied_max) => Box::pin(look_up_alone(engine, op, key, value, copied_max)).await?,
            };
            value.defers_from = usize::MAX;
            if value.deferred.take().is_some() {
                break 'rounds;
            }
            let is_last = room.is_used_up_by(lookup, value);
            found(round * KEYS_MAX + index, lookup, value, is_permitted);
            if is_last {
                break 'rounds;
            }
        }
    }
    engine.at_once().keep_values(values);
    Ok(())
}

/// Prefetches the buckets of at most [`KEYS_MAX`] keys.
#[inline]
fn expect_buckets<L: Lookups>(engine: &L, keys: &[&[u8]]) -> ArrayVec<L::Hash, KEYS_MAX> {
    let index = engine.index();
    let expected = |key: &&[u8]| {
        let hash = engine.hash(key);
        let at = index.slot_at(first_slot(engine.bucket(hash)));
        index.member().endpoint.expect(at, SLOTS_BYTES, Intent::Read);
        hash
    };
    keys.iter().map(expected).collect()
}

/// READs a key's bucket, and prefetches what a hit of its first candidate touches, at most so many
/// bytes of the record.
#[inline]
async fn expect_record<L: Lookups>(
    engine: &L,
    op: &mut On<L>,
    hash: L::Hash,
    bytes_max: usize,
) -> Result<Candidate<WordOf<L>>, CacheError> {
    let (index, endpoint) = (engine.index(), &engine.index().member().endpoint);
    let mut buffer = std::mem::take(&mut op.bucket);
    buffer.resize(SLOTS_BYTES as usize);
    let bucket = engine.bucket(hash);
    op.bucket = endpoint.read(index.slot_at(first_slot(bucket)), buffer).await?;
    let candidate = first_candidate(engine, (hash, bucket), op.bucket.words());
    if let Candidate::Seen(seen) = candidate
        && let Some((at, bytes, chunk)) = index.record_span(seen.word)
    {
        endpoint.expect(at, bytes.min(bytes_max) as u64, Intent::Read);
        engine.expect_hit(seen.slot, chunk);
    }
    Ok(candidate)
}

/// Hints to the fabric which memory operations on these keys will touch.
pub(super) async fn expect<L: Lookups>(engine: &L, op: &mut On<L>, keys: &[&[u8]]) {
    for keys in keys.chunks(KEYS_MAX) {
        for (hash, key) in expect_buckets(engine, keys).into_iter().zip(keys) {
            if expect_record(engine, op, hash, Record::head_bytes(key.len())).await.is_err() {
                return;
            }
        }
    }
}
