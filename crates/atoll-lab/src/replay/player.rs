//! One process's part of a replay: its clients, their requests in turn, and what it counts.
//!
//! | effect of a request | is done as | counts as |
//! |---|---|---|
//! | look | GET, and after a miss a SET | a look-up |
//! | write | SET | a look-up, a hit when the key was resident, and an access |
//! | write if absent | SET if absent | the same |
//! | remove | DELETE | neither hit nor miss |
//!
//! The clients' clock is set from the trace before each request and never runs backwards. Latencies
//! are measured by the host's clock. Objects are counted after every SET that may have added one,
//! since their number grows at no other time.

use crate::LabError;
use crate::latency::Latencies;
use crate::trace::{Effect, Request};
use atoll_cache::{Cache, CacheError, Condition, Expiry, KEY_BYTES_MAX, SetOptions, Value};
use atoll_deployment::Client;
use atoll_fabric::Clock;
use rapidhash::RapidHashSet;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which sizes objects get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sizes {
    /// Values of one byte, keys as they are in the trace.
    Unit,
    /// Values of the traced size, keys padded to theirs.
    Traced,
}

/// Something that a process counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// All requests.
    Requests,
    /// Look-ups that found their key.
    Hits,
    /// Look-ups that did not.
    Misses,
    /// DELETEs.
    Deletes,
    /// SETs of values longer than the pool takes.
    Refused,
    /// Objects evicted to make room.
    Evictions,
}

/// What a process counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// By [`Count`].
    counts: [u64; Count::Evictions as usize + 1],
    /// The most objects that were seen resident in the whole cache.
    pub(super) objects_max: u64,
    /// Time inside the cache.
    busy_ns: u64,
    pub(super) get: Latencies,
    pub(super) set: Latencies,
}

impl Tally {
    /// How many there were.
    pub(super) fn count(&self, of: Count) -> u64 {
        self.counts[of as usize]
    }

    fn add_to(&mut self, of: Count, more: u64) {
        self.counts[of as usize] += more;
    }

    /// Adds what another process counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.objects_max = self.objects_max.max(other.objects_max);
        self.busy_ns += other.busy_ns;
        self.get.add(&other.get);
        self.set.add(&other.set);
    }

    /// Requests per second spent inside the cache.
    pub(super) fn requests_per_s(&self) -> f64 {
        self.count(Count::Requests) as f64 * 1e9 / self.busy_ns.max(1) as f64
    }

    fn count_look_up(&mut self, hit: bool) {
        self.add_to(if hit { Count::Hits } else { Count::Misses }, 1);
    }
}

/// The clients of one process.
pub(super) struct Player {
    clients: Vec<Cache<Client>>,
    /// The client whose turn it is.
    turn: usize,
    /// The clients' clock.
    time: Arc<AtomicU64>,
    timer: Clock,
    sizes: Sizes,
    /// The padded key of the request.
    key: Vec<u8>,
    /// The bytes that values are prefixes of. It grows to the longest value.
    content: Vec<u8>,
    value: Value,
    tally: Tally,
}

impl Player {
    /// `clients` take turns; `time` is the word behind their clock.
    pub(super) fn new(clients: Vec<Cache<Client>>, time: Arc<AtomicU64>, sizes: Sizes) -> Self {
        Self {
            clients,
            turn: 0,
            time,
            timer: Clock::host(),
            sizes,
            key: Vec::new(),
            content: Vec::new(),
            value: Value::new(),
            tally: Tally::default(),
        }
    }

    /// Does `request` with the client whose turn it is.
    pub(super) async fn play(&mut self, request: &Request) -> Result<(), LabError> {
        self.time.fetch_max(request.time_s * 1_000_000_000, Ordering::Relaxed);
        self.set_key(request);
        self.tally.add_to(Count::Requests, 1);
        match request.operation.effect() {
            Effect::Look => {
                let hit = self.get().await?;
                self.tally.count_look_up(hit);
                if !hit {
                    self.set(request, Condition::Always).await?;
                }
            }
            Effect::Write => {
                let hit = self.set(request, Condition::Always).await?;
                self.tally.count_look_up(hit);
            }
            Effect::WriteIfAbsent => {
                let hit = self.set(request, Condition::IfAbsent).await?;
                self.tally.count_look_up(hit);
            }
            Effect::Remove => self.delete().await?,
        }
        self.turn = (self.turn + 1) % self.clients.len();
        Ok(())
    }

    fn set_key(&mut self, request: &Request) {
        self.key.clear();
        self.key.extend_from_slice(&request.key);
        let traced = (request.key_bytes as usize).min(KEY_BYTES_MAX);
        if self.sizes == Sizes::Traced && traced > self.key.len() {
            self.key.resize(traced, 0);
        }
    }

    async fn get(&mut self) -> Result<bool, LabError> {
        let begin_ns = self.timer.now_ns();
        let hit = self.clients[self.turn].get(&self.key, &mut self.value).await?;
        let ns = self.timer.now_ns() - begin_ns;
        self.tally.get.record(ns);
        self.tally.busy_ns += ns;
        Ok(hit)
    }

    async fn delete(&mut self) -> Result<(), LabError> {
        let begin_ns = self.timer.now_ns();
        self.clients[self.turn].delete(&self.key).await?;
        self.tally.busy_ns += self.timer.now_ns() - begin_ns;
        self.tally.add_to(Count::Deletes, 1);
        Ok(())
    }

    /// Says whether the key was resident before.
    async fn set(&mut self, request: &Request, condition: Condition) -> Result<bool, LabError> {
        let expiry = match request.ttl_s {
            0 => Expiry::Never,
            // To the millisecond: the clients' clock is the trace's.
            ttl_s => Expiry::AtMs(self.clients[self.turn].now_ms().await?.saturating_add(ttl_s.saturating_mul(1000))),
        };
        let client = &mut self.clients[self.turn];
        let bytes = match self.sizes {
            Sizes::Unit => 1,
            // One byte more than the pool takes is refused like any more; the trace shall not size
            // our memory.
            Sizes::Traced => request.value_bytes.min(client.value_bytes_max() as u64 + 1) as usize,
        };
        if self.content.len() < bytes {
            self.content.resize(bytes, b'v');
        }
        let begin_ns = self.timer.now_ns();
        let options = SetOptions { condition, expiry, ..SetOptions::default() };
        let outcome = client.set(&self.key, &self.content[..bytes], &options).await;
        let ns = self.timer.now_ns() - begin_ns;
        self.tally.busy_ns += ns;
        match outcome {
            Ok(outcome) => {
                self.tally.set.record(ns);
                if outcome.stored && outcome.old.is_none() {
                    self.tally.objects_max = self.tally.objects_max.max(client.objects().await?);
                }
                Ok(outcome.old.is_some())
            }
            Err(CacheError::ValueTooLarge { .. }) => {
                self.tally.add_to(Count::Refused, 1);
                // What the key had before is not its value any more.
                Ok(client.delete(&self.key).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the part and gives what it counted.
    pub(super) fn finish(mut self) -> Tally {
        let evictions = self.clients.iter().map(|client| client.stats().evictions).sum();
        self.tally.add_to(Count::Evictions, evictions);
        self.tally
    }
}

/// Checks at the end of a replay that the engine's count of objects is not below what a scan shows.
pub(super) async fn check_count(cache: &mut Cache<Client>) -> Result<(), LabError> {
    let (mut keys, mut cursor) = (RapidHashSet::default(), 0);
    loop {
        let show = |key: &[u8]| {
            keys.insert(rapidhash::v3::rapidhash_v3(key));
        };
        cursor = cache.scan(cursor, 1024, show).await?;
        if cursor == 0 {
            break;
        }
    }
    let (shown, counted) = (keys.len() as u64, cache.objects().await?);
    if shown > counted { Err(LabError::Miscounted { shown, counted }) } else { Ok(()) }
}
