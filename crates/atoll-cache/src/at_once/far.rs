//! Lookups of many keys where memory is far: one batch READs the buckets, and slot and record of
//! each remembered key. A second batch READs the first candidates' records of the other keys.
//!
//! A round of remembered keys alone takes one round trip, another round takes two. The second batch
//! also swaps the slots of keys of which the caller wants to keep copies.
//!
//! Before other operations the client does the same for the keys that it does not remember, and
//! remembers them. A change of a remembered key takes one round trip less, a blind one two.

use super::{By, Candidate, Lookups, On, Seen, WordOf, first_candidate, look_up_alone, permit};
use crate::engine::Room;
use crate::index::copies::{Permission, Sharing, permission};
use crate::index::{Index, SLOTS_BYTES, SlotWord, first_slot};
use crate::near::Copies;
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
    copies: Copies<'_>,
    mut found: F,
) -> Result<(), CacheError>
where
    F: FnMut(usize, Lookup, &mut Value, bool),
{
    let mut values = engine.at_once().take_values(KEYS_MAX);
    let (mut done, mut room) = (0, Room::new(bytes_max));
    'rounds: while done < keys.len() {
        let copies = copies.from(done);
        let keys = &keys[done..keys.len().min(done + KEYS_MAX)];
        engine.begin_many(keys.len()).await?;
        let begun_ns = engine.index().member().endpoint.now_ns();
        let Round { hashes, candidates, permitted } = read_round(engine, keys, copies, &mut values).await?;
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
            let (lookup, is_permitted) = match (lookup, permitted[index], copies.bytes_max(index)) {
                (Some(Lookup::Hit), Permitted::Is(is_permitted), Some(_)) => {
                    (Lookup::Hit, is_permitted && engine.is_timely(begun_ns))
                }
                (Some(Lookup::Hit), Permitted::Later(slot, word), Some(copied_max)) => {
                    (Lookup::Hit, permit(engine, (slot, word), value, copied_max, begun_ns).await?)
                }
                (Some(lookup), ..) => (lookup, false),
                (None, _, copied_max) => look_up_alone(engine, op, key, value, copied_max).await?,
            };
            let is_last = room.is_used_up_by(lookup, value);
            found(done + index, lookup, value, is_permitted);
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
    let round = read_round(engine, keys, Copies::NONE, values).await?;
    // They may be fewer than the keys.
    for (index, candidate) in round.candidates.into_iter().enumerate() {
        if let Candidate::Seen(seen) = candidate {
            engine.learn_seen(keys[index], seen, &values[index], begun_ns);
        }
    }
    Ok(())
}

/// What is known of the keys of a round.
struct Round<L: Lookups> {
    hashes: ArrayVec<L::Hash, KEYS_MAX>,
    /// The first candidate of each.
    candidates: ArrayVec<Candidate<WordOf<L>>, KEYS_MAX>,
    /// Whether the candidate's slot permits copies.
    permitted: ArrayVec<Permitted<WordOf<L>>, KEYS_MAX>,
}

/// READs the buckets of the first keys, as many as fit into a batch, then the record of each key's
/// first candidate into its value. Of a remembered key it READs slot and record at once.
async fn read_round<L: Lookups>(
    engine: &L,
    keys: &[&[u8]],
    copies: Copies<'_>,
    values: &mut [Value],
) -> Result<Round<L>, CacheError> {
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
    let (mut candidates, mut records) = (ArrayVec::<_, KEYS_MAX>::new(), Batch::new());
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
    let permits = Permits::add(index, &candidates, copies, &mut records, verbs_max);
    if !records.is_empty() {
        endpoint.post(&mut records).await?;
    }
    for (place, ticket) in reads {
        values[place].buffer = records.take(ticket);
    }
    let permitted = permits.judged(&records, &mut candidates);
    Ok(Round { hashes, candidates, permitted })
}

/// Whether the slot of a key's candidate permits copies, which are wanted.
#[derive(Clone, Copy)]
enum Permitted<W> {
    /// It does, or it does not.
    Is(bool),
    /// It may once it is known what the candidate's value is: here, with this word.
    Later(u64, W),
}

/// Lets the slots of candidates of which copies are wanted permit them, by swaps in a batch.
struct Permits<W> {
    swaps: ArrayVec<(usize, Ticket), KEYS_MAX>,
    permitted: ArrayVec<Permitted<W>, KEYS_MAX>,
}

impl<W: SlotWord> Permits<W> {
    /// Adds the swaps to the batch, as many as it has room for. The first round trip has READ the
    /// slots.
    fn add<I: Index<Word = W>>(
        index: &I,
        candidates: &[Candidate<W>],
        copies: Copies<'_>,
        batch: &mut Batch,
        verbs_max: usize,
    ) -> Self {
        let mut swaps = ArrayVec::new();
        let permit = |(place, candidate): (usize, &Candidate<W>)| {
            let Candidate::Seen(Seen { slot, word, by: By::Bucket | By::Memory { is_same: true } }) = *candidate else {
                return Permitted::Is(false);
            };
            match permission(index, word) {
                _ if copies.bytes_max(place).is_none() => Permitted::Is(false),
                Permission::Is(is_permitted) => Permitted::Is(is_permitted),
                Permission::By(_) if word.is_large() || batch.len() == verbs_max => Permitted::Later(slot, word),
                Permission::By(copied) => {
                    swaps.push((place, batch.compare_and_swap(index.slot_at(slot), word.bits(), copied.bits())));
                    Permitted::Is(false)
                }
            }
        };
        let permitted = candidates.iter().enumerate().map(permit).collect();
        Self { swaps, permitted }
    }

    /// What came of it. The candidates get the words that their slots have got.
    fn judged(mut self, batch: &Batch, candidates: &mut [Candidate<W>]) -> ArrayVec<Permitted<W>, KEYS_MAX> {
        for (place, swap) in self.swaps {
            if batch.swapped(swap)
                && let Candidate::Seen(seen) = &mut candidates[place]
            {
                seen.word = seen.word.shared_as(Sharing::Copied);
                self.permitted[place] = Permitted::Is(true);
            }
        }
        self.permitted
    }
}

/// The buffer of a value, to READ so many bytes into. The value is empty meanwhile.
fn emptied(value: &mut Value, bytes: usize) -> Buffer {
    let mut buffer = value.take_buffer();
    buffer.resize(bytes);
    buffer
}
