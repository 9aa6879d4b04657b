//! Promise 6 for bytes. Any bytes may stand in the pool behind its header: a client still gives
//! values of the key, misses or errors. It neither panics nor runs for ever.

use atoll_cache::EnginePool;
use atoll_cache::{CacheError, Pooled, SetOptions, Value};
use atoll_cases::promises::{Suite, on_engines_of_clients, under_seeds};
use atoll_cases::{Case, Client, Subject};
use atoll_pool::Layout;
use atoll_sim::{Random, Sim};
use std::rc::Rc;

/// First byte behind the header's words.
const HEADER_BYTES: u64 = 256;

/// What a vandal might leave: noise, edges, one bit changed, a word from elsewhere.
fn hostile_word(random: &mut Random, old: u64, elsewhere: u64) -> u64 {
    match random.below(8) {
        0 => random.word(),
        1 => random.word() >> random.below(64),
        2 => u64::MAX,
        3 => u64::MAX << random.below(64),
        4 => 0,
        5 => elsewhere,
        _ => old ^ 1 << random.below(64),
    }
}

/// Pokes `count` words, most of them in front of the heap, where the pool's structure is.
fn vandalise(sim: &Sim, layout: &Layout, random: &mut Random, count: u64) {
    let heap = layout.chunk(atoll_pool::ChunkId(0)).offset();
    let any = |random: &mut Random| {
        let end = if random.below(4) == 0 { layout.end() } else { heap };
        layout.clock().add((random.below(end - HEADER_BYTES)) & !7)
    };
    for _ in 0..count {
        let (at, from) = (any(random), any(random));
        sim.poke_word(at, hostile_word(random, sim.peek_word(at), sim.peek_word(from)));
    }
}

/// Keys say which values were ever written under them: all that begin with the key.
fn key(index: u64) -> Vec<u8> {
    format!("key {index} ").into_bytes()
}

fn judged<T>(outcome: Result<T, CacheError>) -> Option<T> {
    match outcome {
        Ok(found) => Some(found),
        Err(CacheError::Damaged { .. } | CacheError::OutOfMemory) => None,
        Err(error) => panic!("damaged bytes became `{error}`"),
    }
}

async fn play<S: Subject>(client: &mut Client<S>, operations: u64) {
    let mut random = Random::stream(client.seed, 40 + u64::from(client.number));
    let mut value = Value::new();
    for _ in 0..operations {
        let key = key(random.below(8));
        match random.below(12) {
            0..2 => {
                let mut own = vec![0; 4096];
                if let Some(Some(meta)) = judged(client.cache.get_to_slice(&key, &mut own).await)
                    && meta.value_bytes <= own.len()
                {
                    assert!(own[..meta.value_bytes].starts_with(&key), "a value of another key");
                }
            }
            2..4 => {
                if judged(client.cache.get(&key, &mut value).await) == Some(true) {
                    assert!(value.bytes().starts_with(&key), "a value of another key");
                }
            }
            4..8 => {
                let bytes = [key.clone(), vec![1; random.below(1500) as usize >> random.below(6)]].concat();
                judged(client.cache.set(&key, &bytes, &SetOptions::default()).await);
            }
            8 => drop(judged(client.cache.delete(&key).await)),
            9 => drop(judged(client.cache.append(&key, &key).await.map(|length| assert!(length > 0)))),
            10 => drop(judged(client.cache.random_key().await)),
            _ => drop(judged(client.cache.scan(random.below(5), 3, |_| ()).await)),
        }
    }
}

fn run<S: Subject>(seed: u64) -> Result<(), String> {
    let mut random = Random::stream(seed, 3);
    // Each unsound object costs a lookup ten thousand looks, which is a bound.
    let case = Case::<S> { steps_max: 400_000_000, clients: 2, ..Case::drawn(seed) };
    let (sim, pool) = case.formatted(seed)?;
    // Clients of a run that came to no end cannot leave any more.
    let sim = std::mem::ManuallyDrop::new(sim);
    let history = Rc::default();
    case.play(&sim, &history, |mut client| async move {
        play(&mut client, 40).await;
        Ok(client)
    })?;
    let count = 1 << random.below(9);
    vandalise(&sim, &pool.pool().layout, &mut random, count);
    let played = case.play(&sim, &history, |mut client| async move {
        play(&mut client, 6).await;
        judged(client.cache.engine().verify().await);
        judged(client.cache.flush().await);
        judged(client.cache.engine().leave().await);
        Ok(client)
    });
    // Whether a pool so damaged takes new clients, and lets them go, is another matter.
    match played {
        Err(error) if error.contains("no end after") => Err(error),
        _ => Ok(()),
    }
}

struct HostileBytes;

impl Suite for HostileBytes {
    fn run<S: Subject>(&self) {
        under_seeds::<S, _, _>(200, |_| (), |(), seed| run::<S>(seed));
    }
}

/// Records of groups and samples are among the bytes of `glcache`: what is learned from noise is a
/// rule like any other.
#[test]
fn hostile_bytes_give_values_misses_or_errors_and_every_operation_ends() {
    on_engines_of_clients(&HostileBytes);
}
