//! Copies of values by their keys: the near cache of a process under a cache's engine.
//!
//! The copies are in the process's own memory, where no other process can reach them. What the
//! others must reach is small: the process's [`words`]. A client that changes an object of which
//! copies may exist adds to its word first.
//!
//! | step of a read | what it does | verbs |
//! |---|---|---|
//! | hit | finds the copy, then compares its words with what they were | none |
//! | miss | samples the words; the engine looks the key up; if the key is [`worth`] a copy and the slot permits it, keeps one | the lookup's, and a swap if the slot did not permit copies yet |
//!
//! **Why a copy is never old.** The words are sampled before the slot is READ. The slot permitted
//! copies when it was READ, or a swap that found it unchanged made it so. A client that changes it
//! later forbids copies in the slot, then adds to the word, then changes it. So either the copy's
//! words differ by then, or the object has not changed. A hit compares the words last of all: it
//! took place at that moment. It is as linearizable as a lookup in the pool.
//!
//! **What is hot here stays in the pool**: the pool is told of some hits (see
//! [`NearValues::is_to_be_told`]), and counts them as accesses. No hit waits for that.

pub mod words;
pub mod worth;

use crate::error::NearError;
use atoll_fabric::Endpoint;
use atoll_pool::{Layout, sharers};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use words::{Follower, Sample, Words};
use worth::Worth;

/// What the process's memory takes of a copy besides key and value.
const OVERHEAD_BYTES: u64 = 224;
/// Fewest bytes of a near cache.
pub const BYTES_MIN: u64 = 1 << 16;
/// A value of more than this part of the near cache is not kept.
const LARGEST: u64 = 16;
/// Of so many hits of a copy, the pool is told of one.
const TOLD_PERIOD: u32 = 32;

/// A copy of a value.
#[derive(Debug)]
pub struct Copy<M> {
    sample: Sample,
    /// What is known of the value besides its bytes.
    pub meta: M,
    /// Its bytes.
    pub bytes: Box<[u8]>,
    hits: AtomicU32,
}

#[derive(Clone)]
struct Weigh;

impl<M> quick_cache::Weighter<Box<[u8]>, Arc<Copy<M>>> for Weigh {
    fn weight(&self, key: &Box<[u8]>, copy: &Arc<Copy<M>>) -> u64 {
        key.len() as u64 + copy.bytes.len() as u64 + OVERHEAD_BYTES
    }
}

type Store<M> = quick_cache::sync::Cache<Box<[u8]>, Arc<Copy<M>>, Weigh, rapidhash::fast::SeedableState<'static>>;

/// The near cache that the clients of a process share.
pub struct Values<M> {
    store: Store<M>,
    worth: Worth,
    /// Whether every key is worth a copy.
    is_eager: bool,
    value_bytes_max: usize,
    words: Arc<Words>,
}

impl<M> std::fmt::Debug for Values<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").field("words", &self.words).finish_non_exhaustive()
    }
}

impl<M: Clone + Send + Sync + 'static> Values<M> {
    /// A near cache of at most `bytes` of this process's memory, words and index among them. Keys
    /// are hashed by the pool's seed, which is secret.
    ///
    /// # Errors
    /// [`NearError::Option`] below [`BYTES_MIN`].
    pub fn new(bytes: u64, hash_seed: u64) -> Result<Self, NearError> {
        if bytes < BYTES_MIN {
            let wanted = "65536 or more";
            return Err(NearError::Option { what: "the near cache in bytes", found: bytes, wanted });
        }
        // A word for every two copies of a value of a hundred bytes.
        let words_log2 = (bytes / 512).ilog2().clamp(6, 20);
        let worth = Worth::new(bytes / 128);
        let own_bytes = sharers::region_bytes(words_log2) + worth.bytes();
        let capacity = bytes - own_bytes.min(bytes / 2);
        // Nothing depends on the machine: a simulated run can be repeated on any machine.
        let shards = if bytes < 1 << 24 { 1 } else { 16 };
        let options = quick_cache::OptionsBuilder::new()
            .estimated_items_capacity((bytes / 512) as usize)
            .weight_capacity(capacity)
            .shards(shards)
            .build()
            .expect("all options are given");
        let hashing = rapidhash::fast::SeedableState::new(hash_seed);
        let store = Store::with_options(options, Weigh, hashing, quick_cache::sync::DefaultLifecycle::default());
        let value_bytes_max = (capacity / LARGEST / shards as u64) as usize;
        let words = Arc::new(Words::new(words_log2));
        Ok(Self { store, worth, is_eager: false, value_bytes_max, words })
    }

    /// The same with a copy of every value that is looked up, of whose hits the pool is not told:
    /// for tests.
    pub fn eager(self) -> Self {
        Self { is_eager: true, ..self }
    }

    /// Longest value of which a copy is kept.
    pub fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    /// Copies that are kept, valid or not.
    pub fn copies(&self) -> u64 {
        self.store.len() as u64
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.store.weight()
    }
}

/// What a lookup finds in the near cache.
#[derive(Debug)]
pub enum Found<M> {
    /// A valid copy.
    Valid(Arc<Copy<M>>),
    /// One that is not valid any more. It is not kept longer.
    Outdated(Arc<Copy<M>>),
    /// None.
    Nothing,
}

/// One client's way to the near cache of its process.
pub struct NearValues<M> {
    values: Arc<Values<M>>,
    follower: Follower,
}

impl<M: Clone + Send + Sync + 'static> NearValues<M> {
    /// A client of this near cache.
    pub fn new(values: Arc<Values<M>>) -> Self {
        let follower = Follower::new(values.words.clone());
        Self { values, follower }
    }

    /// The near cache.
    pub fn values(&self) -> &Arc<Values<M>> {
        &self.values
    }

    /// The client's way to the words of its process.
    #[inline]
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// Looks for a copy of the key's value. `hash` chooses the key's word.
    #[inline]
    pub fn find<E: Endpoint>(&self, endpoint: &E, hash: u64, key: &[u8]) -> Found<M> {
        let Some(copy) = self.values.store.get(key) else { return Found::Nothing };
        // The copy first, then the words.
        let present = self.follower.sample(endpoint, hash);
        if present == Some(copy.sample) {
            return Found::Valid(copy);
        }
        // While this client follows nothing the copy may still be valid.
        if present.is_some_and(|present| present.is_not_before(&copy.sample)) {
            self.values.store.remove(key);
            self.values.worth.note_end(hash, copy.hits.load(Ordering::Relaxed));
            return Found::Outdated(copy);
        }
        Found::Nothing
    }

    /// Counts a hit of a copy; whether the pool is to be told, so that the object counts as
    /// accessed there: of each thirty-second. The lookups before the copy was made counted, too.
    pub fn is_to_be_told(&self, copy: &Copy<M>) -> bool {
        let hits = copy.hits.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        hits.is_multiple_of(TOLD_PERIOD) && !self.values.is_eager
    }

    /// Before a key is looked up in the pool: what a copy would depend on, if the key is worth one.
    pub async fn before_lookup<E: Endpoint>(&self, endpoint: &E, layout: &Layout, hash: u64) -> Option<Sample> {
        if !self.values.worth.note_lookup(hash) && !self.values.is_eager {
            return None;
        }
        self.follower.sample_now(endpoint, layout, hash).await
    }

    /// Keeps a copy. The slot has permitted it after the sample was taken.
    pub fn keep(&self, key: &[u8], sample: Sample, meta: M, value: &[u8]) -> bool {
        if value.len() > self.values.value_bytes_max {
            return false;
        }
        let copy = Copy { sample, meta, bytes: value.into(), hits: AtomicU32::new(0) };
        self.values.store.insert(key.into(), Arc::new(copy));
        true
    }
}
