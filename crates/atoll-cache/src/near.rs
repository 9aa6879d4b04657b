//! A near cache under an engine: lookups of what is hot are answered from memory of this compute
//! node. The copies, and why they are never old, are in [`atoll_near::values`]; what a slot says
//! of them is in `index::copies`.
//!
//! | operation | with a near cache |
//! |---|---|
//! | `get`, `get_to`, `get_many` | looks for a copy first; keeps one of what is worth it |
//! | everything else | the engine's own |
//!
//! A copy of an object that expires is served as long as the pool's clock permits it: the same rule
//! as for the object itself.

use crate::Pooled;
use crate::engine::Room;
use crate::{Attributes, CacheError, Change, Engine, Lookup, Mark, Meta, Removals, Stats, Value};
use atoll_fabric::{Arrivals, Endpoint};
use atoll_near::NearError;
use atoll_near::values::words::{Follower, Sample, Words};
use atoll_near::values::{Found, Key, MetaWords, NearValues, Values};
use atoll_pool::sharers::Hole;
use atoll_pool::{Client, PoolError};
use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// What a hit takes, where time is simulated: see `cargo bench -p atoll --bench near`.
const HIT_NS: u64 = 150;
/// Of so many accesses to copies the pool is told at once.
const UNTOLD_MAX: usize = 16;
/// As an expiry: the object does not expire.
const NO_EXPIRY: u64 = u64::MAX;

/// The near cache of a compute node, which its clients share.
pub type NearCache = Values;

/// An engine of whose objects copies can be kept.
#[allow(async_fn_in_trait)]
pub trait Copied: Engine {
    /// The client's way to the pool.
    type Endpoint: Endpoint;

    /// The client of the pool.
    fn pool_client(&self) -> &Client<Self::Endpoint>;

    /// The hash of a key.
    fn hash(&self, key: &[u8]) -> u64;

    /// What chooses a sharer's word for a key with this hash: see `index::copies`.
    fn stripe(&self, hash: u64) -> u64;

    /// The metadata of a key's object, if its slot permits copies of it from now on. The lookup
    /// counts as no access. The caller has sampled its words before.
    async fn permit(&self, key: &[u8]) -> Result<Option<Meta>, CacheError>;

    /// As [`Engine::get`]. After a hit, also whether the slot permits copies of what was found,
    /// which is in `into` and has at most so many bytes. The caller has sampled its words before.
    async fn get_permitting(
        &self,
        key: &[u8],
        into: &mut Value,
        bytes_max: usize,
    ) -> Result<(Lookup, bool), CacheError>;

    /// As [`Engine::get_many`]. After a hit of a key of which a copy is wanted, also whether its
    /// slot permits copies, as for [`get_permitting`](Self::get_permitting). The caller has sampled
    /// its words before.
    async fn get_many_permitting<F: FnMut(usize, Lookup, &mut Value, bool)>(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        copies: Copies<'_>,
        found: F,
    ) -> Result<(), CacheError>;
}

/// Of which keys of many lookups the caller wants to keep copies.
#[derive(Clone, Copy, Debug)]
pub struct Copies<'k> {
    /// For each key whether one is wanted. Beyond its end none is.
    pub wanted: &'k [bool],
    /// Longest value of which a copy is kept.
    pub value_bytes_max: usize,
}

impl Copies<'static> {
    /// Of none.
    pub const NONE: Self = Self { wanted: &[], value_bytes_max: 0 };
}

impl Copies<'_> {
    /// Longest value of this key of which a copy is wanted; `None` if none is.
    #[inline]
    pub(crate) fn bytes_max(&self, index: usize) -> Option<usize> {
        self.wanted.get(index).is_some_and(|is_wanted| *is_wanted).then_some(self.value_bytes_max)
    }

    /// The same for the keys from this one on.
    pub(crate) fn from(self, index: usize) -> Self {
        Self { wanted: self.wanted.get(index..).unwrap_or_default(), ..self }
    }
}

/// What a near cache has of a value.
enum Looked {
    /// A copy that may be served; it was loaded.
    Copy,
    /// The copy of an object that has expired. The engine is to find that, and to remove it.
    Expired,
    Nothing,
    /// The copy of an object that had this token, which ended.
    Ended(u64),
}

/// One of many lookups that goes to the pool.
struct Far {
    /// Which.
    index: usize,
    /// What a copy would depend on, if the key is worth one.
    sample: Option<Sample>,
    /// The token of an object whose copy has ended.
    ended: Option<u64>,
}

/// Many lookups.
#[derive(Default)]
struct Looks {
    /// What came of each, from here or from the pool.
    results: Vec<Option<(Lookup, Value)>>,
    far: Vec<Far>,
}

/// An engine with the near cache of its compute node, or without one.
pub struct Near<G: Copied> {
    // Dropped before the engine, whose endpoint exports its words.
    near: Option<NearValues>,
    /// Without a near cache: the way to the words by which it finds that objects change.
    follower: Option<Follower>,
    engine: G,
    hits: Cell<u64>,
    outdated: Cell<u64>,
    spurious: Cell<u64>,
    copies: Cell<u64>,
    /// Keys of accesses to copies that the pool is to be told of.
    untold: RefCell<Vec<Box<[u8]>>>,
}

impl<G: Copied> Near<G> {
    /// An engine without a near cache.
    pub fn without(engine: G) -> Self {
        let [hits, outdated, spurious, copies] = [const { Cell::new(0) }; 4];
        Self { near: None, follower: None, engine, hits, outdated, spurious, copies, untold: RefCell::default() }
    }

    /// An engine without a near cache whose client can tell that objects change, by these words of
    /// its process: see [`Engine::mark`].
    pub fn telling(engine: G, words: Arc<Words>) -> Self {
        Self { follower: Some(Follower::new(words)), ..Self::without(engine) }
    }

    /// An engine whose client uses a near cache.
    pub fn with(engine: G, cache: Arc<NearCache>) -> Self {
        Self { near: Some(NearValues::new(cache)), ..Self::without(engine) }
    }

    /// Makes sure that the client has a part in the coherence of near caches. Otherwise a client
    /// does that at its first copy.
    ///
    /// # Errors
    /// Why it cannot: see [`Follower::follow`].
    pub async fn follow(&self) -> Result<(), NearError> {
        let Some(follower) = self.follower() else { return Ok(()) };
        let client = self.engine.pool_client();
        follower.follow(&*client.endpoint, &client.pool.layout).await.map(drop)
    }

    /// The client's way to the words of its process.
    #[inline]
    fn follower(&self) -> Option<&Follower> {
        self.near.as_ref().map(NearValues::follower).or(self.follower.as_ref())
    }

    /// From now on the client uses this near cache.
    pub fn attach(&mut self, cache: Arc<NearCache>) {
        self.near = Some(NearValues::new(cache));
    }

    /// The engine.
    pub fn engine(&self) -> &G {
        &self.engine
    }

    /// The engine, to be configured.
    pub fn engine_mut(&mut self) -> &mut G {
        &mut self.engine
    }

    /// Before the client leaves the pool.
    async fn end(&self) {
        if let Some(follower) = self.follower() {
            let client = self.engine.pool_client();
            // Otherwise others find that the export is gone.
            let _ = follower.end(&*client.endpoint, &client.pool.layout).await;
        }
    }

    /// A key, as the near cache knows it.
    #[inline]
    fn near_key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = self.engine.hash(bytes);
        Key { bytes, hash, stripe: self.engine.stripe(hash) }
    }

    /// What the near cache has of a key's value, which it loads if it may be served.
    #[inline]
    async fn look(&self, near: &NearValues, key: Key<'_>, into: &mut Value) -> Result<Looked, CacheError> {
        let client = self.engine.pool_client();
        let mut buffer = into.emptied();
        let mut found = near.find(&client.endpoint, key, &mut buffer);
        if found == Found::Unfollowed {
            let follower = near.follower();
            // Boxed, as every rare step: its state would enlarge every lookup.
            if let Ok(true) = Box::pin(follower.follow(&*client.endpoint, &client.pool.layout)).await {
                found = near.find(&client.endpoint, key, &mut buffer);
            }
        }
        into.buffer = buffer;
        let (meta, is_to_be_told) = match found {
            Found::Valid(words, is_to_be_told) => (meta_of(words, into.buffer.len()), is_to_be_told),
            Found::Outdated(words) => {
                self.outdated.set(self.outdated.get() + 1);
                return Ok(Looked::Ended(meta_of(words, 0).token));
            }
            Found::Nothing | Found::Unfollowed => return Ok(Looked::Nothing),
        };
        if let Some(expiry_ms) = meta.expiry_ms
            && expiry_ms <= self.engine.now_ms().await?
        {
            return Ok(Looked::Expired);
        }
        if is_to_be_told {
            self.untold.borrow_mut().push(key.bytes.into());
        } else {
            self.hits.set(self.hits.get() + 1);
        }
        client.endpoint.charge(HIT_NS);
        into.meta = meta;
        Ok(Looked::Copy)
    }

    /// Tells the pool of accesses to copies, once it is worth a lookup of many keys.
    #[inline]
    async fn tell_accesses(&self) {
        if self.untold.borrow().len() >= UNTOLD_MAX {
            Box::pin(self.tell_all_accesses()).await;
        }
    }

    /// An error is met and reported by the next operation that needs the pool.
    async fn tell_all_accesses(&self) {
        let untold = self.untold.take();
        let keys: Vec<&[u8]> = untold.iter().map(|key| &**key).collect();
        let _ = self.engine.get_many(&keys, usize::MAX, |_, _, _| ()).await;
    }

    /// Looks those of many keys up in the pool that have no copy here, and keeps copies of what is
    /// worth it. Tells the pool of accesses in the same batches.
    async fn get_all_far(
        &self,
        near: &NearValues,
        keys: &[&[u8]],
        bytes_max: usize,
        looks: &mut Looks,
    ) -> Result<(), CacheError> {
        let Looks { results, far } = looks;
        if far.is_empty() {
            self.tell_accesses().await;
            return Ok(());
        }
        let untold = self.untold.take();
        let far_keys: Vec<&[u8]> =
            far.iter().map(|far| keys[far.index]).chain(untold.iter().map(|key| &**key)).collect();
        let wanted: Vec<bool> = far.iter().map(|far| far.sample.is_some()).collect();
        let copies = Copies { wanted: &wanted, value_bytes_max: near.values().value_bytes_max() };
        let note = |number: usize, lookup, value: &mut Value, is_permitted| {
            let Some(Far { index, sample, ended }) = far.get(number) else { return };
            if let Some(sample) = sample.filter(|_| is_permitted) {
                self.keep(near, sample, self.near_key(keys[*index]), value);
            }
            if let Some(token) = ended {
                self.note_ended(*token, lookup, value.meta());
            }
            results[*index] = Some((lookup, std::mem::take(value)));
        };
        self.engine.get_many_permitting(&far_keys, bytes_max, copies, note).await
    }

    /// The copy of an object with this token has ended; a lookup in the pool has found this since.
    fn note_ended(&self, token: u64, lookup: Lookup, found: Meta) {
        if lookup == Lookup::Hit && found.token == token {
            self.spurious.set(self.spurious.get() + 1);
        }
    }

    /// Looks a key up in the pool, and keeps a copy if it is worth one.
    async fn get_far(&self, near: &NearValues, key: Key<'_>, into: &mut Value) -> Result<Lookup, CacheError> {
        match self.sample_if_worth(near, key).await {
            Some(sample) => self.get_and_keep(near, sample, key, into).await,
            None => self.engine.get(key.bytes, into).await,
        }
    }

    /// Before a lookup in the pool: what a copy would depend on, if the key is worth one.
    async fn sample_if_worth(&self, near: &NearValues, key: Key<'_>) -> Option<Sample> {
        let client = self.engine.pool_client();
        near.before_lookup(&client.endpoint, &client.pool.layout, key).await
    }

    /// Looks a key up in the pool, and keeps a copy.
    async fn get_and_keep(
        &self,
        near: &NearValues,
        sample: Sample,
        key: Key<'_>,
        into: &mut Value,
    ) -> Result<Lookup, CacheError> {
        let bytes_max = near.values().value_bytes_max();
        let (lookup, is_permitted) = self.engine.get_permitting(key.bytes, into, bytes_max).await?;
        if lookup == Lookup::Hit && is_permitted {
            self.keep(near, sample, key, into);
        }
        Ok(lookup)
    }

    /// Keeps a copy of a value whose slot has permitted it since the sample was taken.
    fn keep(&self, near: &NearValues, sample: Sample, key: Key<'_>, value: &Value) {
        let sample = self.late_sample(near, key).unwrap_or(sample);
        if near.keep(key, sample, meta_words(value.meta()), value.bytes()) {
            self.copies.set(self.copies.get() + 1);
        }
    }

    /// With an open hole, what a copy depends on by a look that comes too late.
    #[inline]
    fn late_sample(&self, near: &NearValues, key: Key<'_>) -> Option<Sample> {
        let client = self.engine.pool_client();
        let is_late = client.pool.layout.lacks(Hole::SampleFirst);
        if is_late { near.follower().sample(&client.endpoint, key.stripe) } else { None }
    }
}

/// What is kept with a copy, of a value's metadata.
fn meta_words(meta: Meta) -> MetaWords {
    let Meta { expiry_ms, token, attributes: Attributes { kind, flags }, .. } = meta;
    [expiry_ms.unwrap_or(NO_EXPIRY), token, u64::from(kind) << 32 | u64::from(flags)]
}

/// The metadata of a copied value of so many bytes.
fn meta_of([expiry_ms, token, attributes]: MetaWords, value_bytes: usize) -> Meta {
    let attributes = Attributes { kind: (attributes >> 32) as u8, flags: attributes as u32 };
    Meta { expiry_ms: Some(expiry_ms).filter(|expiry_ms| *expiry_ms != NO_EXPIRY), token, value_bytes, attributes }
}

impl<G: Copied> Deref for Near<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.engine
    }
}

impl<G: Copied> Engine for Near<G> {
    crate::pass_on_operations!(engine, stage, open);

    #[inline]
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let Some(near) = &self.near else { return self.engine.get(key, into).await };
        let near_key = self.near_key(key);
        match self.look(near, near_key, into).await? {
            Looked::Copy => {
                self.tell_accesses().await;
                Ok(Lookup::Hit)
            }
            Looked::Expired => self.engine.get(key, into).await,
            Looked::Nothing => self.get_far(near, near_key, into).await,
            Looked::Ended(token) => {
                let lookup = self.get_far(near, near_key, into).await?;
                self.note_ended(token, lookup, into.meta());
                Ok(lookup)
            }
        }
    }

    async fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError> {
        let Some(near) = &self.near else { return self.engine.get_to(key, into).await };
        let near_key = self.near_key(key);
        // A long value goes from the pool into the caller's memory.
        let mut value = Value { defers_from: 0, ..Value::new() };
        match self.look(near, near_key, &mut value).await? {
            Looked::Copy => {
                if let Some(place) = into.get_mut(..value.meta.value_bytes) {
                    place.copy_from_slice(value.bytes());
                }
                self.tell_accesses().await;
                Ok((Lookup::Hit, value.meta()))
            }
            Looked::Expired => self.engine.get_to(key, into).await,
            looked @ (Looked::Nothing | Looked::Ended(_)) => {
                let lookup = self.get_far(near, near_key, &mut value).await?;
                if let Looked::Ended(token) = looked {
                    self.note_ended(token, lookup, value.meta());
                }
                if lookup == Lookup::Hit && value.deferred.is_some() {
                    return self.engine.get_to(key, into).await;
                }
                if let (Lookup::Hit, Some(place)) = (lookup, into.get_mut(..value.meta.value_bytes)) {
                    place.copy_from_slice(value.bytes());
                }
                Ok((lookup, value.meta()))
            }
        }
    }

    async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<(Lookup, Meta), CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        if let Some(near) = &self.near
            && let Looked::Copy = self.look(near, self.near_key(key), into).await?
        {
            let meta = into.meta();
            into.narrow(part(meta));
            self.tell_accesses().await;
            return Ok((Lookup::Hit, meta));
        }
        self.engine.get_part(key, part, into).await
    }

    async fn get_many<F: FnMut(usize, Lookup, &mut Value)>(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        mut found: F,
    ) -> Result<(), CacheError> {
        let Some(near) = &self.near else { return self.engine.get_many(keys, bytes_max, found).await };
        let mut looks = Looks::default();
        for (index, key) in keys.iter().enumerate() {
            let near_key = self.near_key(key);
            let mut value = Value::new();
            let (sample, ended) = match self.look(near, near_key, &mut value).await? {
                Looked::Copy => {
                    looks.results.push(Some((Lookup::Hit, value)));
                    continue;
                }
                Looked::Nothing => (self.sample_if_worth(near, near_key).await, None),
                Looked::Ended(token) => (self.sample_if_worth(near, near_key).await, Some(token)),
                Looked::Expired => (None, None),
            };
            looks.results.push(None);
            looks.far.push(Far { index, sample, ended });
        }
        self.get_all_far(near, keys, bytes_max, &mut looks).await?;
        let mut room = Room::new(bytes_max);
        // The engine's lookups may have ended early.
        for (index, (lookup, mut value)) in looks.results.into_iter().map_while(|result| result).enumerate() {
            let is_last = room.is_used_up_by(lookup, &value);
            found(index, lookup, &mut value);
            if is_last {
                break;
            }
        }
        Ok(())
    }

    async fn expect(&self, keys: &[&[u8]]) {
        self.engine.expect(keys).await;
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        self.engine.update(key, change).await
    }

    fn word_number(&self, key: &[u8]) -> u32 {
        self.follower().map_or(0, |follower| follower.words().number(self.near_key(key).stripe))
    }

    fn mark(&self, word_number: u32) -> Option<Mark> {
        let client = self.engine.pool_client();
        self.follower()?.sample(&client.endpoint, word_number.into()).map(Mark)
    }

    async fn follow_changes(&self) -> Result<bool, CacheError> {
        let Some(follower) = self.follower() else { return Ok(false) };
        let client = self.engine.pool_client();
        match follower.follow(&*client.endpoint, &client.pool.layout).await {
            Err(NearError::Verb(error)) => Err(error.into()),
            followed => Ok(followed.is_ok_and(|is_followed| is_followed)),
        }
    }

    async fn tell_changes(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        match self.follower() {
            Some(_) => self.engine.permit(key).await,
            None => Ok(None),
        }
    }

    fn attend(&self) {
        self.engine.attend();
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    async fn work(&self) -> Result<(), CacheError> {
        self.engine.work().await
    }

    async fn tend(&self) -> Result<(), CacheError> {
        if !self.untold.borrow().is_empty() {
            Box::pin(self.tell_all_accesses()).await;
        }
        Engine::tend(&self.engine).await
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.end().await;
        self.engine.close().await
    }

    fn stats(&self) -> Stats {
        let mut stats = self.engine.stats();
        stats.hits += self.hits.get();
        stats.near_hits = self.hits.get();
        stats.near_outdated = self.outdated.get();
        stats.near_spurious = self.spurious.get();
        stats.near_copies = self.copies.get();
        stats
    }

    #[inline]
    fn arrivals(&self) -> Option<&dyn Arrivals> {
        self.engine.arrivals()
    }

    #[inline]
    fn removals(&self) -> Option<&Removals> {
        self.engine.removals()
    }
}

/// A client with a near cache is one of its engine.
impl<E: Endpoint, G: Pooled<E> + Copied<Endpoint = E>> Pooled<E> for Near<G> {
    type Shared = G::Shared;

    async fn join(shared: &Arc<Self::Shared>, endpoint: E) -> Result<Self, PoolError> {
        Ok(Self::without(G::join(shared, endpoint).await?))
    }

    fn auditor(shared: &Arc<Self::Shared>, endpoint: E) -> Result<Self, PoolError> {
        Ok(Self::without(G::auditor(shared, endpoint)?))
    }

    async fn leave(&self) -> Result<(), CacheError> {
        self.end().await;
        self.engine.leave().await
    }

    crate::pass_on_upkeep!(engine, E);
}
