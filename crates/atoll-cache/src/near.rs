//! A near cache under an engine: lookups of what is hot are answered from this process's own
//! memory. The copies, and why they are never old, are in [`atoll_near::values`]; what a slot says
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
use atoll_near::values::{Copy, Found, NearValues, Values};
use atoll_pool::sharers::Hole;
use atoll_pool::{Client, PoolError};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::{Deref, Range};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// What a hit takes, where time is simulated: see `cargo bench -p atoll --bench near`.
const HIT_NS: u64 = 150;

/// What is known of a value that has a copy, besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct CopiedMeta {
    expiry_ms: Option<u64>,
    token: u64,
    attributes: Attributes,
}

/// The near cache that the clients of a process share.
pub type NearCache = Values<CopiedMeta>;

/// An engine of whose objects copies can be kept.
#[allow(async_fn_in_trait)]
pub trait Copied: Engine {
    /// The client's way to the pool.
    type Endpoint: Endpoint;

    /// The client of the pool.
    fn pool_client(&self) -> &Client<Self::Endpoint>;

    /// What chooses a sharer's word for a key: see `index::copies`.
    fn stripe(&self, key: &[u8]) -> u64;

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
}

/// What a near cache has of a value.
enum Looked {
    /// A copy that may be served.
    Copy(Arc<Copy<CopiedMeta>>),
    /// A copy, and the pool is to be asked all the same.
    Far,
    Nothing,
    /// The copy of an object that had this token, which ended.
    Ended(u64),
}

/// What came of one of many lookups.
enum Got {
    /// A copy.
    Copy(Arc<Copy<CopiedMeta>>),
    /// What the pool has.
    Far(Lookup, Value),
}

/// An engine with the near cache of its process, or without one.
pub struct Near<G: Copied> {
    // Dropped before the engine, whose endpoint exports its words.
    near: Option<NearValues<CopiedMeta>>,
    /// Without a near cache: the way to the words of its process.
    follower: Option<Follower>,
    engine: G,
    hits: Cell<u64>,
    outdated: Cell<u64>,
    spurious: Cell<u64>,
    copies: Cell<u64>,
}

impl<G: Copied> Near<G> {
    /// An engine without a near cache.
    pub fn without(engine: G) -> Self {
        let [hits, outdated, spurious, copies] = [const { Cell::new(0) }; 4];
        Self { near: None, follower: None, engine, hits, outdated, spurious, copies }
    }

    /// An engine without a near cache whose client can tell that objects change, by these words of
    /// its process: see [`Engine::mark`].
    pub fn telling(engine: G, words: Arc<Words>) -> Self {
        Self { follower: Some(Follower::new(words)), ..Self::without(engine) }
    }

    /// An engine whose client uses its process's near cache.
    pub fn with(engine: G, cache: Arc<NearCache>) -> Self {
        Self { near: Some(NearValues::new(cache)), ..Self::without(engine) }
    }

    /// Makes sure that the process has a part in the coherence of near caches. Otherwise a client
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

    /// From now on the client uses its process's near cache.
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

    /// What the near cache has of a key's value.
    #[inline]
    async fn look(&self, near: &NearValues<CopiedMeta>, stripe: u64, key: &[u8]) -> Result<Looked, CacheError> {
        let client = self.engine.pool_client();
        let copy = match near.find(&client.endpoint, stripe, key) {
            Found::Valid(copy) => copy,
            Found::Outdated(copy) => {
                self.outdated.set(self.outdated.get() + 1);
                return Ok(Looked::Ended(copy.meta.token));
            }
            Found::Nothing => return Ok(Looked::Nothing),
        };
        // The engine removes the object of an expired copy, and finds that it has expired.
        if let Some(expiry_ms) = copy.meta.expiry_ms
            && expiry_ms <= self.engine.now_ms().await?
        {
            return Ok(Looked::Far);
        }
        if near.goes_far(&copy) {
            return Ok(Looked::Far);
        }
        self.hits.set(self.hits.get() + 1);
        client.endpoint.charge(HIT_NS);
        Ok(Looked::Copy(copy))
    }

    /// The copy of an object with this token has ended; a lookup in the pool has found this since.
    fn note_ended(&self, token: u64, lookup: Lookup, found: Meta) {
        if lookup == Lookup::Hit && found.token == token {
            self.spurious.set(self.spurious.get() + 1);
        }
    }

    /// Looks a key up in the pool, and keeps a copy if it is worth one.
    async fn get_far(
        &self,
        near: &NearValues<CopiedMeta>,
        stripe: u64,
        key: &[u8],
        into: &mut Value,
    ) -> Result<Lookup, CacheError> {
        match self.sample_if_worth(near, stripe).await {
            Some(sample) => self.get_and_keep(near, sample, key, into).await,
            None => self.engine.get(key, into).await,
        }
    }

    /// Before a lookup in the pool: what a copy would depend on, if the key is worth one.
    async fn sample_if_worth(&self, near: &NearValues<CopiedMeta>, stripe: u64) -> Option<Sample> {
        let client = self.engine.pool_client();
        near.before_lookup(&client.endpoint, &client.pool.layout, stripe).await
    }

    /// Looks a key up in the pool, and keeps a copy.
    async fn get_and_keep(
        &self,
        near: &NearValues<CopiedMeta>,
        sample: Sample,
        key: &[u8],
        into: &mut Value,
    ) -> Result<Lookup, CacheError> {
        let bytes_max = near.values().value_bytes_max();
        let (lookup, is_permitted) = self.engine.get_permitting(key, into, bytes_max).await?;
        let sample = self.late_sample(near, key).unwrap_or(sample);
        if lookup == Lookup::Hit && is_permitted {
            let Meta { expiry_ms, token, attributes, .. } = into.meta();
            if near.keep(key, sample, CopiedMeta { expiry_ms, token, attributes }, into.bytes()) {
                self.copies.set(self.copies.get() + 1);
            }
        }
        Ok(lookup)
    }
}

impl<G: Copied> Near<G> {
    /// With an open hole, what a copy depends on by a look that comes too late.
    #[inline]
    fn late_sample(&self, near: &NearValues<CopiedMeta>, key: &[u8]) -> Option<Sample> {
        let client = self.engine.pool_client();
        let is_late = client.pool.layout.lacks(Hole::SampleFirst);
        if is_late { near.follower().sample(&client.endpoint, self.engine.stripe(key)) } else { None }
    }
}

/// The metadata of a copied value.
fn meta_of(copy: &Copy<CopiedMeta>) -> Meta {
    let CopiedMeta { expiry_ms, token, attributes } = copy.meta;
    Meta { expiry_ms, token, value_bytes: copy.bytes.len(), attributes }
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
        let stripe = self.engine.stripe(key);
        match self.look(near, stripe, key).await? {
            Looked::Copy(copy) => {
                into.assign(&copy.bytes, meta_of(&copy));
                Ok(Lookup::Hit)
            }
            Looked::Far => self.engine.get(key, into).await,
            Looked::Nothing => self.get_far(near, stripe, key, into).await,
            Looked::Ended(token) => {
                let lookup = self.get_far(near, stripe, key, into).await?;
                self.note_ended(token, lookup, into.meta());
                Ok(lookup)
            }
        }
    }

    async fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError> {
        let Some(near) = &self.near else { return self.engine.get_to(key, into).await };
        let stripe = self.engine.stripe(key);
        // A long value goes from the pool into the caller's memory.
        let mut value = Value { defers_from: 0, ..Value::new() };
        match self.look(near, stripe, key).await? {
            Looked::Copy(copy) => {
                if let Some(place) = into.get_mut(..copy.bytes.len()) {
                    place.copy_from_slice(&copy.bytes);
                }
                Ok((Lookup::Hit, meta_of(&copy)))
            }
            Looked::Far => self.engine.get_to(key, into).await,
            looked @ (Looked::Nothing | Looked::Ended(_)) => {
                let lookup = self.get_far(near, stripe, key, &mut value).await?;
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
            && let Looked::Copy(copy) = self.look(near, self.engine.stripe(key), key).await?
        {
            let meta = meta_of(&copy);
            into.assign(&copy.bytes[part(meta)], meta);
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
        let (mut far, mut far_keys, mut worthy, mut ended) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut results = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let stripe = self.engine.stripe(key);
            let looked = self.look(near, stripe, key).await?;
            let sample = match looked {
                Looked::Copy(copy) => {
                    results.push(Some(Got::Copy(copy)));
                    continue;
                }
                Looked::Nothing => self.sample_if_worth(near, stripe).await,
                Looked::Ended(token) => {
                    ended.push((index, token));
                    self.sample_if_worth(near, stripe).await
                }
                Looked::Far => None,
            };
            results.push(None);
            match sample {
                Some(sample) => worthy.push((index, sample)),
                None => {
                    far.push(index);
                    far_keys.push(*key);
                }
            }
        }
        // The lookups of keys that get copies are under way together, and with the others.
        let keeping = worthy.into_iter().map(|(index, sample)| {
            Box::pin(async move {
                let mut value = Value::new();
                let lookup = self.get_and_keep(near, sample, keys[index], &mut value).await?;
                Ok::<_, CacheError>((index, lookup, value))
            })
        });
        let mut keeping: Vec<_> = keeping.collect();
        let results = RefCell::new(results);
        let note = |number: usize, lookup, value: &mut Value| {
            results.borrow_mut()[far[number]] = Some(Got::Far(lookup, std::mem::take(value)));
        };
        let others =
            async { if far.is_empty() { Ok(()) } else { self.engine.get_many(&far_keys, bytes_max, note).await } };
        let (mut others, mut is_over, mut outcome) = (pin!(others), false, Ok(()));
        poll_fn(|context| {
            keeping.retain_mut(|lookup| match lookup.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok((index, lookup, value))) => {
                    results.borrow_mut()[index] = Some(Got::Far(lookup, value));
                    false
                }
                Poll::Ready(Err(error)) => {
                    outcome = Err(error);
                    false
                }
            });
            if !is_over && let Poll::Ready(looked) = others.as_mut().poll(context) {
                is_over = true;
                outcome = std::mem::replace(&mut outcome, Ok(())).and(looked);
            }
            if is_over && keeping.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        outcome?;
        let (mut value, mut room) = (Value::new(), Room::new(bytes_max));
        // The engine's lookups may have ended early.
        for (index, result) in results.take().into_iter().map_while(|result| result).enumerate() {
            let mut lookup = Lookup::Hit;
            match result {
                Got::Copy(copy) => value.assign(&copy.bytes, meta_of(&copy)),
                Got::Far(looked, far) => {
                    (lookup, value) = (looked, far);
                    if let Some((_, token)) = ended.iter().find(|(of, _)| *of == index) {
                        self.note_ended(*token, lookup, value.meta());
                    }
                }
            }
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
        self.follower().map_or(0, |follower| follower.words().number(self.engine.stripe(key)))
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

    async fn tend(&self) -> Result<(), CacheError> {
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
