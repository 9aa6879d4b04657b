//! Large values that arrive piece by piece, and those that are read so: what other clients see of
//! the ones, what the others have, and that nothing of either is left. The walk over the pool at
//! the end of each case finds chunks that no object has.

use atoll_cache::{CacheError, Condition, Engine, Got, Pooled, Reading, SetOptions, Value};
use atoll_cases::promises::{Suite, on_engines_of_clients, under_seeds};
use atoll_cases::{Case, Client, Subject, load};
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Endpoint, VerbError};
use atoll_sim::Distance;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Values of so many bytes have chunks of their own, at 256 bytes a chunk.
const BYTES: std::ops::Range<u64> = 300..1500;
const ROUNDS: u64 = 40;

fn case<S: Subject>(seed: u64) -> Case<S> {
    // Some have room for everything at once, and some evict.
    Case { chunk_bytes: 256, chunks: 40 + 8 * (seed % 12), clients: 3, objects_max: 0, ..Case::drawn(seed) }
}

/// Sets one of two keys in one of three ways, many times, and looks at them.
async fn sets_and_looks<S: Subject>(client: Client<S>) -> Result<Client<S>, CacheError> {
    let mut random = client.random();
    for round in 0..ROUNDS {
        let key = if random.below(2) == 0 { b"a".as_slice() } else { b"bb" };
        let bytes = BYTES.start + random.below(BYTES.end - BYTES.start);
        let value = load::unique_value(client.number, round, bytes);
        let condition = if random.below(3) == 0 { Condition::IfAbsent } else { Condition::Always };
        let staged = client.cache.stage(key, value.len())?;
        match staged.filter(|_| random.below(4) > 0) {
            None => client.set_returning(key, value, condition).await?,
            Some(mut staged) => {
                // One in four connections breaks on the way.
                let end = if random.below(4) == 0 { random.below(bytes) as usize } else { value.len() };
                let mut done = 0;
                while done < end {
                    let part = (1 + random.below(700) as usize).min(end - done);
                    client.cache.append_staged(&mut staged, &value[done..done + part]).await?;
                    done += part;
                }
                if staged.missing_bytes() == 0 {
                    client.set_staged(key, value, condition, staged).await?;
                }
            }
        }
        client.get(key).await?;
    }
    Ok(client)
}

struct OtherClients;

impl Suite for OtherClients {
    fn run<S: Subject>(&self) {
        under_seeds::<S, _, _>(60, case::<S>, |case: &Case<S>, seed| case.run_part(seed, sets_and_looks));
    }
}

#[test]
fn promise_1_a_value_that_arrives_in_pieces_appears_whole_and_one_that_breaks_off_leaves_nothing() {
    on_engines_of_clients(&OtherClients);
}

/// A pool that has room for one such value besides.
async fn breaks_off<S: Subject>(client: Client<S>) -> Result<Client<S>, CacheError> {
    let value = load::unique_value(client.number, 0, 256 * 6);
    for _ in 0..20 {
        let mut staged = client.cache.stage(b"k", value.len())?.expect("the engine stores it while it arrives");
        client.cache.append_staged(&mut staged, &value[..value.len() - 1]).await?;
        drop(staged);
        client.cache.tend().await?;
    }
    let mut staged = client.cache.stage(b"k", value.len())?.expect("the same");
    client.cache.append_staged(&mut staged, &value).await?;
    client.cache.set_staged(b"k", staged, &SetOptions::default(), None).await?;
    let mut found = Value::new();
    assert!(client.cache.get(b"k", &mut found).await? && found.bytes() == value);
    assert!(client.cache.engine().stage(b"k", 10).is_none(), "a short value is stored in one step");
    Ok(client)
}

struct BreaksOff;

impl Suite for BreaksOff {
    fn run<S: Subject>(&self) {
        let case = |seed| Case { chunk_bytes: 256, chunks: 40, clients: 1, objects_max: 0, ..Case::<S>::drawn(seed) };
        under_seeds::<S, _, _>(20, case, |case: &Case<S>, seed| case.run_part(seed, breaks_off));
    }
}

#[test]
fn the_chunks_of_values_that_break_off_are_used_again() {
    on_engines_of_clients(&BreaksOff);
}

/// A value is published twice in vain: the host has no memory for its record. What was written of
/// it is free afterwards.
async fn is_refused<S: Subject>(client: Client<S>) -> Result<Client<S>, CacheError> {
    let value = load::unique_value(client.number, 0, 256 * 6);
    for round in 0..4 {
        let key = format!("{}", round % 2).into_bytes();
        let refused = (round % 2 == 0).then(|| client.stops.refused(publishes));
        let staged = match round / 2 {
            0 => None,
            _ => client.cache.stage(&key, value.len())?,
        };
        let set = match staged {
            None => client.cache.set(&key, &value, &SetOptions::default()).await,
            Some(mut staged) => {
                client.cache.append_staged(&mut staged, &value).await?;
                client.cache.set_staged(&key, staged, &SetOptions::default(), None).await
            }
        };
        match refused {
            Some(_) => assert!(matches!(set, Err(CacheError::Verb(VerbError::NoMemory(_)))), "{set:?}"),
            None => assert!(set?.stored),
        }
        client.cache.tend().await?;
    }
    Ok(client)
}

/// Whether a batch WRITEs a record and swaps a slot.
fn publishes(verbs: &[Verb]) -> bool {
    let is = |wanted: fn(&Operation) -> bool| verbs.iter().any(|verb| wanted(&verb.operation));
    is(|operation| matches!(operation, Operation::Write { .. }))
        && is(|operation| matches!(operation, Operation::CompareAndSwap { .. }))
}

struct IsRefused;

impl Suite for IsRefused {
    fn run<S: Subject>(&self) {
        let case = |seed| {
            let sizes = Case { chunk_bytes: 256, chunks: 40, clients: 1, objects_max: 0, ..Case::<S>::drawn(seed) };
            Case { nodes: 1, growth_chunks: 0, ..sizes }
        };
        under_seeds::<S, _, _>(20, case, |case: &Case<S>, seed| case.run_part(seed, is_refused));
    }
}

#[test]
fn the_chunks_of_values_whose_records_were_refused_are_used_again() {
    on_engines_of_clients(&IsRefused);
}

/// A value is begun, and another client joins in the place of the one that began it.
async fn joins_amid<S: Subject>(mut client: Client<S>) -> Result<Client<S>, CacheError> {
    let value = load::unique_value(client.number, 0, 256 * 6);
    let mut staged = client.cache.stage(b"k", value.len())?.expect("the engine stores it while it arrives");
    client.rejoin().await?;
    let appended = client.cache.append_staged(&mut staged, &value).await;
    assert_eq!(appended, Err(CacheError::BegunByAnother));
    // The new client has lost nothing.
    client.set(b"k", value).await?;
    assert!(client.get(b"k").await?);
    Ok(client)
}

struct JoinsAmid;

impl Suite for JoinsAmid {
    fn run<S: Subject>(&self) {
        let case = |seed| {
            let sizes = Case { chunk_bytes: 256, chunks: 40, clients: 1, objects_max: 0, ..Case::<S>::drawn(seed) };
            Case { rejoins: 1, ..sizes }
        };
        under_seeds::<S, _, _>(20, case, |case: &Case<S>, seed| case.run_part(seed, joins_amid));
    }
}

#[test]
fn a_value_that_another_client_has_begun_is_refused_and_the_client_stays_whole() {
    on_engines_of_clients(&JoinsAmid);
}

/// Values that were read to their ends.
static READ_WHOLE: AtomicU64 = AtomicU64::new(0);

/// Sets and removes two keys, while others read their values in pieces. Each client is a process of
/// its own, and keeps no other one from freeing what it reads.
async fn reads_in_pieces<S: Subject>(client: Client<S>) -> Result<Client<S>, CacheError> {
    let (mut random, mut whole) = (client.random(), 0);
    for round in 0..20 {
        let key = if random.below(2) == 0 { b"a".as_slice() } else { b"bb" };
        match random.below(6) {
            0 | 1 => {
                let bytes = 9_000 + random.below(12_000);
                client.set(key, load::unique_value(client.number, round, bytes)).await?;
            }
            2 => client.delete(key).await?,
            _ => whole += u64::from(client.get_in_pieces(key).await?),
        }
    }
    READ_WHOLE.fetch_add(whole, SeqCst);
    client.cache.tend().await?;
    Ok(client)
}

struct ReadsInPieces;

impl Suite for ReadsInPieces {
    fn run<S: Subject>(&self) {
        let case = |seed| {
            let sizes = Case {
                chunk_bytes: 4096,
                chunks: 32 + 2 * (seed % 8),
                clients: 3,
                objects_max: 0,
                ..Case::drawn(seed)
            };
            Case::<S> { distance: Distance::Near, nodes: 1, growth_chunks: 0, ..sizes }
        };
        let before = READ_WHOLE.load(SeqCst);
        under_seeds::<S, _, _>(60, case, |case: &Case<S>, seed| case.run_part(seed, reads_in_pieces));
        assert!(READ_WHOLE.load(SeqCst) > before, "{}: no value was read to its end", S::NAME);
    }
}

/// A reader gets the bytes of one value, or learns that another process came in between.
#[test]
fn promise_1_a_value_that_is_read_in_pieces_is_one_that_was_there_or_is_not_read_to_its_end() {
    on_engines_of_clients(&ReadsInPieces);
}

/// Pools near their clients, of so many chunks of 4 KiB.
fn near<S: Subject>(seed: u64, chunks: u64, clients: u32) -> Case<S> {
    let sizes = Case { chunk_bytes: 4096, chunks, clients, objects_max: 0, ..Case::drawn(seed) };
    Case { distance: Distance::Near, nodes: 1, growth_chunks: 0, ..sizes }
}

/// Opens the value of `k`.
async fn opened<S: Subject>(client: &Client<S>) -> Result<Box<Reading>, CacheError> {
    match client.cache.get_or_open(b"k", &mut Value::new(), 1).await? {
        Got::Open(reading) => Ok(reading),
        other => panic!("a large value is there: {other:?}"),
    }
}

/// Removes a value while it is read, and repairs the pool.
async fn is_repaired_amid<S: Subject>(client: Client<S>) -> Result<Client<S>, CacheError> {
    let value = load::unique_value(client.number, 0, 30_000);
    client.cache.set(b"k", &value, &SetOptions::default()).await?;
    let mut reading = opened(&client).await?;
    assert!(client.cache.delete(b"k").await?);
    for piece in value.chunks(4 << 10) {
        client.cache.engine().repair().await?;
        let mut read = vec![0; piece.len()];
        assert!(client.cache.read_on(&mut reading, &mut read).await?, "it is pinned");
        assert!(read == piece);
    }
    drop(reading);
    client.cache.tend().await?;
    Ok(client)
}

struct IsRepairedAmid;

impl Suite for IsRepairedAmid {
    fn run<S: Subject>(&self) {
        under_seeds::<S, _, _>(
            20,
            |seed| near::<S>(seed, 48, 1),
            |case: &Case<S>, seed| case.run_part(seed, is_repaired_amid),
        );
    }
}

#[test]
fn a_value_that_is_read_in_pieces_outlives_repairs_by_its_own_process() {
    on_engines_of_clients(&IsRepairedAmid);
}

/// Begins to read a value. Another process removes it, and gives its memory back to the host.
async fn reads_what_is_given_back<S: Subject>(client: Client<S>, step: Rc<Cell<u32>>) -> Result<Client<S>, CacheError> {
    let until = async |wanted: u32| {
        while step.get() < wanted {
            client.cache.tend().await?;
            client.endpoint().pause(1000).await;
        }
        Ok::<_, CacheError>(())
    };
    let (cache, engine) = (&client.cache, client.cache.engine());
    if client.number > 0 {
        until(1).await?;
        assert!(cache.delete(b"k").await?);
        for _ in 0..CHUNKS_GIVEN_BACK {
            engine.retire_chunks(1).await?;
        }
        while engine.discard_retired().await? > 0 {
            cache.tend().await?;
            client.endpoint().pause(1000).await;
        }
        step.set(2);
        until(3).await?;
        while engine.restore_chunk().await? {}
        return Ok(client);
    }
    let value = load::unique_value(client.number, 0, 30_000);
    cache.set(b"k", &value, &SetOptions::default()).await?;
    let mut reading = opened(&client).await?;
    assert!(cache.read_on(&mut reading, &mut vec![0; 4 << 10]).await?);
    step.set(1);
    until(2).await?;
    assert!(!cache.read_on(&mut reading, &mut vec![0; 4 << 10]).await?, "it is gone");
    step.set(3);
    drop(reading);
    Ok(client)
}

/// Most of the chunks of such a pool.
const CHUNKS_GIVEN_BACK: u64 = 36;

struct ReadsWhatIsGivenBack;

impl Suite for ReadsWhatIsGivenBack {
    fn run<S: Subject>(&self) {
        under_seeds::<S, _, _>(
            10,
            |seed| near::<S>(seed, 48, 2),
            |case: &Case<S>, seed| {
                let step = Rc::new(Cell::new(0));
                case.run_part(seed, move |client| reads_what_is_given_back(client, step.clone()))
            },
        );
    }
}

/// The simulator fails a run with such a verb.
#[test]
fn no_reader_touches_memory_that_was_given_back_between_two_pieces() {
    on_engines_of_clients(&ReadsWhatIsGivenBack);
}
