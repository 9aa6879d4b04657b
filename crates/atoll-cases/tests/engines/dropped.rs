//! Futures that are dropped at every await of every operation.
//!
//! An operation whose future was dropped runs to its end: its change takes effect as soon as the
//! client has finished what is left. Nothing leaks, and no client waits for another.

use atoll_cache::{CacheError, Engine, Expiry, Lookup, SetOptions, Value};
use atoll_cases::load::poll_at_most;
use atoll_cases::promises::{Suite, on_engines_of_clients};
use atoll_cases::{Case, Client, Subject};
use atoll_sim::for_each_seed;
use atoll_sim::history::Evictions;

/// The longest operation of a roomy pool awaits less often.
const POLLS_MAX: u64 = 300;

/// What is dropped.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Get,
    GetMany,
    Set,
    SetLarge,
    Delete,
    Append,
    Expire,
    Flush,
    Tend,
}

use Operation::*;

const ALL: [Operation; 9] = [Get, GetMany, Set, SetLarge, Delete, Append, Expire, Flush, Tend];
/// Longer than a chunk: it has extents.
const LARGE: usize = 1500;

impl Operation {
    /// Does it on a key that has `old`.
    async fn run<S: Subject>(self, client: &Client<S>, key: &[u8]) -> Result<(), CacheError> {
        let (cache, options) = (&client.cache, SetOptions::default());
        match self {
            Get => cache.get(key, &mut Value::new()).await.map(drop),
            GetMany => cache.get_many(&[key, b"absent", key], |_, _| ()).await,
            Set => cache.set(key, b"new", &options).await.map(drop),
            SetLarge => cache.set(key, &[7; LARGE], &options).await.map(drop),
            Delete => cache.delete(key).await.map(drop),
            Append => cache.append(key, b"er").await.map(drop),
            Expire => cache.expire(key, Expiry::InMs(1 << 30), Default::default()).await.map(drop),
            Flush => cache.flush().await.map(drop),
            Tend => cache.tend().await,
        }
    }

    /// What must be there once it has ended, and whether that expires.
    fn leaves(self) -> Option<(Vec<u8>, bool)> {
        match self {
            Get | GetMany | Tend => Some((b"old".to_vec(), false)),
            Set => Some((b"new".to_vec(), false)),
            SetLarge => Some((vec![7; LARGE], false)),
            Append => Some((b"older".to_vec(), false)),
            Expire => Some((b"old".to_vec(), true)),
            Delete | Flush => None,
        }
    }
}

/// Drops an operation at its first await, at its second, and so on until it ends before it could be
/// dropped.
async fn at_every_await<S: Subject>(client: &Client<S>, operation: Operation) -> Result<u64, CacheError> {
    let key = format!("{}.{operation:?}", client.number).into_bytes();
    for polls in 1..POLLS_MAX {
        client.cache.set(&key, b"old", &SetOptions::default()).await?;
        let ended = poll_at_most(polls, operation.run(client, &key)).await;
        client.cache.engine().finish().await;
        let mut value = Value::new();
        let hit = client.cache.engine().get(&key, &mut value).await? == Lookup::Hit;
        let seen = hit.then(|| (value.bytes().to_vec(), value.meta().expiry_ms.is_some()));
        assert_eq!(seen, operation.leaves(), "{operation:?}, dropped after {polls} polls");
        if let Some(ended) = ended {
            return ended.map(|()| polls - 1);
        }
    }
    panic!("{operation:?} awaits more than {POLLS_MAX} times")
}

fn roomy<S: Subject>(seed: u64, clients: u32) -> Case<S> {
    let drawn = Case::<S>::drawn(seed);
    Case { chunks: 400, slots: 1024, objects_max: 0, growth_chunks: 0, clients, evictions: Evictions::Never, ..drawn }
}

fn nothing_is_lost<S: Subject>() {
    for_each_seed(12, |seed| {
        for operation in ALL {
            // A flush removes the keys of all clients.
            let clients = if matches!(operation, Flush) { 1 } else { 2 };
            let part = move |client: Client<S>| async move {
                let awaits = at_every_await(&client, operation).await?;
                assert!(awaits > 0, "{operation:?} has no await at which it could be dropped");
                Ok(client)
            };
            let ran = roomy::<S>(seed, clients).run_part(seed, part);
            ran.unwrap_or_else(|error| panic!("seed {seed}, {operation:?}: {error}"));
        }
    });
}

/// Many of them are left behind at once, and the client leaves.
fn a_client_leaves<S: Subject>() {
    for_each_seed(60, |seed| {
        let part = move |client: Client<S>| async move {
            for round in 0..40 {
                let operation = ALL[(round + seed as usize) % ALL.len()];
                let polls = 1 + client.seed.wrapping_add(round as u64) % 7;
                let key = format!("{}", round % 3).into_bytes();
                poll_at_most(polls, operation.run(&client, &key)).await.unwrap_or(Ok(()))?;
            }
            Ok(client)
        };
        let ran = Case { evictions: Evictions::Anytime, ..Case::<S>::drawn(seed) }.run_part(seed, part);
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    });
}

struct DroppedFutures;

impl Suite for DroppedFutures {
    fn run<S: Subject>(&self) {
        nothing_is_lost::<S>();
        a_client_leaves::<S>();
    }
}

#[test]
fn engines_end_what_they_began_when_a_future_is_dropped_at_any_await() {
    on_engines_of_clients(&DroppedFutures);
}
