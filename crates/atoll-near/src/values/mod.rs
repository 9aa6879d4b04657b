//! Copies of values by their keys: the near cache of a process under a cache's engine.
//!
//! The copies are in the process's own memory, where no other process can reach them. What the
//! others must reach is small: the words of a [sharer](atoll_pool::sharers), which the process
//! exports and follows. A client that changes an object of which copies may exist adds to its word
//! first.
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
//! **One client of the process exports** the words, the others follow them. When that client ends,
//! another one exports anew. Every export is a new *turn*: copies of an earlier turn are not valid.
//!
//! **What is hot here stays in the pool**: some hits are sent to the pool all the same (see
//! [`NearValues::goes_far`]), where they count as accesses.

pub mod worth;

use crate::error::NearError;
use atoll_fabric::{Address, Endpoint, Kind, Lifetime, RegionAttributes};
use atoll_pool::Layout;
use atoll_pool::sharers::{self, Joined};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use worth::Worth;

/// What the process's memory takes of a copy besides key and value.
const OVERHEAD_BYTES: u64 = 224;
/// Fewest bytes of a near cache.
pub const BYTES_MIN: u64 = 1 << 16;
/// A value of more than this part of the near cache is not kept.
const LARGEST: u64 = 16;
/// Of so many hits of a copy, one is sent to the pool.
const FAR_PERIOD: u32 = 32;
/// How long a client waits before it tries again to follow or export.
const RETRY_NS: u64 = 10_000_000;

/// The words of a sharer as they were before an object was READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    turn: u64,
    at: Address,
    everything: u64,
    word: u64,
}

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

/// Who exports the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exported {
    /// No client does.
    Nobody,
    /// A client is about to.
    Soon,
    /// A client does, here.
    Here(Address),
}

/// The latest export, and how often that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Export {
    exported: Exported,
    turn: u64,
}

/// The near cache that the clients of a process share.
pub struct Values<M> {
    store: Store<M>,
    worth: Worth,
    /// Whether every key is worth a copy.
    is_eager: bool,
    words_log2: u32,
    value_bytes_max: usize,
    exported: Mutex<Export>,
    /// The turn of `exported`. It is written with that.
    turn: AtomicU64,
}

impl<M> std::fmt::Debug for Values<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").field("words_log2", &self.words_log2).finish_non_exhaustive()
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
        let exported = Mutex::new(Export { exported: Exported::Nobody, turn: 0 });
        let turn = AtomicU64::new(0);
        Ok(Self { store, worth, is_eager: false, words_log2, value_bytes_max, exported, turn })
    }

    /// The same with a copy of every value that is looked up, and no hit sent to the pool: for
    /// tests.
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

impl<M> Values<M> {
    fn export(&self) -> std::sync::MutexGuard<'_, Export> {
        self.exported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes who exports, if that is still as it was at `before`; whether it was. Only another
    /// region begins a turn.
    fn change(&self, before: Export, exported: Exported) -> bool {
        let mut export = self.export();
        if *export != before {
            return false;
        }
        if before.exported != Exported::Soon || exported != Exported::Nobody {
            export.turn += 1;
        }
        export.exported = exported;
        self.turn.store(export.turn, Ordering::Release);
        true
    }
}

/// What a lookup finds in the near cache.
#[derive(Debug)]
pub enum Found<M> {
    /// A valid copy.
    Valid(Arc<Copy<M>>),
    /// One that is not valid any more. It is not kept longer.
    Outdated,
    /// None.
    Nothing,
}

/// One client's way to the near cache of its process.
pub struct NearValues<M> {
    values: Arc<Values<M>>,
    /// The turn that its endpoint follows, and where; turn 0 if it follows none.
    followed: Cell<(u64, Address)>,
    /// What it exports itself.
    joined: Cell<Option<(u64, Joined)>>,
    /// A region that it has exported and not entered into the table.
    unused: Cell<Option<Address>>,
    /// When it may try again.
    retry_ns: Cell<u64>,
}

impl<M: Clone + Send + Sync + 'static> NearValues<M> {
    /// A client of this near cache. It follows, or exports, at its first miss.
    pub fn new(values: Arc<Values<M>>) -> Self {
        let followed = Cell::new((0, Address::on_compute(0, 0, 0)));
        Self { values, followed, joined: Cell::new(None), unused: Cell::new(None), retry_ns: Cell::new(0) }
    }

    /// The near cache.
    pub fn values(&self) -> &Arc<Values<M>> {
        &self.values
    }

    /// The words now, for objects of this hash. `None` if this client follows none.
    #[inline]
    pub fn sample<E: Endpoint>(&self, endpoint: &E, hash: u64) -> Option<Sample> {
        let (turn, at) = self.followed.get();
        if turn == 0 {
            return None;
        }
        let word = endpoint.own_word(sharers::word(at, self.values.words_log2, hash))?;
        let everything = endpoint.own_word(sharers::everything(at))?;
        // Last: before its client gives its place back, a turn ends.
        let is_present = self.values.turn.load(Ordering::Acquire) == turn;
        is_present.then_some(Sample { turn, at, everything, word })
    }

    /// Looks for a copy of the key's value. `hash` chooses the key's word.
    #[inline]
    pub fn find<E: Endpoint>(&self, endpoint: &E, hash: u64, key: &[u8]) -> Found<M> {
        let Some(copy) = self.values.store.get(key) else { return Found::Nothing };
        // The copy first, then the words.
        let present = self.sample(endpoint, hash);
        if present == Some(copy.sample) {
            return Found::Valid(copy);
        }
        // While this client follows nothing the copy may still be valid.
        if present.is_some_and(|present| present.turn >= copy.sample.turn) {
            self.values.store.remove(key);
            self.values.worth.note_end(hash, copy.hits.load(Ordering::Relaxed));
            return Found::Outdated;
        }
        Found::Nothing
    }

    /// Counts a hit of a copy; whether it is to be sent to the pool, so that the object counts as
    /// accessed there: each thirty-second. The lookups before the copy was made counted, too.
    pub fn goes_far(&self, copy: &Copy<M>) -> bool {
        let hits = copy.hits.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        hits.is_multiple_of(FAR_PERIOD) && !self.values.is_eager
    }

    /// Before a key is looked up in the pool: what a copy would depend on, if the key is worth one.
    pub async fn before_lookup<E: Endpoint>(&self, endpoint: &E, layout: &Layout, hash: u64) -> Option<Sample> {
        if !self.values.worth.note_lookup(hash) && !self.values.is_eager {
            return None;
        }
        match self.sample(endpoint, hash) {
            Some(sample) => Some(sample),
            None => {
                // Boxed, as every rare step: its state would enlarge every lookup.
                let _ = Box::pin(self.follow(endpoint, layout)).await;
                self.sample(endpoint, hash)
            }
        }
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

    /// Makes sure that this client follows the words of its process, and exports them if no client
    /// of the process does. Whether it follows them.
    ///
    /// # Errors
    /// [`NearError::Export`] if the fabric has no regions that can be followed,
    /// [`NearError::Sharers`] if the pool has as many sharers as it can have, or a verb's error.
    pub async fn follow<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<bool, NearError> {
        let now_ns = endpoint.now_ns();
        if now_ns < self.retry_ns.get() {
            return Ok(false);
        }
        let followed = self.follow_now(endpoint, layout).await;
        if !matches!(followed, Ok(true)) {
            self.retry_ns.set(now_ns.saturating_add(RETRY_NS));
        }
        followed
    }

    async fn follow_now<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<bool, NearError> {
        let before = *self.values.export();
        match before.exported {
            Exported::Soon => return Ok(false),
            Exported::Here(at) if endpoint.follow(at).is_ok() => {
                // A word that cannot be had now may be had again: the export has not ended.
                let is_followed = endpoint.own_word(sharers::everything(at)).is_some();
                if is_followed && *self.values.export() == before {
                    self.followed.set((before.turn, at));
                    return Ok(true);
                }
                return Ok(false);
            }
            // It has ended.
            Exported::Here(_) | Exported::Nobody => {}
        }
        if !self.values.change(before, Exported::Soon) {
            return Ok(false);
        }
        let exporting = Exporting(&self.values, Export { exported: Exported::Soon, turn: before.turn + 1 });
        self.leave(endpoint, layout).await?;
        let at = self.export_and_join(endpoint, layout).await?;
        if !self.values.change(exporting.1, Exported::Here(at)) {
            return Ok(false);
        }
        let turn = exporting.1.turn + 1;
        self.joined.set(self.joined.get().map(|(_, joined)| (turn, joined)));
        self.followed.set((turn, at));
        Ok(true)
    }

    /// Exports words of its own, and enters them into the table of sharers. No other client of the
    /// process does meanwhile.
    async fn export_and_join<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<Address, NearError> {
        let domain = endpoint.region_attributes(0).map(|home| home.domain);
        let domain = domain.ok_or(NearError::NoDirectory { what: "the pool's home is not reached" })?;
        let words_log2 = self.values.words_log2;
        let bytes = sharers::region_bytes(words_log2);
        let wanted = RegionAttributes { bytes, kind: Kind::Host, domain, lifetime: Lifetime::Process };
        // A region that could not be entered is used at the next attempt.
        let at = match self.unused.take() {
            Some(at) if endpoint.follow(at).is_ok() => at,
            _ => endpoint.export(wanted)?,
        };
        self.unused.set(Some(at));
        endpoint.follow(at)?;
        let joined = sharers::join(endpoint, layout, at, words_log2).await?.ok_or(NearError::Sharers)?;
        self.unused.set(None);
        self.joined.set(Some((0, joined)));
        Ok(at)
    }

    /// Gives back the place of an export that has ended.
    async fn leave<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<(), NearError> {
        match self.joined.take() {
            Some((_, joined)) => Ok(sharers::leave(endpoint, layout, joined).await?),
            None => Ok(()),
        }
    }

    /// Before this client ends: it exports nothing any more.
    ///
    /// # Errors
    /// A verb's error; then others find that the export is gone.
    pub async fn end<E: Endpoint>(&self, endpoint: &E, layout: &Layout) -> Result<(), NearError> {
        match self.withdraw() {
            Some(joined) => Ok(sharers::leave(endpoint, layout, joined).await?),
            None => Ok(()),
        }
    }
}

impl<M> NearValues<M> {
    /// No client of the process follows what this one exports. What it had joined as.
    fn withdraw(&self) -> Option<Joined> {
        self.followed.set((0, Address::on_compute(0, 0, 0)));
        let (turn, joined) = self.joined.take()?;
        let before = *self.values.export();
        if before.turn == turn {
            // Copies of the turn are not valid from now on, whatever the words say. If it has
            // changed meanwhile, they are not either.
            self.values.change(before, Exported::Nobody);
        }
        Some(joined)
    }
}

impl<M> Drop for NearValues<M> {
    /// Its endpoint is dropped later.
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// A client that is about to export. If its future is dropped, or it cannot, another one tries.
struct Exporting<'v, M>(&'v Values<M>, Export);

impl<M> Drop for Exporting<'_, M> {
    fn drop(&mut self) {
        self.0.change(self.1, Exported::Nobody);
    }
}
