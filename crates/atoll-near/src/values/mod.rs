//! Copies of values by their keys: the near cache of a compute node under a cache's engine.
//!
//! The copies are in memory of the compute node, which its processes share
//! ([`HostMemory`]). What the other nodes must reach is small: the near cache's [`words`]. A client
//! that changes an object of which copies may exist adds to its word first.
//!
//! | step of a read | what it does | verbs |
//! |---|---|---|
//! | hit | loads the copy, then compares its words with what they were | none |
//! | miss | samples the words; the engine looks the key up; if the key is [`worth`] a copy and the slot permits it, keeps one | the lookup's, and a swap if the slot did not permit copies yet |
//!
//! | module | concept |
//! |---|---|
//! | `store` | the copies: an index, and segments of records |
//! | [`words`] | what says that a copy is not valid any more |
//! | [`worth`] | which keys are worth a copy |
//!
//! **Why a copy is never old.** The words are sampled before the slot is READ. The slot permitted
//! copies when it was READ, or a swap that found it unchanged made it so. A client that changes it
//! later forbids copies in the slot, then adds to the word, then changes it. So either the copy's
//! words differ by then, or the object has not changed. A hit compares the words last of all: it
//! took place at that moment. It is as linearizable as a lookup in the pool.
//!
//! **Processes that end.** A process that is killed leaves its copies to the others. If it exported
//! the words, they end before any client is told that they are gone, and all copies with them.
//! Then another process exports, and copies are made anew.
//!
//! **What is hot here stays in the pool**: the pool is told of some hits, and counts them as
//! accesses. No hit waits for that.

mod store;
pub mod words;
pub mod worth;

use crate::error::NearError;
use atoll_fabric::shm::{HostMemory, HostUser};
use atoll_fabric::{Buffer, Endpoint, FabricError};
use atoll_pool::Layout;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::Arc;
use store::{Entry, Store};
use words::{Follower, Sample, Words};
use worth::Worth;

/// Bytes of a near cache.
pub const BYTES: RangeInclusive<u64> = 1 << 16..=32 << 30;
/// Of so many hits, a power of two, the pool is told of one, by chance.
const TOLD_PERIOD: u32 = 32;
/// The kind of the host's memory that near caches are in, with the version of their words.
const KIND: &str = "near1";

/// What is known of a value besides its bytes, in words whose meaning is the engine's.
pub type MetaWords = [u64; META_WORDS];
/// Words of it.
pub const META_WORDS: usize = 3;

/// A near cache that clients share.
#[derive(Debug)]
pub struct Values {
    layout: store::Layout,
    worth: Worth,
    /// Whether every key is worth a copy.
    is_eager: bool,
    words: Arc<Words>,
}

impl Values {
    /// A near cache of this process alone, of at most `bytes`, words and index among them.
    ///
    /// # Errors
    /// [`NearError::Option`] outside [`BYTES`], or [`NearError::Export`] if the host lacks memory.
    pub fn of_process(bytes: u64) -> Result<Self, NearError> {
        Self::new(bytes, HostMemory::of_process)
    }

    /// The near cache that the processes of this host and user have by this name: of at most
    /// `bytes`, which all of them give. Where the host can have none, one of this process alone:
    /// see [`Values::is_of_host`].
    ///
    /// # Errors
    /// As [`Values::of_process`].
    pub fn of_host(name: &str, bytes: u64) -> Result<Self, NearError> {
        Self::new(bytes, |words, there| {
            let shared = HostMemory::of_host(KIND, &full_name(name, bytes), words, there);
            shared.or_else(|_| HostMemory::of_process(words, there))
        })
    }

    /// Whether processes of this host and user have a near cache by this name and of this size.
    pub fn is_there(name: &str, bytes: u64) -> bool {
        HostMemory::is_there(KIND, &full_name(name, bytes))
    }

    /// Removes what processes of this user that were killed have left of their near caches.
    pub fn remove_left() {
        HostMemory::remove_left(KIND);
    }

    /// Whether a near cache can have so many bytes.
    ///
    /// # Errors
    /// [`NearError::Option`] outside [`BYTES`].
    pub fn check(bytes: u64) -> Result<(), NearError> {
        let wanted = "65536 to 34359738368";
        let refused = NearError::Option { what: "the near cache in bytes", found: bytes, wanted };
        BYTES.contains(&bytes).then_some(()).ok_or(refused)
    }

    fn new(bytes: u64, memory: impl Fn(usize, usize) -> Result<HostMemory, FabricError>) -> Result<Self, NearError> {
        Self::check(bytes)?;
        let layout = store::Layout::of(bytes);
        let memory = Arc::new(memory(layout.words(), layout.fixed_words())?);
        let worth = Worth::new(memory.clone(), layout.cells);
        let words = Arc::new(Words::in_memory(memory, layout.words_log2));
        Ok(Self { layout, worth, is_eager: false, words })
    }

    /// The same with a copy of every value that is looked up, of whose hits the pool is not told:
    /// for tests.
    pub fn eager(self) -> Self {
        Self { is_eager: true, ..self }
    }

    /// Longest value of which a copy is kept, and longest key.
    pub fn value_bytes_max(&self) -> usize {
        self.layout.value_bytes_max()
    }

    /// Whether other processes of the host share it.
    pub fn is_of_host(&self) -> bool {
        self.words.memory().is_of_host()
    }

    /// Copies that are kept, valid or not.
    pub fn copies(&self) -> u64 {
        store::copies(self.words.memory())
    }

    /// Bytes that it takes of the host's memory by now.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes_in_use(self.words.memory())
    }
}

fn full_name(name: &str, bytes: u64) -> String {
    format!("{name}-{bytes:x}")
}

/// A key, as a near cache knows it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// Its bytes.
    pub bytes: &'k [u8],
    /// Their hash.
    pub hash: u64,
    /// What chooses the word of its object.
    pub stripe: u64,
}

/// What a lookup finds in the near cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A valid copy, whose bytes were loaded. Whether the pool is to be told of the hit.
    Valid(MetaWords, bool),
    /// One that is not valid any more. It is not kept longer.
    Outdated(MetaWords),
    /// None.
    Nothing,
    /// One of which this client does not know whether it is valid, since it does not follow the
    /// words: see [`Follower::follow`].
    Unfollowed,
}

/// One client's way to a near cache.
#[derive(Debug)]
pub struct NearValues {
    values: Arc<Values>,
    follower: Follower,
    store: Store,
    /// Chooses the hits of which the pool is told.
    chance: Cell<u32>,
}

impl NearValues {
    /// A client of this near cache.
    pub fn new(values: Arc<Values>) -> Self {
        let follower = Follower::new(values.words.clone());
        let store = Store::new(HostUser::new(values.words.memory().clone()), values.layout);
        Self { values, follower, store, chance: Cell::new(0) }
    }

    /// The near cache.
    pub fn values(&self) -> &Arc<Values> {
        &self.values
    }

    /// The client's way to the near cache's words.
    #[inline]
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// Looks for a copy of the key's value, and loads it.
    #[inline]
    pub fn find<E: Endpoint>(&self, endpoint: &E, key: Key<'_>, into: &mut Buffer) -> Found {
        let Some(found) = self.store.find(key.hash, key.bytes) else { return Found::Nothing };
        into.resize(found.value_bytes());
        if !self.store.load(&found, into.bytes_mut()) {
            return Found::Nothing;
        }
        // The copy first, then the words.
        let (present, before) =
            (self.follower.sample(endpoint, key.stripe), self.values.words.sample_of(found.sample()));
        if present == Some(before) {
            self.store.note_hit(&found);
            return Found::Valid(found.meta(), self.is_to_be_told());
        }
        match present {
            Some(present) if present.is_not_before(&before) => {
                self.store.remove(&found);
                if !present.ends_all_since(&before) {
                    self.values.worth.note_end(key.hash, found.heat());
                }
                Found::Outdated(found.meta())
            }
            // Another client made it in a later turn.
            Some(_) | None => Found::Unfollowed,
        }
    }

    /// Whether the pool is to be told of a hit, so that the object counts as accessed there: of one
    /// in thirty-two. The lookups before the copy was made counted, too.
    fn is_to_be_told(&self) -> bool {
        // A generator of Knuth's (MMIX) in 32 bits; its upper bits are the random ones.
        let chance = self.chance.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.chance.set(chance);
        chance >> (u32::BITS - TOLD_PERIOD.ilog2()) == 0 && !self.values.is_eager
    }

    /// Before a key is looked up in the pool: what a copy would depend on, if the key is worth one.
    pub async fn before_lookup<E: Endpoint>(&self, endpoint: &E, layout: &Layout, key: Key<'_>) -> Option<Sample> {
        if !self.values.worth.note_lookup(key.hash) && !self.values.is_eager {
            return None;
        }
        self.follower.sample_now(endpoint, layout, key.stripe).await
    }

    /// Keeps a copy; whether it is one. The slot has permitted it after the sample was taken.
    pub fn keep(&self, key: Key<'_>, sample: Sample, meta: MetaWords, value: &[u8]) -> bool {
        self.store.keep(&Entry { key: key.bytes, hash: key.hash, sample: sample.bits(), meta, value })
    }
}
