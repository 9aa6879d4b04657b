//! Lookups of many keys where memory is far: one batch READs the buckets, and slot and record of
//! each remembered key. A second batch READs the first candidates' records of the other keys.
//!
//! A round of remembered keys alone takes one round trip, another round takes two.
//!
//! Before other operations the client does the same for the keys that it does not remember, and
//! remembers them. A change of a remembered key takes one round trip less, a blind one two.

use super::{By, Candidate, Lookups, On, Seen, WordOf, first_candidate};
use crate::engine::Room;
use crate::index::{Index, SLOTS_BYTES, SlotWord, first_slot};
use crate::{CacheError, Lookup, Value};
use arrayvec::ArrayVec;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Ticket};

/// Keys of a round.
const KEYS_MAX: usize = BATCH_VERBS_MAX;
/// Finding out where this many objects are takes fewer round trips than it saves.
const KEYS_WORTH: usize = 3;

/// What a client has posted for a key of a round.
enum Posted<W> {
    Bucket(u32, Ticket),
    Remembered { slot: u64, word: W, now: Ticket, record: Ticket },
}

pub(super) async fn look_up_many<L: Lookups, F>(
    engine: &L,
    op: &mut On<L>,
    keys: &[&[u8]],
    bytes_max: usize,
    mut found: F,
) -> Result<(), CacheError>
where
    F: FnMut(usize, Lookup, &mut Value),
{
    let mut values = engine.at_once().take_values(KEYS_MAX);
    let (mut done, mut room) = (0, Room::new(bytes_max));
    'rounds: while done < keys.len() {
        let keys = &keys[done..keys.len().min(done + KEYS_MAX)];
        engine.begin_many(keys.len()).await?;
        let begun_ns = engine.index().member().endpoint.now_ns();
        let (hashes, candidates) = read_round(engine, keys, &mut values).await?;
        for (index, (hash, candidate)) in hashes.iter().zip(&candidates).enumerate() {
            let (key, value) = (keys[index], &mut values[index]);
            let lookup = match candidate {
                Candidate::Absent { was_evicted } => {
                    engine.count_absent(*hash, *was_evicted);
                    Some(Lookup::Absent)
                }
                Candidate::Unreachable => None,
                Candidate::Seen(seen) => engine.judge_seen(op, (*hash, key), *seen, value, begun_ns).await?,
            };
            let lookup = match lookup {
                Some(lookup) => lookup,
                None => engine.look_up(op, key, value).await?,
            };
            let is_last = room.is_used_up_by(lookup, value);
            found(done + index, lookup, value);
            if is_last {
                break 'rounds;
            }
        }
        done += hashes.len();
    }
    engine.at_once().keep_values(values);
    Ok(())
}

/// Finds out where the objects of these keys are, if the client does not know and could use it.
/// What goes wrong is left to the operations.
pub(super) async fn expect<L: Lookups>(engine: &L, keys: &[&[u8]]) {
    let wanted = worth_learning(engine, keys);
    if wanted.len() >= KEYS_WORTH {
        let mut values = engine.at_once().take_values(KEYS_MAX);
        let _ = learn_round(engine, &wanted, &mut values).await;
        engine.at_once().keep_values(values);
    }
}

/// Whether [`expect`] would do anything.
pub(super) fn is_worth_expecting<L: Lookups>(engine: &L, keys: &[&[u8]]) -> bool {
    worth_learning(engine, keys).len() >= KEYS_WORTH
}

/// The keys whose places the client does not know and could use, each once.
fn worth_learning<'k, L: Lookups>(engine: &L, keys: &[&'k [u8]]) -> ArrayVec<&'k [u8], KEYS_MAX> {
    let mut wanted = ArrayVec::new();
    for key in keys {
        if !wanted.is_full() && !wanted.contains(key) && engine.is_worth_learning(engine.hash(key), key) {
            wanted.push(*key);
        }
    }
    wanted
}

async fn learn_round<L: Lookups>(engine: &L, keys: &[&[u8]], values: &mut [Value]) -> Result<(), CacheError> {
    engine.begin_many(keys.len()).await?;
    let begun_ns = engine.index().member().endpoint.now_ns();
    let (_, candidates) = read_round(engine, keys, values).await?;
    // They may be fewer than the keys.
    for (index, candidate) in candidates.into_iter().enumerate() {
        if let Candidate::Seen(seen) = candidate {
            engine.learn_seen(keys[index], seen, &values[index], begun_ns);
        }
    }
    Ok(())
}

/// The hashes of the keys of a round, and the first candidate of each.
type Round<L> = (ArrayVec<<L as Lookups>::Hash, KEYS_MAX>, ArrayVec<Candidate<WordOf<L>>, KEYS_MAX>);

/// READs the buckets of the first keys, as many as fit into a batch, then the record of each key's
/// first candidate into its value. Of a remembered key it READs slot and record at once.
async fn read_round<L: Lookups>(engine: &L, keys: &[&[u8]], values: &mut [Value]) -> Result<Round<L>, CacheError> {
    let (index, endpoint) = (engine.index(), &engine.index().member().endpoint);
    let verbs_max = endpoint.limits().batch_verbs_max.min(BATCH_VERBS_MAX);
    let mut buffers = engine.at_once().buckets.take();
    let (mut hashes, mut posted) = (ArrayVec::new(), ArrayVec::<_, KEYS_MAX>::new());
    let mut batch = Batch::new();
    for (key, value) in keys.iter().zip(&mut *values) {
        let hash = engine.hash(key);
        let remembered = engine.recall(hash, key).and_then(|(slot, word)| Some((slot, word, index.record_span(word)?)));
        if batch.len() + 1 + usize::from(remembered.is_some()) > verbs_max {
            break;
        }
        hashes.push(hash);
        posted.push(match remembered {
            Some((slot, word, (at, bytes, chunk))) => {
                engine.expect_hit(slot, chunk);
                let now = batch.read_word(index.slot_at(slot));
                Posted::Remembered { slot, word, now, record: batch.read(at, emptied(value, bytes)) }
            }
            None => {
                let mut buffer = buffers.pop().unwrap_or_default();
                buffer.resize(SLOTS_BYTES as usize);
                let bucket = engine.bucket(hash);
                Posted::Bucket(bucket, batch.read(index.slot_at(first_slot(bucket)), buffer))
            }
        });
    }
    assert!(!hashes.is_empty(), "a batch has room for one key");
    endpoint.post(&mut batch).await?;
    let (mut candidates, mut records) = (ArrayVec::new(), Batch::new());
    let mut reads = ArrayVec::<_, KEYS_MAX>::new();
    for (place, posted) in posted.into_iter().enumerate() {
        let candidate = match posted {
            Posted::Remembered { slot, word, now, record } => {
                values[place].buffer = batch.take(record);
                let is_same = batch.word(now) == word.bits();
                Candidate::Seen(Seen { slot, word, by: By::Memory { is_same } })
            }
            Posted::Bucket(bucket, ticket) => {
                let words = batch.take(ticket);
                let candidate = first_candidate(engine, (hashes[place], bucket), words.words());
                buffers.push(words);
                if let Candidate::Seen(seen) = candidate
                    && let Some((at, bytes, chunk)) = index.record_span(seen.word)
                {
                    engine.expect_hit(seen.slot, chunk);
                    reads.push((place, records.read(at, emptied(&mut values[place], bytes))));
                }
                candidate
            }
        };
        candidates.push(candidate);
    }
    engine.at_once().buckets.replace(buffers);
    if !records.is_empty() {
        endpoint.post(&mut records).await?;
    }
    for (place, ticket) in reads {
        values[place].buffer = records.take(ticket);
    }
    Ok((hashes, candidates))
}

/// The buffer of a value, to READ so many bytes into. The value is empty meanwhile.
fn emptied(value: &mut Value, bytes: usize) -> Buffer {
    let mut buffer = value.take_buffer();
    buffer.resize(bytes);
    buffer
}
